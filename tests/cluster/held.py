"""A callback that says where its run runs and, on a machine that the test is about to kill, never ends."""

import os
import sys
import time
from pathlib import Path

import pytorch_lightning as pl

HELD = "held"  # a file above the folder of a run that names the machine; without it nobody is held
MACHINES = "machines"  # a file in the folder of a run: where it ran, and where again
OVERRIDE = "+callbacks.held._target_=tests.cluster.held.Held"


class Held(pl.Callback):
    """Notes the machine when the run begins, and waits there while it is held."""

    def __init__(self) -> None:
        self.noted = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Called at the start of each stage, of which the first counts."""
        if not self.noted:
            self.noted, folder, machine = True, Path(trainer.default_root_dir), where()
            with (folder / MACHINES).open("a") as stream:
                stream.write(f"{machine}\n")
            held = folder.parent / HELD
            while held.is_file() and held.read_text() == machine:
                time.sleep(0.05)


def where() -> str:
    """The machine of this process."""
    ray = sys.modules.get("ray")  # not imported where it is not used
    return ray.get_runtime_context().get_node_id() if ray and ray.is_initialized() else os.uname().nodename
