"""Bars: recall by relation, and the rows of a published table beside the published figures."""

from collections.abc import Iterator, Sequence

from matplotlib.lines import Line2D

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import (
    COLOURS,
    COLUMN,
    OURS,
    PUBLISHED,
    SMALL,
    UNDEFINED,
    Sheet,
    legend_below,
    sheet,
    wrapped,
    written,
)

MOST_RELATIONS = 25
TASKS = {"sst2": "SST-2", "stsb": "STS-B"}
METRICS = {"f1": "F1", "pearson": "Pearson's r", "spearman": "Spearman's ρ"}
START_COLOURS = (UNDEFINED, COLOURS[5], OURS)
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


@written
def start_bars(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """Fine-tuning from several starts: a group of bars for each task and metric, with a mark at the published figure."""
    groups: dict[str, dict[str, Row]] = {}
    for row in results.tables["summary"]:
        task, _, start = row["row"].partition(", ")
        metric = row["metric"].removeprefix("test/")
        groups.setdefault(f"{TASKS.get(task, task.upper())}\n{METRICS.get(metric, metric)}", {})[start] = row
    starts = list(dict.fromkeys(start for group in groups.values() for start in group))
    note = "Ours: the epoch that is best on the same dev set; its score is at the right."
    height = 12 + 3.2 * (len(starts) + 0.8) * len(groups)
    drawn = sheet(results, "GLUE scores from several starts", 1.4 * COLUMN, height, [note])
    axes = drawn.body.subplots()
    step = 1 / (len(starts) + 0.8)
    for number, start in enumerate(starts):
        offset = (number - (len(starts) - 1) / 2) * step
        rows = {index + offset: group[start] for index, group in enumerate(groups.values()) if start in group}
        colour = START_COLOURS[number % len(START_COLOURS)]
        axes.barh(list(rows), [row["ours"] or 0 for row in rows.values()], 0.9 * step, color=colour, label=start)
        for y, row in rows.items():
            if row["ours"] is not None:
                axes.text(1.01, y, f"{row['ours']:.1f}", transform=axes.get_yaxis_transform(), va="center", fontsize=SMALL)
            if row["published"] is not None:
                axes.plot([row["published"]] * 2, [y - 0.45 * step, y + 0.45 * step], color=PUBLISHED, linewidth=2)
    axes.set_yticks(range(len(groups)), list(groups))
    least = min([0.0, *(row["ours"] or 0 for group in groups.values() for row in group.values())])
    axes.set(xlabel="score (%)", xlim=(1.05 * least, 100), ylim=(len(groups) - 0.4, -0.6))
    legend_below(drawn, [*axes.containers, Line2D([], [], color=PUBLISHED, linewidth=2, label="published")])
    yield "starts", drawn
