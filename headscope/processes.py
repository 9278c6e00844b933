"""Which of several processes this is, the signal that ends it, the folder that is its own, the progress that it shows."""

import fcntl
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from headscope.errors import ConfigError

RANKS = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK")
Item = TypeVar("Item")
PATIENCE = 0.5  # seconds that a loop may take before it is shown
SHOW_EVERY = 0.1
ROOM_FOR_RATE = 80  # columns of a terminal
SAME_WISH = 1.0  # seconds: `timeout` sends SIGTERM to its command and again to the group
LOCK = ".lock"
LOOK_EVERY = 1.0  # seconds
at_work = threading.RLock()  # held while a job runs in this process
_locked: set[Path] = set()  # folders that this process has to itself
_on_screen: list[Progress] = []  # one bar at a time: of loops within loops, the first that takes a while


def is_first_process() -> bool:
    """Whether this process speaks for all: it writes the files, and says what there is to say."""
    return all(os.environ.get(rank, "0") == "0" for rank in RANKS)


# SIGTERM, which SLURM, containers and `timeout` send, ends a run as Ctrl-C does, with a status of its own


class Terminated(BaseException):
    """SIGTERM reached this process; like KeyboardInterrupt, nothing that catches errors catches it."""


class SigtermAnswer:
    """The handler: the first signal raises Terminated wherever the program is, a later one ends the process at once."""

    def __init__(self) -> None:
        self.process, self.received = os.getpid(), 0.0  # when, on the monotonic clock

    def __call__(self, number: int, _frame: FrameType | None = None) -> None:
        if os.getpid() != self.process:
            end_by(number)  # a fork that inherited the handler
        elif not self.received:
            self.received = time.monotonic()
            raise Terminated
        elif time.monotonic() - self.received > SAME_WISH:
            end_by(number)


_answers: list[SigtermAnswer] = []  # of the run that goes on in this process


@contextmanager
def answered_sigterm() -> Generator[None]:
    """SIGTERM raises Terminated in this block, unless it is ignored or has a handler of somebody else.

    Handlers of others are left alone: submitit's asks SLURM to queue the job again.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    answer = SigtermAnswer()
    _answers.append(answer)
    signal.signal(signal.SIGTERM, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _answers.remove(answer)


def sigterm_received() -> bool:
    """Whether this process has been told to end."""
    return any(answer.received for answer in _answers)


def stop_if_told() -> None:
    """Raise Terminated once more, where a library has swallowed the first: errors in a destructor are not passed on."""
    if sigterm_received():
        raise Terminated


def end_by(number: int) -> None:
    """End this process as the signal does by itself."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


# A worker of joblib's whose command was killed waits for the next job for ever


def end_with_parent() -> None:
    """Watch, in a worker, the process that started it: where it is gone, the worker ends after the job that it has."""
    parent = multiprocessing.parent_process()
    if parent is None:  # started by hand
        return

    def watch() -> None:
        while os.getppid() == parent.pid:
            time.sleep(LOOK_EVERY)
        with at_work:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# One run in a folder


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


# Progress


def progress(items: Iterable[Item], description: str, each: int = 1) -> Iterable[Item]:
    """The items, with a bar that appears on a terminal once they take a while; `each` counts for so many."""
    return _with_bar(items, description, each) if watched() else items


def announced(items: Sequence[Item], description: str, name: Callable[[Item], str] = str) -> Iterable[Item]:
    """The items, with a line that stays before each of them, where the work on an item shows bars of its own."""
    if watched():
        return _with_lines(items, description, name)
    return _with_words(items, description, name) if is_first_process() else items


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


def _with_words(items: Sequence[Item], description: str, name: Callable[[Item], str]) -> Iterator[Item]:
    for number, item in enumerate(items, start=1):
        print(f"{description}, {number} of {len(items)}: {name(item)}", file=sys.stderr, flush=True)
        yield item


def _with_lines(items: Sequence[Item], description: str, name: Callable[[Item], str]) -> Iterator[Item]:
    bar = _bar()
    task = bar.add_task(description, total=len(items))
    for number, item in enumerate(items, start=1):
        bar.update(task, description=f"{description}, {number} of {len(items)}: {name(item)}")
        bar.console.print(bar.get_renderable())
        yield item
        bar.advance(task)


def _bar(transient: bool = False) -> Progress:
    console, one_line = Console(stderr=True), Column(no_wrap=True)
    rate = [Rate(one_line)] if console.width >= ROOM_FOR_RATE else []  # where it is narrow, the time left matters more
    columns = (TextColumn("{task.description}", table_column=one_line), BarColumn(), MofNCompleteColumn(), *rate)
    return Progress(*columns, TimeLeft(one_line), console=console, transient=transient)


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
