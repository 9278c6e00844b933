"""The cheap job of tests/runs, which notes every start and, at the first, works until SLURM warns it that time is over."""

import os
import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from headscope.runs.sweeps.job import sweep_job
from tests.runs import cheap_job

PATIENCE = 600  # seconds


def main(cfg: DictConfig) -> None:
    """Note how often SLURM has started the job again; the first time, wait for its signal."""
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
    with (Path(HydraConfig.get().runtime.output_dir) / "starts").open("a") as stream:
        stream.write(f"{restarts}\n")
    if restarts == "0":
        with sweep_job(cfg):
            time.sleep(PATIENCE)
    cheap_job.main(cfg)
