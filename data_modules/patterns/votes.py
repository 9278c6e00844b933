"""Tables of maps that several people looked at: where each map is from, how it was found, every vote, and the majority."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from headscope.data_modules.patterns.labels import CLASSES, MapName
from headscope.data_modules.readers.text import lines, quoted, whole_number
from headscope.errors import InputError
from headscope.files import write_atomically

PRETRAINED = "pre-trained"
RANDOM = "random"  # how a map was found that may tell shares
VOTES = ("vote_1", "vote_2", "vote_3", "vote_4")  # the last one only where the first three all differ
NUMBERS = ("example", "layer", "head")
COLUMNS = ("map", "encoder", "state", "sha256", "task", "split", *NUMBERS, "found", *VOTES, "label", "map_sha256")


@dataclass(frozen=True)
class VotedMap:
    """A row: the map's name, how it was found, the votes, the class that won, and the checksum of its cells."""

    map: MapName
    found: str
    votes: tuple[str, ...]
    label: str
    map_sha256: str

    @property
    def soft(self) -> Float[np.ndarray, "class"]:
        """The share of the votes that each class got."""
        counts = Counter(self.votes)
        return np.array([counts[name] / len(self.votes) for name in CLASSES], dtype=np.float32)


def family_and_state(encoder: str) -> tuple[str, str]:
    """An encoder's name before fine-tuning, and what it was fine-tuned on."""
    family, _, state = encoder.partition("+")
    return family, state or PRETRAINED


def majority(votes: Sequence[str]) -> str | None:
    """The class with most votes; None where there is no such one."""
    (first, count), *others = [*Counter(votes).most_common(), ("", 0)]
    return first if count > others[0][1] else None


def is_vote_table(file: Path) -> bool:
    """Whether a file has the columns of such a table."""
    return next(lines(file), (1, ""))[1].split(",") == list(COLUMNS)


def read_votes(file: Path) -> list[VotedMap]:
    """The rows of a table, in the order of the maps; an error names the line of what cannot be."""
    rows = [_row(where, row, number) for number, (where, row) in enumerate(_rows(file))]
    if not rows:
        raise InputError(f"{file}: expected labelled maps, found an empty table.")
    twice = [name for name, count in Counter(row.map for row in rows).items() if count > 1]
    if twice:
        raise InputError(f"{file}: expected every map once, found {twice[0]} again.")
    return rows


def _rows(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    rows = csv.reader((line + "\n" for _, line in lines(file)), strict=True)
    try:
        header = next(rows, [])
        if tuple(header) != COLUMNS:
            raise InputError(f"{file}:1: expected the columns {', '.join(COLUMNS)}; found {quoted(', '.join(header))}.")
        for row in rows:
            where = f"{file}:{rows.line_num}"
            if len(row) != len(COLUMNS):
                raise InputError(f"{where}: expected {len(COLUMNS)} columns, found {len(row)}.")
            yield where, dict(zip(COLUMNS, row, strict=True))
    except csv.Error as error:
        raise InputError(f"{file}:{rows.line_num}: is no row of a table ({error}).") from error


def _row(where: str, row: dict[str, str], number: int) -> VotedMap:
    if row["map"] != str(number):
        raise InputError(f"{where}: expected map {number}, the next one, found {quoted(row['map'])}.")
    for column in COLUMNS:
        if not row[column] and column not in VOTES:
            raise InputError(f"{where}: expected something in the column {column}, found nothing.")
    numbers = {column: _number(where, column, row[column]) for column in NUMBERS}
    votes = tuple(row[column] for column in VOTES if row[column])
    for column in (*VOTES, "label"):
        if row[column] and row[column] not in CLASSES:
            raise InputError(f"{where}: expected {', '.join(CLASSES)} in the column {column}, found {quoted(row[column])}.")
    won = majority(votes) if votes else None
    if won is None:
        raise InputError(f"{where}: its votes ({', '.join(votes) or 'none'}) have no majority; a vote_4 must decide.")
    if won != row["label"]:
        raise InputError(f"{where}: expected the label {won}, which has most votes, found {quoted(row['label'])}.")
    encoder = row["encoder"] if row["state"] == PRETRAINED else f"{row['encoder']}+{row['state']}"
    name = MapName(encoder, row["sha256"], row["task"], row["split"], **numbers)
    return VotedMap(name, row["found"], votes, won, row["map_sha256"])


def _number(where: str, column: str, text: str) -> int:
    number = whole_number(text)
    if number is None or (number == 0 and column != "example"):
        kind = "a whole number" if column == "example" else "a whole number from 1"
        raise InputError(f"{where}: expected {kind} in the column {column}, found {quoted(text)}.")
    return number


def write_votes(file: Path, rows: Iterable[VotedMap]) -> None:
    """Write a table whole."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, row in enumerate(rows):
        family, state = family_and_state(row.map.encoder)
        name = (family, state, row.map.sha256, row.map.task, row.map.split, row.map.example, row.map.layer, row.map.head)
        votes = [*row.votes, *[""] * (len(VOTES) - len(row.votes))]
        writer.writerow([number, *name, row.found, *votes, row.label, row.map_sha256])
    write_atomically(file, text.getvalue().encode(), durable=True)
