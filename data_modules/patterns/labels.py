"""Tables of attention maps that people labelled with one of five patterns (Kovaleva, section 4.1).

A row names a map by what it can be computed from again: encoder and checksum, GLUE task, split and example (from 0),
layer and head (from 1); then the label, empty where none was given yet, and the pass: 1, or 2 for a second opinion.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from headscope.data_modules.readers.glue import TASKS
from headscope.data_modules.readers.text import lines, quoted, whole_number
from headscope.errors import InputError
from headscope.files import write_atomically

CLASSES = ("vertical", "diagonal", "vertical_diagonal", "block", "heterogeneous")
SPLITS = ("train", "val", "test")
TEXTS = ("wikitext", "ewt")  # other inputs of stored maps: running text and a treebank's sentences, one by one
NEARLY_ALL = 0.95  # of the maps: a classifier that calls so many alike tells nothing of them


def one_class_notes(shares: Mapping[str, float], classifier: str, maps: str) -> list[str]:
    """A line that says so where a classifier calls nearly all maps the same; `shares` are those of each class, of 1."""
    name, share = max(shares.items(), key=lambda item: item[1])
    if share < NEARLY_ALL:
        return []
    return [f"{classifier} calls {100 * share:.1f} % of {maps} {name.replace('_', ' ')}: it does not tell these maps apart"]


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
    def family(self) -> str:
        """The encoder before it was fine-tuned: `minilm+mrpc` is of the family `minilm`."""
        return self.encoder.partition("+")[0]

    @property
    def head_index(self) -> tuple[str, int, int]:
        """Family, layer and head, from 1, whatever the encoder was fine-tuned on."""
        return self.family, self.layer, self.head


@dataclass(frozen=True)
class Label:
    """What one person saw in one map; the label is empty until somebody looked."""

    map: MapName
    label: str
    passed: int = 1


NAME_COLUMNS = tuple(field.name for field in fields(MapName))
COLUMNS = (*NAME_COLUMNS, "label", "pass")
NUMBERS = ("example", "layer", "head", "pass")
LAST_PASS = 2
BEYOND = ""  # the key of what stands behind the last column


def read_labels(file: str | Path) -> list[Label]:
    """The rows of a table; an error names the line of what cannot be."""
    file = Path(file)
    labels: dict[tuple[MapName, int], Label] = {}
    for where, row in _rows(file):
        label = _label(where, row)
        if (label.map, label.passed) in labels:
            raise InputError(f"{where}: this map has a label of pass {label.passed} already.")
        labels[label.map, label.passed] = label
    if not labels:
        raise InputError(f"{file}: expected labelled maps, found an empty table.")
    return list(labels.values())


def _rows(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows by column, each with its file and line."""
    rows = csv.DictReader((line + "\n" for _, line in lines(file)), restkey=BEYOND, strict=True)
    try:
        header = rows.fieldnames or ()
        if missing := [column for column in COLUMNS if column not in header]:
            raise InputError(f"{file}:1: expected the columns {', '.join(COLUMNS)}; {missing[0]} is missing.")
        if len(set(header)) < len(header):
            raise InputError(f"{file}:1: expected every column once, found {quoted(', '.join(header))}.")
        for row in rows:
            where = f"{file}:{rows.line_num}"
            if BEYOND in row or None in row.values():
                found = "more" if BEYOND in row else "fewer"
                raise InputError(f"{where}: expected {len(header)} columns, found {found}.")
            yield where, row
    except csv.Error as error:
        raise InputError(f"{file}:{rows.reader.line_num}: is no row of a table ({error}).") from error


def _label(where: str, row: dict[str, str]) -> Label:
    for column in (*NAME_COLUMNS, "pass"):
        if not row[column]:
            expected = "a whole number" if column in NUMBERS else "a name"
            raise InputError(f"{where}: expected {expected} in the column {column}, found {quoted(row[column])}.")
    numbers = {column: _number(where, column, row[column]) for column in NUMBERS}
    for column, choices in (("task", (*TASKS, *TEXTS)), ("split", SPLITS), ("label", ("", *CLASSES))):
        if row[column] not in choices:
            expected = ", ".join(choice for choice in choices if choice)
            raise InputError(f"{where}: expected a {column} of {expected}, found {quoted(row[column])}.")
    cells: dict[str, Any] = {column: numbers.get(column, row[column]) for column in NAME_COLUMNS}
    return Label(MapName(**cells), row["label"], numbers["pass"])


def _number(where: str, column: str, text: str) -> int:
    """A number of a column: examples are counted from 0, layers, heads and the two passes from 1."""
    number = whole_number(text, LAST_PASS) if column == "pass" else whole_number(text)
    if number is None or (number == 0 and column != "example"):
        kind = "1 or 2" if column == "pass" else f"a whole number{'' if column == 'example' else ' from 1'}"
        raise InputError(f"{where}: expected {kind} in the column {column}, found {quoted(text)}.")
    return number


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
