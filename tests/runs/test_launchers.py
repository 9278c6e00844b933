import json
import os
import shutil
import subprocess

import pytest
from omegaconf import OmegaConf

from headscope.errors import ConfigError
from headscope.runs.sweeps.job import free_slot, take_a_gpu
from headscope.runs.sweeps.launch import require_one_process
from headscope.runs.sweeps.report import JobsFailed
from tests.commands import Command
from tests.runs.cheap_job import DIES, FAILS
from tests.runs.conftest import sweep

SLURM = "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"
HOLDS_A_GPU = """
import os, sys
from pathlib import Path
from headscope.runs.sweeps.job import take_a_gpu
take_a_gpu(Path(sys.argv[1])); take_a_gpu(Path(sys.argv[1]))
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
"""


def jobs(folder):
    return json.loads((folder / "results.json").read_text())["tables"]["jobs"]


def test_submitit_runs_jobs_as_processes_that_share_the_cores(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    arguments = ["hydra/launcher=submitit_local", "search.batch=2", f"seed=0,{FAILS}", "module.lr=0.1,0.01", "~figures"]
    with pytest.raises(JobsFailed, match="2 of 4 jobs"):
        sweep(*arguments, f"run_dir={tmp_path}")
    assert [row["status"] for row in jobs(tmp_path)] == ["done", "done", "failed", "failed"]
    assert [row["val/uas"] for row in jobs(tmp_path)][:2] == pytest.approx([-1, 0])
    threads = {file.read_text() for file in tmp_path.glob("*/calls")}
    assert threads == {f"{max(1, len(os.sched_getaffinity(0)) // 2)}\n"}


def test_joblib_runs_jobs_and_a_process_that_dies_takes_only_its_own_job_with_it(tmp_path):
    with pytest.raises(JobsFailed, match="1 of 4 jobs"):
        sweep("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", f"seed=0,{DIES},1,2", "~figures", f"run_dir={tmp_path}")
    rows = jobs(tmp_path)
    assert [row["status"] for row in rows] == ["done", "failed", "done", "done"]
    assert rows[1]["error"].startswith("its process died")


@pytest.mark.slow
def test_submitit_goes_on_without_a_job_whose_process_dies(tmp_path):
    arguments = ["hydra/launcher=submitit_local", "search.batch=2", f"seed={DIES},0,1", "~figures"]
    with pytest.raises(JobsFailed, match="1 of 3 jobs did not finish; the same command"):
        sweep(*arguments, f"run_dir={tmp_path}")
    rows = jobs(tmp_path)
    assert [row["status"] for row in rows] == ["failed", "done", "done"]
    assert rows[0]["error"].startswith("its process died")


@pytest.mark.skipif(shutil.which("srun") is not None, reason="SLURM is there")
def test_a_launcher_that_gives_up_leaves_a_report_and_a_way_on(tmp_path):
    with pytest.raises(JobsFailed, match='2 of 2 jobs did not finish .*"srun".*; the same command with run_dir='):
        sweep("hydra/launcher=submitit_slurm", "seed=0,1", f"run_dir={tmp_path}")
    assert [row["status"] for row in jobs(tmp_path)] == ["unfinished", "unfinished"]


def test_processes_on_one_machine_take_different_gpus(tmp_path):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "4,7"}
    call = ("-c", HOLDS_A_GPU, str(tmp_path))
    processes = [Command(*call, stdin=subprocess.PIPE, env=environment) for _ in range(2)]
    assert sorted(process.stdout.readline() for process in processes) == ["4\n", "7\n"]
    slot, lock = free_slot(tmp_path / ".gpus")
    assert slot == 2  # a third process shares the first GPU
    processes[0].kill()
    processes[0].wait()
    assert free_slot(tmp_path / ".gpus")[0] in (0, 1)  # what a killed process held is free again
    lock.close()
    processes[1].communicate("")


def test_without_a_gpu_nothing_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    take_a_gpu(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("trainer", "launcher", "works"),
    [
        ({"accelerator": "gpu", "devices": 1}, {"_target_": "basic"}, True),
        ({"accelerator": "gpu", "devices": [3]}, {"_target_": "basic"}, True),
        ({"accelerator": "cpu", "devices": "auto"}, {"_target_": "basic"}, True),
        ({"accelerator": "gpu", "devices": [0, 1]}, {"_target_": "basic"}, False),
        ({"accelerator": "auto", "devices": "auto"}, {"_target_": "basic"}, False),
        ({"accelerator": "gpu", "devices": 1, "num_nodes": 2}, {"_target_": "basic"}, False),
        ({"accelerator": "gpu", "devices": 8}, {"_target_": SLURM, "tasks_per_node": 8, "nodes": 1}, True),
        ({"accelerator": "gpu", "devices": 8}, {"_target_": SLURM, "tasks_per_node": 1, "nodes": 1}, False),
    ],
)
def test_jobs_of_several_processes_need_a_launcher_that_starts_them(trainer, launcher, works):
    cfg, launcher = OmegaConf.create({"trainer": trainer}), OmegaConf.create(launcher)
    if works:
        require_one_process(cfg, launcher)
    else:
        with pytest.raises(ConfigError, match="one device each"):
            require_one_process(cfg, launcher)
