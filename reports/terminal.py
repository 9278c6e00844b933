"""The end of a run on the terminal: a table for people, then the path of results.json."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table


def show(results: Mapping, folder: Path) -> None:
    """Print the summary with the published figures beside ours; the last line is the path of results.json."""
    console = Console()
    rows = results["tables"]["summary"]
    if rows:
        console.print(summary_table(results["experiment"], rows))
    for line in caption(results["provenance"]):
        console.print(line, soft_wrap=True, highlight=False)
    for name in sorted(path.name for path in (folder / "figures").glob("*.png")):
        console.print(f"figure: {folder / 'figures' / name}", soft_wrap=True, highlight=False)
    print(folder / "results.json", flush=True)


def summary_table(title: str, rows: list[Mapping]) -> Table:
    """One line per row; columns that no row fills are left out."""
    columns = [column for column in rows[0] if any(row[column] is not None for row in rows)]
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
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def caption(provenance: Mapping) -> list[str]:
    """Which model and data are ours, and where the published figures come from."""
    data = ", ".join(Path(file).name for file in provenance["data"])
    examples = ", ".join(f"{count} {part}" for part, count in provenance["examples"].items())
    lines = [f"ours: {provenance['encoder']['name']} on {data} ({examples})"]
    for what, counts in (("skipped as too long", "skipped"), ("words without pieces", "words_without_pieces")):
        if count := sum(provenance[counts].values()):
            lines.append(f"{what}: {count}")
    if vectors := provenance["vectors"]:
        lines.append(f"word vectors: {vectors['size']} numbers, {100 * vectors['coverage']:.1f} % of the words known")
    if source := provenance["config"]["published"]["source"]:
        lines.append(f"published: {source}")
    return lines
