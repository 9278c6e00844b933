"""CoNLL-U in: words with gold governors and relations, checked line by line."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from sys import intern

from headscope.data_modules.readers.text import lines, quoted, whole_number
from headscope.errors import DataError
from headscope.files import data_files

COLUMNS = 10
FORM, UPOS, GOVERNOR, RELATION = 1, 3, 6, 7
Row = tuple[int, list[str]]  # a line's number and its columns


@dataclass
class Block:
    """The lines of one sentence."""

    comments: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Sentence:
    """One annotated sentence; governors are indices of words from 1, 0 for ROOT.

    Entities are those of its mentions, by head word from 1; None where nobody asked for them, or none are annotated.
    """

    words: tuple[str, ...]
    upos: tuple[str, ...]
    governors: tuple[int, ...]
    relations: tuple[str, ...]
    source: str
    entities: tuple[tuple[int, str], ...] | None = None


def conllu_files(path: str | Path) -> list[Path]:
    """The file itself, or the *.conllu files of a folder."""
    return data_files(path, lambda file: file.suffix == ".conllu", "*.conllu files", "a CoNLL-U file")


def read_conllu(files: Iterable[Path], limit: int | None = None) -> list[Sentence]:
    """The first `limit` sentences of the files, or all of them."""
    sentences: list[Sentence] = []
    for file in files:
        wanted = None if limit is None else limit - len(sentences)
        found = list(islice((sentence(file, block.rows) for block in blocks(file)), wanted))
        if not found and wanted != 0:
            raise DataError(f"{file}: expected at least one sentence, found none.")
        sentences += found
    return sentences


def blocks(file: Path) -> Iterator[Block]:
    """The sentences of a file as they are written."""
    block = Block()
    for number, line in lines(file):
        if line.startswith("#"):
            block.comments.append(line)
        elif line.strip():
            block.rows.append((number, _columns(file, number, line)))
        elif block.rows:
            yield block
            block = Block()
    if block.rows:
        yield block


def _columns(file: Path, number: int, line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != COLUMNS:
        raise DataError(f"{file}:{number}: expected {COLUMNS} tab-separated columns, found {len(columns)}.")
    return columns


def word_rows(file: Path, rows: list[Row]) -> list[Row]:
    """The rows of words, checked to be counted from 1; multiword ranges (3-4) and empty nodes (5.1) are not words."""
    words: list[Row] = []
    last = 0  # word of the range that was opened last
    for number, row in rows:
        following = len(words) + 1
        if "-" in row[0]:
            start, _, end = row[0].partition("-")
            end = whole_number(end)
            if start != str(following) or end is None or end <= len(words):
                raise DataError(f"{file}:{number}: expected a range from word {following} on, found {quoted(row[0])}.")
            last = end
        elif "." in row[0]:
            before, _, node = row[0].partition(".")
            if before != str(len(words)) or not whole_number(node):
                raise DataError(f"{file}:{number}: expected an empty node such as {len(words)}.1, found {quoted(row[0])}.")
        else:
            if row[0] != str(following):
                raise DataError(f"{file}:{number}: expected word number {following}, found {quoted(row[0])}.")
            words.append((number, row))
    if not words:
        raise DataError(f"{file}:{rows[0][0]}: expected at least one word in the sentence, found none.")
    if last > len(words):
        raise DataError(f"{file}:{rows[-1][0]}: expected word {last} of the range that ends there, found no more words.")
    return words


def sentence(file: Path, rows: list[Row]) -> Sentence:
    """A sentence from its rows, checked to be a tree."""
    words = word_rows(file, rows)
    governors = [_governor(file, number, row, len(words)) for number, row in words]
    _require_tree(file, [number for number, _ in words], governors)
    return Sentence(
        # The same string is kept once, however many sentences use it.
        words=tuple(intern(row[FORM]) for _, row in words),
        upos=tuple(intern(row[UPOS]) for _, row in words),
        governors=tuple(governors),
        relations=tuple(intern(row[RELATION]) for _, row in words),
        source=f"{file}:{words[0][0]}",
    )


def _governor(file: Path, number: int, row: list[str], words: int) -> int:
    for column in (FORM, UPOS, RELATION):
        if not row[column].strip():
            raise DataError(f"{file}:{number}: expected a value in column {column + 1}, found {quoted(row[column])}.")
    governor = whole_number(row[GOVERNOR], words)
    if governor is None:
        found = quoted(row[GOVERNOR])
        raise DataError(f"{file}:{number}: expected a head from 0 to {words} in column 7, found {found}.")
    return governor


def _require_tree(file: Path, numbers: list[int], governors: list[int]) -> None:
    """Refuse a cycle and a second root; every word is walked over once."""
    walk_of = {0: 0}  # the word from which a walk towards the root came by here first
    for start in range(1, len(governors) + 1):
        word = start
        while word not in walk_of:
            walk_of[word] = start
            word = governors[word - 1]
        if word and walk_of[word] == start:
            raise DataError(f"{file}:{numbers[word - 1]}: expected a tree, found a cycle through word {word}.")
    roots = [index for index, governor in enumerate(governors) if not governor]
    if len(roots) > 1:
        raise DataError(f"{file}:{numbers[roots[1]]}: expected one root, found a second: word {roots[1] + 1}.")
