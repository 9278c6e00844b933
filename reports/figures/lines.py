"""Lines over the rows of a table: scores by epoch or by layer."""

from collections.abc import Iterator, Sequence

from matplotlib.ticker import MaxNLocator

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLOURS, COLUMN, MARKERS, Sheet, legend_below, sheet, written

NAMES = {"f1": "F1", "pearson": "Pearson's r", "spearman": "Spearman's ρ"}
HEIGHT = 48.0  # millimetres


@written
def table_lines(
    results: RunResults, heads: Sequence[Row], table: str, over: str, title: str, label: str
) -> Iterator[tuple[str, Sheet]]:
    """A line for each column of numbers of a table, over one of them; a dotted line is at the row that was chosen."""
    rows = results.tables.get(table) or []
    if len(rows) < 2:  # a point is no line
        return
    shown = [name for name in rows[0] if name not in (over, "n")]
    columns = [name for name in shown if any(isinstance(row[name], int | float) for row in rows)]
    drawn = sheet(results, title, COLUMN, HEIGHT)
    axes = drawn.body.subplots()
    lines = []
    for column, colour, marker in zip(columns, COLOURS, MARKERS, strict=False):
        known = [(row[over], row[column]) for row in rows if row[column] is not None]
        lines += axes.plot(*zip(*known, strict=True), color=colour, marker=marker, label=NAMES.get(column, column))
    for row in rows:
        if row.get("chosen"):
            at = axes.axvline(row[over], color="black", linewidth=0.6, linestyle=":", zorder=0, label=f"chosen {over}")
            lines.append(at)
    axes.set(xlabel=over, ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.15)
    legend_below(drawn, lines)
    yield table, drawn
