"""SLURM on this machine, started for these tests: arrays, preemption, time limits, several tasks of one run."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import slurm
from tests.commands import run as run_program
from tests.runs.conftest import PROJECT
from tests.runs.test_ddp import difference

pytestmark = pytest.mark.slow
SHORT = ("data.limit=24", "~figures", "callbacks.early_stopping=null", "trainer.max_epochs=2")
PATIENCE = 400  # seconds
JOB = """#!/bin/sh
#SBATCH --partition=low --requeue --ntasks=1 --output={folder}/job.txt --open-mode=append
exec srun --ntasks=1 {python} train.py {arguments}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The environment of a SLURM of one machine."""
    try:
        with slurm.one_machine(tmp_path_factory.mktemp("slurm") / "here") as environment:
            yield {**environment, "OMP_NUM_THREADS": "1"}
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


def test_an_array_of_four_jobs_finds_what_they_find_one_by_one(cluster, tmp_path):
    arguments = ("-m", "experiment=clark_probe_right_branching,clark_probe_attention", "seed=0,1", *SHORT)
    launcher = ("hydra/launcher=submitit_slurm", "hydra.launcher.partition=low", "hydra.launcher.timeout_min=20")
    out = call(cluster, sys.executable, "train.py", *arguments, *launcher, f"run_dir={tmp_path / 'array'}")
    assert out.splitlines()[-1] == str(tmp_path / "array" / "results.json")
    (submitted,) = (tmp_path / "array" / ".submitit").glob("*_0")
    assert {file.name for file in submitted.parent.glob("*_?")} == {f"{submitted.name[:-1]}{job}" for job in range(4)}
    serial(*arguments, f"run_dir={tmp_path / 'one'}")
    for job in range(4):
        assert difference(tmp_path / "one" / str(job), tmp_path / "array" / str(job)) == 0


@pytest.mark.parametrize("how", ["preempted", "SIGUSR1"])
def test_a_job_that_is_queued_again_ends_in_the_undisturbed_numbers(cluster, tmp_path, how):
    """Preempted by a partition of higher priority (SIGTERM), or warned by the signal that Lightning answers."""
    arguments = ("experiment=clark_probe_attention", *SHORT, "trainer.max_epochs=40")
    folder, script = tmp_path / "queued", tmp_path / "job.sh"
    script.write_text(
        JOB.format(folder=tmp_path, python=sys.executable, arguments=" ".join([*arguments, f"run_dir={folder}"]))
    )
    job = call(cluster, "sbatch", "--parsable", str(script)).strip()
    wait_for((folder / "checkpoints" / "last.ckpt").is_file, "a checkpoint")
    assert not (folder / "results.json").exists()
    if how == "preempted":
        call(cluster, "srun", "--partition=high", f"--ntasks={slurm.CORES}", "true")
    else:
        call(cluster, "scancel", "--signal=USR1", f"{job}.0")
    wait_for(lambda: state_of(cluster, job) == "", "the end of the job")
    assert (folder / "results.json").is_file(), (tmp_path / "job.txt").read_text()
    assert "Restarts=1" in call(cluster, "scontrol", "show", "job", job)
    serial(*arguments, f"run_dir={tmp_path / 'one'}")
    assert metrics(folder) == metrics(tmp_path / "one")


def test_a_job_that_reaches_its_time_limit_is_queued_again_and_goes_on(cluster, tmp_path):
    """submitit warns the job ten seconds before its minute is over; the second time it finishes."""
    program = tmp_path / "sweep.py"
    program.write_text(
        "from tests.cluster.timed_job import main\n"
        "from tests.runs.conftest import sweep\n"
        "sweep('hydra/launcher=submitit_slurm', 'hydra.launcher.partition=low', 'hydra.launcher.timeout_min=1',\n"
        "      'hydra.launcher.signal_delay_s=10', 'hydra.launcher.max_num_timeout=2', 'seed=0,1', '~figures',\n"
        f"      'run_dir={tmp_path / 'timed'}', task=main)\n"
    )
    call({**cluster, "PYTHONPATH": str(PROJECT)}, sys.executable, str(program))
    jobs = json.loads((tmp_path / "timed" / "results.json").read_text())["tables"]["jobs"]
    assert [row["status"] for row in jobs] == ["done", "done"]
    starts = [(tmp_path / "timed" / str(job) / "starts").read_text().split() for job in range(2)]
    assert starts == [["0", "1"], ["0"]]


@pytest.mark.parametrize("experiment", ["clark_relations", "clark_probe_words"])
def test_two_tasks_find_what_one_process_finds(cluster, tmp_path, experiment):
    arguments = (f"experiment={experiment}", *(SHORT if "probe" in experiment else ("data.limit=40", "~figures")))
    two = ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu")
    srun = ("srun", "--nodes=1", "--ntasks-per-node=2", "--kill-on-bad-exit=1")
    call(cluster, *srun, sys.executable, "train.py", *arguments, *two, f"run_dir={tmp_path / 'two'}")
    serial(*arguments, f"run_dir={tmp_path / 'one'}")
    assert difference(tmp_path / "one", tmp_path / "two") < (1e-3 if "probe" in experiment else 1e-6)


def test_tasks_without_a_number_for_each_machine_are_refused_in_a_sentence(cluster, tmp_path):
    command = ("srun", "-n2", "--kill-on-bad-exit=1", sys.executable, "train.py", "experiment=clark_probe_right_branching")
    two = ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu", f"run_dir={tmp_path / 'run'}")
    errors = call(cluster, *command, *two, status=2)
    assert "give srun --ntasks-per-node=2 instead, and trainer.devices=2." in errors
    assert "Traceback" not in errors


def test_the_script_leaves_nothing_behind(tmp_path):
    """It ends its own daemons, and what it writes lies in its folder."""
    try:
        with slurm.one_machine(tmp_path / "here") as environment:
            assert Path(environment["SLURM_CONF"]).is_relative_to(tmp_path)
            pids = [int((tmp_path / "here" / f"{name}.pid").read_text()) for name in ("slurmctld", "slurmd")]
    except slurm.CannotStart as error:
        pytest.skip(str(error))
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
