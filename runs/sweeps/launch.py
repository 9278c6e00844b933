"""How jobs are started: one process each, cores shared out, a process that dies takes only its own job with it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from headscope.errors import ConfigError, DamagedFile, InputError
from headscope.files import read_json, write_json
from headscope.processes import end_with_parent, stop_if_told
from headscope.reports.terminal import quoted

FAILURE = "failed.json"
JOBS = "jobs.json"  # of all jobs of a sweep
DEAD = ("BrokenProcessPool", "UncompletedJobError")  # what joblib and submitit say of a process that is gone
DIED = "died"  # the kind of failure
BY_SLURM, BY_JOBLIB, LOCAL = "SlurmLauncher", "JoblibLauncher", "LocalLauncher"


class LauncherFailed(InputError):
    """The launcher, and not a job, gave up; its jobs may still be running elsewhere."""


class JobsDied(Exception):
    """What a launcher raises that has run the other jobs to their end: those whose process is gone, by folder, and why."""

    def __init__(self, died: Mapping[str, str]) -> None:
        super().__init__(", ".join(died))
        self.died = died


class Launched(Protocol):
    """What a launcher is to run: its number, its folder, and the overrides that it gets."""

    @property
    def number(self) -> int: ...

    @property
    def folder(self) -> Path: ...

    @property
    def arguments(self) -> list[str]: ...


@dataclass(frozen=True)
class Job:
    """One run of a sweep: its folder, and what it changes."""

    number: int
    folder: Path
    fixed: tuple[str, ...]
    values: Mapping[str, str]

    @property
    def overrides(self) -> list[str]:
        """What a user would type to get this run alone."""
        return [*self.fixed, *(f"{key}={value}" for key, value in self.values.items())]

    @property
    def arguments(self) -> list[str]:
        """The overrides as a launcher gets them: always into this folder, always going on."""
        return [*self.overrides, *in_folder(self.folder.parent, self.folder.name), "resume=true"]

    def read_failure(self) -> str | None:
        """The sentence of its error, if it failed."""
        failure = read_failure(self.folder)
        return failure["error"] if failure else None


def in_folder(parent: Path, subdir: str) -> list[str]:
    """The overrides that put a job into a folder below another."""
    return [f"run_dir={quoted(str(parent))}", f"hydra.sweep.subdir={quoted(subdir)}", "hydra.mode=MULTIRUN"]


def read_failure(folder: Path) -> dict[str, Any] | None:
    """Why the job in a folder failed: the sentence of its error, the kind of mistake that it is (null: a defect)."""
    try:
        return read_json(folder / FAILURE, {"error": str}, "why the job failed cannot be told")
    except DamagedFile as error:
        return {"error": str(error), "kind": type(error).__name__}


def require_one_process(cfg: DictConfig, launcher: DictConfig) -> None:
    """Refuse jobs of several processes, unless the launcher itself starts as many."""
    devices, nodes = str(cfg.trainer.get("devices", "auto")), cfg.trainer.get("num_nodes", 1)
    one = nodes == 1 and (devices == "1" or cfg.trainer.get("accelerator") == "cpu" and devices == "auto")
    if one or (devices.startswith("[") and "," not in devices and nodes == 1):
        return
    if launcher._target_.endswith(BY_SLURM) and (str(launcher.tasks_per_node), launcher.nodes) == (devices, nodes):
        return
    raise ConfigError(
        f"-m: the jobs of a sweep run on one device each, not trainer.devices={devices} trainer.num_nodes={nodes}; use "
        "several in a single run, or hydra/launcher=submitit_slurm with as many hydra.launcher.tasks_per_node and nodes."
    )


def launch(launcher: Launcher, jobs: Sequence[Launched], settings: DictConfig) -> None:
    """Run the jobs; one whose process dies is recorded as failed, and the others are run again."""
    for job in jobs:
        (job.folder / FAILURE).unlink(missing_ok=True)  # of an earlier attempt
    if settings._target_.endswith(BY_JOBLIB):
        end_workers_with_this()
    try:
        arguments = [[*job.arguments, *threads(settings, len(jobs))] for job in jobs]
        launcher.launch(arguments, initial_job_idx=jobs[0].number)
    except JobsDied as error:
        for job in jobs:
            if str(job.folder) in error.died:
                record_death(job, error.died[str(job.folder)])
    except Exception as error:
        stop_if_told()  # processes that SIGTERM ended have not died of their jobs
        if not any(kind.__name__ in DEAD for kind in type(error).__mro__):
            raise LauncherFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
        if len(jobs) == 1:
            record_death(jobs[0], str(error))
        for job in jobs if len(jobs) > 1 else ():
            if not any((job.folder / name).is_file() for name in ("results.json", FAILURE)):
                launch(launcher, [job], settings)  # where it is still running, the second waits and finds it done


def end_workers_with_this() -> None:
    """Let joblib's workers notice where this process is killed; Hydra's launcher leaves no other door to them."""
    from joblib.parallel import LokyBackend, register_parallel_backend

    register_parallel_backend("loky", partial(LokyBackend, initializer=end_with_parent))


def record_death(job: Launched, reason: str) -> None:
    """Note that the process of a job is gone."""
    write_json(job.folder / FAILURE, {"error": f"its process died ({' '.join(reason.split())[:200]})", "kind": DIED})


def threads(settings: DictConfig, together: int) -> list[str]:
    """Cores for each of several processes on one machine; joblib, Ray and SLURM share them out themselves."""
    if not settings._target_.endswith(LOCAL) or "OMP_NUM_THREADS" in os.environ:
        return []
    return [f"+hydra.job.env_set.OMP_NUM_THREADS={max(1, len(os.sched_getaffinity(0)) // together)}"]
