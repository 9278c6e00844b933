"""SLURM on this machine, started for these tests: an array through submitit, a job that is preempted."""

import json
import subprocess
import sys
import time

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


def test_a_job_that_is_queued_again_ends_in_the_undisturbed_numbers(cluster, tmp_path):
    """Preempted by a partition of higher priority."""
    arguments = ("experiment=clark_probe_attention", *SHORT, "trainer.max_epochs=40")
    folder, script = tmp_path / "queued", tmp_path / "job.sh"
    script.write_text(
        JOB.format(folder=tmp_path, python=sys.executable, arguments=" ".join([*arguments, f"run_dir={folder}"]))
    )
    job = call(cluster, "sbatch", "--parsable", str(script)).strip()
    wait_for((folder / "checkpoints" / "last.ckpt").is_file, "a checkpoint")
    assert not (folder / "results.json").exists()
    call(cluster, "srun", "--partition=high", f"--ntasks={slurm.CORES}", "true")
    wait_for(lambda: state_of(cluster, job) == "", "the end of the job")
    assert (folder / "results.json").is_file(), (tmp_path / "job.txt").read_text()
    assert "Restarts=1" in call(cluster, "scontrol", "show", "job", job)
    serial(*arguments, f"run_dir={tmp_path / 'one'}")
    assert metrics(folder) == metrics(tmp_path / "one")
