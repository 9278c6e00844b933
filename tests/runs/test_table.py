import json

import pytest
from omegaconf import OmegaConf

from headscope.errors import InputError
from headscope.runs import tables
from tests.runs.conftest import train

ROWS = {
    "Right-branching": ("clark_probe_right_branching", "test/uas", 26),
    "Distances + GloVe": ("clark_probe_distances", "test/uas", 58),
    "Random-init attention + GloVe": ("clark_probe_random", "test/uas", 30),
    "Attention": ("clark_probe_attention", "test/uas", 61),
    "Attention + GloVe": ("clark_probe_words", "test/uas", 77),
    "Structural probe (UUAS)": ("structural_probe", "test/uuas", 80),
}


@pytest.mark.slow
def test_the_table_joins_all_rows_with_the_published_figures(tmp_path):
    arguments = ["experiment=clark_table3", "trainer.max_epochs=2", "data.limit=40", f"run_dir={tmp_path}/t"]
    status, out, err = train(*arguments, HEADSCOPE_CACHE=str(tmp_path / "cache"))
    assert status == 0, err
    assert out.splitlines()[-1] == str(tmp_path / "t" / "results.json")
    table = json.loads((tmp_path / "t" / "results.json").read_text())
    for row in table["tables"]["summary"]:
        experiment, metric, published = ROWS[row["row"]]
        own = json.loads((tmp_path / "t" / experiment / "results.json").read_text())
        assert row["ours"] == own["metrics"][metric] == table["metrics"][row["row"]]
        assert row["published"] == published
        examples = own["provenance"]["examples"]
        assert row["inputs"] == examples["test"]
        for metric in own["tables"]["summary"]:
            assert metric["inputs"] == examples[metric["metric"].partition("/")[0]]
        assert own["provenance"]["config"]["data"]["limit"] == 40
        assert own["provenance"]["config"]["trainer"]["max_epochs"] == 2
    assert [row["row"] for row in table["tables"]["summary"]] == list(ROWS)
    random = json.loads((tmp_path / "t" / "clark_probe_random" / "results.json").read_text())
    assert random["provenance"]["encoder"]["init"] == "embeddings"
    assert (tmp_path / "t" / "figures" / "rows.svg").is_file()
    assert any((tmp_path / "cache").rglob("*.npy"))
    resumed_status, again, _ = train(*arguments, "resume=true", HEADSCOPE_CACHE=str(tmp_path / "cache"))
    assert resumed_status == 0
    assert again.splitlines()[-1] == out.splitlines()[-1]


@pytest.mark.slow
def test_the_layer_of_the_structural_probe_is_chosen_among_runs_of_each(tmp_path):
    own = ["layers=[0,2,4]", "trainer.max_epochs=1", "data.limit=30", "~figures", f"run_dir={tmp_path}/t"]
    status, out, err = train("experiment=structural_probe_layers", *own, HEADSCOPE_CACHE=str(tmp_path / "cache"))
    assert status == 0, err
    table = json.loads((tmp_path / "t" / "results.json").read_text())
    runs = {row["layer"]: tmp_path / "t" / table["runs"][f"{row['layer']}, probe"] for row in table["tables"]["layers"]}
    found = {layer: json.loads((folder / "results.json").read_text())["metrics"] for layer, folder in runs.items()}
    best = max(found, key=lambda layer: found[layer]["val/uuas"])
    (row,) = table["tables"]["summary"]
    assert (row["ours"], row["published"], row["layer"]) == (
        found[best]["test/uuas"], 80, f"layer {best}, chosen on validation"
    )  # fmt: skip
    assert sorted(found) == [0, 2, 4]
    assert table["provenance"]["examples"]["test"] == row["inputs"]  # which are the same of every layer
    assert f"layer {best}, chosen on validation" in " ".join(out.split())


@pytest.mark.parametrize(("named", "there"), [([], ["b"]), (["tasks=[a,b]"], None), (["tasks=[a]"], None)])
def test_what_has_no_data_is_left_out_unless_it_is_named(named, there, monkeypatch):
    monkeypatch.setattr(tables, "task_overrides", lambda: named)
    cfg = OmegaConf.create(
        {"tasks": ["a", "b"], "each": {"data.task": "${tasks}"}, "without": {"a": "no file", "c": "none"}, "once": {},
         "rows": {"one": {"experiment": "clark_surface"}}}
    )  # fmt: skip
    if there is None:
        with pytest.raises(InputError, match="a: no file; leave it out, or name a folder that has it"):
            tables.left_out(cfg)
    else:
        without = tables.left_out(cfg)
        assert [one.value for one in tables.plan(cfg, without)] == there
        assert tables.with_left_out({"summary": ["x"]}, without) == {"summary": ["x", "left out: a (no file)"]}
    cfg.without.b = "none"
    with pytest.raises(InputError, match="a: no file"):
        tables.left_out(cfg)
