"""Jobs as tasks of a Ray cluster: one whose machine is lost runs again elsewhere, and goes on where its folder stands."""

import io
import os
import signal
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from headscope.errors import ConfigError
from headscope.processes import LOCK
from headscope.reports.results import RESULTS
from headscope.reports.terminal import quoted
from headscope.runs.children import key_of
from headscope.runs.sweeps.launch import JobsDied

PLUGINS = "hydra_plugins.headscope"  # the module of our plugins, as Hydra sees it


@dataclass(frozen=True)
class Task:
    """What all jobs of a launch share; sent to the cluster once."""

    context: HydraContext
    config: DictConfig
    function: TaskFunction
    singletons: dict[Any, Any]


class RayLauncher(Launcher):
    """Hydra's door to Ray; conf/hydra/launcher/ray.yaml says what its options are."""

    __module__ = PLUGINS

    def __init__(
        self,
        address: str | None,
        num_cpus: float,
        num_gpus: float,
        resources: Mapping[str, float],
        max_retries: int,
        runtime_env: Mapping[str, Any],
        shared_folder: bool,
        init: Mapping[str, Any],
    ) -> None:
        self.options = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "resources": plain(resources),
            "max_retries": max_retries,
        }
        self.connection = {"address": address, "runtime_env": plain(runtime_env), **plain(init)}
        self.shared_folder = shared_folder

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run the jobs on the cluster; JobsDied, once the others are through, for those whose process was lost too often."""
        setup_globals()
        ray = import_ray()
        task = Task(self.hydra_context, self.config, self.task_function, Singleton.get_state())
        connect(ray, self.connection)
        remote, shared = ray.remote(run_task if self.shared_folder else run_elsewhere), ray.put(task)
        waiting = {}
        for number, overrides in enumerate(job_overrides):
            sent = () if self.shared_folder else (packed(*self.inputs(overrides)),)
            reference = remote.options(**self.options).remote(shared, initial_job_idx + number, list(overrides), *sent)
            waiting[reference] = number
        return self.collect(ray, waiting, job_overrides)

    def collect(self, ray: Any, waiting: dict[Any, int], job_overrides: Sequence[Sequence[str]]) -> list[JobReturn]:
        """What the jobs return, as each is done."""
        done: dict[int, JobReturn] = {}
        died: dict[str, str] = {}
        try:
            while waiting:
                (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
                number = waiting.pop(ready)
                parent, subdir = folder_of(job_overrides[number])
                try:
                    found = ray.get(ready)
                except ray.exceptions.RayTaskError:
                    raise  # not of the job, which keeps its errors: the machine cannot run any
                except ray.exceptions.RayError as error:
                    died[str(parent / subdir)] = str(error)
                    continue
                if not self.shared_folder:
                    found, content = found
                    unpack(content, parent)
                done[number] = found
        finally:
            for reference in waiting:  # interrupted: what still runs is of no use
                ray.cancel(reference, force=True)
        if died:
            raise JobsDied(died)
        return [done[number] for number in sorted(done)]

    def inputs(self, overrides: Sequence[str]) -> tuple[Path, list[str]]:
        """What a job elsewhere needs of the parent folder: its own folder, to go on, and what other jobs made for it."""
        parent, subdir = folder_of(overrides)
        made = getattr(self.task_function, "inputs", None)
        return parent, [subdir, *(made(subdir) if made else [])]


def plain(options: Any) -> Any:
    """Options as Ray takes them."""
    return OmegaConf.to_container(options, resolve=True) if OmegaConf.is_config(options) else options


def import_ray() -> Any:
    """Ray, or a sentence that says how to get it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    try:
        return import_module("ray")
    except ModuleNotFoundError:
        raise ConfigError("hydra/launcher=ray: needs a package that is not installed; pip install ray.") from None


def connect(ray: Any, connection: Mapping[str, Any]) -> None:
    """Connect this process to the cluster, unless it is; SIGTERM keeps its answer.

    Ray ends the connection with the process: the next batch of a search finds workers that have imported all they need.
    """
    if ray.is_initialized():
        return
    answer = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**{"logging_level": "warning", **connection})
    except (ConnectionError, ValueError) as error:
        address = connection["address"]
        raise ConfigError(f"hydra.launcher.address={address}: no Ray cluster answers there ({error}).") from error
    finally:
        signal.signal(signal.SIGTERM, answer)


def folder_of(overrides: Sequence[str]) -> tuple[Path, str]:
    """The folder of the whole and, below it, that of the job, as its overrides say."""
    wanted = ("run_dir", "hydra.sweep.subdir")
    own = OverridesParser.create().parse_overrides([text for text in overrides if key_of(text) in wanted])
    found = {one.key_or_group: str(one.value()) for one in own}
    return Path(found["run_dir"]), found["hydra.sweep.subdir"]


def run_task(task: Task, number: int, overrides: list[str]) -> JobReturn:
    """In a process of the cluster: the job, as every launcher runs it."""
    setup_globals()
    Singleton.set_state(task.singletons)
    config = task.context.config_loader.load_sweep_config(task.config, overrides)
    with open_dict(config):
        config.hydra.job.id, config.hydra.job.num = f"{config.hydra.job.name}_{number}", number
    HydraConfig.instance().set_config(config)
    return run_job(
        hydra_context=task.context,
        task_function=task.function,
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )


def run_elsewhere(task: Task, number: int, overrides: list[str], content: bytes) -> tuple[JobReturn, bytes]:
    """The same where no disk is shared: in a folder of this machine, whose content goes back with the answer."""
    _, subdir = folder_of(overrides)
    with tempfile.TemporaryDirectory(prefix="headscope-") as place:
        unpack(content, Path(place))
        own = [f"run_dir={quoted(place)}" if key_of(text) == "run_dir" else text for text in overrides]
        return run_task(task, number, own), packed(Path(place), [subdir])


def packed(parent: Path, names: Sequence[str]) -> bytes:
    """The content of files and folders, results.json last: half of it unpacked must not pass for a run that finished."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in names:
            files = [file for file in [parent / name, *(parent / name).rglob("*")] if file.is_file() and file.name != LOCK]
            for file in sorted(files, key=lambda file: (file.name == RESULTS, file)):
                archive.add(file, file.relative_to(parent).as_posix())
    return stream.getvalue()


def unpack(content: bytes, parent: Path) -> None:
    """Write what was packed."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(parent, filter="data")
