"""Which head finds which dependency: all relations in one chart, a grid per relation, and attention as lines (Clark)."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import (
    COLOURS,
    OURS,
    PUBLISHED,
    Sheet,
    add_bar,
    cell_size,
    cells_by_quantity,
    draw_grid,
    legend_below,
    scale_of,
    shape_of,
    sheet,
    text_width,
    written,
)

NOTE = "Lines are 95 % intervals of the accuracy on the half that did not choose the head."
FAINTEST, FAINTEST_LINK = 0.02, 0.35
LINK = COLOURS[1]  # far from the blue of the others also where it is faint
TITLES = {"dependent_to_head": "dependent → governor", "head_to_dependent": "governor → dependent"}


@written
def relation_chart(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The best head of each relation with its interval, the best fixed offset and the published head (Table 1)."""
    rows = results.tables["relation_heads"]
    if not rows:
        return
    places = range(len(rows))
    drawn = sheet(results, "Best head of each relation", 140, 11 + max(36, 4 * len(rows)), [NOTE])
    axes = drawn.body.subplots()
    held_out = [(place, row) for place, row in enumerate(rows) if row.get("held_out") is not None]
    for place, row in held_out:
        axes.hlines(place, row["held_out_low"], row["held_out_high"], color=COLOURS[0], linewidth=1.4)
    offset_marks: Any = {"facecolors": "none", "edgecolors": COLOURS[6], "marker": "s", "s": 14, "linewidths": 0.8}
    shown = [
        axes.scatter([row["accuracy"] for row in rows], places, s=16, color=COLOURS[0], label="best head", zorder=3),
        axes.scatter([row["baseline"] for row in rows], places, label="best fixed offset", zorder=3, **offset_marks),
    ]
    if held_out:
        # Mostly where the best head's own point is: taller than it, of another colour and above it.
        marks: Any = {"marker": "|", "s": 60, "linewidths": 1.4, "color": COLOURS[1], "zorder": 4}
        x, y = zip(*((row["held_out"], place) for place, row in held_out), strict=True)
        shown.append(axes.scatter(x, y, label="head chosen on the other half", **marks))
    known = [
        (found, place) for place, row in enumerate(rows) if (found := published_accuracy(row.get("published"))) is not None
    ]
    if known:
        x, y = zip(*known, strict=True)
        shown.append(axes.scatter(x, y, s=18, marker="D", color=PUBLISHED, label="published best head", zorder=2))
    axes.set_yticks(places, [f"{row['relation']} ({row['n']:,})   {row['head']}" for row in rows])
    axes.set(xlabel="words whose governor is found (%)", ylabel="relation (words), best head", xlim=(0, 101))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="both", alpha=0.3, linewidth=0.5)
    legend_below(drawn, shown)
    yield "relation_heads", drawn


def published_accuracy(text: object) -> float | None:
    """The accuracy in `dobj 8-10 86.8 (40.0, -2)`: of the published best head."""
    found = re.search(r"\d+-\d+ ([\d.]+) \(", str(text))
    return float(found[1]) if found else None


@written
def relation_heatmaps(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """For each ranked relation the accuracy of every head, in both directions on one scale."""
    cells = cells_by_quantity([row for row in heads if row["quantity"].startswith("relation:")])
    for row in results.tables["relation_heads"]:
        # Of a causal model, a direction that no pair of the relation can be seen in has no grid.
        names = {way: f"relation:{row['relation']}:{direction}" for direction, way in TITLES.items()}
        grids = {way: cells[name] for way, name in names.items() if name in cells}
        layers, columns = shape_of(next(iter(grids.values())))
        cell = cell_size(results, columns, panels=len(grids), margin=32)
        relation = "all relations" if row["relation"] == "all" else row["relation"]
        title = f"Words whose governor is found, {relation}"
        drawn = sheet(results, title, len(grids) * columns * cell + 32, layers * cell + 15)
        panels = drawn.body.subplots(1, len(grids), sharey=True, squeeze=False)[0]
        scale = scale_of([value for grid in grids.values() for value in grid.values()], from_zero=True)
        images = [draw_grid(axes, grid, cell, **scale) for axes, grid in zip(panels, grids.values(), strict=True)]
        for axes, way in zip(panels, grids, strict=True):
            axes.set_title(way)
        for axes in panels[1:]:
            axes.set_ylabel("")
        add_bar(drawn, images[0], panels, "governor found (%)", layers * cell)
        yield f"relation_{row['relation']}", drawn


@written
def attention_lines(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The best head of each relation at work in a sentence; the relation's own links in a second colour."""
    for drawing in results.drawings.get("attention_lines", []):
        title = f"Head {drawing['head']} finds {drawing['relation']} ({TITLES[drawing['direction']]})"
        drawn = sheet(results, title, 89, 2 + 3.1 * len(drawing["words"]), ["The darker a line, the more attention."])
        backwards = drawing["direction"] == "head_to_dependent"
        pairs = {(link[1], link[0]) if backwards else (link[0], link[1]) for link in drawing["links"]}
        draw_lines(drawn.body.subplots(), drawing["words"], drawing["attention"], drawn.width, pairs)
        legend_below(drawn, legend_of_lines(f"{drawing['relation']} link"))
        yield f"lines_{drawing['relation']}", drawn


def legend_of_lines(link: str) -> list[Line2D]:
    """What the two colours of lines are."""
    return [
        Line2D([], [], color=LINK, linewidth=2.0, label=link),
        Line2D([], [], color=OURS, linewidth=1.0, label="other attention"),
    ]


def draw_lines(
    axes: Axes,
    words: Sequence[str],
    attention: Sequence[Sequence[float]],
    width: float,
    links: Collection[tuple[int, int]] = (),
    size: float = 7.0,
    faintest: float = FAINTEST,
    faintest_link: float = FAINTEST_LINK,
) -> None:
    """Each left word joined to what it attends to, in a panel of so many millimetres.

    Links have a colour of their own, lie above all other lines and are never fainter than `faintest_link`.
    """
    for left, row in enumerate(attention):
        for right, weight in enumerate(row):
            linked = (left, right) in links
            if weight > faintest or linked:
                axes.plot(
                    [0, 1],
                    [left, right],
                    color=LINK if linked else OURS,
                    alpha=faintest_link + (1 - faintest_link) * min(1, weight) if linked else min(1, weight),
                    linewidth=2.0 if linked else 1.0,
                    zorder=3 if linked else 2,
                )
    marked = {index for link in links for index in link}
    for index, word in enumerate(words):
        weight = "bold" if index in marked else "normal"
        axes.text(-0.03, index, word, ha="right", va="center", fontsize=size, fontweight=weight)
        axes.text(1.03, index, word, ha="left", va="center", fontsize=size, fontweight=weight)
    # Room for the longest word, which is bold at worst, on both sides of lines that share the rest.
    longest = 1.2 * max(text_width(word, size) for word in words) + 3
    reach = longest / max(width - 4 - 2 * longest, 10)
    axes.set(xlim=(-reach, 1 + reach), ylim=(len(words) - 0.4, -0.6))
    axes.axis("off")
