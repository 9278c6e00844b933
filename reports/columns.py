"""Tables for people: the numbers of a column alike, and the columns that a width has room for, none of them cut."""

import math
import re
from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from headscope.contracts import Row

NOTHING = "–"
KEPT = ("published", "n")  # columns that go last, wherever they stand
FRAME = 3  # characters that a column takes beside its content: the space on both sides, and a line
MOST_DECIMALS = 6
LONGEST_WORD = 16  # of a text, where a longer one is broken
SHORT = {
    "accuracy": "acc.",
    "baseline": "base",
    "dependent_to_head": "dep→head",
    "head_to_dependent": "head→dep",
    "direction": "way",
    "held_out": "held out",
    "p_holm": "p Holm",
    "overrides": "what differs",
}


def column_texts(name: str, values: Sequence[object]) -> list[str]:
    """The cells of a column: counts whole, other numbers with the same decimals, p-values as they are reported."""
    if name == "p" or name.startswith("p_"):
        return ["< 0.001" if isinstance(value, float) and value < 0.001 else _text(value, 3) for value in values]
    decimals = _decimals([abs(value) for value in values if isinstance(value, float)])
    return [_text(value, decimals) for value in values]


def _decimals(numbers: Sequence[float]) -> int:
    """Enough to tell shares from one another; where all are tiny, two digits of the largest."""
    largest = max(numbers, default=0.0)
    if 0 < largest < 0.01:
        return min(MOST_DECIMALS, 1 - math.floor(math.log10(largest)))
    return 3 if any(0 < number < 1 for number in numbers) else 2


def _text(value: object, decimals: int) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return SHORT.get(str(value), str(value))
    if isinstance(value, int):
        return f"{value:,}"
    least = 10**-decimals
    if 0 < abs(value) < least / 2:  # no zero, and not to be taken for one
        return f"< {least:.{decimals}f}" if value > 0 else f"> -{least:.{decimals}f}"
    return f"{value:.{decimals}f}"


def table_of(title: str, rows: Sequence[Row], columns: Sequence[str], width: int) -> tuple[Table, list[str]]:
    """One line per row, as wide as there is room for; and the columns that there is no room for.

    Columns that no row fills are left out. A number is never cut: words go on in the next line, and where that is not
    enough, columns go, the last first.
    """
    filled = [column for column in columns if any(row.get(column) is not None for row in rows)]
    texts = {column: column_texts(column, [row.get(column) for row in rows]) for column in filled}
    words = {column: _is_text(rows, column) for column in filled}
    least = {column: _least_width(column, texts[column], words[column]) for column in filled}
    shown = list(filled)
    while len(shown) > 1 and sum(least[column] + FRAME for column in shown) + 1 > width:
        shown.remove(next((column for column in reversed(shown[1:]) if column not in KEPT), shown[-1]))
    whole = {column: max(least[column], *map(len, [_heading(column) * words[column], *texts[column]])) for column in shown}
    widths = _squeezed(whole, least, width - 1 - FRAME * len(shown))
    table = Table(title=Text(title), title_justify="left", box=box.ROUNDED)
    for column in shown:
        justify = "left" if words[column] else "right"
        heading = Text(_heading(column))
        table.add_column(heading, justify=justify, width=widths[column], overflow="fold")
    for index in range(len(rows)):
        table.add_row(*(Text(texts[column][index]) for column in shown))
    return table, [column for column in filled if column not in shown]


def _squeezed(widths: dict[str, int], least: Mapping[str, int], room: int) -> dict[str, int]:
    """The widths with the widest columns made narrower until they fit, but none narrower than it can be."""
    while sum(widths.values()) > room and (wide := [column for column in widths if widths[column] > least[column]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _is_text(rows: Sequence[Row], column: str) -> bool:
    """Whether any cell has words, which may go on in the next line."""
    return any(isinstance(row.get(column), str) for row in rows)


def _heading(column: str) -> str:
    return SHORT.get(column, column.replace("_", " "))


def _least_width(column: str, texts: Sequence[str], words: bool) -> int:
    heading = max(map(len, _heading(column).split()), default=0)
    if not words:
        return max(heading, *map(len, texts))
    longest = max((len(word) for text in texts for word in re.split(r"\s", text)), default=0)
    return max(heading, min(longest, LONGEST_WORD))


def without_room(left_out: Sequence[str]) -> str:
    """What to say of columns that a terminal has no room for."""
    return f"no room here for {', '.join(map(_heading, left_out))}: results.json has all columns"
