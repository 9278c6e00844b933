import csv
import json
import os
import shutil
import signal
import time

import pytest
import torch

from headscope.data_modules.treebank import SAMPLE
from headscope.errors import ConfigError
from headscope.runs.training import run
from tests.commands import new_process, start
from tests.runs.conftest import composed, train

DRAWN = ("trainer.max_epochs=3", "data.limit=40", "logger=[csv]")
SHORT = (*DRAWN, "~figures")
LONG = ("experiment=clark_probe_words", "trainer.max_epochs=12", "data.limit=60", "callbacks.early_stopping.patience=12")
LONG += ("~figures",)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that several tests read, or copy: its results and its folder."""
    return run_in(tmp_path_factory.mktemp("attention") / "run", "experiment=clark_probe_attention", *SHORT)


@pytest.fixture
def copied(finished, tmp_path):
    """The same for a test that goes on in its folder, where `run_here` runs."""
    shutil.copytree(finished[1], tmp_path / "run")
    return finished[0], tmp_path / "run"


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """The results of a run that others are compared with."""
    return run_in(tmp_path_factory.mktemp("words") / "run", "experiment=clark_probe_words", *SHORT)[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    status, _, err = train(*LONG, f"run_dir={folder}")
    assert status == 0, err
    return folder


def run_in(folder, *overrides):
    cfg = composed(*overrides)
    cfg.run_dir = str(folder)
    return run(cfg).to_json(), folder


def metrics(folder):
    return json.loads((folder / "results.json").read_text())["metrics"]


def test_a_run_keeps_its_contract(tmp_path):
    call = new_process("train.py", "experiment=clark_probe_attention", *DRAWN, f"run_dir={tmp_path}")
    status, out, err = call.returncode, call.stdout, call.stderr
    assert status == 0, err
    assert out.splitlines()[-1] == str(tmp_path / "results.json")
    assert "published" in out
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) == {"experiment", "metrics", "tables", "quantities", "drawings", "provenance", "files", "sha256"}
    assert results["experiment"] == "clark_probe_attention"
    assert {"val/uas", "test/uas", "test/uas_without_root", "test/control", "test/selectivity"} <= set(results["metrics"])
    provenance = results["provenance"]
    assert provenance["encoder"]["sha256"].startswith("53aa5117")
    assert provenance["examples"] == {"train": 40, "val": 30, "test": 30}
    assert len(provenance["data"]) == 3
    assert provenance["config"]["data"]["limit"] == 40
    rows = list(csv.DictReader((tmp_path / "heads.csv").open()))
    assert len(rows) == 2 * 6 * 12
    assert {row["quantity"] for row in rows} == {"weight_head_to_dependent", "weight_dependent_to_head"}
    assert {file.suffix for file in (tmp_path / "figures").iterdir()} == {".svg", ".png"}
    assert (tmp_path / "logs" / "metrics.csv").is_file()


def test_relation_table_adds_up_to_the_score(run_here):
    results, _ = run_here("experiment=clark_probe_right_branching", "~figures")
    rows = results["tables"]["relations"]
    words = sum(row["count"] for row in rows)
    right = sum(row["recall"] * row["count"] for row in rows)
    assert results["metrics"]["test/uas"] == pytest.approx(right / words, abs=1e-4)


def test_right_branching_equals_counting_in_the_file(run_here):
    results, _ = run_here("experiment=clark_probe_right_branching", "~figures")
    right = words = 0
    for block in (SAMPLE / "test.conllu").read_text(encoding="utf-8").strip().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line[0] != "#"]
        rows = [row for row in rows if row[0].isdecimal()]
        for row in rows:
            if row[7] != "punct":
                following = int(row[0]) + 1
                right += int(row[6]) == (following if following <= len(rows) else 0)
                words += 1
    assert results["metrics"]["test/uas"] == pytest.approx(100 * right / words, abs=1e-4)


def test_the_same_seed_gives_identical_metrics_and_another_seed_does_not(run_here, words):
    first, second = words, run_here("experiment=clark_probe_words", *SHORT, name="b")[0]
    other, _ = run_here("experiment=clark_probe_words", *SHORT, "seed=1", name="c")
    assert first["metrics"] == second["metrics"]
    assert first["metrics"] != other["metrics"]


@pytest.mark.parametrize("change", ["data.batch_tokens=200", "data.cache=true"])
def test_budget_and_map_store_change_no_score_by_more_than_a_fifth_of_a_point(run_here, words, tmp_path, change):
    first = words
    second, _ = run_here("experiment=clark_probe_words", *SHORT, change, f"data.cache_dir={tmp_path}/cache", name="b")
    for name, value in first["metrics"].items():
        assert second["metrics"][name] == pytest.approx(value, abs=0.2), name


def test_checkpoints_load_as_weights_only(finished):
    _, folder = finished
    for file in (folder / "checkpoints").iterdir():
        checkpoint = torch.load(file, weights_only=True)
        assert checkpoint["state_dict"]["scorer.head_to_dependent"].shape == (6, 12)


@pytest.mark.slow
def test_a_structural_probe_learns(run_here):
    short, _ = run_here("experiment=structural_probe", "trainer.max_epochs=1", "data.limit=20", "~figures", name="short")
    full, _ = run_here("experiment=structural_probe", "~figures", name="full")
    assert full["metrics"]["test/uuas"] > short["metrics"]["test/uuas"] + 5
    assert full["metrics"]["test/spearman"] > 0.5


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_resumes_to_the_same_metrics(whole, tmp_path, how):
    with start(*LONG, f"run_dir={tmp_path}/cut") as process:
        log = tmp_path / "cut" / "logs" / "metrics.csv"
        wait_for(lambda: (tmp_path / "cut" / "checkpoints" / "last.ckpt").is_file() and log.is_file(), process)
        process.send_signal(how)
        err = process.stderr.read()
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert how == signal.SIGKILL or "interrupted" in err
    assert not (tmp_path / "cut" / "results.json").exists()
    log.unlink()  # so that it tells what the second part trained
    status, _, err = train(*LONG, f"run_dir={tmp_path}/cut", "resume=true")
    assert status == 0, err
    assert metrics(tmp_path / "cut") == metrics(whole)
    trained = list(csv.DictReader(log.open()))
    assert 0 < sum(bool(row.get("train/loss")) for row in trained) < 12  # the first epochs were not trained again


def wait_for(condition, process, seconds=120):
    for _ in range(seconds * 50):
        if condition():
            return
        assert process.poll() is None, "the run ended before it could be interrupted"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    pytest.fail("the run wrote no checkpoint")


def test_resuming_a_finished_run_does_not_run_it_again(run_here, copied):
    first, folder = copied
    written = (folder / "results.json").stat().st_mtime_ns
    second, _ = run_here("experiment=clark_probe_attention", *SHORT, "resume=true")
    assert second == first
    assert (folder / "results.json").stat().st_mtime_ns == written


def test_resuming_with_another_configuration_is_refused(run_here, copied):
    with pytest.raises(ConfigError, match="module.lr differ"):
        run_here("experiment=clark_probe_attention", *SHORT, "resume=true", "module.lr=0.5")
    with pytest.raises(ConfigError, match="callbacks.early_stopping.patience differ"):
        run_here("experiment=clark_probe_attention", *SHORT, "resume=true", "callbacks.early_stopping.patience=1")


def test_a_new_run_in_an_old_folder_starts_from_nothing(run_here, copied):
    first, folder = copied
    again, _ = run_here("experiment=clark_probe_attention", *SHORT)
    assert again["metrics"] == first["metrics"]


def test_mst_decoding_changes_the_parse_and_not_the_data(run_here, words):
    free = words
    tree, _ = run_here("experiment=clark_probe_words", *SHORT, "module.decode=mst", name="tree")
    assert tree["provenance"]["examples"] == free["provenance"]["examples"]
    assert tree["metrics"]["test/uas"] > free["metrics"]["test/uas"] - 3
    assert tree["metrics"]["test/uas"] != free["metrics"]["test/uas"]
