"""SIGTERM, which SLURM, containers and `timeout` send: it ends a run as Ctrl-C does, with a status of its own."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAME_WISH = 1.0  # seconds: `timeout` sends the signal to its command and again to the group


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
def answered_sigterm() -> Iterator[None]:
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
