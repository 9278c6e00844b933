"""CoNLL-U in: words with gold governors and relations, checked line by line."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from sys import intern

from headscope.errors import DataError
from headscope.files import data_files
from headscope.processes import progress

COLUMNS = 10
Row = tuple[int, list[str]]  # a line's number and its columns


@dataclass
class Block:
    """The lines of one sentence."""

    comments: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Sentence:
    """One annotated sentence; governors are indices of words from 1, 0 for ROOT."""

    words: tuple[str, ...]
    upos: tuple[str, ...]
    governors: tuple[int, ...]
    relations: tuple[str, ...]
    source: str


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


def lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers."""
    with file.open("rb") as stream:
        for number, raw in enumerate(progress(stream, f"reading {file.name}"), start=1):
            yield number, _text(file, number, raw)


def _text(file: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}:{number}: expected UTF-8 text ({error.reason}).") from error


def _columns(file: Path, number: int, line: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != COLUMNS:
        raise DataError(f"{file}:{number}: expected {COLUMNS} tab-separated columns, found {len(columns)}.")
    return columns


def word_rows(file: Path, rows: list[Row]) -> list[Row]:
    """The rows of words; multiword ranges (3-4) and empty nodes (5.1) are not words of the tree."""
    words = [(number, row) for number, row in rows if "-" not in row[0] and "." not in row[0]]
    if not words:
        raise DataError(f"{file}:{rows[0][0]}: expected at least one word in the sentence, found none.")
    return words


def sentence(file: Path, rows: list[Row]) -> Sentence:
    """A sentence from its rows, checked to be a tree."""
    words = word_rows(file, rows)
    governors = [_governor(file, number, row, index, len(words)) for index, (number, row) in enumerate(words, start=1)]
    _require_tree(file, [number for number, _ in words], governors)
    return Sentence(
        # The same string is kept once, however many sentences use it.
        words=tuple(intern(row[1]) for _, row in words),
        upos=tuple(intern(row[3]) for _, row in words),
        governors=tuple(governors),
        relations=tuple(intern(row[7]) for _, row in words),
        source=f"{file}:{words[0][0]}",
    )


def _governor(file: Path, number: int, row: list[str], index: int, words: int) -> int:
    if row[0] != str(index):
        raise DataError(f"{file}:{number}: expected word number {index}, found {row[0]!r}.")
    if not row[6].isdecimal() or not 0 <= int(row[6]) <= words:
        raise DataError(f"{file}:{number}: expected a head from 0 to {words} in column 7, found {row[6]!r}.")
    return int(row[6])


def _require_tree(file: Path, numbers: list[int], governors: list[int]) -> None:
    reaches_root = {0}
    for start in range(1, len(governors) + 1):
        path, word = [], start
        while word not in reaches_root:
            if word in path:
                raise DataError(f"{file}:{numbers[word - 1]}: expected a tree, found a cycle through word {word}.")
            path.append(word)
            word = governors[word - 1]
        reaches_root.update(path)
