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
from datetime import timedelta
from typing import Any

EVERY = 5.0  # seconds between two beats
SILENCE = 60.0  # seconds after which a process is taken for lost
ENDED = "ended"


class Heartbeat:
    """A thread that beats, listens to all others, and ends the process with a sentence where one has fallen silent."""

    def __init__(self, store: Any, rank: int, processes: int, silence: float = SILENCE, every: float = EVERY) -> None:
        self.store, self.rank, self.processes = store, rank, processes
        self.silence, self.every = silence, every
        self.heard = {other: (b"", time.monotonic()) for other in range(processes) if other != rank}

    def start(self) -> None:
        """Begin to beat and to listen."""
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """Tell the others that this process is through, and not lost."""
        try:
            self.store.set(str(self.rank), ENDED)
        except Exception:  # the first process, which keeps the store, is through already
            return

    def _watch(self) -> None:
        beats, reached = 0, time.monotonic()
        while True:
            beats += 1
            try:
                self.store.set(str(self.rank), str(beats))
                reached = time.monotonic()
                lost = self.silent()
            except Exception:  # whatever a connection says when it breaks
                lost = [0] if self.rank and time.monotonic() - reached > self.silence else []
            if lost:
                end_run(lost, self.silence)
            time.sleep(self.every)

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
