"""The figure of a sweep: one line per job through the values that it had, coloured by what it reached."""

from collections.abc import Iterator, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import SMALL, Sheet, add_bar, page_width, sheet, text_width, wrapped, written

MANY_TIMES = 20  # a range that spans as much is shown on a logarithmic scale
MOST_TICKS = 12
SPLITS = {"val": "validation", "test": "test", "train": "training"}
LONGEST = 24.0  # of a word at a tick, in millimetres


@written
def parallel_coordinates(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """One axis per value that differs and one for the metric; jobs without a figure are left out."""
    metric = next(iter(results.metrics), "")
    rows = [row for row in results.tables["jobs"] if metric and row[metric] is not None]
    columns = {key: [row["values"][key] for row in rows] for key in (rows[0]["values"] if rows else ())}
    columns = {key: texts for key, texts in columns.items() if len(set(texts)) > 1}
    if not columns:
        return
    reached = [row[metric] for row in rows]
    scales = [*(scale(texts) for texts in columns.values()), scale([repr(value) for value in reached])]
    room = min(38.0, (page_width(results) - 26) / len(scales))
    drawn = sheet(results, f"{len(rows)} jobs of a sweep, a line each", 26 + room * len(scales), 72)
    axes = drawn.body.subplots()
    shade = ScalarMappable(Normalize(min(reached), max(reached)), matplotlib.colormaps["viridis"])
    for job, value in sorted(enumerate(reached), key=lambda pair: pair[1]):
        axes.plot([heights[job] for heights, _ in scales], color=shade.to_rgba(value), linewidth=1.2, alpha=0.9)
    for position, (_, ticks) in enumerate(scales):
        draw_axis(axes, position, ticks, min(LONGEST, room - 4))
    names = [*columns, metric_name(metric)]
    axes.set_xticks(range(len(scales)), [broken(name, room - 2) for name in names])
    axes.set(yticks=[], ylim=(-0.05, 1.05), xlim=(-0.3, len(scales) - 0.3))
    axes.spines[:].set_visible(False)
    add_bar(drawn, shade, axes, metric_name(metric), 60)
    yield "jobs", drawn


def metric_name(metric: str) -> str:
    """`val/uas` as people read it."""
    split, _, name = metric.rpartition("/")
    name = name.upper() if len(name) <= 4 else name.replace("_", " ")
    return f"{name}, {SPLITS.get(split, split)}" if split else name


def broken(name: str, room: float) -> str:
    """A dotted key in lines of at most so many millimetres."""
    return wrapped(name.replace(".", ". "), room, SMALL).replace(". ", ".")


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


def draw_axis(axes: Axes, position: int, ticks: Sequence[tuple[float, str]], room: float) -> None:
    """A vertical line with its ticks on the right, each at most so many millimetres long, none over another."""
    axes.axvline(position, color="black", linewidth=0.8, zorder=3)
    below = -1.0
    for height, text in sorted(ticks[:: 1 + len(ticks) // MOST_TICKS]):
        if height - below < 0.045:  # the height of a line of text
            continue
        below = height
        while text_width(text, SMALL) > room:
            text = text.removesuffix("…")[:-1] + "…"
        box = {"facecolor": "white", "alpha": 0.7, "pad": 0.5, "linewidth": 0}
        axes.text(position + 0.04, height, text, fontsize=SMALL, va="center", zorder=4, bbox=box)
