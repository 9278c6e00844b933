"""Roles of heads over several tasks in pictures: shares, layers and changes, a panel for each task."""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import (
    COLOURS,
    GREY,
    MARKERS,
    PUBLISHED,
    SMALL,
    Sheet,
    legend_below,
    page_width,
    sheet,
)

BROAD = {"local": COLOURS[0], "delimiter": COLOURS[1], "block": COLOURS[2], "syntactic": COLOURS[3]}
ROLES = {
    "prev": "previous token", "next": "next token", "cls": "[CLS]", "sep": "[SEP]", "same_word": "same word",
    "rare": "rare words", "pieces": "other pieces", "question_mark": "question mark",
}  # fmt: skip
TASKS = {"sst2": "SST-2", "stsb": "STS-B"}
THIRDS = ("first", "middle", "last")
INTERVALS = "Lines on the bars are 95 % intervals over inputs."
SHARES = {
    "share_delimiter": "delimiter", "share_local": "local", "share_syntactic": "syntactic", "share_block": "block",
    "share_none": "none of\nthe four", "syntactic_that_are_local": "syntactic\nthat are\nlocal",
}  # fmt: skip


def task_figures(results: RunResults) -> Iterator[tuple[str, Sheet]]:
    """All figures of several tasks; those of one task are in its own folder."""
    tables = results.tables
    yield "roles_shares", shares(results, tables["summary"])
    yield "roles_by_layer", layers(results, tables["by_layer_of_tasks"])
    if tables["change_by_third_of_tasks"]:
        yield "roles_change", changes(results, tables["change_by_third_of_tasks"])


def task_name(task: str) -> str:
    """A task as people write it."""
    return TASKS.get(task, task.upper())


def shares(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """The share of heads with each coarse role: a point for each task, a bar for their mean, beside the published mean."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    tasks = [key for key in rows[0] if key not in ("metric", "model", "mean", "published")]
    drawn = sheet(results, "Heads by coarse role, mean over tasks", 183, 62)
    axes = drawn.body.subplots()
    shown: list[Any] = []
    step = 0.8 / len(models)
    for number, model in enumerate(models):
        own = {row["metric"]: row for row in rows if row["model"] == model}
        positions = [index - 0.4 + step * (number + 0.5) for index in range(len(SHARES))]
        colour = COLOURS[0] if model == "tuned" or len(models) == 1 else "#A8C8E0"
        label = {"tuned": "fine-tuned", "model": "pre-trained"}[model] if len(models) > 1 else "this model"
        means = [own[metric]["mean"] or 0 for metric in SHARES]
        shown.append(axes.bar(positions, means, 0.9 * step, color=colour, label=f"{label}, mean"))
        for column, task in enumerate(tasks):
            spread = [x + step * 0.5 * ((column + 0.5) / len(tasks) - 0.5) for x in positions]
            values = [own[metric][task] for metric in SHARES]
            axes.plot(spread, values, MARKERS[column % len(MARKERS)], color="black", markersize=3, linestyle="none")
        for x, metric in zip(positions, SHARES, strict=True):
            if isinstance(figure := number_in(own[metric]["published"]), float):
                axes.plot([x - 0.45 * step, x + 0.45 * step], [figure] * 2, color=PUBLISHED, linewidth=2)
    if any(row["published"] is not None for row in rows):
        shown.append(Line2D([], [], color=PUBLISHED, linewidth=2, label="published mean over four tasks, fine-tuned"))
    points = {"linestyle": "none", "color": "black", "markersize": 3}
    shown += [
        Line2D([], [], marker=MARKERS[n % len(MARKERS)], label=task_name(task), **points) for n, task in enumerate(tasks)
    ]
    axes.set_xticks(range(len(SHARES)), list(SHARES.values()))
    axes.set(ylabel="heads (%)", ylim=(0, 104))
    legend_below(drawn, shown)
    return drawn


def number_in(published: object) -> float | None:
    """The figure itself, where a range is told with it."""
    if isinstance(published, str):
        return float(published.split(" ")[0])
    return float(published) if isinstance(published, int | float) else None


def panels(results: RunResults, drawn: Sheet, tasks: Sequence[str], high: float) -> dict[str, Axes]:
    """Two panels a row, or one on a narrow page, with the same scale; the sheet grows with them."""
    columns = min(len(tasks), 2 if page_width(results) > 120 else 1)
    rows = -(-len(tasks) // columns)
    drawn.figure.set_figheight(drawn.figure.get_figheight() + rows * high / 25.4)
    grid: list[Axes] = list(drawn.body.subplots(rows, columns, sharey=True, squeeze=False).flat)
    for axes, task in zip(grid, tasks, strict=False):
        axes.set_title(task_name(task))
    for axes in grid[len(tasks) :]:
        axes.remove()
    return dict(zip(tasks, grid, strict=False))


def layers(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """How many heads of each layer have each coarse role, and several of the nine fine ones; a panel for each task."""
    model = rows[0].get("model")
    own = [row for row in rows if row.get("model") == model]
    tasks = list(dict.fromkeys(row["task"] for row in own))
    title = "Heads with each role by layer" + (", after fine-tuning" if model == "tuned" else "")
    drawn = sheet(results, title, 183, 4)
    shown: dict[str, Line2D] = {}  # of all panels: a role may be missing in one
    for task, axes in panels(results, drawn, tasks, 48).items():
        of_task = [row for row in own if row["task"] == task]
        numbers = [row["layer"] for row in of_task]
        for number, (role, colour) in enumerate(BROAD.items()):
            counts = [row[role] for row in of_task if row.get(role) is not None]
            if len(counts) == len(of_task):  # else no input of the task has the role, as block on single sentences
                look = {"marker": MARKERS[number], "markersize": 2.5, "color": colour}
                shown[role] = axes.plot(numbers, counts, label=role, **look)[0]
        several = [row["several_fine"] for row in of_task]
        shown["several"] = axes.plot(numbers, several, "--", color=GREY, label="several of the nine fine roles")[0]
        axes.set(xlabel="layer", ylabel="heads", xticks=numbers)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3, linewidth=0.5)
    legend_below(drawn, list(shown.values()))
    return drawn


def changes(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """The change of the scores after fine-tuning by thirds of the layers, a panel for each task (Figure 6)."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    drawn = sheet(results, "Change of the sieve score by fine-tuning", 183, 4, [INTERVALS])
    shown = []
    for task, axes in panels(results, drawn, tasks, 56).items():
        shown = change_bars(axes, [row for row in rows if row["task"] == task])
        axes.set_ylabel("change of the score")
    legend_below(drawn, shown)
    return drawn


def change_bars(axes: Axes, rows: Sequence[Row]) -> list[Any]:
    """Three bars for each role that some input has, with their intervals where they are known."""
    rows, shown = [row for row in rows if any(row[third] is not None for third in THIRDS)], []
    for number, third in enumerate(THIRDS):
        positions = [index + 0.27 * (number - 1) for index in range(len(rows))]
        values = [row[third] or 0 for row in rows]
        shown.append(axes.bar(positions, values, 0.25, color=COLOURS[number], label=f"{third} third of the layers"))
        for x, row in zip(positions, rows, strict=True):
            if row.get(f"{third}_low") is not None:
                axes.plot([x, x], [row[f"{third}_low"], row[f"{third}_high"]], color="black", linewidth=0.7)
    axes.axhline(0, color="black", linewidth=0.8)
    names = [str(ROLES.get(row["role"], row["role"])) for row in rows]
    axes.set_xticks(range(len(rows)), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=SMALL)
    return shown
