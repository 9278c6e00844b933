"""However a run is ended: one sentence, a status, and a way on to the same numbers."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import pytest

from headscope.errors import ConfigError
from headscope.processes import Terminated, answered_sigterm, sigterm_received, sole_run, stop_if_told
from headscope.runs.explain import explain
from headscope.runs.training import run
from tests.commands import Command, train
from tests.runs.conftest import PROJECT, composed
from tests.runs.signals_itself import SIGNAL
from tests.runs.test_checkpoints import SHORT, run_in
from tests.runs.test_ddp import TWO_PROCESSES, largest

SENTENCE = "interrupted by SIGTERM; resume=true with the same run_dir goes on from the last checkpoint."
# Told twice, each time after it has answered, or while a child of it lives.
STUBBORN = """
import os, signal, time
from headscope.processes import Terminated, answered_sigterm
with answered_sigterm():
    for _ in range(2):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        except Terminated:
            os.kill(os.getpid(), signal.SIGTERM)  # at once: as `timeout` does, which means it once
            print("told", flush=True)
            time.sleep(1.1)
print("went on", flush=True)
"""
HOLDS = """
import os, sys, time
from pathlib import Path
from headscope.processes import sole_run
with sole_run(Path(sys.argv[1])):
    if not os.fork():
        os.close(0), os.close(1), os.close(2)
        time.sleep(int(sys.argv[2]))  # as the worker of a DataLoader does, for a while
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


def stopped(folder, when, *overrides, **options):
    """Status, output and errors of a run that gets SIGTERM; they end when no process is left to write."""
    words = (str(PROJECT / "train.py"), *overrides, f"run_dir={folder}")
    command = Command(*words, env={**os.environ, SIGNAL: when}, **options)
    out, err = command.communicate()
    return command.returncode, out, err


def metrics(folder):
    return json.loads((folder / "results.json").read_text())["metrics"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("when", ["setup 1", "on_train_batch_start 3", "on_fit_end 1", "on_test_batch_start 1"])
def test_sigterm_ends_a_run_with_a_sentence_and_its_own_status_and_resumes_to_the_same_metrics(when, whole, tmp_path):
    arguments = (*SHORT, "data.workers=1", "monitor=val/uas")
    status, out, err = stopped(tmp_path / "run", f"self SIGTERM {when}", *arguments)
    assert (status, out, err.splitlines()) == (143, "", [SENTENCE])
    assert not (tmp_path / "run" / "results.json").exists()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    status, out, err = train(*arguments, f"run_dir={tmp_path / 'moved'}", "resume=true")
    assert (status, out.splitlines()[-1], err) == (0, str(tmp_path / "moved" / "results.json"), "")
    assert metrics(tmp_path / "moved") == whole


def test_a_second_sigterm_ends_at_once_but_not_one_that_comes_with_the_first():
    command = Command("-c", STUBBORN)
    out, _ = command.communicate()
    assert (command.returncode, out) == (-signal.SIGTERM, "told\n")


def test_a_swallowed_sigterm_is_not_forgotten():
    with answered_sigterm(), pytest.raises(Terminated):
        with contextlib.suppress(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        assert explain(RuntimeError("a worker of the DataLoader was killed"))[0] == 143
        stop_if_told()
    assert not sigterm_received()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_handlers_of_others_are_left_alone():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with answered_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupted_table_ends_with_no_path_and_goes_on_wherever_it_lies(tmp_path):
    row = ("trainer.max_epochs=2", "data.limit=6", "figures=null", "data.cache=false", SHORT[-1])
    table = ("experiment=clark_table3", *row)
    status, out, err = stopped(tmp_path / "table", "self SIGTERM on_train_epoch_end 2", *table)
    assert (status, [line for line in err.splitlines() if not line.startswith("clark_table3, ")]) == (143, [SENTENCE])
    assert "clark_probe_right_branching" in out  # a row that had been finished
    assert "results.json" not in out
    shutil.move(tmp_path / "table", tmp_path / "moved")
    begun = {file: file.stat().st_mtime_ns for file in (tmp_path / "moved").glob("*/results.json")}
    status, out, err = train(*table, f"run_dir={tmp_path / 'moved'}", "resume=true")
    assert status == 0, err
    assert [line for line in out.splitlines() if "results.json" in line] == [str(tmp_path / "moved" / "results.json")]
    assert {file: file.stat().st_mtime_ns for file in begun} == begun
    cfg = composed("experiment=clark_probe_distances", *row)
    cfg.run_dir = str(tmp_path / "alone")
    assert metrics(tmp_path / "moved" / "clark_probe_distances") == run(cfg).metrics


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [(), ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")])
@pytest.mark.parametrize("whom", ["self", "parent", "group"])
def test_sigterm_ends_a_sweep_which_goes_on_when_started_again(whom, launcher, tmp_path):
    if not launcher and whom == "parent":
        pytest.skip("the jobs are in the same process")
    sweep = ("-m", *SHORT, "trainer.max_epochs=2", "seed=0,1", *launcher)
    status, out, err = stopped(tmp_path / "sweep", f"{whom} SIGTERM on_train_batch_start 2", *sweep, own_group=True)
    assert (status, out) == (143, ""), err
    told = [line for line in err.splitlines() if not line.startswith("job ")]
    assert told == [f"interrupted by SIGTERM; the same command with run_dir={tmp_path / 'sweep'} goes on from here."]
    assert not list((tmp_path / "sweep").rglob("results.json"))
    assert not list((tmp_path / "sweep").rglob("failed.json"))
    if not launcher:
        status, _, err = train(*sweep, f"run_dir={tmp_path / 'sweep'}")
        assert status == 0, err


@pytest.mark.parametrize("whom", ["self", "group"])
def test_sigterm_ends_all_processes_of_a_run(whom, whole, tmp_path):
    arguments = (*SHORT, *TWO_PROCESSES)
    status, out, err = stopped(tmp_path, f"{whom} SIGTERM on_train_batch_start 3", *arguments, own_group=True)
    assert (status, out, err.splitlines()) == (143, "", [SENTENCE])
    if whom == "group":
        status, _, err = train(*arguments, f"run_dir={tmp_path}", "resume=true")
        assert status == 0, err
        assert largest(metrics(tmp_path), whole) < 1e-3


def test_two_runs_in_one_folder_are_refused(tmp_path):
    arguments = ("experiment=clark_probe_right_branching", "data.limit=5", "~figures", f"run_dir={tmp_path / 'run'}")
    holder = Command("-c", HOLDS, str(tmp_path / "run"), "30", stdin=subprocess.PIPE)
    assert holder.stdout.readline() == "held\n"
    refused = f"run_dir={tmp_path / 'run'}: another run works in this folder; wait for it or use another run_dir.\n"
    assert train(*arguments) == (2, "", refused)
    sweep = train("-m", *arguments, "seed=0,1")
    assert (sweep[0], sweep[2]) == (2, refused)
    with pytest.raises(ConfigError, match="another run works"), sole_run(tmp_path / "run"):
        pass
    holder.kill()  # nothing is left of it but a child that inherited its files
    holder.wait()
    with sole_run(tmp_path / "run"), sole_run(tmp_path / "run"):  # a job of a sweep, and the run that it is
        assert train(*arguments)[0] == 2
    assert train(*arguments)[0] == 0


@pytest.mark.parametrize("key", ["monitor", "callbacks.early_stopping.monitor"])
def test_a_metric_that_does_not_exist_is_refused_before_training(key, tmp_path):
    status, out, err = train(*SHORT, f"{key}=val/ua", f"run_dir={tmp_path}")
    assert (status, out) == (2, "")
    assert err.startswith("monitor=val/ua: no such metric; the run has ")
    assert "val/uas" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "checkpoints").exists()


def test_a_metric_of_training_that_does_not_exist_is_refused_after_the_first_epoch(tmp_path):
    with pytest.raises(ConfigError, match=r"monitor=train/lss: no such metric; the run has .*; did you mean train/loss"):
        run_in(tmp_path, "callbacks.early_stopping.monitor=train/lss")
