"""The end of a run on the terminal: a table for people, then the path of results.json."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from headscope.contracts import Facts, Provenance, Row, RunResults, Source
from headscope.reports.columns import table_of, without_room
from headscope.reports.evidence import sample_notes

MOST_FIGURES, MOST_FILES = 6, 4
WIDTH_OF_A_FILE = 130


def show(results: RunResults, folder: Path, closing_lines: Sequence[str] = (), part: bool = False) -> None:
    """Print the summary with the published figures beside ours; the last line is the path of results.json.

    Part of another run, it has no such line: where the whole is stopped, the part's would pass for it.
    """
    console = paper()
    for name, columns in results.provenance.config["show"].items():
        if columns and (rows := results.tables.get(name)):
            title = results.experiment if name == "summary" else name.replace("_", " ")
            print_table(console, title, rows, list(rows[0]) if columns == "all" else columns)
    for line in caption(results.provenance):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    figures = sorted((folder / "figures").glob("*.png"))
    for figure in figures[:MOST_FIGURES]:
        console.print(f"figure: {figure}", soft_wrap=True, highlight=False, markup=False)
    if more := figures[MOST_FIGURES:]:
        console.print(f"and {len(more)} more in {folder / 'figures'}", soft_wrap=True, highlight=False, markup=False)
    for line in closing_lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if not part:
        print(folder / "results.json", flush=True)


def announce(experiment: str, facts: Facts, source: Source) -> None:
    """Say what runs, before the first bar: the experiment, the task, the model and the data."""
    task = f" {facts.task}" if facts.task else ""
    heads = f" ({facts.layers} × {facts.heads} heads)" if facts.layers else ""
    line = f"{experiment}{task}: {source.encoder['name']}{heads} on {data_of(source)}"
    Console(stderr=True).print(line, soft_wrap=True, highlight=False, markup=False)


def data_of(source: Source) -> str:
    """The files and how many examples there are of each part."""
    names = [Path(file).name for file in source.data]
    files = ", ".join(names[:MOST_FILES]) + (f" and {len(names) - MOST_FILES} more" if len(names) > MOST_FILES else "")
    return f"{files} ({', '.join(f'{count:,} {part}' for part, count in source.examples.items())})"


def paper() -> Console:
    """What tables are printed on: the terminal, or a file that is wider."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_OF_A_FILE)


def print_table(console: Console, title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """The table, and which columns it has no room for."""
    table, left_out = table_of(title, rows, columns, console.width)
    console.print(table)
    if left_out:
        console.print(without_room(left_out), soft_wrap=True, highlight=False, markup=False)


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
    if source := provenance.config["published"]["source"]:
        lines.append(f"published: {source}")
    return lines
