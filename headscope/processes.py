"""Which of several processes this is, the folder that it has to itself, and the progress that it shows to who watches."""

import fcntl
import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sized
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from headscope.errors import ConfigError

RANKS = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK")
Item = TypeVar("Item")
PATIENCE = 0.5  # seconds that a loop may take before it is shown
SHOW_EVERY = 0.1
LOCK = ".lock"
_locked: set[Path] = set()  # folders that this process has to itself
_on_screen: list[Progress] = []  # one bar at a time: of loops within loops, the first that takes a while


def is_first_process() -> bool:
    """Whether this process speaks for all: it writes the files, and says what there is to say."""
    return all(os.environ.get(rank, "0") == "0" for rank in RANKS)


@contextmanager
def sole_run(folder: Path, wait_as: str | None = None) -> Generator[None]:
    """Have a folder to oneself, with the other processes of the run: an error where another run works in it.

    With `wait_as`, who waits for the other one, which is told. The lock is the system's and ends with the process, also a
    killed one; where a file system has no locks, the run goes on without.
    """
    own = folder.resolve()
    if not is_first_process() or own in _locked:
        yield
        return
    own.mkdir(parents=True, exist_ok=True)
    # A record lock: unlike flock, the processes that a DataLoader forks do not share it, and may outlive a killed run.
    # No other code may open the file, since closing it gives the lock up.
    with (own / LOCK).open("a+") as file:
        if not _take(file.fileno()):
            if wait_as is None:
                raise ConfigError(f"run_dir={folder}: another run works in this folder; wait for it or use another run_dir.")
            print(f"{wait_as}: waiting for another process that works on it", file=sys.stderr)
            fcntl.lockf(file, fcntl.LOCK_EX)
        _locked.add(own)
        try:
            yield
        finally:
            _locked.remove(own)


def _take(descriptor: int) -> bool:
    """Lock a file, if no other process has; True also where its file system has no locks."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    except OSError:
        pass
    return True


def progress(items: Iterable[Item], description: str, each: int = 1) -> Iterable[Item]:
    """The items, with a bar that appears on a terminal once they take a while; `each` counts for so many."""
    return _with_bar(items, description, each) if watched() else items


def announced(items: Iterable[Item], description: str) -> Iterable[Item]:
    """The items, with a line that stays before each of them, where the work on an item shows bars of its own."""
    return _with_lines(items, description) if watched() else items


def watched() -> bool:
    """Whether somebody looks at what this process says."""
    return sys.stderr.isatty() and is_first_process()


def _with_bar(items: Iterable[Item], description: str, each: int) -> Iterator[Item]:
    bar = _bar(transient=True)
    task = bar.add_task(description, total=_total(items, each))
    began = shown = time.monotonic()
    try:
        for done, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if now - shown > SHOW_EVERY:
                shown = now
                bar.update(task, completed=done * each)
                if now - began > PATIENCE and not _on_screen:
                    _on_screen.append(bar)
                    bar.start()
    finally:
        if bar in _on_screen:
            _on_screen.remove(bar)
            bar.stop()


def _with_lines(items: Iterable[Item], description: str) -> Iterator[Item]:
    bar = _bar()
    task = bar.add_task(description, total=_total(items, 1))
    for item in items:
        bar.console.print(bar.get_renderable())
        yield item
        bar.advance(task)


def _bar(transient: bool = False) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeLeft())
    return Progress(*columns, console=Console(stderr=True), transient=transient)


def _total(items: Iterable[Item], each: int) -> int | None:
    return len(items) * each if isinstance(items, Sized) else None


class Rate(ProgressColumn):
    """Items per second."""

    def render(self, task: Task) -> Text:
        rate = per_second(task)
        return Text("" if rate is None else f"{rate:,.0f} items/s" if rate >= 10 else f"{rate:.2g} items/s")


class TimeLeft(ProgressColumn):
    """How long the rest will take at this rate, where it is known how much that is."""

    def render(self, task: Task) -> Text:
        rate = per_second(task)
        if rate is None or task.total is None:
            return Text("")
        return Text(f"{timedelta(seconds=round(max(0.0, task.total - task.completed) / rate))} left")


def per_second(task: Task) -> float | None:
    """The rate of the last seconds, or of the whole where items take longer than that."""
    if task.speed:
        return task.speed
    return task.completed / task.elapsed if task.completed and task.elapsed else None
