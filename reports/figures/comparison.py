"""Heads of several runs against each other: a point per head, and a grid of differences."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import head_heatmap, save

NAMED = 3
NOT_RUNS = ("quantity", "layer", "head")


def head_scatters(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """For each quantity, the value of every head in the first run against each other run; the diagonal is agreement."""
    for quantity, rows in _by_quantity(results).items():
        first, *others = (column for column in rows[0] if column not in NOT_RUNS)
        figure, panels = pyplot.subplots(1, len(others), figsize=(0.8 + 3.4 * len(others), 3.4), squeeze=False)
        points = [_scatter(axes, rows, first, other) for axes, other in zip(panels[0], others, strict=True)]
        figure.colorbar(points[-1], ax=panels, label="layer", shrink=0.8)
        figure.suptitle(quantity.replace("_", " "), fontsize=9)
        save(figure, folder, f"scatter_{quantity}")


def _scatter(axes: Axes, rows: Sequence[Row], first: str, other: str) -> PathCollection:
    known = [row for row in rows if row[first] is not None and row[other] is not None]
    x, y = [row[first] for row in known], [row[other] for row in known]
    points = axes.scatter(x, y, c=[row["layer"] for row in known], cmap="viridis", s=16)
    least = min(x + y, default=0)
    axes.axline((least, least), slope=1, color="grey", linewidth=0.8, zorder=0)
    for row in sorted(known, key=lambda row: -abs(row[other] - row[first]))[:NAMED]:
        name = f"{row['layer']}-{row['head']}"
        axes.annotate(name, (row[first], row[other]), xytext=(3, 3), textcoords="offset points", fontsize=7)
    axes.set(xlabel=first, ylabel=other)
    return points


def difference_heatmaps(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """For each quantity that is drawn, a grid of the differences of the heads."""
    for quantity, rows in _by_quantity(results).items():
        _, *others = (column for column in rows[0] if column not in NOT_RUNS)
        for name in [f"difference:{quantity}"] if len(others) == 1 else [f"difference:{quantity}:{run}" for run in others]:
            cells = {(row["layer"], row["head"]): row["value"] for row in heads if row["quantity"] == name}
            save(head_heatmap(results.quantities[name].title, cells), folder, name)


def _by_quantity(results: RunResults) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in results.tables["head_values"]:
        found.setdefault(row["quantity"], []).append(row)
    return found
