"""Attention patterns in pictures: how good the classifier is, and which pattern each head and layer shows."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import (
    CELL,
    COLOURS,
    COLUMN,
    OURS,
    SMALL,
    Sheet,
    add_bar,
    cell_size,
    legend_below,
    name_cells,
    page_width,
    sheet,
    text_width,
    written,
)

PATTERNS = {
    "vertical": COLOURS[1],
    "diagonal": COLOURS[0],
    "vertical_diagonal": COLOURS[3],
    "block": COLOURS[2],
    "heterogeneous": COLOURS[4],
    "abstained": "#DDDDDD",
}
NOT_SURE: dict[str, Any] = {  # every map has a class, so that this stands beside them
    "linestyle": "none", "marker": "D", "markersize": 3, "markerfacecolor": "white", "markeredgecolor": "black",
    "markeredgewidth": 0.6,
}  # fmt: skip
MODELS = {"": "model", "tuned_": "tuned"}
WORDS = {"vertical_diagonal": "vertical + diagonal", "model": "pre-trained", "tuned": "fine-tuned", "abstained": "not sure"}
TASKS = {"sst2": "SST-2", "stsb": "STS-B"}


@written
def classifier_figures(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The confusion matrix, and how sure the network is against how often it is right."""
    tables = results.tables
    if tables.get("confusion"):
        yield "confusion", confusion(results, tables["confusion"])
    if tables.get("reliability"):
        yield "reliability", reliability(results, tables["reliability"])
    if tables.get("transfer"):
        yield "transfer", transfer(results, tables["transfer"])
    if results.drawings.get("examples"):
        yield "examples", examples(results, results.drawings["examples"])


def confusion(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """How many maps of each label were taken for each class; the shade is the share of the label."""
    names = [row["label"] for row in rows]
    counts = [[row[name] for name in names] for row in rows]
    shares = [[100 * count / max(1, sum(row)) for count in row] for row in counts]
    drawn = sheet(results, "What held-out maps were taken for", COLUMN, 72, ["The number in a cell is that of maps."])
    axes = drawn.body.subplots()
    image = axes.imshow(shares, cmap="cividis", vmin=0, vmax=100, aspect="auto", interpolation="none")
    for y, row in enumerate(counts):
        for x, count in enumerate(row):
            axes.text(x, y, str(count), ha="center", va="center", color="white" if shares[y][x] < 50 else "black")
    titles = [readable(name) for name in names]
    axes.set_xticks(range(len(names)), titles, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), titles)
    axes.set(xlabel="taken for", ylabel="label")
    add_bar(drawn, image, axes, "share of the label (%)", 45)
    return drawn


def reliability(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """A calibrated network is on the diagonal; the area of a point is the number of maps."""
    error = results.metrics.get("calibration_error", results.metrics.get("test/calibration_error"))
    told = "" if error is None else f" Expected calibration error {error:.3f}."
    note = f"The area of a point is its number of maps; on the line the classifier is calibrated.{told}"
    drawn = sheet(results, "How often the classifier is right when it is so sure", COLUMN, 72, [note])
    axes = drawn.body.subplots()
    axes.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=1)
    sizes = [6 + 1.2 * row["maps"] for row in rows]
    axes.scatter([row["confidence"] for row in rows], [row["accuracy"] for row in rows], sizes, color=OURS, alpha=0.6)
    axes.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1.06), ylim=(0, 1.08))
    axes.grid(alpha=0.3, linewidth=0.5)
    return drawn


def transfer(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """Macro F1 on encoders that were not learnt from, and the F1 of each class, beside what folds of all encoders give."""
    whole = {row["class"]: row["f1"] for row in results.tables["classes"] if row.get("row") in (None, "CNN")}
    bars = [("all, held-out folds", results.metrics.get("f1"), whole)]
    bars += [(f"{row['not learnt from']} ({row['n']} maps)", row["f1"], row) for row in rows]
    note = "Bars: macro F1 on encoders that were not learnt from. Points: the F1 of each class."
    drawn = sheet(results, "The classifier on encoders that it has not seen", 1.4 * COLUMN, 14 + 9 * len(bars), [note])
    axes = drawn.body.subplots()
    for place, (_, f1, classes) in enumerate(bars):
        axes.barh(place, f1 or 0, 0.7, color=OURS, alpha=0.5)
        for name in list(PATTERNS)[:-1]:
            if classes.get(name) is not None:
                axes.scatter(classes[name], place, 16, color=PATTERNS[name], zorder=3)
        axes.text(0.03, place, f"{f1 or 0:.2f}", va="center", fontsize=SMALL)  # right of a class at 0
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.invert_yaxis()
    axes.set(xlabel="F1", xlim=(0, 1))
    legend_below(drawn, pattern_patches()[:-1])
    return drawn


def examples(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """A map of each class from each encoder (Kovaleva, Figure 1); ticks are special tokens."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    names = list(PATTERNS)[:-1]
    note = "Held-out maps that all labellers and the network call so, with the task of fine-tuning, if any, and the head. "
    note += "Ticks: special tokens. Shade: root of the weight."
    cell = min(34.0, (page_width(results) - 10) / len(families) - 2)
    drawn = sheet(results, "Attention patterns", 10 + (cell + 2) * len(families), 8 + (cell + 6) * len(names), [note])
    grid = drawn.body.subplots(len(names), len(families), squeeze=False)
    found = {(row["family"], row["class"]): row for row in rows}
    for (y, name), (x, family) in product(enumerate(names), enumerate(families)):
        axes, row = grid[y, x], found.get((family, name))
        axes.set_xticks([] if row is None else row["special"], labels=[])
        axes.set_yticks([] if row is None else row["special"], labels=[])
        axes.set_title(family if y == 0 else "")
        axes.set_ylabel(readable(name) if x == 0 else "", fontsize=SMALL)
        if row is None:
            axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes, fontsize=SMALL)
        else:
            axes.imshow(row["levels"], cmap="magma", vmin=0, interpolation="none")
            state = row["encoder"].removeprefix(family).lstrip("+")
            axes.set_xlabel(f"{state} {row['head']}".strip(), fontsize=SMALL)
    return drawn


@written
def pattern_shares(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """Stacked bars per layer for each model, and per task where there are several; then a grid of heads."""
    rows = results.tables["patterns_by_layer"]
    if any("task" in row for row in rows):
        yield "patterns_by_task", tasks_side_by_side(results, results.tables["summary"])
    yield "patterns_by_layer", layers_of_tasks(results, rows)
    yield from head_grids(results, heads)


def tasks_side_by_side(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """All maps of each task (Kovaleva, Figure 2), with the published bound where there is one."""
    several = len({row["model"] for row in rows}) > 1
    names = [task_name(row["task"]) + (f", {readable(row['model'])}" if several else "") for row in rows]
    longest = max(text_width(name, SMALL) for name in names)
    upright = longest + 1 > (page_width(results) - 16) / len(rows)
    drawn = sheet(results, "Patterns of all maps, by task", 18 + (longest + 2) * len(rows), 60 + longest * upright)
    axes = drawn.body.subplots()
    stacked(axes, names, rows)
    axes.tick_params(axis="x", rotation=90 if upright else 0)
    bounds = [(index, row["heterogeneous, published bound"]) for index, row in enumerate(rows)]
    known = [(index, bound) for index, bound in bounds if bound is not None]
    for index, bound in known:
        axes.plot([index - 0.42, index + 0.42], [bound, bound], color="black", linewidth=1.6)
    axes.set(ylabel="maps (%)", xlabel="task")
    line = [Line2D([], [], color="black", linewidth=1.6, label="published bound")] if known else []
    legend_below(drawn, [*pattern_patches(), *line])
    return drawn


def layers_of_tasks(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """A panel of layers for each task and model, on one scale."""
    panels = list(dict.fromkeys((row.get("task"), row["model"]) for row in rows))
    models = len({model for _, model in panels})
    room = 12 + 3.2 * len({row["layer"] for row in rows})
    width = max(1, min(len(panels), int(page_width(results) / max(40.0, room))))
    width = width // models * models or 1  # models of one task side by side
    height = -(-len(panels) // width)
    notes = [f"{note[:1].upper()}{note[1:]}." for note in results.notes.get("patterns_by_layer", ())]
    drawn = sheet(results, "Patterns by layer", 12 + max(40.0, room) * width, 6 + 46 * height, notes)
    grid = drawn.body.subplots(height, width, squeeze=False, sharey=True)
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    for axes, (task, model) in zip(grid.flat, panels, strict=False):
        own = [row for row in rows if (row.get("task"), row["model"]) == (task, model)]
        stacked(axes, [row["layer"] for row in own], own)
        named = [task_name(task) if task else "", readable(model) if models > 1 else ""]
        axes.set(xlabel="layer", title=", ".join(part for part in named if part))
    for axes in grid[:, 0]:
        axes.set_ylabel("maps (%)")
    legend_below(drawn, pattern_patches())
    return drawn


def stacked(axes: Axes, names: Sequence[str], rows: Sequence[Row]) -> None:
    """A bar for each row, its patterns on top of each other; a mark at the share that the network is not sure of."""
    base = [0.0] * len(rows)
    for pattern in reversed([name for name in PATTERNS if name != "abstained"]):
        values = [row[pattern] for row in rows]
        axes.bar(range(len(rows)), values, 0.84, base, color=PATTERNS[pattern])
        base = [low + value for low, value in zip(base, values, strict=True)]
    axes.plot(range(len(rows)), [row["abstained"] for row in rows], **NOT_SURE)
    axes.set_xticks(range(len(rows)), names)
    axes.set_ylim(0, 100)


def pattern_patches(not_sure: bool = True) -> list[Patch | Line2D]:
    """What the colours mean, and the mark."""
    patches: list[Patch | Line2D] = [
        Patch(color=colour, label=readable(name)) for name, colour in PATTERNS.items() if name != "abstained"
    ]
    return [*patches, Line2D([], [], label=readable("abstained"), **NOT_SURE)] if not_sure else patches


def head_grids(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The pattern that each head shows most often, the paler the rarer; a grid for each model."""
    for prefix, model in MODELS.items():
        shares: dict[tuple[int, int], dict[str, float]] = {}
        for row in heads:
            if row["quantity"].startswith(f"{prefix}pattern:"):
                shares.setdefault((row["layer"], row["head"]), {})[row["quantity"].partition(":")[2]] = row["value"]
        if shares:
            yield f"patterns_of_heads{'_tuned' if model == 'tuned' else ''}", head_grid(results, shares, model)


def head_grid(results: RunResults, shares: Mapping[tuple[int, int], Mapping[str, float]], model: str) -> Sheet:
    """Layers from the top, the share of the most frequent pattern written into each cell that has room for it."""
    layers, width = (max(index) for index in zip(*shares, strict=True))
    cell = cell_size(results, width, margin=12)
    written_in = cell >= text_width("100", SMALL) + 0.3
    note = f"The paler, the rarer{'; the number is % of inputs' if written_in else ''}."
    title = f"Most frequent pattern of each head, {readable(model)} model"
    drawn = sheet(results, title, 12 + max(CELL, cell) * width, 11 + cell * layers, [note])
    axes = drawn.body.subplots()
    picture = [[(1.0, 1.0, 1.0)] * width for _ in range(layers)]
    for (layer, head), own in shares.items():
        name, share = max(((one, own[one]) for one in own if one != "abstained"), key=lambda item: item[1])
        colour = tuple(1 - share * (1 - part) for part in to_rgb(PATTERNS[name]))
        picture[layer - 1][head - 1] = colour
        if written_in:
            ink = "black" if 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 0.45 else "white"
            axes.text(head - 1, layer - 1, f"{100 * share:.0f}", ha="center", va="center", fontsize=SMALL, color=ink)
    axes.imshow(picture, aspect="auto", interpolation="none")
    name_cells(axes, layers, width, cell)
    legend_below(drawn, pattern_patches(not_sure=False))
    return drawn


def readable(name: str) -> str:
    """A pattern or model as people call it."""
    return WORDS.get(name, name.replace("_", " "))


def task_name(task: str) -> str:
    """A task of GLUE as papers write it."""
    return TASKS.get(task, task.upper())
