"""Hydra's door to our sweeps."""

from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class HeadscopeSweeper(Sweeper):
    """Hands the command to `runs.sweeps.sweep`, with the launcher that the user chose."""

    # Hydra instantiates plugins of this namespace only; the package itself has one top-level name, which is headscope.
    __module__ = "hydra_plugins.headscope"

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Build the launcher."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run the jobs and report them."""
        from headscope.runs.sweeps.sweep import run_sweep

        run_sweep(self.config, self.hydra_context.config_loader, self.launcher, arguments)


def register() -> None:
    """Make the sweeper known to Hydra, before it composes a configuration that names it."""
    Plugins.instance().register(HeadscopeSweeper)
