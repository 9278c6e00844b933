"""Hydra's door to our sweeps; Hydra finds plugins in this namespace only, and imports them at every start."""

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class HeadscopeSweeper(Sweeper):
    """Hands the command to `runs.sweep`, with the launcher that the user chose."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Build the launcher."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run the jobs and report them."""
        from runs.sweep import run_sweep

        run_sweep(self.config, self.hydra_context.config_loader, self.launcher, arguments)
