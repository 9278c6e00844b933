"""A job that costs nothing, for tests of sweeps: a parabola over log module.lr, highest at 0.01; some seeds go wrong."""

import math
import os
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from headscope.contracts import Findings, Provenance, RunResults
from headscope.errors import InputError
from headscope.runs.report import finish
from headscope.runs.resume import finished_or_damaged, plain_config
from headscope.runs.sweeps.job import sweep_job

FAILS, IS_A_DEFECT, DIES = 100, 101, 102
STOP = "STOP_AT_JOB"  # the number of the job in which the user loses patience


def main(cfg: DictConfig) -> None:
    """Write the results that a run would; every call is counted in its folder."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    with sweep_job(cfg):
        cfg.run_dir = str(folder)
        (folder / "calls").open("a").write(f"{os.environ.get('OMP_NUM_THREADS')}\n")
        if finished_or_damaged(folder) is None:
            finish(folder, run(cfg, folder.name), Findings())


def run(cfg: DictConfig, name: str) -> RunResults:
    """The results, unless the job is one of those that go wrong."""
    print("a line of the job")
    if os.environ.get(STOP) == name:
        raise KeyboardInterrupt
    if cfg.seed == FAILS:
        raise InputError("words.txt: no such file.")
    if cfg.seed == IS_A_DEFECT:
        raise RuntimeError("not foreseen")
    if cfg.seed == DIES:
        os._exit(9)
    metrics = {"val/uas": -((math.log10(cfg.module.lr) + 2) ** 2), "test/uas": 1.0}
    provenance = Provenance({"name": "none"}, {}, {}, config=plain_config(cfg), seconds=0.5)
    return RunResults(cfg.experiment_name, metrics, {}, provenance)
