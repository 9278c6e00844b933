"""What a resumed run may have otherwise, and what it notices."""

import json
import shutil

import pytest

from headscope.contracts import Source
from headscope.errors import ConfigError, DamagedFile
from headscope.runs.resume import Note, changed_settings, named_files, note_data, plain_config, prepare_folder
from tests.runs.conftest import PROJECT, composed

SAMPLE = PROJECT / "data_modules" / "samples" / "treebank"
PROBE = ("experiment=clark_probe_right_branching", "~figures")


def differences(*overrides):
    return changed_settings(plain_config(composed(*PROBE)), plain_config(composed(*PROBE, *overrides)))


def test_what_changes_no_number_may_differ(monkeypatch):
    before = plain_config(composed(*PROBE))
    monkeypatch.setenv("HEADSCOPE_CACHE", "/another/scratch")
    elsewhere = plain_config(composed(*PROBE, "data.workers=2", "data.pin_memory=true", "logger=[]"))
    assert elsewhere["data"]["cache_dir"] == "/another/scratch"
    assert changed_settings(before, elsewhere) == []


@pytest.mark.parametrize(
    "override", ["seed=1", "data.limit=3", "data.cache=true", "trainer.max_epochs=2", "encoder.init=normal"]
)
def test_what_may_change_a_number_counts(override):
    assert override.partition("=")[0] in differences(override)


def test_a_finished_run_is_found_from_another_scratch_folder_and_computed_again_once_damaged(run_here, monkeypatch, caplog):
    first, folder = run_here(*PROBE, "data.limit=4")
    written = (folder / "results.json").stat().st_mtime_ns
    monkeypatch.setenv("HEADSCOPE_CACHE", "/another/scratch")
    again, _ = run_here(*PROBE, "data.limit=4", "data.pin_memory=true", "resume=true")
    assert (again, (folder / "results.json").stat().st_mtime_ns) == (first, written)
    file = folder / "results.json"
    file.write_text(file.read_text().replace('"examples"', '"exmples"', 1))
    third, _ = run_here(*PROBE, "data.limit=4", "resume=true")
    assert "It is computed again now." in caplog.text
    assert third["metrics"] == first["metrics"]
    assert file.stat().st_mtime_ns != written
    # A damaged note: what the results say of the run stands in for it; without them nobody can tell.
    (folder / "config.json").write_text('{"id": ')
    assert run_here(*PROBE, "data.limit=4", "resume=true")[0]["metrics"] == first["metrics"]
    with pytest.raises(ConfigError, match="data.limit differ from the run"):
        run_here(*PROBE, "data.limit=5", "resume=true")
    file.unlink()
    with pytest.raises(
        DamagedFile, match="config.json: damaged, or not JSON .* use a new run_dir, or leave resume=true out"
    ):
        run_here(*PROBE, "data.limit=4", "resume=true")


@pytest.mark.parametrize(
    "content",
    ["[]", '{"id": 1, "config": {}, "data": {}, "named": {}}', '{"id": "a", "config": [], "data": {}, "named": {}}'],
)
def test_a_note_of_another_shape_gets_a_sentence(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(DamagedFile, match="config.json: expected .*, found"):
        Note.read(tmp_path)


def test_files_that_the_configuration_names_are_noted(tmp_path):
    change = tmp_path / "mrpc.safetensors"
    shutil.copy(PROJECT / "data_modules" / "samples" / "patterns" / "mrpc.safetensors", change)
    (tmp_path / "relations").mkdir()
    (tmp_path / "relations" / "results.json").write_text("{}")
    config = {
        "encoder": {"change": str(change)},
        "list": [str(tmp_path / "relations")],
        "own": str(tmp_path / "run" / "x.csv"),
    }
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x.csv").write_text("")
    found = named_files({**config, "word": "change", "none": None, "gone": "no/such.txt"}, tmp_path / "run")
    assert list(found) == [str(change), str(tmp_path / "relations" / "results.json")]


def test_resuming_notices_another_encoder_and_data_files_that_are_gone_or_new(tmp_path):
    cfg = composed(*PROBE)
    cfg.run_dir = str(tmp_path)
    prepare_folder(tmp_path, cfg)
    weights, one, two = (tmp_path / name for name in ("model.safetensors", "1.conllu", "2.conllu"))
    for file in (weights, one, two):
        file.write_text(file.name)
    before = Source({"name": "a"}, {str(one): "11", str(two): "22"}, {}, inputs={str(weights): "33"})
    note_data(tmp_path, before)
    moved = Source({"name": "a"}, {"elsewhere/1.conllu": "11", "elsewhere/2.conllu": "22"}, {}, inputs={"moved": "33"})
    note_data(tmp_path, moved)
    gone = Source({"name": "a"}, {str(one): "11"}, {}, inputs={"moved": "33"})
    with pytest.raises(ConfigError, match=r"resume=true: elsewhere/2.conllu changed since the run in"):
        note_data(tmp_path, gone)
    new = Source({"name": "a"}, {**moved.data, "3.conllu": "44"}, {}, inputs=moved.inputs)
    with pytest.raises(ConfigError, match=r"resume=true: 3.conllu changed since"):
        note_data(tmp_path, new)
    other = Source({"name": "a"}, moved.data, {}, inputs={"moved": "34"})
    with pytest.raises(ConfigError, match=r"resume=true: moved, moved changed since"):
        note_data(tmp_path, other)


def test_a_run_notes_the_checksums_of_its_weights(run_here):
    results, folder = run_here(*PROBE, "data.limit=4")
    noted = json.loads((folder / "config.json").read_text())["data"]
    encoder = results["provenance"]["encoder"]
    assert {encoder["sha256"], encoder["config_sha256"]} <= set(noted.values())
    assert noted == {**results["provenance"]["data"], **results["provenance"]["inputs"]}


def test_a_reference_in_a_text_is_text():
    cfg = composed("experiment=atlas", "encoder.name=x", 'sentences=["It costs ${x} now.","and \\\\${y}"]')
    assert plain_config(cfg)["sentences"] == ["It costs ${x} now.", "and ${y}"]
    assert plain_config(cfg)["sentences"] == list(cfg.sentences)
