import csv
import json

import pytest
from matplotlib.image import imread

from headscope.errors import ConfigError, InputError
from headscope.reports.comparison import agreement, configuration_rows, spearman, unique_labels
from headscope.runs import compare, training
from tests.runs.conftest import composed, train

COREFERENCE = ("experiment=clark_coreference", "data.limit=3", "~figures")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Three runs of one experiment: a trained encoder, one without training, and one on fewer documents."""
    folder = tmp_path_factory.mktemp("runs")
    for name, changes in {
        "trained": (),
        "untrained": ("encoder.init=normal",),
        "fewer": ("data.limit=2", "analyses.coreference.replicates=7"),
        "parser": ("experiment=clark_probe_right_branching",),
    }.items():
        cfg = composed(*COREFERENCE, *changes)
        cfg.run_dir = str(folder / name)
        training.run(cfg)
    return folder


def compared(folder, *names, **keys):
    cfg = composed("experiment=compare", *(f"{key}={value}" for key, value in keys.items()))
    cfg.runs, cfg.run_dir = [str(folder / name) for name in names], str(folder / "comparison")
    if "quantities" not in keys:
        cfg.figures = {}
    return compare.run(cfg).to_json()


def results(folder):
    return json.loads((folder / "results.json").read_text())


def head_values(folder, quantity):
    with (folder / "heads.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["quantity"] == quantity]
    return {(row["layer"], row["head"]): float(row["value"]) for row in rows}


def fewest(folder, quantity):
    with (folder / "heads.csv").open() as file:
        return min(int(row["n"]) for row in csv.DictReader(file) if row["quantity"] == quantity)


def plain_spearman(one, other):
    """Rank correlation by counting: each value's rank is how many are below it, ties in the middle."""
    ranks = [[sum(b < a for b in xs) + (sum(b == a for b in xs) + 1) / 2 for a in xs] for xs in (one, other)]
    means = [sum(r) / len(r) for r in ranks]
    products = [
        sum((a - means[i]) * (b - means[j]) for a, b in zip(ranks[i], ranks[j], strict=True))
        for i, j in ((0, 1), (0, 0), (1, 1))
    ]
    return products[0] / (products[1] * products[2]) ** 0.5 if products[1] * products[2] else None


def test_metrics_stand_side_by_side_with_their_differences(finished):
    found = compared(finished, "trained", "untrained")
    before, after = (results(finished / name)["metrics"] for name in ("trained", "untrained"))
    assert before != after
    assert found["tables"]["summary"] == [
        {"metric": name, "trained": before[name], "untrained": after[name], "difference": after[name] - before[name]}
        for name in before
    ]
    assert {key: found["metrics"][f"difference:{key}"] for key in before} == {
        key: after[key] - before[key] for key in before
    }
    assert {name: one for name, one in results(finished / "comparison").items() if name != "sha256"} == found


@pytest.mark.parametrize("other", ["untrained", "fewer"])
def test_heads_are_compared_as_a_plain_loop_does(finished, other):
    found = compared(finished, "trained", other)
    for row in found["tables"]["head_agreement"]:
        before, after = (head_values(finished / name, row["quantity"]) for name in ("trained", other))
        changes = {place: after[place] - before[place] for place in before}
        layer, head = max(changes, key=lambda place: abs(changes[place]))
        assert row["head"] == f"{layer}-{head}"
        assert row["largest_difference"] == pytest.approx(changes[layer, head])
        assert row["mean_absolute_difference"] == pytest.approx(sum(map(abs, changes.values())) / len(changes))
        assert row["spearman"] == pytest.approx(plain_spearman(list(before.values()), list(after.values())))
        assert row["heads"] == len(before) == 72
        assert row["n"] == min(fewest(finished / name, row["quantity"]) for name in ("trained", other))
        assert head_values(finished / "comparison", f"difference:{row['quantity']}") == pytest.approx(changes)
    assert len(found["tables"]["head_agreement"]) > 3


def test_what_differs_is_named_once_by_its_key(finished):
    found = compared(finished, "trained", "untrained", "fewer")
    rows = {row["key"]: row for row in found["tables"]["configuration"]}
    assert set(rows) == {"encoder.init", "data.limit", "analyses.coreference.replicates"}
    assert rows["encoder.init"] == {
        "key": "encoder.init",
        "trained": "pretrained",
        "untrained": "normal",
        "fewer": "pretrained",
    }
    assert rows["data.limit"] == {"key": "data.limit", "trained": "3", "untrained": "3", "fewer": "2"}
    of_run = {row["run"]: row for row in found["tables"]["runs"]}
    assert of_run["trained"]["data_checksum"] == of_run["untrained"]["data_checksum"]
    assert of_run["trained"]["weights"] == results(finished / "trained")["provenance"]["encoder"]["sha256"][:8]


def test_three_runs_have_a_difference_each(finished):
    found = compared(finished, "trained", "untrained", "fewer")
    row = found["tables"]["summary"][0]
    assert set(row) == {"metric", "trained", "untrained", "fewer", "difference:untrained", "difference:fewer"}
    assert row["difference:fewer"] == row["fewer"] - row["trained"]
    quantity = found["tables"]["head_agreement"][0]["quantity"]
    before, after = (head_values(finished / name, quantity) for name in ("trained", "fewer"))
    changes = {place: after[place] - before[place] for place in before}
    assert head_values(finished / "comparison", f"difference:{quantity}:fewer") == pytest.approx(changes)


def test_chosen_quantities_are_drawn_as_scatter_and_grid(finished):
    quantities = [row["quantity"] for row in compared(finished, "trained", "untrained")["tables"]["head_agreement"]]
    found = compared(finished, "trained", "untrained", quantities=f"[{quantities[1]}]")
    name = quantities[1].replace(":", "_")
    files = {file.stem for file in (finished / "comparison" / "figures").glob("*.png")}
    assert files == {f"scatter_{name}", f"difference_{name}"}
    assert all(imread(file).std() > 0 for file in (finished / "comparison" / "figures").glob("*.png"))
    shown = {(str(row["layer"]), str(row["head"])): row["untrained"] for row in found["tables"]["head_values"]}
    assert shown == head_values(finished / "untrained", quantities[1])


@pytest.mark.parametrize(
    ("names", "error", "sentence"),
    [
        (["trained"], ConfigError, "expected the folders of two or more finished runs"),
        ([], ConfigError, r"runs=\[\]: expected the folders"),
        (["trained", "nowhere"], InputError, "nowhere: expected a finished run, found no results.json there."),
        (["trained", "trained"], ConfigError, "trained is named twice."),
        (["trained", "trained/results.json"], ConfigError, "trained is named twice."),
        (["trained", "parser"], InputError, "runs: trained and parser have no metric in common."),
    ],
)
def test_runs_that_cannot_be_compared_get_one_sentence(finished, names, error, sentence):
    earlier = finished / "comparison" / "results.json"
    before = earlier.read_bytes() if earlier.exists() else None
    with pytest.raises(error, match=sentence):
        compared(finished, *names)
    assert (earlier.read_bytes() if earlier.exists() else None) == before


def test_an_unknown_quantity_is_refused_with_near_matches(finished):
    quantity = compared(finished, "trained", "untrained")["tables"]["head_agreement"][0]["quantity"]
    with pytest.raises(ConfigError, match=f"did you mean.*{quantity}"):
        compared(finished, "trained", "untrained", quantities=f"[{quantity[:-1]}]")


def test_the_command_ends_in_a_table_and_the_path(finished):
    names = f"runs=[{finished}/trained,{finished}/untrained]"
    status, out, err = train("experiment=compare", names, f"run_dir={finished}/by_command", "quantities=[]", "~figures")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == f"{finished}/by_command/results.json"
    for text in ("untrained", "difference", "encoder.init", "spearman"):
        assert text in out


def test_labels_take_as_many_folders_as_they_need(tmp_path):
    assert unique_labels([tmp_path / "a" / "run", tmp_path / "b" / "run"]) == ["a/run", "b/run"]
    assert unique_labels([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    assert unique_labels([tmp_path / "sweep" / "0", tmp_path / "sweep" / "2"]) == ["sweep/0", "sweep/2"]
    assert unique_labels([tmp_path / "a", tmp_path / "metric"]) == [f"{tmp_path.name}/a", f"{tmp_path.name}/metric"]


def test_undefined_agreement_is_none():
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1, 2], [1, 2]) is None
    assert agreement({})["spearman"] is None
    assert agreement({})["heads"] == 0


def test_a_key_that_repeats_another_with_other_values_is_kept():
    configs = {"a": {"seed": 1, "data": {"seed": 1}}, "b": {"seed": 2, "data": {"seed": 3}}}
    rows = configuration_rows(configs, ["data.seed", "seed"])
    assert rows == [{"key": "data.seed", "a": "1", "b": "3"}, {"key": "seed", "a": "1", "b": "2"}]
