"""Figures from results, each as SVG and PNG; colours that colour-blind readers can tell apart."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from headscope.contracts import Row, RunResults
from headscope.files import write_atomically

matplotlib.use("Agg")
pyplot.rcParams.update({"font.size": 9, "svg.hashsalt": "headscope", "figure.constrained_layout.use": True})
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
OURS, PUBLISHED = "#0072B2", "#E69F00"
MOST_RELATIONS = 25


def head_heatmaps(results: RunResults, heads: Sequence[Row], folder: Path, sections: Sequence[str]) -> None:
    """A (layer, head) grid for every per-head quantity of some sections."""
    for name, quantity in results.quantities.items():
        if quantity.section.name in sections:
            cells = {(row["layer"], row["head"]): row["value"] for row in heads if row["quantity"] == name}
            save(head_heatmap(quantity.title, cells), folder, f"heads_{name}")


def head_heatmap(title: str, cells: Mapping[tuple[int, int], float | None]) -> Figure:
    """One grid; a diverging scale around zero where values have both signs."""
    layers, heads = (max(index) for index in zip(*cells, strict=True))
    values = [value for value in cells.values() if value is not None]
    largest = max(map(abs, values), default=1.0)
    scale = {"cmap": "PuOr", "vmin": -largest, "vmax": largest} if min(values, default=0) < 0 else {"cmap": "viridis"}
    figure, axes = pyplot.subplots(figsize=(1.2 + 0.3 * heads, 1.0 + 0.3 * layers))
    image = draw_grid(axes, cells, **scale)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


def draw_grid(axes: Axes, cells: Mapping[tuple[int, int], float | None], **scale: Any) -> AxesImage:
    """A cell per head, layers from the top."""
    layers, heads = (max(index) for index in zip(*cells, strict=True))
    grid = [[cells[layer, head] for head in range(1, heads + 1)] for layer in range(1, layers + 1)]
    image = axes.imshow([[float("nan") if value is None else value for value in row] for row in grid], **scale)
    axes.set(xlabel="head", ylabel="layer")
    axes.set_xticks(range(heads), [str(head) for head in range(1, heads + 1)], fontsize=7)
    axes.set_yticks(range(layers), [str(layer) for layer in range(1, layers + 1)], fontsize=7)
    return image


def relation_recall(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """Recall of the most frequent relations, as bars."""
    rows = results.tables.get("relations", [])[:MOST_RELATIONS]
    if not rows:
        return
    figure, axes = pyplot.subplots(figsize=(4.5, 0.8 + 0.2 * len(rows)))
    bars = axes.barh([f"{row['relation']} ({row['count']})" for row in rows], [row["recall"] for row in rows], color=OURS)
    axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="words with the right head (%)", xlim=(0, 110), title="Attachment by relation (words)")
    save(figure, folder, "relations")


def row_bars(results: RunResults, heads: Sequence[Row], folder: Path, label: str = "words with the right head (%)") -> None:
    """The rows of a published table: our figure and the published one side by side."""
    rows = results.tables["summary"]
    positions = range(len(rows))
    figure, axes = pyplot.subplots(figsize=(5.5, 0.9 + 0.5 * len(rows)))
    for offset, column, colour in ((-0.2, "ours", OURS), (0.2, "published", PUBLISHED)):
        known = [(index + offset, row[column]) for index, row in enumerate(rows) if row[column] is not None]
        if known:
            heights, values = zip(*known, strict=True)
            bars = axes.barh(heights, values, 0.38, color=colour, label=column)
            axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axes.set_yticks(positions, [row["row"] for row in rows])
    axes.invert_yaxis()
    axes.set(xlabel=label, xlim=(min(0, *(row["ours"] for row in rows)), 100), title=results.experiment)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    save(figure, folder, "rows")


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write both formats, each whole or not at all."""
    name = name.replace(":", "_")
    formats: dict[str, dict[str, Any]] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 200}}
    for suffix, options in formats.items():
        image = io.BytesIO()
        figure.savefig(image, format=suffix, **options)
        write_atomically(folder / f"{name}.{suffix}", image.getvalue())
    pyplot.close(figure)
