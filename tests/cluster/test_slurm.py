"""SLURM on this machine, started for these tests: an array, preemption, a warning, a time limit, several tasks of a run."""

import json
import subprocess
import sys
import time

import pytest

from tests.cluster import pages, slurm
from tests.commands import run as run_program
from tests.runs.conftest import PROJECT
from tests.runs.test_ddp import difference

SHORT = ("data.limit=24", "~figures", "callbacks.early_stopping=null", "trainer.max_epochs=2")
LONGER = (*SHORT[:-1], "trainer.max_epochs=25")
PATIENCE = 400  # seconds
SWEEP = """
from tests.cluster.timed_job import main
from tests.runs.conftest import sweep
sweep("hydra/launcher=submitit_slurm", "hydra.launcher.partition=low", "hydra.launcher.timeout_min=2",
      "hydra.launcher.signal_delay_s=30", "hydra.launcher.max_num_timeout=3", "seed=0", "~figures",
      "run_dir={folder}", task=main)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment of a SLURM of one machine."""
    try:
        with slurm.one_machine(tmp_path_factory.mktemp("slurm") / "here") as environment:
            yield environment
    except slurm.CannotStart as error:
        pytest.skip(f"SLURM cannot be started here: {error}")


def call(cluster, *words, status=0):
    """A command of SLURM's, in the project; what it printed."""
    done = subprocess.run(words, env=cluster, cwd=PROJECT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def serial(*arguments):
    done = run_program("train.py", *arguments)
    assert done.returncode == 0, done.stderr


def wait_for(done, what):
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def state_of(cluster, job):
    return call(cluster, "squeue", "--noheader", "--format=%T", f"--jobs={job}").strip()


def metrics(folder):
    return json.loads((folder / "results.json").read_text())["metrics"]


@pytest.mark.slow
def test_an_array_of_four_jobs_finds_what_they_find_one_by_one(cluster, tmp_path):
    words = pages.command("slurm", "hydra/launcher=submitit_slurm", SHARED=tmp_path)
    out = call(cluster, *words, *SHORT)
    assert out.splitlines()[-1] == str(tmp_path / "array" / "results.json")
    (submitted,) = (tmp_path / "array" / ".submitit").glob("*_0")
    assert {file.name for file in submitted.parent.glob("*_?")} == {f"{submitted.name[:-1]}{job}" for job in range(4)}
    kept = [word for word in pages.arguments(words) if not word.startswith(("hydra", "run_dir"))]
    serial(*kept, *SHORT, f"run_dir={tmp_path / 'one'}")
    for job in range(4):
        assert difference(tmp_path / "one" / str(job), tmp_path / "array" / str(job)) == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The metrics of the job, run once without SLURM."""
    folder = tmp_path_factory.mktemp("undisturbed")
    serial("experiment=clark_probe_attention", *LONGER, f"run_dir={folder}")
    return metrics(folder)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["preempted", "SIGUSR1"])
def test_a_job_that_is_queued_again_ends_in_the_undisturbed_numbers(cluster, undisturbed, tmp_path, how):
    """Preempted by a partition of higher priority, which ends it by SIGTERM, or warned as by --signal=USR1@90."""
    folder, script = tmp_path / "queued", tmp_path / "job.sh"
    script.write_text(f"{pages.script('slurm', '#SBATCH', SHARED=tmp_path).rstrip()} {' '.join(LONGER)}\n")
    job = call(cluster, "sbatch", "--parsable", str(script)).strip()
    wait_for((folder / "checkpoints" / "last.ckpt").is_file, "a checkpoint")
    assert not (folder / "results.json").exists()
    if how == "preempted":
        call(cluster, "srun", "--partition=high", f"--ntasks={slurm.CORES}", "true")
    else:
        call(cluster, "scancel", "--signal=USR1", f"{job}.0")
    wait_for(lambda: state_of(cluster, job) == "", "the end of the job")
    said = (tmp_path / "job.txt").read_text()
    assert (folder / "results.json").is_file(), said
    assert ("SIGUSR1: SLURM queues the job again" in said) == (how == "SIGUSR1")
    assert "Restarts=1" in call(cluster, "scontrol", "show", "job", job)
    assert metrics(folder) == undisturbed


@pytest.mark.slow
def test_a_job_that_reaches_its_time_limit_is_queued_again_and_goes_on(cluster, tmp_path):
    """SLURM warns submitit's job half a minute before its time is over; the second time it finishes.

    The warning may come up to a minute early, which must not be before the job has imported all that it needs.
    """
    program = tmp_path / "sweep.py"
    program.write_text(SWEEP.format(folder=tmp_path / "timed"))
    call({**cluster, "PYTHONPATH": str(PROJECT)}, sys.executable, str(program))
    (job,) = json.loads((tmp_path / "timed" / "results.json").read_text())["tables"]["jobs"]
    assert job["status"] == "done"
    assert (tmp_path / "timed" / "0" / "starts").read_text().split()[:2] == ["0", "1"]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["clark_relations", "clark_probe_words"])
def test_two_tasks_find_what_one_process_finds(cluster, tmp_path, experiment):
    more = SHORT if "probe" in experiment else ("data.limit=40", "~figures")
    call(cluster, *pages.command("slurm", "srun", experiment, SHARED=tmp_path), *more)
    serial(f"experiment={experiment}", *more, f"run_dir={tmp_path / 'one'}")
    assert difference(tmp_path / "one", tmp_path / "two") < (1e-3 if "probe" in experiment else 1e-6)


@pytest.mark.slow
def test_tasks_without_a_number_for_each_machine_are_refused_in_a_sentence(cluster, tmp_path):
    command = ("srun", "-n2", sys.executable, "train.py", "experiment=clark_probe_right_branching")
    two = ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu", f"run_dir={tmp_path / 'run'}")
    errors = call(cluster, *command, *two, status=2)
    assert "give srun --ntasks-per-node=2 instead, and trainer.devices=2." in errors
    assert "Traceback" not in errors
