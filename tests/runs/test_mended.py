"""What once went wrong without a word: an old run's files, changed data, options that were dropped, a second entry."""

import csv
import json
import shutil

import pytest

from headscope.errors import ConfigError
from headscope.runs.resume import LEFT_BY_A_RUN, Note, clear
from tests.runs.conftest import PROJECT, train
from tests.runs.test_dashboards import no_account as no_account
from tests.runs.test_dashboards import of_kind

SAMPLE = PROJECT / "data_modules" / "samples" / "treebank"
CHANGE = "encoder.change=package:headscope.data_modules/samples/patterns/mrpc.safetensors"
PROBE = ("experiment=clark_probe_right_branching", "~figures")
GLUE = ("experiment=kovaleva_glue", "~figures", "data.limit=8", "trainer.max_epochs=1")


def results(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.fixture
def treebank(tmp_path):
    """A file of one's own, and the override that names it."""
    file = tmp_path / "own.conllu"
    shutil.copy(SAMPLE / "test.conllu", file)
    return file, f"data.test={file}"


def test_a_run_in_an_old_folder_keeps_nothing_of_the_earlier_one(run_here):
    _, folder = run_here(*GLUE)
    assert {"predictions.csv", "model", "results.json"} <= {file.name for file in folder.iterdir()}
    run_here(*PROBE)
    assert not {"predictions.csv", "model"} & {file.name for file in folder.iterdir()}
    assert results(folder)["metrics"].keys() == {"test/uas", "test/uas_without_root"}


def test_a_resumed_run_keeps_its_checkpoints_and_nothing_that_it_might_not_write(run_here):
    _, folder = run_here(*GLUE)
    (folder / "results.json").unlink()
    (folder / "predictions.csv").write_text("of an earlier run\n")
    (folder / "atlas.html").write_text("of an earlier run\n")
    last = (folder / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    run_here(*GLUE, "resume=true")
    assert (folder / "predictions.csv").read_text().startswith("example,")
    assert not (folder / "atlas.html").exists()
    assert (folder / "checkpoints" / "last.ckpt").stat().st_mtime_ns == last  # nothing was trained again


def test_what_is_not_a_run_s_own_stays(tmp_path):
    (tmp_path / "tuned").mkdir()
    for name in (*LEFT_BY_A_RUN, "notes.txt", "checkpoints"):
        (tmp_path / name).write_text("")
    clear(tmp_path)
    assert {file.name for file in tmp_path.rglob("*")} == {"notes.txt", "checkpoints", "tuned"}


@pytest.mark.parametrize("finished", [True, False])
def test_resuming_notices_that_a_data_file_changed(run_here, treebank, finished):
    file, override = treebank
    _, folder = run_here(*PROBE, override)
    if not finished:
        (folder / "results.json").unlink()
    file.write_text(file.read_text().replace("nsubj", "obj", 1))
    with pytest.raises(
        ConfigError, match=r"resume=true: .*own.conllu changed since the run in .* read it; use a new run_dir"
    ):
        run_here(*PROBE, override, "resume=true")
    assert finished == (folder / "results.json").is_file()


def test_resuming_with_the_same_content_elsewhere_in_time_goes_on(run_here, treebank):
    file, override = treebank
    first, folder = run_here(*PROBE, override)
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    second, _ = run_here(*PROBE, override, "resume=true")
    assert second == first


def test_a_resumed_run_goes_on_with_its_own_wandb_entry(run_here, no_account):
    _, folder = run_here(*PROBE, "logger=[wandb]")
    first = Note.read(folder).run_id
    assert [entry.run_id for entry in of_kind(folder, "run")] == [first]
    (folder / "results.json").unlink()
    shutil.rmtree(folder / "wandb")
    run_here(*PROBE, "logger=[wandb]", "resume=true")
    assert [entry.run_id for entry in of_kind(folder, "run")] == [first]
    shutil.rmtree(folder / "wandb")
    run_here(*PROBE, "logger=[wandb]")
    assert [entry.run_id for entry in of_kind(folder, "run")] != [first]  # a new run is another one


def test_a_change_reaches_fine_tuning(run_here):
    plain, _ = run_here(*GLUE, "stages=[test]", name="plain")
    changed, folder = run_here(*GLUE, "stages=[test]", CHANGE, name="changed")
    assert changed["provenance"]["encoder"]["sha256"] != plain["provenance"]["encoder"]["sha256"]

    def probabilities(name):
        with (folder.parent / name / "predictions.csv").open() as stream:
            return [row["p_1"] for row in csv.DictReader(stream)]

    assert probabilities("plain") != probabilities("changed")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ((*GLUE, "encoder.dtype=bfloat16"), "encoder.dtype=bfloat16: a classifier is float32"),
        ((*GLUE, "encoder.init=normal", CHANGE), "is of trained weights, so not with encoder.init=normal"),
        ((*GLUE, "encoder.init=embeddings"), "encoder.init=embeddings: "),
        ((*GLUE, "encoder.revision=main"), "encoder.revision=main: "),
        ((*PROBE, "tuned.name=x"), "tuned.name: no such key"),
    ],
)
def test_what_a_way_of_loading_cannot_honour_is_refused(overrides, sentence, tmp_path):
    status, _, errors = train(*overrides, f"run_dir={tmp_path / 'run'}")
    assert (status, "Traceback" in errors) == (2, False), errors
    assert sentence in errors


def test_an_atlas_whose_own_data_is_malformed_shows_the_rest_and_leaves_with_status_1(tmp_path):
    (tmp_path / "bad.conllu").write_text("1\ta\n")
    small = ("only=[frames,relations]", "tuned.name=null", "data.limit=4", "sentences=[]", "shown={}")
    given = ("experiment=atlas", *small, f"data_of.treebank={tmp_path / 'bad.conllu'}", f"run_dir={tmp_path / 'run'}")
    status, out, errors = train(*given)
    assert status == 1
    assert "bad.conllu:1: expected 10 tab-separated columns, found 2." in errors
    assert "Traceback" not in errors
    found = results(tmp_path / "run")
    (row,) = found["tables"]["left_out"]
    assert (row["experiment"], "bad.conllu:1" in row["why"]) == ("clark_relations", True)
    assert list(found["runs"]) == ["frames"]
    assert (tmp_path / "run" / "atlas.html").is_file()


def test_atlas_json_holds_every_digit_and_layers_are_no_heads(run_here, tmp_path):
    tuned, _ = run_here(*GLUE, name="tuned")
    model = tmp_path / "tuned" / "model"
    small = ("data.limit=8", f"encoder.name={model}", "module.replicates=10", "~figures")
    layers, folder = run_here("experiment=kovaleva_disable_layers", *small, name="layers")
    assert not (folder / "heads.csv").exists()
    assert [row["layer"] for row in layers["tables"]["layers"]] == [1, 2, 3, 4, 5, 6]
    assert set(layers["tables"]["layers"][0]) == {"layer", "change", "low", "high", "n"}


def test_a_folder_that_no_run_made_keeps_all_that_is_in_it(tmp_path):
    for name in ("model", "figures", "predictions.csv"):
        (tmp_path / name).write_text("of the user")
    clear(tmp_path, "checkpoints")
    assert {file.name for file in tmp_path.iterdir()} == {"model", "figures", "predictions.csv"}


def test_what_a_run_is_to_read_is_never_removed_by_it(run_here):
    _, folder = run_here(*GLUE)
    with pytest.raises(ConfigError, match=r"run_dir=.*: encoder.name=.*model lies in it and would be lost"):
        run_here("experiment=kovaleva_disable_heads", "~figures", "data.limit=8", f"encoder.name={folder / 'model'}")
    assert (folder / "model" / "config.json").is_file()


def test_a_folder_of_another_version_is_not_resumed(run_here):
    _, folder = run_here(*PROBE)
    (folder / "results.json").unlink()
    (folder / "config.json").write_text('{"seed": 0}')
    with pytest.raises(ConfigError, match="was begun by another version; use a new run_dir"):
        run_here(*PROBE, "resume=true")


@pytest.mark.slow
def test_what_is_said_of_the_encoder_is_not_about_the_fine_tuned_model(run_here, tmp_path):
    """Its checksum and its change: the second model of an atlas is loaded by its own spec, whole."""
    run_here(*GLUE, name="tuned")
    model = tmp_path / "tuned" / "model"
    small = ("only=[relations]", f"tuned.name={model}", "data.limit=4", "sentences=[]", "shown={}")
    status, _, errors = train("experiment=atlas", *small, CHANGE, f"run_dir={tmp_path / 'atlas'}")
    assert status == 0, errors
    own = [results(tmp_path / "atlas" / part)["provenance"]["encoder"] for part in ("relations", "tuned/relations")]
    assert ("change" in own[0], "change" in own[1]) == (True, False)
    assert own[1]["sha256"] == results(tmp_path / "atlas")["provenance"]["tuned_encoder"]["sha256"]
    alone, _ = run_here("experiment=clark_relations", "~figures", "data.limit=4", f"encoder.name={model}", name="alone")
    assert alone["metrics"] == results(tmp_path / "atlas" / "tuned" / "relations")["metrics"]
