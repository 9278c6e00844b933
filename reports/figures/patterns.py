"""Attention patterns in pictures: how good the classifier is, and which pattern each head and layer shows."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLOURS, OURS, save

PATTERNS = {
    "vertical": COLOURS[1],
    "diagonal": COLOURS[0],
    "vertical_diagonal": COLOURS[3],
    "block": COLOURS[2],
    "heterogeneous": COLOURS[4],
    "abstained": "#DDDDDD",
}
MODELS = {"": "model", "tuned_": "tuned"}


def classifier_figures(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """The confusion matrix, and how sure the network is against how often it is right."""
    tables = results.tables
    if tables.get("confusion"):
        confusion(tables["confusion"], folder)
    if tables.get("reliability"):
        reliability(tables["reliability"], results.metrics, folder)


def confusion(rows: Sequence[Row], folder: Path) -> None:
    """How many maps of each label were taken for each class; the shade is the share of the label."""
    names = [row["label"] for row in rows]
    counts = [[row[name] for name in names] for row in rows]
    shares = [[count / max(1, sum(row)) for count in row] for row in counts]
    figure, axes = pyplot.subplots(figsize=(4.2, 3.4))
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for y, row in enumerate(counts):
        for x, count in enumerate(row):
            axes.text(x, y, count, ha="center", va="center", color="white" if shares[y][x] > 0.6 else "black")
    titles = [readable(name) for name in names]
    axes.set_xticks(range(len(names)), titles, rotation=35, ha="right")
    axes.set_yticks(range(len(names)), titles)
    axes.set(xlabel="taken for", ylabel="label", title="held-out maps")
    save(figure, folder, "confusion")


def reliability(rows: Sequence[Row], metrics: Mapping[str, float | None], folder: Path) -> None:
    """A calibrated network is on the diagonal; the area of a point is the number of maps."""
    figure, axes = pyplot.subplots(figsize=(3.4, 3.2))
    axes.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=1)
    sizes = [10 + 2 * row["maps"] for row in rows]
    axes.scatter([row["confidence"] for row in rows], [row["accuracy"] for row in rows], sizes, color=OURS, alpha=0.6)
    error = metrics.get("calibration_error", metrics.get("test/calibration_error"))
    title = "calibration" if error is None else f"calibration error {error:.3f}"
    axes.set(xlabel="how sure it is", ylabel="how often it is right", xlim=(0, 1.02), ylim=(0, 1.05), title=title)
    axes.grid(alpha=0.3)
    save(figure, folder, "reliability")


def pattern_shares(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """One task: stacked bars per layer and a grid of heads, for each model; several tasks side by side."""
    rows = results.tables["patterns_by_layer"]
    if any("task" in row for row in rows):
        patterns_by_task(results, heads, folder)
        return
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, panels = pyplot.subplots(1, len(models), figsize=(1.2 + 3.4 * len(models), 3.2), squeeze=False, sharey=True)
    for axes, model in zip(panels.flat, models, strict=True):
        own = [row for row in rows if row["model"] == model]
        stacked(axes, [row["layer"] for row in own], own)
        axes.set(xlabel="layer", title=readable(model))
    finish_bars(figure, panels.flat[0])
    save(figure, folder, "patterns_by_layer")
    head_grids(heads, folder)


def patterns_by_task(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """Several tasks side by side (Kovaleva, Figure 2), then their layers, then the heads over all tasks."""
    rows = results.tables["summary"]
    several = len({row["model"] for row in rows}) > 1
    figure, axes = pyplot.subplots(figsize=(1.6 + 0.62 * len(rows), 3.4))
    stacked(axes, [f"{row['task']}\ntuned" if several and row["model"] == "tuned" else row["task"] for row in rows], rows)
    for index, row in enumerate(rows):
        if (bound := row["heterogeneous, published bound"]) is not None:
            axes.plot([index - 0.42, index + 0.42], [bound, bound], color="black", linewidth=1.5)
            axes.annotate("published\nbound", (index, bound), (0, 2), textcoords="offset points", ha="center", fontsize=6)
    axes.set(title="patterns of all maps")
    finish_bars(figure, axes)
    save(figure, folder, "patterns_by_task")
    layers_of_tasks(results.tables["patterns_by_layer"], folder)
    head_grids(heads, folder)


def layers_of_tasks(rows: Sequence[Row], folder: Path) -> None:
    """A panel of layers for each task and model."""
    panels = list(dict.fromkeys((row["task"], row["model"]) for row in rows))
    models = len({model for _, model in panels})
    width = min(4, len(panels) // models) if models == 1 else 2 * min(2, len(panels) // models)
    height = -(-len(panels) // width)
    figure, grid = pyplot.subplots(
        height, width, figsize=(0.6 + 2.3 * width, 0.7 + 2.0 * height), squeeze=False, sharey=True
    )
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    for axes, (task, model) in zip(grid.flat, panels, strict=False):
        own = [row for row in rows if (row["task"], row["model"]) == (task, model) and row["layer"] != "all"]
        stacked(axes, [row["layer"] for row in own], own)
        axes.set_title(task if models == 1 else f"{task}, {readable(model)}", fontsize=8)
        axes.tick_params(labelsize=6)
        axes.set_xlabel("layer", fontsize=7)
    finish_bars(figure, grid.flat[0])
    save(figure, folder, "patterns_by_layer")


def stacked(axes: Axes, names: Sequence[str], rows: Sequence[Row]) -> None:
    """A bar for each row, its patterns on top of each other."""
    base = [0.0] * len(rows)
    for pattern in reversed(PATTERNS):
        if pattern == "abstained":
            continue
        base = add_part(axes, rows, pattern, base)
    add_part(axes, rows, "abstained", base)
    axes.set_xticks(range(len(rows)), names)
    axes.set_ylim(0, 100)


def add_part(axes: Axes, rows: Sequence[Row], pattern: str, base: Sequence[float]) -> list[float]:
    """One pattern of all bars; where the next one begins."""
    values = [row[pattern] for row in rows]
    axes.bar(range(len(rows)), values, 0.84, base, color=PATTERNS[pattern], label=readable(pattern))
    return [low + value for low, value in zip(base, values, strict=True)]


def finish_bars(figure: Figure, first: Axes) -> None:
    """The scale, and one legend for all panels."""
    first.set_ylabel("maps (%)")
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=7)


def head_grids(heads: Sequence[Row], folder: Path) -> None:
    """The pattern that each head shows most often, the paler the rarer; a grid for each model."""
    for prefix, model in MODELS.items():
        shares: dict[tuple[int, int], dict[str, float]] = {}
        for row in heads:
            if row["quantity"].startswith(f"{prefix}pattern:"):
                shares.setdefault((row["layer"], row["head"]), {})[row["quantity"].partition(":")[2]] = row["value"]
        if shares:
            head_grid(shares, model, folder)


def head_grid(shares: Mapping[tuple[int, int], Mapping[str, float]], model: str, folder: Path) -> None:
    """Layers from the top, the share of the most frequent pattern written into each cell."""
    layers, width = (max(index) for index in zip(*shares, strict=True))
    figure, axes = pyplot.subplots(figsize=(1.0 + 0.42 * width, 1.3 + 0.36 * layers))
    picture = [[(1.0, 1.0, 1.0)] * width for _ in range(layers)]
    for (layer, head), own in shares.items():
        name, share = max(own.items(), key=lambda item: item[1])
        picture[layer - 1][head - 1] = tuple(1 - share * (1 - part) for part in to_rgb(PATTERNS[name]))
        axes.text(head - 1, layer - 1, f"{100 * share:.0f}", ha="center", va="center", fontsize=6)
    axes.imshow(picture)
    axes.set_xticks(range(width), [str(head) for head in range(1, width + 1)], fontsize=7)
    axes.set_yticks(range(layers), [str(layer) for layer in range(1, layers + 1)], fontsize=7)
    axes.set(xlabel="head", ylabel="layer", title=f"most frequent pattern of each head, % of inputs ({model})")
    for name, colour in PATTERNS.items():
        axes.plot([], [], "s", color=colour, label=readable(name))
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=7)
    save(figure, folder, f"patterns_of_heads{'_tuned' if model == 'tuned' else ''}")


def readable(name: str) -> str:
    """A name as people read it."""
    return name.replace("vertical_diagonal", "vertical + diagonal").replace("_", " ")
