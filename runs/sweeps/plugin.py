"""Hydra's door to our sweeps."""

import importlib
import sys
from types import ModuleType
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

NAME = "hydra_plugins.headscope"


class HeadscopeSweeper(Sweeper):
    """Hands the command to `runs.sweeps.sweep`, with the launcher that the user chose."""

    __module__ = NAME

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Build the launcher."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run the jobs and report them."""
        from headscope.errors import given
        from headscope.runs.sweeps.sweep import run_sweep

        config, context = given(self.config, "a configuration"), given(self.hydra_context, "Hydra")
        run_sweep(config, context.config_loader, given(self.launcher, "a launcher"), arguments)


def register() -> None:
    """Make the sweeper known to Hydra, before it composes a configuration that names it.

    Hydra instantiates plugins of the namespace hydra_plugins only. The package has one top-level name, headscope, so this
    module stands in for one there instead of being installed there.
    """
    namespace: Any  # gets an attribute of our own
    try:
        namespace = importlib.import_module("hydra_plugins")
    except ModuleNotFoundError:  # no other plugin is installed
        namespace = sys.modules["hydra_plugins"] = ModuleType("hydra_plugins")
        namespace.__path__ = []
    sys.modules[NAME] = namespace.headscope = sys.modules[__name__]
    Plugins.instance().register(HeadscopeSweeper)
