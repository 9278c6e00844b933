"""The figure of a sweep: one line per job through the values that it had, coloured by what it reached."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import save

MANY_TIMES = 20  # a range that spans as much is shown on a logarithmic scale
MOST_TICKS = 12


def parallel_coordinates(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """One axis per value that differs and one for the metric; jobs without a figure are left out."""
    metric = next(iter(results.metrics), "")
    rows = [row for row in results.tables["jobs"] if metric and row[metric] is not None]
    columns = {key: [row["values"][key] for row in rows] for key in (rows[0]["values"] if rows else ())}
    columns = {key: texts for key, texts in columns.items() if len(set(texts)) > 1}
    if not columns:
        return
    reached = [row[metric] for row in rows]
    scales = [*(scale(texts) for texts in columns.values()), scale([repr(value) for value in reached])]
    figure, axes = pyplot.subplots(figsize=(1.5 + 1.6 * len(columns), 3.6))
    colours = pyplot.get_cmap("viridis")
    shade = Normalize(min(reached), max(reached))
    for job, value in sorted(enumerate(reached), key=lambda pair: pair[1]):
        axes.plot([heights[job] for heights, _ in scales], color=colours(shade(value)), linewidth=1.3, alpha=0.9)
    for position, (_, ticks) in enumerate(scales):
        draw_axis(axes, position, ticks)
    axes.set_xticks(range(len(scales)), [*columns, metric])
    axes.set(yticks=[], ylim=(-0.05, 1.05), xlim=(-0.3, len(scales) - 0.6), title=f"{results.experiment}: {len(rows)} jobs")
    axes.spines[:].set_visible(False)
    save(figure, folder, "jobs")


def scale(texts: Sequence[str]) -> tuple[list[float], list[tuple[float, str]]]:
    """Places between 0 and 1, and ticks: numbers by size, logarithmic where they span much; words in order."""
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        words = sorted(set(texts))
        heights = {word: index / max(1, len(words) - 1) for index, word in enumerate(words)}
        return [heights[text] for text in texts], [(height, word) for word, height in heights.items()]
    low, high = numbers.min(), numbers.max()
    logarithmic = low > 0 and high / low > MANY_TIMES
    bend = np.log if logarithmic else np.asarray
    ends = (np.geomspace if logarithmic else np.linspace)(low, high, 5)
    marks = sorted(set(numbers)) if len(set(numbers)) <= 5 else ends
    width = (bend(high) - bend(low)) or 1.0
    return [float(height) for height in (bend(numbers) - bend(low)) / width], [
        (float((bend(mark) - bend(low)) / width), f"{mark:.3g}") for mark in marks
    ]


def draw_axis(axes: Axes, position: int, ticks: Sequence[tuple[float, str]]) -> None:
    """A vertical line with its ticks on the right."""
    axes.axvline(position, color="black", linewidth=0.8, zorder=3)
    for height, text in ticks[:: 1 + len(ticks) // MOST_TICKS]:
        axes.text(
            position + 0.04,
            height,
            text,
            fontsize=7,
            va="center",
            zorder=4,
            bbox={"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0},
        )
