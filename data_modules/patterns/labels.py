"""Tables of attention maps that people labelled with one of five patterns (Kovaleva, section 4.1).

A row names a map by what it can be computed from again: encoder and checksum, GLUE task, split and example (from 0),
layer and head (from 1); then the label, empty where none was given yet, and the pass: 1, or 2 for a second opinion.
"""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from headscope.data_modules.readers.glue import TASKS
from headscope.errors import InputError
from headscope.files import write_atomically

CLASSES = ("vertical", "diagonal", "vertical_diagonal", "block", "heterogeneous")
SPLITS = ("train", "val")


@dataclass(frozen=True, order=True)
class MapName:
    """What a map can be computed from again."""

    encoder: str
    sha256: str
    task: str
    split: str
    example: int
    layer: int
    head: int

    @property
    def input(self) -> tuple[str, str, int]:
        """The input, whichever encoder read it."""
        return self.task, self.split, self.example

    @property
    def head_index(self) -> tuple[int, int]:
        """Layer and head, from 1, whichever encoder they are of."""
        return self.layer, self.head


@dataclass(frozen=True)
class Label:
    """What one person saw in one map; the label is empty until somebody looked."""

    map: MapName
    label: str
    passed: int = 1


NAME_COLUMNS = tuple(field.name for field in fields(MapName))
COLUMNS = (*NAME_COLUMNS, "label", "pass")
NUMBERS = ("example", "layer", "head", "pass")


def read_labels(file: str | Path) -> list[Label]:
    """The rows of a table; an error names the line of what cannot be."""
    file = Path(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: no readable table of labels there.") from error
    rows = csv.DictReader(io.StringIO(text))
    if missing := [column for column in COLUMNS if column not in (rows.fieldnames or ())]:
        raise InputError(f"{file}:1: expected the columns {', '.join(COLUMNS)}; {missing[0]} is missing.")
    labels = [_label(f"{file}:{rows.line_num}", row) for row in rows]
    if not labels:
        raise InputError(f"{file}: expected labelled maps, found an empty table.")
    seen: set[tuple[MapName, int]] = set()
    for line, label in enumerate(labels, start=2):
        if (label.map, label.passed) in seen:
            raise InputError(f"{file}:{line}: this map has a label of pass {label.passed} already.")
        seen.add((label.map, label.passed))
    return labels


def _label(where: str, row: dict[str, str]) -> Label:
    for column in NUMBERS:
        if not (row[column] or "").isdecimal():
            raise InputError(f"{where}: expected a whole number in the column {column}, found {row[column]!r}.")
    for column, choices in (("task", tuple(TASKS)), ("split", SPLITS), ("label", ("", *CLASSES))):
        if row[column] not in choices:
            expected = ", ".join(choice for choice in choices if choice)
            raise InputError(f"{where}: expected a {column} of {expected}, found {row[column]!r}.")
    cells: dict[str, Any] = {column: int(row[column]) if column in NUMBERS else row[column] for column in NAME_COLUMNS}
    return Label(MapName(**cells), row["label"], int(row["pass"]))


def write_labels(file: Path, labels: Iterable[Label]) -> None:
    """Write a table whole."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([*asdict(label.map).values(), label.label, label.passed] for label in labels)
    write_atomically(file, text.getvalue().encode(), durable=True)


def labelled(labels: Iterable[Label], passed: int = 1) -> list[Label]:
    """The rows of one pass that have a label."""
    return [label for label in labels if label.label and label.passed == passed]


def unlabelled(labels: Iterable[Label]) -> list[Label]:
    """The same maps, to be looked at anew."""
    return [replace(label, label="") for label in labels]


def label_pairs(labels: Iterable[Label]) -> list[tuple[str, str]]:
    """Both labels of every map that was looked at twice."""
    first, second = ({label.map: label.label for label in labelled(labels, passed)} for passed in (1, 2))
    return [(first[name], label) for name, label in second.items() if name in first]
