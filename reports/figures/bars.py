"""Bars: recall by relation, and the rows of a published table beside the published figures."""

from collections.abc import Iterator, Sequence

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLUMN, OURS, PUBLISHED, SMALL, Sheet, legend_below, sheet, wrapped, written

MOST_RELATIONS = 25
LABELS = 40.0  # millimetres for the names of rows


@written
def relation_recall(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """Recall of the most frequent relations."""
    rows = results.tables.get("relations", [])[:MOST_RELATIONS]
    if not rows:
        return
    drawn = sheet(results, "Words attached to the right governor, by relation", COLUMN, 10 + 3.6 * len(rows))
    axes = drawn.body.subplots()
    names = [f"{row['relation']} ({row['count']:,})" for row in rows]
    bars = axes.barh(names, [row["recall"] for row in rows], color=OURS)
    axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=SMALL)
    axes.set(xlabel="words with the right governor (%)", ylabel="relation (words)", xlim=(0, 110))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xticks(range(0, 101, 20))
    yield "relations", drawn


@written
def row_bars(results: RunResults, heads: Sequence[Row], title: str, label: str) -> Iterator[tuple[str, Sheet]]:
    """The rows of a published table: our figure and the published one side by side."""
    rows = results.tables["summary"]
    names = [wrapped(row["row"], LABELS, SMALL) for row in rows]
    lines = sum(max(2, name.count("\n") + 1) for name in names)
    drawn = sheet(results, title, 1.4 * COLUMN, 10 + 3.4 * lines)
    axes = drawn.body.subplots()
    shown = []
    for offset, column, colour in ((-0.2, "ours", OURS), (0.2, "published", PUBLISHED)):
        known = [(index + offset, row[column]) for index, row in enumerate(rows) if row[column] is not None]
        if known:
            heights, values = zip(*known, strict=True)
            shown.append(axes.barh(heights, values, 0.38, color=colour, label=column))
            axes.bar_label(shown[-1], fmt="%.1f", padding=2, fontsize=SMALL)
    axes.set_yticks(range(len(rows)), names)
    least = min([0.0, *(row[column] for row in rows for column in ("ours", "published") if row[column] is not None)])
    axes.set(xlabel=label, xlim=(1.15 * least, 110), ylim=(len(rows) - 0.4, -0.6))
    axes.set_xticks(range(20 * int(least / 20), 101, 20))
    legend_below(drawn, shown)
    yield "rows", drawn
