"""The journal beside a table of labels: one JSON line per action, on the disk before anybody is told that it is done.

Whoever opens it holds it alone; a line that was torn by a crash is dropped, since nobody was told of it.
"""

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headscope.data_modules.patterns.labels import CLASSES, NAME_COLUMNS, MapName
from headscope.errors import InputError
from headscope.files import parse_json

LABEL, UNDO, EXPORT = "label", "undo", "export"
BEGINNING = b'{"action": "'  # of every line


@dataclass(frozen=True)
class Action:
    """One label given, or one taken back; `before` is what the map was labelled until then."""

    kind: str
    map: MapName
    passed: int
    before: str
    label: str
    tab: str
    time: str

    @property
    def key(self) -> tuple[MapName, int]:
        """What was labelled: a map, in a pass."""
        return self.map, self.passed


class Journal:
    """All actions on one table; `exported` counts those that the table holds for certain."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.actions: list[Action] = []
        self.exported = 0
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"{file}: cannot be written ({error.strerror}); name another file with --out.") from error
        try:
            self._lock()
            self._read()
        except InputError:
            os.close(self._descriptor)
            raise

    def _lock(self) -> None:
        try:  # a lock of the system, which goes with the process however it ends
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            table = self.file.with_suffix("")
            raise InputError(
                f"{table}: is being labelled by another server; use its page, end it, or name another file with --out."
            ) from error

    def _read(self) -> None:
        content = self.file.read_bytes()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].split(b"\n")[:-1], start=1):
            action = self._parsed(line, number)
            if action is None:
                self.exported = len(self.actions)
            else:
                self.actions.append(action)
        torn = content[whole : whole + len(BEGINNING)]
        if not BEGINNING.startswith(torn):  # not ours to cut off
            raise self._no_action(content[:whole].count(b"\n") + 1)
        if torn:
            os.ftruncate(self._descriptor, whole)

    def _parsed(self, line: bytes, number: int) -> Action | None:
        try:
            row = parse_json(line)
            if row["action"] == EXPORT:
                return None
            name = MapName(**{column: row[column] for column in NAME_COLUMNS})
            action = Action(row["action"], name, row["pass"], row["before"], row["label"], row["tab"], row["time"])
            if not _is_possible(action):
                raise ValueError
            return action
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._no_action(number) from error

    def _no_action(self, number: int) -> InputError:
        return InputError(
            f"{self.file}:{number}: expected an action of labelling, found something else; "
            "mend or remove the line, or name another file with --out."
        )

    def append(self, action: Action) -> None:
        """Write an action to the disk."""
        row = {"action": action.kind, **asdict(action.map), "pass": action.passed}
        self._write(row | {"before": action.before, "label": action.label, "tab": action.tab, "time": action.time})
        self.actions.append(action)

    def mark_exported(self) -> None:
        """Note that the table holds all actions, so that it may be edited by hand from now on."""
        if self.exported < len(self.actions):
            self._write({"action": EXPORT})
            self.exported = len(self.actions)

    def _write(self, row: dict[str, Any]) -> None:
        size = os.fstat(self._descriptor).st_size
        line = json.dumps(row).encode() + b"\n"
        try:
            if os.write(self._descriptor, line) < len(line):
                raise OSError("the disk is full")
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, size)
            raise InputError(f"{self.file}: the label could not be written ({error.strerror or error}).") from error

    def close(self) -> None:
        """Let others open it."""
        os.close(self._descriptor)


def _is_possible(action: Action) -> bool:
    """Whether everything is of its type, and kind, pass and labels are such as there are."""
    name = action.map
    numbers = (name.example, name.layer, name.head, action.passed)
    texts = (name.encoder, name.sha256, name.task, name.split, action.tab, action.time)
    typed = all(type(number) is int for number in numbers) and all(isinstance(text, str) for text in texts)
    known = action.kind in (LABEL, UNDO) and {action.before, action.label} <= {"", *CLASSES}
    return typed and known and action.passed in (1, 2)
