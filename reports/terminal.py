"""The end of a run on the terminal: tables whose numbers are never cut, then the path of results.json."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headscope.contracts import Facts, Provenance, Quantity, Row, RunResults, Source
from headscope.published import why_not_beside
from headscope.reports.evidence import sample_notes

MOST_FIGURES, MOST_FILES = 6, 4
WIDTH_OF_A_FILE = 130
NOTHING = "–"
KEPT = ("published", "n", "inputs")  # columns that go last, wherever they stand
FRAME = 3  # characters that a column takes beside its content: the space on both sides, and a line
MOST_DECIMALS = 6
LONGEST_WORD = 16  # of a text, where a longer one is broken
HEADINGS = {
    "accuracy": "acc.",
    "baseline": "base",
    "direction": "way",
    "p_holm": "p Holm",
    "overrides": "what differs",
    "importance_rank_correlation": "rank correlation of gradients",
    "deviation_over_checkpoints": "deviation over checkpoints",
    "heterogeneous, published bound": "published bound",
}
WAYS = {"dependent_to_head": "dep→head", "head_to_dependent": "head→dep"}
WAYS |= {"target_to_element": "target→element", "element_to_target": "element→target"}
NAMES = ("class", "label", "role")  # columns of names that the program gave, and not of files, runs or keys
PLAIN = re.compile(r"[\w./:@+-]+")  # what Hydra reads as it stands


def show(results: RunResults, folder: Path, closing_lines: Sequence[str] = (), part: bool = False) -> None:
    """Print the summary with the published figures beside ours; the last line is the path of results.json.

    Part of another run, it has no such line: where the whole is stopped, the part's would pass for it.
    """
    console = paper()
    for name, columns in results.provenance.config["show"].items():
        if columns:
            title = results.experiment if name == "summary" else name.replace("_", " ")
            rows, notes = results.tables.get(name), results.notes.get(name, ())
            if rows:
                rows = readable(rows, results.quantities)
                columns, alike = apart(rows, list(rows[0]) if columns == "all" else columns)
                print_table(console, title, rows, columns)
                notes = [*alike, *notes]
            for note in notes:
                say(console, note if rows else f"{title}: {note}")
    for line in caption(results.provenance):
        say(console, line)
    # In the order in which the configuration names them, those that matter first.
    figures = sorted((folder / "figures").glob("*.png"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    for figure in figures[:MOST_FIGURES]:
        say(console, f"figure: {figure}")
    if more := figures[MOST_FIGURES:]:
        say(console, f"and {len(more)} more in {folder / 'figures'}")
    for line in closing_lines:
        say(console, line)
    if not part:
        for command in next_commands(results.provenance.config.get("next") or (), folder):
            say(console, f"next: {command}")
        print(folder / "results.json", flush=True)


def announce(experiment: str, facts: Facts, source: Source) -> None:
    """Say what runs, before the first bar: the experiment, the task, the model and the data."""
    task = f" {facts.task}" if facts.task else ""
    heads = f" ({facts.layers} × {facts.heads} heads)" if facts.layers else ""
    line = f"{experiment}{task}: {source.encoder['name']}{heads} on {data_of(source)}"
    say(Console(stderr=True), line)


def data_of(source: Source) -> str:
    """The files and how many examples there are of each part."""
    parts = [Path(file).parts for file in source.data]
    alike = len({one[-1] for one in parts}) < len(parts)  # as dev.tsv of several tasks
    names = ["/".join(one[-2:] if alike else one[-1:]) for one in parts]
    files = ", ".join(names[:MOST_FILES]) + (f" and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else "")
    return f"{files} ({', '.join(f'{count:,} {part}' for part, count in source.examples.items())})"


def say(console: Console, line: str) -> None:
    """A line as it stands, however long: whoever copies a path or a command gets it whole."""
    console.print(line, soft_wrap=True, highlight=False, markup=False)


def next_commands(commands: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """The commands that go on from a run, each given by its keys and values, as lines to paste.

    A key without a value, or false, is left out; so is a command that reads what this run did not leave in its folder.
    """
    lines = []
    for keys in commands:
        given = {key: str(value) for key, value in keys.items() if value is not None and value is not False}
        left = [Path(value) for value in given.values() if value.startswith(f"{folder}/")]
        if all(path.exists() for path in left):
            words = [f"{key}={value if PLAIN.fullmatch(value) else quoted(value)}" for key, value in given.items()]
            lines.append(shlex.join(["python", "train.py", *words]))
    return lines


def quoted(text: str) -> str:
    """The text as a value in Hydra's grammar, whatever it contains."""
    escaped = text.replace("\\'", "\\\\'").replace("'", "\\'")
    return f"'{escaped}'"


def paper() -> Console:
    """What tables are printed on: the terminal, or a file that is wider."""
    console = Console(force_jupyter=False)  # in a notebook too, what is printed goes to the standard output
    return console if console.is_terminal else Console(width=WIDTH_OF_A_FILE, force_jupyter=False)


def print_table(console: Console, title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """The table, and which columns it has no room for."""
    table, left_out = table_of(title, rows, columns, console.width)
    console.print(table)
    if left_out:
        say(console, without_room(left_out))


def caption(provenance: Provenance) -> list[str]:
    """Which model and data are ours, and where the published figures come from."""
    lines = [f"ours: {provenance.encoder['name']} on {data_of(provenance)}", *sample_notes(provenance)]
    counted = {"skipped as too long": provenance.skipped, "words without pieces": provenance.words_without_pieces}
    for what, counts in counted.items():
        if count := sum(counts.values()):
            lines.append(f"{what}: {count}")
    lines += [f"left out: {count} {what}" for what, count in provenance.left_out.items() if count]
    if vectors := provenance.vectors:
        lines.append(f"word vectors: {vectors['size']} numbers, {100 * vectors['coverage']:.1f} % of the words known")
    published = provenance.config["published"]
    if published["source"]:
        lines.append(why_not_beside(published, provenance) or f"published: {published['source']}")
    return lines


# Tables: the numbers of a column alike, and the columns that a width has room for


def readable(rows: Sequence[Row], quantities: Mapping[str, Quantity]) -> list[Row]:
    """The rows as people say them: a quantity by its label, a metric without its part where all are of the same."""
    parts = {str(row["metric"]).partition("/")[0] for row in rows if "metric" in row}
    return [
        {**row}
        | ({"quantity": quantities[row["quantity"]].label} if row.get("quantity") in quantities else {})
        | ({"metric": metric_text(str(row["metric"]), len(parts) > 1)} if row.get("metric") else {})
        for row in rows
    ]


def metric_text(metric: str, several: bool) -> str:
    """`test/uas_without_root` as words, with the part of the data where there are several."""
    part, slash, name = metric.rpartition("/")
    return name.replace("_", " ") + (f" ({part})" if slash and several else "")


def apart(rows: Sequence[Row], columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns that tell rows apart or have numbers; the words that all rows share are a line, said once."""
    shared = {
        column: row_text
        for column in columns
        if len(rows) > 1 and isinstance(row_text := rows[0].get(column), str)
        if all(row.get(column) == row_text for row in rows)
    }
    told = [f"{_heading(column)} {WAYS.get(text, text)}" for column, text in shared.items() if column != text]
    left = [column for column in columns if column not in shared]
    return left or list(columns), [f"in all rows: {'; '.join(told)}"] if left and told else []


def column_texts(name: str, values: Sequence[object]) -> list[str]:
    """The cells of a column: counts whole, other numbers with the same decimals, p-values as they are reported."""
    if name == "p" or name.startswith("p_"):
        return ["< 0.001" if isinstance(value, float) and value < 0.001 else _text(value, 3) for value in values]
    if name in NAMES:
        values = [value.replace("_", " ") if isinstance(value, str) else value for value in values]
    decimals = _decimals([abs(value) for value in values if isinstance(value, float)])
    return [_text(value, decimals) for value in values]


def _decimals(numbers: Sequence[float]) -> int:
    """Enough to tell shares from one another: where all are tiny or almost equal, two digits of what they differ by."""
    largest, usual = max(numbers, default=0.0), 3 if any(0 < number < 1 for number in numbers) else 2
    spread = largest - min(numbers, default=0.0)
    if 10**-MOST_DECIMALS < spread < 10**-usual:
        return min(MOST_DECIMALS, 1 - math.floor(math.log10(spread)))
    if 0 < largest < 0.01:
        return min(MOST_DECIMALS, 1 - math.floor(math.log10(largest)))
    return usual


def _text(value: object, decimals: int) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return WAYS.get(str(value), str(value))
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
    return HEADINGS.get(column, column.replace("_", " "))


def _least_width(column: str, texts: Sequence[str], words: bool) -> int:
    heading = max(map(len, _heading(column).split()), default=0)
    if not words:
        return max(heading, *map(len, texts))
    longest = max((len(word) for text in texts for word in re.split(r"\s", text)), default=0)
    return max(heading, min(longest, LONGEST_WORD))


def without_room(left_out: Sequence[str]) -> str:
    """What to say of columns that a terminal has no room for."""
    return f"no room here for {', '.join(map(_heading, left_out))}: results.json has all columns"
