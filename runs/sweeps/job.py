"""Inside a job of a launcher: its output and its error stay in its folder, a process of its own gets a GPU of its own."""

import fcntl
import itertools
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TextIO

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from headscope.errors import ConfigError, DamagedFile, DataError, InputError
from headscope.files import read_json, write_json
from headscope.processes import at_work, is_first_process, sole_run
from headscope.runs.explain import STOPPED_BY, causes, explain
from headscope.runs.resume import task_overrides
from headscope.runs.sweeps.launch import FAILURE, JOBS

SHARING_A_MACHINE = ("JoblibLauncher", "LocalLauncher")
MISTAKES = {kind.__name__: kind for kind in (DataError, DamagedFile, ConfigError, InputError)}
HELD: list[TextIO] = []  # the lock on this process's GPU, until the process ends


class JobFailed(InputError):
    """The sentence of a job's error, in a form that every launcher can hand on."""


@contextmanager
def sweep_job(cfg: DictConfig) -> Iterator[None]:
    """A job of a sweep, which goes on with the others where it fails."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    if not is_first_process():
        yield
        return
    with recorded_job(cfg, folder, f"job {folder.name}", lambda: beginning(folder, cfg.search.get("trials"))):
        yield


@contextmanager
def recorded_job(
    cfg: DictConfig, folder: Path, name: str, begins: Callable[[], str], output: str = "output.txt"
) -> Iterator[None]:
    """Keep what the job prints and why it failed in its folder; tell whoever watches when it begins and ends."""
    if HydraConfig.get().launcher._target_.rpartition(".")[2] in SHARING_A_MACHINE and cfg.trainer.accelerator != "cpu":
        take_a_gpu(folder.parent)
    own_folder = sole_run(folder, wait_as=name)  # workers may outlive a command that was killed
    with at_work, own_folder, announced_end(name) as end, (folder / output).open("w", encoding="utf-8") as stream:
        (folder / FAILURE).unlink(missing_ok=True)
        print(begins(), file=sys.stderr, flush=True)
        try:
            with redirect_stdout(stream):
                yield
            end["how"] = "done"
        except (Exception, SystemExit) as error:
            status, sentence = explain(error, task_overrides())
            if status in STOPPED_BY or is_queued_again(error):
                raise
            defect = None if sentence else traceback.format_exc()
            end["how"] = sentence or f"{type(error).__name__}: {error} (traceback in {folder / FAILURE})"
            write_json(folder / FAILURE, {"error": end["how"], "kind": kind_of(error, sentence), "traceback": defect})
            raise JobFailed(end["how"]) from None


def is_queued_again(error: BaseException) -> bool:
    """Whether submitit, warned by SLURM, has had the job queued again and ends its process: it has not failed."""
    return isinstance(error, SystemExit) and error.code == -1 and "SUBMITIT_EXECUTOR" in os.environ


def kind_of(error: BaseException, sentence: str | None) -> str | None:
    """Which kind of mistake a user's is, by the name of its class in headscope.errors; None for a defect."""
    for cause in causes(error):
        for kind in type(cause).__mro__ if isinstance(cause, InputError) else ():
            if kind.__name__ in MISTAKES:
                return kind.__name__
    return InputError.__name__ if sentence else None


def beginning(folder: Path, trials: int | None) -> str:
    """Which job of how many this is, and what differs in it."""
    shape = {"jobs": [{"job": int, "values": {str: str}}]}
    known = (read_json(folder.parent / JOBS, shape, "use a new run_dir") or {"jobs": []})["jobs"]
    values = next((one["values"] for one in known if str(one["job"]) == folder.name), {})
    of = f" ({int(folder.name) + 1} of {trials or len(known)})" if known else ""  # folders count from 0
    return f"job {folder.name}{of}: {' '.join(f'{key}={value}' for key, value in values.items())}"


@contextmanager
def announced_end(name: str) -> Iterator[dict[str, str]]:
    """Tell whoever watches how the job ended, and after how long."""
    end, started = {"how": "interrupted"}, time.monotonic()
    try:
        yield end
    finally:
        print(f"{name}: {end['how']} ({time.monotonic() - started:.0f} s)", file=sys.stderr)


def take_a_gpu(folder: Path) -> None:
    """Let this process see one GPU, the next in turn that no other process of the sweep has; once in a process."""
    if HELD:
        return
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        import torch

        given = ",".join(map(str, range(torch.cuda.device_count())))
    if gpus := [name for name in given.split(",") if name]:
        slot, lock = free_slot(folder / ".gpus")
        HELD.append(lock)
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]


def free_slot(folder: Path) -> tuple[int, TextIO]:
    """The first number that no living process holds, and the lock that holds it; the system frees it with the process."""
    folder.mkdir(exist_ok=True)
    for lock in ((folder / str(slot)).open("w") for slot in itertools.count()):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            lock.close()
    return int(Path(lock.name).name), lock
