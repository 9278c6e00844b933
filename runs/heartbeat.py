"""Processes on several machines that hear of each other: where one is lost, the others end instead of waiting for it.

A collective operation waits for half an hour; a machine that is cut off closes no connection. So each process counts in a
store of its own connection, which the first process (or torchrun's agent beside it) keeps, and looks whether the others
count.
"""

import importlib
import os
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

EVERY = 5.0  # seconds between two beats
SILENCE = 60.0  # seconds after which a process is taken for lost
ENDED = "ended"


class Heartbeat:
    """Threads that beat, listen to all others, and end the process with a sentence where one has fallen silent."""

    def __init__(self, store: Any, rank: int, processes: int, silence: float = SILENCE, every: float = EVERY) -> None:
        self.store, self.rank, self.processes = store, rank, processes
        self.silence, self.every = silence, every
        self.heard = {other: (b"", time.monotonic()) for other in range(processes) if other != rank}
        self.lost: list[int] = []
        self.reached = time.monotonic()  # when the store last answered
        self.through = False

    def start(self) -> None:
        """Begin to beat and to listen."""
        for work in (self._beat, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def end(self) -> None:
        """Tell the others that this process is through, and not lost."""
        self.through = True
        try:
            self.store.set(str(self.rank), ENDED)
        except Exception:  # the first process, which keeps the store, is through already
            return

    def _beat(self) -> None:
        beats = 0
        while not self.through:  # a later count would take back that it is
            beats += 1
            with suppress(Exception):  # whatever a connection says when it breaks; one that is cut off may also say nothing
                self.store.set(str(self.rank), str(beats))
                self.lost = self.silent()
                self.reached = time.monotonic()
            time.sleep(self.every)

    def _watch(self) -> None:
        """Look at what the other thread finds, which may wait for an answer of the store forever."""
        while True:
            out_of_reach = self.rank and time.monotonic() - self.reached > self.silence
            if lost := self.lost or ([0] if out_of_reach else []):
                end_run(lost, self.silence)
            time.sleep(min(1.0, self.every))

    def silent(self) -> list[int]:
        """The processes that have not counted on for too long, by rank; one that ended is none of them."""
        for other, (before, _) in self.heard.items():
            count = self.store.get(str(other)) if self.store.check([str(other)]) else b""
            if count != before or count == ENDED.encode():
                self.heard[other] = (count, time.monotonic())
        return [other for other, (_, when) in self.heard.items() if time.monotonic() - when > self.silence]


def connect(rank: int, processes: int) -> Heartbeat:
    """Over a connection of its own to the store by which the processes found each other."""
    distributed: Any = importlib.import_module("torch.distributed")  # whose stores are public, but not to type checkers

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    patience = timedelta(seconds=SILENCE / 2)
    store = distributed.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=patience)
    return Heartbeat(distributed.PrefixStore("headscope", store), rank, processes)


def end_run(lost: list[int], silence: float) -> None:
    """End this process at once: the others of the run end alike, and whoever started them ends the rest."""
    who = f"process {lost[0]}" if len(lost) == 1 else f"processes {', '.join(map(str, lost))}"
    print(
        f"{who} of the run could not be heard of for {silence:.0f} s: its machine or the network is lost, so the run ends "
        "here; resume=true with the same run_dir goes on from the last checkpoint, also on fewer machines.",
        file=sys.stderr,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
