"""A program with a fault in it: `python -m tests.faults.inject train.py …`, the fault as JSON in the environment.

Python tells an audit hook of every file that is about to be opened, renamed or removed. The hook counts those in the
folders that are watched, so that a fault comes at the same event in every run: a signal to the process itself, at once
or a moment later, or an error of the operating system.
"""

import atexit
import json
import os
import re
import runpy
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "HEADSCOPE_TEST_FAULT"
# What an event is called, and which of its arguments is the file.
VERBS = {
    "open": ("write", 0),
    "os.rename": ("rename", 1),
    "os.link": ("link", 1),
    "os.mkdir": ("make", 0),
    "os.remove": ("remove", 0),
    "os.truncate": ("truncate", 0),
    "shutil.copyfile": ("copy", 1),
    "shutil.move": ("move", 1),
    "shutil.rmtree": ("remove", 0),
}
# In the names of drafts, of stored maps, of temporary files, and of the one by which Python tries the folder of those.
RANDOM_NAMES = (re.compile(r"[0-9a-f]{32}"), re.compile(r"\btmp\w{8}\b"), re.compile(r"(?<=^temp/)\w{8}$"))
BETWEEN_SIGNALS = 0.1  # seconds


@dataclass(frozen=True)
class Fault:
    """What happens, and when: at the n-th event of that name or pattern, or at the start, and so many seconds later."""

    event: str | None = None
    pattern: bool = False  # the event is a regular expression
    occurrence: int = 1
    delay: float = 0.0
    signals: tuple[int, ...] = ()
    error: int = 0  # of the operating system, for every file that is opened for writing from then on, in the same folder

    def __str__(self) -> str:
        when = self.event or "start"
        when += f" ({self.occurrence})" if self.occurrence > 1 else ""
        return when + (f" + {1000 * self.delay:.0f} ms" if self.delay else "")


def environment(roots: Mapping[str, Path], fault: Fault | None, log: Path | None) -> dict[str, str]:
    """What makes the program watch its folders, meet the fault, and write the events to a file at its end."""
    plan = {"roots": {name: str(path) for name, path in roots.items()}, "fault": fault and asdict(fault)}
    return {VARIABLE: json.dumps({**plan, "log": log and str(log)})}


class Watch:
    """The audit hook."""

    def __init__(self, roots: Mapping[str, str], fault: Fault | None) -> None:
        self.roots, self.fault = dict(roots), fault
        self.counts: Counter[str] = Counter()
        self.matches = 0
        self.full: str | None = None  # the root in which nothing can be written any more

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in VERBS or (name := self.name_of(event, arguments)) is None:
            return
        self.counts[name] += 1
        if self.fault and self.fault.event and self.is_it(name):
            self.matches += 1
            if self.matches == self.fault.occurrence:
                self.strike()
        if self.full and name.startswith(f"write {self.full}/"):
            assert self.fault
            raise OSError(self.fault.error, os.strerror(self.fault.error), str(arguments[0]))

    def name_of(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        """Such as `rename run/results.json`; None for what is elsewhere, or only read."""
        verb, which = VERBS[event]
        path = arguments[which]
        reading = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if reading or not isinstance(path, (str, os.PathLike)):
            return None
        text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - Path would ask the file system, and so this hook
        for root, folder in self.roots.items():
            if text.startswith(folder + os.sep):
                name = f"{root}/{text[len(folder) + 1 :]}"
                for pattern in RANDOM_NAMES:
                    name = pattern.sub("*", name)
                return f"{verb} {name}"
        return None

    def is_it(self, name: str) -> bool:
        """Whether an event is the one at which the fault comes."""
        assert self.fault and self.fault.event
        return bool(re.fullmatch(self.fault.event, name)) if self.fault.pattern else name == self.fault.event

    def strike(self) -> None:
        """Let the fault happen."""
        assert self.fault
        if self.fault.error:
            self.full = (self.fault.event or "").partition(" ")[2].partition("/")[0]
        elif self.fault.delay or len(self.fault.signals) > 1:
            threading.Thread(target=self._signal_later, daemon=True).start()
        else:
            os.kill(os.getpid(), self.fault.signals[0])

    def _signal_later(self) -> None:
        assert self.fault
        time.sleep(self.fault.delay)
        for number in self.fault.signals:
            os.kill(os.getpid(), number)
            time.sleep(BETWEEN_SIGNALS)


def main() -> None:
    """Install the hook, then be the program."""
    plan = json.loads(os.environ.pop(VARIABLE))
    fault = Fault(**{**plan["fault"], "signals": tuple(plan["fault"]["signals"])}) if plan["fault"] else None
    watch = Watch(plan["roots"], fault)
    if plan["log"]:
        atexit.register(lambda: Path(plan["log"]).write_text(json.dumps(watch.counts)))
    sys.argv = sys.argv[1:]
    tempfile.tempdir = None  # asked for anew, in the environment of this program
    sys.addaudithook(watch)
    if fault and fault.event is None:
        watch.strike()
    runpy.run_path(sys.argv[0], run_name="__main__")


def signal_names(numbers: tuple[int, ...]) -> str:
    """For a table."""
    return "+".join(signal.Signals(number).name.removeprefix("SIG") for number in numbers)


if __name__ == "__main__":
    main()
