"""The outermost layer: help, exit statuses, and one clear sentence for a user's mistake."""

import importlib
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, RunMode, TaskFunction
from omegaconf import DictConfig

from headscope.processes import answered_sigterm, is_first_process, sole_run
from headscope.runs.explain import STOPPED_BY, Explained, defect_line, explain, interrupted, require_no_dashes
from headscope.runs.help import help_text
from headscope.runs.limits import check_limits, require_parts
from headscope.runs.ray_launcher import PLUGINS, RayLauncher
from headscope.runs.report import PACKAGES, versions
from headscope.runs.resume import require_room
from headscope.runs.slurm import requeued_when_warned
from headscope.runs.sweeps.job import sweep_job

FIRST_WORD = 5  # seconds
COMMANDS = {"serve": "headscope.live.command"}  # what is no run, by its first word; each has `main`
SHOW_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"


def main() -> None:
    """Run the program; leave with 0 done, 1 failed, 2 bad configuration, 130 interrupted, 143 ended by SIGTERM."""
    with answered_sigterm(), requeued_when_warned(), clear_errors():
        if command := COMMANDS.get(" ".join(sys.argv[1:2])):
            importlib.import_module(command).main(sys.argv[2:])
            return
        if {"--help", "-h"} & set(sys.argv[1:]):
            print(help_text(sys.argv[1:]), end="")
            return
        require_no_dashes(sys.argv[1:])
        os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra passes its errors on instead of printing its own page
        register()
        run_job()


@hydra.main(version_base="1.3", config_path="pkg://headscope.conf", config_name="train")
def run_job(cfg: DictConfig) -> None:
    """Run the job that the configuration names, in the folder that Hydra made for it."""
    hydra_config = HydraConfig.get()
    cfg.run_dir = hydra_config.runtime.output_dir
    if int(os.environ.get("SLURM_RESTART_COUNT", "0")) and "resume=false" not in hydra_config.overrides.task:
        cfg.resume = True  # SLURM queued the job again and gives the same command
    # The jobs of a sweep may be processes that a launcher started: SIGTERM is theirs to answer as well.
    alone = hydra_config.mode == RunMode.RUN
    with answered_sigterm(), requeued_when_warned(), clear_errors() if alone else sweep_job(cfg):
        check_limits(cfg)
        if alone:
            require_parts(cfg)
            require_room(Path(cfg.run_dir), cfg)
        with sole_run(Path(cfg.run_dir)):
            hydra.utils.get_method(cfg.job)(cfg)


@contextmanager
def clear_errors() -> Iterator[None]:
    """End the program with a sentence and a status; with HYDRA_FULL_ERROR=1 in the environment, the traceback too."""
    try:
        yield
        sys.stdout.flush()
    except BaseException as error:
        if isinstance(error, BrokenPipeError):  # as in `| head`: what is left to print would fail again at the very end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # An exit has been explained where it was decided; those that Lightning makes of signals have not.
        if isinstance(error, Explained) or isinstance(error, SystemExit) and not interrupted(error):
            raise
        status, sentence = explain(error)
        if not is_first_process():
            time.sleep(FIRST_WORD)  # most likely the first process says the same and ends this one
        if sentence is None or SHOW_TRACEBACK:
            traceback.print_exc()
        if is_first_process() or status not in STOPPED_BY:
            print(sentence or defect_line(versions(("headscope", *PACKAGES))), file=sys.stderr)
        if not is_first_process():
            sys.stderr.flush()
            os._exit(status)  # at once: the others must not find it silent before they find it gone
        raise Explained(status) from error


class HeadscopeSweeper(Sweeper):
    """Hands the command to `runs.sweeps.sweep`, with the launcher that the user chose."""

    __module__ = PLUGINS

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
    """Make the sweeper and the launcher known to Hydra, before it composes a configuration that names them.

    Hydra instantiates plugins of the namespace hydra_plugins only. The package has one top-level name, headscope, so this
    module stands in for one there instead of being installed there.
    """
    namespace: Any  # gets an attribute of our own
    try:
        namespace = importlib.import_module("hydra_plugins")
    except ModuleNotFoundError:  # no other plugin is installed
        namespace = sys.modules["hydra_plugins"] = ModuleType("hydra_plugins")
        namespace.__path__ = []
    sys.modules[PLUGINS] = namespace.headscope = sys.modules[__name__]
    for plugin in (HeadscopeSweeper, RayLauncher):
        Plugins.instance().register(plugin)
