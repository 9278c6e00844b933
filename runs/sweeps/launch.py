"""How a sweep starts its jobs: one process each, cores shared out, a process that dies takes only its own job with it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from headscope.errors import ConfigError, DamagedFile, InputError
from headscope.files import read_json, write_json
from headscope.processes import stop_if_told
from headscope.reports.terminal import quoted

FAILURE = "failed.json"
JOBS = "jobs.json"  # of all jobs of a sweep
DEAD = ("BrokenProcessPool", "UncompletedJobError")  # what joblib and submitit say of a process that is gone
BY_SLURM, LOCAL = "SlurmLauncher", "LocalLauncher"


class LauncherFailed(InputError):
    """The launcher, and not a job, gave up; its jobs may still be running elsewhere."""


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
        folders = [
            f"run_dir={quoted(str(self.folder.parent))}",
            f"hydra.sweep.subdir={self.folder.name}",
            "hydra.mode=MULTIRUN",
        ]
        return [*self.overrides, *folders, "resume=true"]

    def read_failure(self) -> str | None:
        """The sentence of its error, if it failed."""
        try:
            note = read_json(self.folder / FAILURE, {"error": str}, "why the job failed cannot be told")
        except DamagedFile as error:
            return str(error)
        return note and note["error"]


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


def launch(launcher: Launcher, jobs: Sequence[Job], settings: DictConfig) -> None:
    """Run the jobs; one whose process dies is recorded as failed, and the others are run again."""
    for job in jobs:
        (job.folder / FAILURE).unlink(missing_ok=True)  # of an earlier attempt
    try:
        arguments = [[*job.arguments, *threads(settings, len(jobs))] for job in jobs]
        launcher.launch(arguments, initial_job_idx=jobs[0].number)
    except Exception as error:
        stop_if_told()  # processes that SIGTERM ended have not died of their jobs
        if not any(kind.__name__ in DEAD for kind in type(error).__mro__):
            raise LauncherFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
        if len(jobs) == 1:
            write_json(jobs[0].folder / FAILURE, {"error": f"its process died ({' '.join(str(error).split())[:200]})"})
        for job in jobs if len(jobs) > 1 else ():
            if not any((job.folder / name).is_file() for name in ("results.json", FAILURE)):
                launch(launcher, [job], settings)  # where it is still running, the second waits and finds it done


def threads(settings: DictConfig, together: int) -> list[str]:
    """Cores for each of several processes on one machine; joblib, Ray and SLURM share them out themselves."""
    if not settings._target_.endswith(LOCAL) or "OMP_NUM_THREADS" in os.environ:
        return []
    return [f"+hydra.job.env_set.OMP_NUM_THREADS={max(1, len(os.sched_getaffinity(0)) // together)}"]
