"""One pass of labelling over a list of maps: labels, versions, undo, and the table on the disk."""

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headscope.data_modules.patterns.labels import CLASSES, Label, MapName, label_pairs, write_labels
from headscope.errors import InputError
from headscope.tools.label.agreement import agreement
from headscope.tools.label.journal import LABEL, UNDO, Action, Journal

EVERYBODY = ""  # whose actions any tab may undo: those from before the server was started


class Conflict(Exception):
    """An action on a label that is not the one which the tab saw."""

    def __init__(self, number: int | None, message: str) -> None:
        super().__init__(message)
        self.number = number


def journal_file(out: Path) -> Path:
    """The journal beside a table."""
    return out.with_name(out.name + ".journal")


class LabelSession:
    """The labels of one pass, safe to use from several threads; every change is on the disk before it is answered.

    `mixed` shows the maps in another order than the table's, always the same for a pass, so that no order suggests a label.
    """

    def __init__(self, rows: Sequence[Label], out: Path, passed: int, mixed: bool = False) -> None:
        self.out, self.passed = out, passed
        self._lock = threading.Lock()
        self._closed = False
        self._labels = {(row.map, row.passed): row.label for row in rows}
        of_pass = [row.map for row in rows if row.passed == passed]
        self.maps: list[MapName] = of_pass or list(dict.fromkeys(row.map for row in rows))
        for name in self.maps:  # so that a pass that was begun goes on with the same list
            self._labels.setdefault((name, passed), "")
        if mixed:
            self.maps.sort(key=lambda name: hashlib.sha256(f"{name} {passed}".encode()).digest())
        self._numbers = {name: number for number, name in enumerate(self.maps)}
        self._journal = Journal(journal_file(out))
        try:
            self._replay(all_of_it=not out.exists())
            self._export()
        except BaseException:
            self._journal.close()
            raise

    def _replay(self, all_of_it: bool) -> None:
        """Bring the table to where the journal ends, with versions and what can be undone."""
        actions = self._journal.actions
        if not {action.map for action in actions} <= {name for name, _ in self._labels}:
            raise InputError(
                f"{self._journal.file}: is the journal of another table; remove it, or name another file with --out."
            )
        self.replayed = len(actions) - (0 if all_of_it else self._journal.exported)
        for action in actions[len(actions) - self.replayed :]:
            self._labels[action.key] = action.label
        self._versions = Counter(action.key for action in actions)
        self._live: list[Action] = []  # what was not undone, oldest first
        for action in actions:
            self._note(replace(action, tab=EVERYBODY))
        last = {action.key: action.label for action in self._live}
        edited = {key for key, label in last.items() if self._labels.get(key, "") != label}
        self._live = [action for action in self._live if action.key not in edited]

    def _note(self, action: Action) -> None:
        if action.kind == LABEL:
            self._live.append(action)
        elif last := self._last(action.key):
            self._live.remove(last)

    def _last(self, key: tuple[MapName, int]) -> Action | None:
        return next((action for action in reversed(self._live) if action.key == key), None)

    @property
    def sequence(self) -> int:
        """A number that changes with every action."""
        return len(self._journal.actions)

    @property
    def done(self) -> int:
        """How many maps of the pass have a label."""
        return sum(bool(self._labels[name, self.passed]) for name in self.maps)

    def label_of(self, number: int) -> tuple[str, int]:
        """The label of a map in this pass, and its version."""
        key = self.maps[number], self.passed
        return self._labels[key], self._versions[key]

    def label(self, number: int, label: str, version: int, tab: str) -> None:
        """Label a map, or clear it; refused where the tab saw another version than there is."""
        if not 0 <= number < len(self.maps) or label not in ("", *CLASSES):
            raise ValueError(f"expected a map from 0 to {len(self.maps) - 1} and a class, found {number} and {label!r}")
        with self._lock:
            present, present_version = self.label_of(number)
            if version != present_version:
                raise Conflict(number, "Another tab has changed this label.")
            if label != present:
                self._act(Action(LABEL, self.maps[number], self.passed, present, label, tab, _now()))

    def undo(self, tab: str) -> int:
        """Take back the last action of a tab, or of an earlier session; the number of the map."""
        with self._lock:
            own = (
                action for action in reversed(self._live) if action.passed == self.passed and action.tab in (tab, EVERYBODY)
            )
            action = next(own, None)
            if action is None or action.map not in self._numbers:
                raise Conflict(None, "There is nothing to undo.")
            number = self._numbers[action.map]
            if self._last(action.key) is not action:
                raise Conflict(number, "Another tab has changed this label since.")
            self._act(Action(UNDO, action.map, self.passed, action.label, action.before, tab, _now()))
            return number

    def _act(self, action: Action) -> None:
        if self._closed:
            raise InputError("the server has ended; the label was not written.")
        self._journal.append(action)
        self._labels[action.key] = action.label
        self._versions[action.key] += 1
        self._note(action)
        self._write_table()

    def export(self) -> None:
        """Write the table."""
        with self._lock:
            self._export()

    def _export(self) -> None:
        self._write_table()
        self._journal.mark_exported()

    def _write_table(self) -> None:
        try:
            write_labels(self.out, self._rows())
        except OSError as error:
            raise InputError(f"{self.out}: the table cannot be written ({error.strerror}).") from error

    def _rows(self) -> list[Label]:
        return [Label(name, label, passed) for (name, passed), label in self._labels.items()]

    def state(self) -> dict[str, Any]:
        """What a tab may know: the labels of this pass only, with their versions."""
        with self._lock:
            labels = [self.label_of(number) for number in range(len(self.maps))]
            return {"sequence": self.sequence, "pass": self.passed, "out": str(self.out), "labels": labels}

    def agreement(self) -> dict[str, float | int | None]:
        """How far the two passes agree on the maps that have both labels."""
        with self._lock:
            return agreement(label_pairs(self._rows()))

    def close(self) -> None:
        """Write the table and let others label it."""
        with self._lock:
            if not self._closed:
                self._closed = True
                try:
                    self._export()
                finally:
                    self._journal.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
