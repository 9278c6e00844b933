"""Files with coreference, whose form is told by their first word: CoNLL-U with `Entity=`, CoNLL-2012, three columns."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from headscope.data_modules.readers import conllu
from headscope.data_modules.readers.conll2012 import BEGIN, LEAST_COLUMNS, MARK, read_conll2012, split_columns
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.readers.mentions import Document
from headscope.data_modules.readers.text import quoted
from headscope.data_modules.readers.three_columns import COLUMNS, read_three_columns, three_columns
from headscope.errors import DataError
from headscope.files import data_files

SUFFIXES = (".conllu", ".conll", "_conll")  # of files that are read, or refused, wherever they lie
FORMS = (
    f"CoNLL-U with Entity= ({conllu.COLUMNS} columns between tabs), "
    f"CoNLL-2012 ({LEAST_COLUMNS} columns or more, after {BEGIN!r}) "
    f"or {COLUMNS} columns (number, word and brackets, after '# begin document')"
)
LONGEST = 2**20  # bytes of a line that are looked at: a file that is no text may be one line
Reader = Callable[[Path], list[Document]]


def document_files(path: str | Path) -> list[Path]:
    """The file itself, or all files of a folder, also below it, that hold a form of coreference or are named so."""
    files = data_files(path, _is_wanted, f"files of {FORMS}", "a file with coreference", below=True)
    # CoNLL-2012 comes with its documents twice: with gold and with automatic annotation.
    gold = any(file.name.endswith("_gold_conll") for file in files)
    return [file for file in files if not (gold and file.name.endswith("_auto_conll"))]


def _is_wanted(file: Path) -> bool:
    # The skeletons of CoNLL-2012 have its form, but no words.
    if file.name.startswith(".") or file.name.endswith("_skel"):
        return False
    return file.name.endswith(SUFFIXES) or reader_of(file) is not None


def read_documents(file: Path) -> list[Document]:
    """The documents of a file in any form; none where it has no word."""
    reader = reader_of(file)
    if reader:
        return reader(file)
    number, row, begun = _first_row(file)
    if row is None:
        return read_conll2012(file) if begun else []
    raise DataError(f"{file}:{number}: expected {FORMS}, found {quoted(row)} ({len(three_columns(row))}).")


def reader_of(file: Path) -> Reader | None:
    """What reads a file, told by its first word; None where it has none, or is of no known form."""
    _, row, begun = _first_row(file)
    if row is None:
        return None
    between_tabs = row.split("\t")
    if len(between_tabs) == conllu.COLUMNS and between_tabs[0][:1].isdecimal():
        return read_entity_documents
    if begun and len(split_columns(row)) >= LEAST_COLUMNS:
        return read_conll2012
    if begun and len(three_columns(row)) == COLUMNS:
        return read_three_columns
    return None


def _first_row(file: Path) -> tuple[int, str | None, bool]:
    """The first line that is neither blank nor a comment, with its number, and whether a mark begins a document before."""
    begun = False
    try:
        with file.open("rb") as stream:
            for number, raw in enumerate(iter(partial(stream.readline, LONGEST), b""), start=1):
                # What is no text is told by the reader, with its line.
                line = raw.decode("utf-8-sig", errors="replace").rstrip("\r\n")
                if line.strip() and not line.startswith("#"):
                    return number, line, begun
                mark = MARK.match(line)
                begun = begun or (mark is not None and mark[1] == "begin")
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error}).") from error
    return 0, None, begun
