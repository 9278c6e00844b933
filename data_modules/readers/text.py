"""Text files in, line by line, and what a reader says of a value that cannot be."""

from collections.abc import Iterator
from pathlib import Path

from headscope.errors import DataError
from headscope.processes import progress

MOST = 10**9  # what no count of words, examples or characters exceeds
SHOWN = 60  # characters of a value that an error quotes


def lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers from 1, without their ends; only a line feed ends a line."""
    try:
        with file.open("rb") as stream:
            for number, raw in enumerate(progress(stream, f"reading {file.name}"), start=1):
                yield number, _text(file, number, raw)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error}).") from error


def _text(file: Path, number: int, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}:{number}: expected UTF-8 text ({error.reason}).") from error
    if "\0" in text:
        raise DataError(f"{file}:{number}: expected text, found a NUL byte.")
    return text


def whole_number(text: str, most: int = MOST) -> int | None:
    """The number from 0 to `most` that ASCII digits stand for; None for anything else, such as ² or a mile of digits."""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return None
    return number if (number := int(text)) <= most else None


def quoted(text: str | None) -> str:
    """A value as an error quotes it: on one line, and cut where it is long."""
    return repr(text if text is None or len(text) <= SHOWN else f"{text[:SHOWN]}…")


def shown(name: str) -> str:
    """A name as an error says it: as it is where that can stand in a sentence, else quoted."""
    return name if name and quoted(name) == f"'{name}'" else quoted(name)
