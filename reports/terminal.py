"""The end of a run on the terminal: a table for people, then the path of results.json."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headscope.contracts import Provenance, Row, RunResults

MOST_FIGURES, MOST_FILES = 6, 4
WIDTH_OF_A_FILE = 130


def show(results: RunResults, folder: Path, closing_lines: Sequence[str] = (), part: bool = False) -> None:
    """Print the summary with the published figures beside ours; the last line is the path of results.json.

    Part of another run, it has no such line: where the whole is stopped, the part's would pass for it.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_FILE)
    for name, columns in results.provenance.config["show"].items():
        if columns and (rows := results.tables.get(name)):
            title = results.experiment if name == "summary" else name.replace("_", " ")
            console.print(table_of(title, rows, list(rows[0]) if columns == "all" else columns))
    for line in caption(results.provenance):
        console.print(line, soft_wrap=True, highlight=False)
    figures = sorted((folder / "figures").glob("*.png"))
    for figure in figures[:MOST_FIGURES]:
        console.print(f"figure: {figure}", soft_wrap=True, highlight=False)
    if more := figures[MOST_FIGURES:]:
        console.print(f"and {len(more)} more in {folder / 'figures'}", soft_wrap=True, highlight=False)
    for line in closing_lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if not part:
        print(folder / "results.json", flush=True)


def table_of(title: str, rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """One line per row; columns that no row fills are left out."""
    columns = [column for column in columns if any(row.get(column) is not None for row in rows)]
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right")
    for row in rows:
        table.add_row(*(cell(row[column]) for column in columns))
    return table


def cell(value: object) -> str:
    """A value as people read it."""
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    if 0 < abs(value) < 0.01:
        return f"{value:.1e}"
    return f"{value:.3f}" if 0 < abs(value) <= 1 else f"{value:.2f}"


def caption(provenance: Provenance) -> list[str]:
    """Which model and data are ours, and where the published figures come from."""
    names = [Path(file).name for file in provenance.data]
    data = ", ".join(names[:MOST_FILES]) + (f" and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else "")
    examples = ", ".join(f"{count} {part}" for part, count in provenance.examples.items())
    lines = [f"ours: {provenance.encoder['name']} on {data} ({examples})"]
    counted = {"skipped as too long": provenance.skipped, "words without pieces": provenance.words_without_pieces}
    for what, counts in counted.items():
        if count := sum(counts.values()):
            lines.append(f"{what}: {count}")
    lines += [f"left out: {count} {what}" for what, count in provenance.left_out.items() if count]
    if vectors := provenance.vectors:
        lines.append(f"word vectors: {vectors['size']} numbers, {100 * vectors['coverage']:.1f} % of the words known")
    if source := provenance.config["published"]["source"]:
        lines.append(f"published: {source}")
    return lines
