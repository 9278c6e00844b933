"""The cheap job of tests/runs, which says where it runs and, on a machine that the test is about to kill, never ends."""

import os
import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from tests.runs import cheap_job

HELD = "held"  # a file beside the jobs that names the machine; without it nobody is held


def main(cfg: DictConfig) -> None:
    """Note the machine, wait there while it is held, then do the cheap job."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    machine = where()
    with (folder / "machines").open("a") as stream:
        stream.write(f"{machine}\n")
    held = folder.parent / HELD
    while held.is_file() and held.read_text() == machine:
        time.sleep(0.05)
    cheap_job.main(cfg)


def where() -> str:
    """The machine of this process."""
    import ray

    return ray.get_runtime_context().get_node_id() if ray.is_initialized() else os.uname().nodename
