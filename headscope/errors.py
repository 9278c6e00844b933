"""Mistakes in what a user gave, told in one sentence instead of a traceback."""

import difflib
from collections.abc import Iterable
from typing import TypeVar

Value = TypeVar("Value")
LONGEST_QUOTE = 300  # characters of the words of a library


class InputError(Exception):
    """A file, model or value that cannot be used; the message names it and the way out."""

    exit_status = 1


class DataError(InputError):
    """A data file that was read and is not what it should be."""


class DamagedFile(InputError):
    """A file that the program wrote itself and that is not as it was written."""


class ConfigError(InputError):
    """A configuration that cannot work, found before any work is done."""

    exit_status = 2


def first_line(error: BaseException) -> str:
    """The first line of an error of a library, to quote in a sentence; some quote a whole file."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}…"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The near matches of a misspelt name as the end of a sentence, or nothing."""
    near = difflib.get_close_matches(wrong, sorted(set(known)), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else "."


def given(value: Value | None, what: str) -> Value:
    """What may be missing elsewhere and is needed here."""
    if value is None:
        raise InputError(f"{what} is needed here, found none.")
    return value


def require_choice(key: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices."""
    *most, last = choices
    if value not in (*most, last):
        raise ConfigError(f"{key}={value}: expected {', '.join(most)} or {last}.")


def require_least(key: str, value: int, least: int = 1) -> int:
    """The value of a key that counts something; refuses fewer than the least."""
    if value < least:
        raise ConfigError(f"{key}={value}: expected at least {least}.")
    return value


def require_limit(limit: object, key: str = "data.limit") -> None:
    """Refuse a number of examples that is none."""
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ConfigError(f"{key}={limit}: expected a whole number from 1, or null for all.")


def require_figure_width(width: object) -> float:
    """The width of figures in millimetres; refuse one on which text could not be read, or that no paper has."""
    if not isinstance(width, int | float) or not 80 <= width <= 400:
        raise ConfigError(
            f"figure_width={width}: expected millimetres from 80 to 400, such as 89 (a column) or 183 (a page)."
        )
    return float(width)
