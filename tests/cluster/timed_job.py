"""The cheap job of tests/runs, of which the one with seed 0 does not end the first time that SLURM starts it."""

import os
import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from tests.runs import cheap_job


def main(cfg: DictConfig) -> None:
    """Note how often SLURM has queued the job again."""
    folder, restarts = Path(HydraConfig.get().runtime.output_dir), os.environ.get("SLURM_RESTART_COUNT", "0")
    with (folder / "starts").open("a") as stream:
        stream.write(f"{restarts}\n")
    while cfg.seed == 0 and restarts == "0":
        time.sleep(1)
    cheap_job.main(cfg)
