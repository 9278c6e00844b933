import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
from hydra.errors import HydraException

from headscope.contracts import Provenance, RunResults
from headscope.errors import ConfigError, DamagedFile
from headscope.reports.figures.sweeps import scale
from headscope.reports.terminal import quoted
from headscope.runs.cli import explain
from headscope.runs.sweeps.launch import Job
from headscope.runs.sweeps.report import JobsFailed, show
from tests.commands import start
from tests.runs.cheap_job import FAILS, IS_A_DEFECT, STOP
from tests.runs.conftest import sweep, train

HOLDS_A_FOLDER = """
import sys
from pathlib import Path
from headscope.processes import sole_run
with sole_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
GRID = ("experiment=clark_probe_words", "module.lr=0.1,0.01", "data.limit=5,6")


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


def calls(folder):
    """How often each job was begun."""
    return {int(file.parent.name): len(file.read_text().splitlines()) for file in folder.glob("*/calls")}


def test_a_grid_runs_every_combination_and_reports_the_best(tmp_path, capsys):
    sweep(*GRID, f"run_dir={tmp_path}")
    results = results_of(tmp_path)
    rows = results["tables"]["jobs"]
    pairs = [(lr, limit) for lr in ("0.1", "0.01") for limit in ("5", "6")]
    assert [tuple(row["values"].values()) for row in rows] == pairs
    assert [row["val/uas"] for row in rows] == pytest.approx([-1, -1, 0, 0])
    assert {row["status"] for row in rows} == {"done"}
    assert results["metrics"] == {"val/uas": 0.0}
    assert results["provenance"]["seconds"] == 4 * 0.5
    assert results["provenance"]["encoder"] == {"name": "none"}
    assert results["provenance"]["config"]["seed"] == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == str(tmp_path / "results.json")
    best = next(line for line in out if line.startswith("python train.py"))
    assert shlex.split(best)[2:] == ["experiment=clark_probe_words", "module.lr=0.01", "data.limit=5"]
    assert "a line of the job" not in "".join(out)
    assert (tmp_path / "3" / "output.txt").read_text() == "a line of the job\n"
    figure = (tmp_path / "figures" / "jobs.svg").read_text()
    assert all(f">{text}</text>" in figure for text in ("module.lr", "data.limit", "UAS, validation"))


def test_a_stopped_grid_goes_on_without_doing_anything_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(STOP, "1")
    with pytest.raises(SystemExit) as stopped:
        sweep(*GRID, f"run_dir={tmp_path}")
    assert stopped.value.code == 130
    assert f"run_dir={tmp_path} goes on" in capsys.readouterr().err
    assert not (tmp_path / "results.json").exists()
    monkeypatch.delenv(STOP)
    sweep(*GRID, f"run_dir={tmp_path}")
    assert calls(tmp_path) == {0: 1, 1: 2, 2: 1, 3: 1}
    # More values: only the new combinations run, under new numbers.
    sweep("experiment=clark_probe_words", "module.lr=1,0.1", "data.limit=6", f"run_dir={tmp_path}")
    assert [row["job"] for row in results_of(tmp_path)["tables"]["jobs"]] == [4, 1]
    assert calls(tmp_path) == {0: 1, 1: 2, 2: 1, 3: 1, 4: 1}


def test_failed_jobs_are_told_in_a_sentence_each_and_tried_again(tmp_path, capsys):
    arguments = (f"seed=0,{FAILS},{IS_A_DEFECT},1", f"run_dir={tmp_path}")
    for attempt in (1, 2):
        with pytest.raises(JobsFailed, match=f"2 of 4 jobs did not finish; the same command with run_dir={tmp_path} tries"):
            sweep(*arguments)
        rows = results_of(tmp_path)["tables"]["jobs"]
        assert [row["status"] for row in rows] == ["done", "failed", "failed", "done"]
        assert rows[1]["error"] == "words.txt: no such file."
        assert rows[2]["error"].startswith("RuntimeError: not foreseen (traceback in ")
        assert calls(tmp_path) == {0: 1, 1: attempt, 2: attempt, 3: 1}
    captured = capsys.readouterr()
    assert "job 1 failed: words.txt: no such file.\n" in captured.out
    assert captured.out.splitlines()[-1] == str(tmp_path / "results.json")
    assert "Traceback" not in captured.out + captured.err
    assert "cheap_job.py" in json.loads((tmp_path / "2" / "failed.json").read_text())["traceback"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["module.lr=interval(0.1,1)"], "an interval needs search=optuna"),
        (["resume=false"], "a sweep always goes on"),
        (["search.direction=up"], "search.direction=up: expected max or min"),
        (["search.batch=0"], "search.batch=0: expected a whole number"),
        (["trainer=ddp"], "the jobs of a sweep run on one device each"),
        (["trainer.devices=1,2"], "the jobs of a sweep run on one device each, not trainer.devices=2"),
    ],
)
def test_what_cannot_work_is_refused_before_any_job(arguments, sentence, tmp_path):
    with pytest.raises((ConfigError, HydraException)) as refused:
        sweep(*arguments, f"run_dir={tmp_path}/new")
    status, told = explain(refused.value)
    assert (status, sentence in told) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_sweep_over_experiments_stays_in_one_folder(tmp_path):
    name = tmp_path / "it's, [one] (folder)"
    sweep("experiment=clark_probe_attention,clark_probe_words", "~figures", f"run_dir={quoted(str(name))}")
    assert results_of(name)["experiment"] == "clark_probe_attention, clark_probe_words"
    assert calls(name) == {0: 1, 1: 1}
    assert not (name / "figures").exists()


def test_places_on_the_axes_of_the_figure():
    places, ticks = scale(["1", "3", "2"])
    assert places == pytest.approx([0, 1, 0.5])
    assert ticks == [(0.0, "1"), (0.5, "2"), (1.0, "3")]
    places, _ = scale(["0.001", "0.01", "0.1"])  # spans much: logarithmic
    assert places == pytest.approx([0, 0.5, 1])
    assert scale(["mst", "argmax", "mst"]) == ([1.0, 0.0, 1.0], [(0.0, "argmax"), (1.0, "mst")])


def test_a_killed_search_of_real_runs_finishes_with_none_done_twice(tmp_path):
    arguments = ["-m", "search=optuna", "experiment=clark_probe_words", "search.trials=4", f"run_dir={tmp_path}/search"]
    arguments += ["trainer.max_epochs=1", "data.limit=10", "~figures", f"vectors.path=null,{tmp_path}/none.txt"]
    folder = tmp_path / "search"
    with start(*arguments, own_group=True) as process:
        for _ in range(6000):
            if (folder / "2" / "config.json").is_file() or process.poll() is not None:
                break
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    begun = [job["values"] for job in json.loads((folder / "jobs.json").read_text())["jobs"]]
    written = {file: file.stat().st_mtime_ns for file in folder.glob("*/results.json")}
    assert len(begun) == 3
    status, out, err = train(*arguments)
    rows = results_of(folder)["tables"]["jobs"]
    assert [row["values"] for row in rows][:3] == begun
    assert all(file.stat().st_mtime_ns == time_written for file, time_written in written.items())
    wrong = [row for row in rows if "none.txt" in row["overrides"]]
    assert (len(rows), len(wrong)) == (4, 2)
    assert [row["status"] for row in rows] == ["failed" if row in wrong else "done" for row in rows]
    assert all(row["error"].startswith(f"{tmp_path}/none.txt: no such file") for row in wrong)
    assert (status, "2 of 4 jobs did not finish" in err) == (1, True)
    assert out.splitlines()[-1] == str(folder / "results.json")


def test_a_sweep_says_how_to_sync_the_entries_of_its_jobs(tmp_path, capsys):
    folder = tmp_path / "my sweep"
    for job in ("0", "1"):
        (folder / job / "wandb" / "offline-run-1").mkdir(parents=True)
    row = {"job": 0, "overrides": "", "val/uas": None, "status": "done", "seconds": 1.0, "error": None, "values": {}}
    show(RunResults("x", {}, {"jobs": [row], "metrics": []}, Provenance({}, {}, {})), folder)
    *_, sync, last = capsys.readouterr().out.splitlines()
    assert last == str(folder / "results.json")
    found = subprocess.run(["bash", "-c", sync.replace("wandb sync", "ls -d")], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [str(folder / job / "wandb" / "offline-run-1") for job in ("0", "1")]


def test_a_finished_sweep_is_found_with_another_scratch_folder(tmp_path, monkeypatch):
    sweep(*GRID, f"run_dir={tmp_path}")
    before = results_of(tmp_path)["tables"]
    monkeypatch.setenv("HEADSCOPE_CACHE", str(tmp_path / "elsewhere"))
    sweep(*GRID, f"run_dir={tmp_path}")
    assert results_of(tmp_path)["tables"] == before
    assert calls(tmp_path) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_results_stay_where_a_later_command_knows_less(tmp_path, monkeypatch):
    sweep(*GRID, f"run_dir={tmp_path}")
    before = (tmp_path / "results.json").read_bytes()
    for number in range(4):
        file = tmp_path / str(number) / "results.json"
        file.write_text(file.read_text().replace('"seconds": 0.5', '"seconds": 0.6'))
    (tmp_path / "1" / "failed.json").write_text('{"err')
    monkeypatch.setenv(STOP, "0")
    with pytest.raises(SystemExit):
        sweep(*GRID, f"run_dir={tmp_path}")
    assert (tmp_path / "results.json").read_bytes() == before
    monkeypatch.delenv(STOP)
    sweep(*GRID, f"run_dir={tmp_path}")
    assert calls(tmp_path) == {0: 3, 1: 2, 2: 2, 3: 2}  # damaged, so computed again
    assert {row["status"] for row in results_of(tmp_path)["tables"]["jobs"]} == {"done"}


def test_a_poorer_report_does_not_replace_a_richer_one(tmp_path):
    sweep("seed=0,1", f"run_dir={tmp_path}")
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(JobsFailed, match="1 of 2 jobs did not finish; .* The results of before have more jobs and stay."):
        sweep(f"seed={FAILS},1", f"run_dir={tmp_path}")
    assert (tmp_path / "results.json").read_bytes() == before


@pytest.mark.parametrize("content", ['{"jobs": [{"job": 0, "over', "[]", '{"jobs": [{"job": "0"}]}'])
def test_a_damaged_list_of_jobs_is_named_and_no_override_is_blamed(tmp_path, content):
    sweep("seed=0,1", f"run_dir={tmp_path}")
    (tmp_path / "jobs.json").write_text(content)
    with pytest.raises(DamagedFile) as refused:
        sweep("seed=0,1", f"run_dir={tmp_path}")
    status, told = explain(refused.value, ["seed=0,1"])
    assert (status, told.startswith(f"{tmp_path / 'jobs.json'}: ")) == (1, True)
    assert told.endswith("mend the file, or use a new run_dir.")
    assert (tmp_path / "results.json").is_file()


def test_a_damaged_note_of_a_failure_is_told_as_such(tmp_path):
    job = Job(0, tmp_path, (), {})
    (tmp_path / "failed.json").write_text('{"error": ')
    assert "failed.json: damaged, or not JSON" in job.read_failure()


def test_a_digit_that_was_changed_in_the_list_of_jobs_is_noticed(tmp_path):
    sweep("seed=0,1", f"run_dir={tmp_path}")
    jobs = tmp_path / "jobs.json"
    jobs.write_text(jobs.read_text().replace('"seed": "1"', '"seed": "2"'))
    with pytest.raises(DamagedFile, match=f"^{jobs}: is not as the sweep wrote it; without it no job can be told"):
        sweep("seed=0,1", f"run_dir={tmp_path}")


def test_a_second_sweep_in_the_same_folder_is_refused(tmp_path):
    ours = [sys.executable, "-c", HOLDS_A_FOLDER, str(tmp_path / "new")]
    with subprocess.Popen(ours, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another run works in this folder"):
            sweep("seed=0,1", f"run_dir={tmp_path / 'new'}")
        other.communicate("end")
    sweep("seed=0,1", f"run_dir={tmp_path / 'new'}")
