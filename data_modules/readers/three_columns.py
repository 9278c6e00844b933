"""Documents with coreference in three columns: the number of a word, the word, and its brackets (OntoGUM)."""

from pathlib import Path

from headscope.data_modules.readers.conll2012 import NOTHING, Row, marked_documents, require_following, split_columns
from headscope.data_modules.readers.mentions import Brackets, Document, brackets_in, in_order, mention
from headscope.data_modules.readers.text import quoted
from headscope.errors import DataError

COLUMNS = 3
NUMBER, WORD, BRACKETS = range(COLUMNS)


def read_three_columns(file: Path) -> list[Document]:
    """The documents of a file; the last word of a mention stands for its head word, since nothing else is annotated."""
    return [_document(file, name, sentences) for name, sentences in marked_documents(file, _columns)]


def three_columns(line: str) -> list[str]:
    """The columns of a line, which are between tabs, or between spaces where there is no tab."""
    return line.split("\t") if "\t" in line else split_columns(line)


def _columns(file: Path, number: int, line: str, before: list[Row]) -> list[str]:
    columns = three_columns(line)
    if len(columns) != COLUMNS:
        raise DataError(f"{file}:{number}: expected {COLUMNS} columns, found {len(columns)}.")
    require_following(file, number, columns, before, NUMBER)
    if not columns[WORD].strip():
        raise DataError(f"{file}:{number}: expected a word in column {WORD + 1}, found {quoted(columns[WORD])}.")
    return columns


def _document(file: Path, name: str, sentences: list[list[Row]]) -> Document:
    rows = [row for sentence in sentences for row in sentence]
    words = tuple(row[WORD] for _, row in rows)
    found = [mention(words, (start, end), end, group, None, None) for start, end, group in _spans(file, rows)]
    return Document(name, words, in_order(found), tuple(map(len, sentences)))


def _spans(file: Path, rows: list[Row]) -> list[tuple[int, int, str]]:
    """The (first, last, group) of every mention of a document, counted from 1: sentences need not be marked."""
    found = Brackets(file, "chain", "document")
    for index, (number, row) in enumerate(rows, start=1):
        for kind, group in _brackets(file, number, row[BRACKETS]):
            if kind == "both":
                found.add(group, number, index, index)
            elif kind == "open":
                found.open(group, number, index)
            else:
                found.close(group, number, index)
    found.require_closed()
    return found.spans


def _brackets(file: Path, number: int, text: str) -> list[tuple[str, str]]:
    """What the last column says: (1(2) or (1|(2)."""
    if not text or text in NOTHING:
        return []
    try:
        return [bracket for part in text.split("|") for bracket in brackets_in(part)]
    except ValueError as error:
        wanted = f"brackets such as (1, (1) or 1) in column {BRACKETS + 1}"
        raise DataError(f"{file}:{number}: expected {wanted}, found {quoted(text)}.") from error
