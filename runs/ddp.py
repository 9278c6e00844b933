"""Several processes of one run: started with it, watched, ended with it; those of several machines hear of each other."""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.strategies.launchers import _SubprocessScriptLauncher

from headscope.errors import ConfigError, given
from headscope.runs.cli import SHOW_TRACEBACK
from headscope.runs.heartbeat import connect

STARTED_BY = "HEADSCOPE_STARTED_BY"
LOOK_EVERY = 0.2  # seconds


class WatchedDDP(DDPStrategy):
    """DDP whose processes end together: with the sentence and status of the one that failed, or with a signal."""

    beating = False  # the runs of a table share one heartbeat

    def _configure_launcher(self) -> None:
        started_together = isinstance(self.cluster_environment, LightningEnvironment)
        if self.num_processes * self.num_nodes > 1 and HydraConfig.initialized():
            require_single_run(started_together)
            require_shared_folder(started_together and self.num_nodes == 1)
        self._launcher = WatchedLauncher(self.cluster_environment, self.num_processes, self.num_nodes)

    def setup_distributed(self) -> None:
        super().setup_distributed()
        # Not where we started the others ourselves, on this machine: those are watched as processes.
        if self.world_size > 1 and STARTED_BY not in os.environ and not WatchedLauncher.children and not WatchedDDP.beating:
            WatchedDDP.beating = True
            heartbeat = connect(self.global_rank, self.world_size)
            heartbeat.start()
            atexit.register(heartbeat.end)

    def configure_ddp(self) -> None:
        # What learns nothing by gradients has none to share, and DDP refuses it.
        if any(parameter.requires_grad for parameter in given(self.model, "a model").parameters()):
            super().configure_ddp()


class WatchedLauncher(_SubprocessScriptLauncher):
    """Starts the other processes of this machine once; the runs of a table use them one after the other."""

    children: list[Popen] = []

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.procs = WatchedLauncher.children
        self.ended = False

    def launch(self, function: Callable, *arguments: Any, **options: Any) -> Any:
        if not self.cluster_environment.creates_processes_externally:
            self._start()
        elif STARTED_BY in os.environ:
            threading.Thread(target=_end_with, args=(int(os.environ[STARTED_BY]),), daemon=True).start()
        try:
            # By now processes count as started from outside, so that Lightning starts and watches none.
            return super().launch(function, *arguments, **options)
        except Exception:
            if self.procs:
                time.sleep(5 * LOOK_EVERY)  # where another process is gone, the error is its, and the run ends here
            raise

    def _start(self) -> None:
        as_we_were_started = {"HYDRA_FULL_ERROR": "1" if SHOW_TRACEBACK else "0"}
        # Ctrl-C reaches all processes of a terminal, SIGTERM may too: the first one answers and ends the others.
        answers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with changed_environment({STARTED_BY: str(os.getpid()), **as_we_were_started}):
                self._call_children_scripts()
        finally:
            for number, answer in answers.items():
                signal.signal(number, answer)
        WatchedLauncher.children = self.procs
        atexit.register(self._end)
        threading.Thread(target=self._watch, daemon=True).start()

    def _end(self) -> None:
        """End the other processes with this one, which is through: nobody is to be told that they were killed."""
        self.ended = True
        self.kill(signal.SIGKILL)

    def _watch(self) -> None:
        """End the run with the status of a process that failed: the others may wait for it forever."""
        while not self.ended and any(process.poll() is None for process in self.procs):
            time.sleep(LOOK_EVERY)
            for number, process in enumerate(self.procs, start=1):
                if process.poll() and not self.ended:
                    self.kill(signal.SIGKILL)
                    if process.returncode < 0:
                        name = signal.Signals(-process.returncode).name
                        print(f"process {number} of the run was ended by {name}; so was the run.", file=sys.stderr)
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(max(process.returncode, 1))


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The environment with some changes, for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def require_single_run(started_together: bool) -> None:
    """Refuse a sweep whose jobs follow each other in processes that only the first can start."""
    if started_together and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise ConfigError("-m: the jobs of a sweep run on one device each; use several devices in a single run.")


def require_shared_folder(started_together: bool) -> None:
    """Refuse processes that are started apart and would each make a folder of their own, named by the time."""
    overrides = HydraConfig.get().overrides
    named = any(text.startswith(("run_dir=", "hydra.run.dir=")) for text in [*overrides.task, *overrides.hydra])
    if not started_together and not named and HydraConfig.get().mode == RunMode.RUN:
        raise ConfigError("run_dir is missing: name a folder that the processes of all machines share.")


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, however it ended."""
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)
