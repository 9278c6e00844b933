"""Heads in the plane, near where they attend alike (Clark, Figure 6)."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLOURS, MARKERS, save

MOSTLY = {
    "previous token": "attention_to_previous",
    "next token": "attention_to_next",
    "[CLS]": "attention_to_cls",
    "[SEP]": "attention_to_sep",
    "periods and commas": "attention_to_punctuation",
}
BROAD_SHARE = 0.1  # the heads of highest entropy that count as broad
OTHER = "#BBBBBB"
Head = tuple[int, int]


def head_plane(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """The same plane twice, coloured by layer and marked by behaviour; relation heads by name, where they are known."""
    values = by_quantity(heads)
    places = {head: (x, values["mds_y"][head]) for head, x in values["mds_x"].items()}
    relations = relations_of(results.tables.get("marked_relations", []))
    ratios = [1.15, 1, 0.75] if relations else [1.15, 1]
    figure, (left, right, *text) = pyplot.subplots(1, len(ratios), figsize=(3.9 * sum(ratios), 4.4), width_ratios=ratios)
    draw_layers(left, places)
    mark_relations(right, places, relations)
    draw_behaviour(right, places, behaviours(values))
    for axes in text:
        list_relations(axes, relations)
    middle, reach = limits(places.values())
    for axes in (left, right):
        axes.set(
            xticks=[], yticks=[], xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach)
        )
        axes.set_aspect("equal")
    save(figure, folder, "clusters")


def limits(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], float]:
    """The middle of a square around all points, and how far it reaches."""
    ends = [(min(axis), max(axis)) for axis in zip(*points, strict=True)]
    middle = tuple((low + high) / 2 for low, high in ends)
    return middle, 0.55 * max(high - low for low, high in ends)


def by_quantity(heads: Sequence[Row]) -> dict[str, dict[Head, float]]:
    """The values of each quantity by head."""
    found: dict[str, dict[Head, float]] = {}
    for row in heads:
        found.setdefault(row["quantity"], {})[row["layer"], row["head"]] = row["value"]
    return found


def behaviours(values: Mapping[str, Mapping[Head, float]]) -> dict[str, list[Head]]:
    """The heads that give over half of their attention to one thing, and the broadest of the others."""
    mostly = {
        name: [head for head, value in values[quantity].items() if value is not None and value > 0.5]
        for name, quantity in MOSTLY.items()
        if quantity in values
    }
    taken = {head for chosen in mostly.values() for head in chosen}
    entropy = {head: value for head, value in values.get("entropy", {}).items() if value is not None}
    broadest = sorted(entropy, key=lambda head: entropy[head], reverse=True)[: round(BROAD_SHARE * len(entropy))]
    return mostly | {"broad": [head for head in broadest if head not in taken]}


def draw_layers(axes: Axes, places: Mapping[Head, tuple[float, float]]) -> None:
    """Colour by layer."""
    points = axes.scatter(*zip(*places.values(), strict=True), c=[layer for layer, _ in places], cmap="viridis", s=22)
    axes.figure.colorbar(points, ax=axes, label="layer", shrink=0.8, ticks=sorted({layer for layer, _ in places}))
    axes.set_title("by layer")


def draw_behaviour(axes: Axes, places: Mapping[Head, tuple[float, float]], groups: Mapping[str, Sequence[Head]]) -> None:
    """Mark by behaviour; heads without one stay grey."""
    axes.scatter(*zip(*places.values(), strict=True), color=OTHER, s=12, label="other")
    for index, (name, chosen) in enumerate(groups.items()):
        if chosen:
            points = zip(*(places[head] for head in chosen), strict=True)
            axes.scatter(*points, s=28, color=COLOURS[index], marker=MARKERS[index], label=f"{name} ({len(chosen)})")
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=2, frameon=False)
    axes.set_title("by behaviour")


def relations_of(rows: Sequence[Row]) -> dict[Head, list[str]]:
    """What each relation head finds, by head."""
    found: dict[Head, list[str]] = {}
    for row in rows:
        if row["relation"] != "all":
            layer, head = map(int, row["head"].split("-"))
            found.setdefault((layer, head), []).append(row["relation"])
    return dict(sorted(found.items()))


def mark_relations(axes: Axes, places: Mapping[Head, tuple[float, float]], names: Mapping[Head, Sequence[str]]) -> None:
    """A ring and its number at each relation head that is on the plane."""
    here = [head for head in names if head in places]
    if here:
        ring = {"facecolors": "none", "edgecolors": "black", "linewidths": 0.7, "label": "finds a relation"}
        axes.scatter(*zip(*(places[head] for head in here), strict=True), s=50, **ring)
    for head in here:
        axes.annotate("-".join(map(str, head)), places[head], fontsize=6, xytext=(4, 3), textcoords="offset points")


def list_relations(axes: Axes, names: Mapping[Head, Sequence[str]]) -> None:
    """The relations of each numbered head, in words."""
    lines = [f"{layer}-{head}  {', '.join(found)}" for (layer, head), found in names.items()]
    text = "\n".join(textwrap.fill(line, 32, subsequent_indent="        ") for line in lines)
    axes.text(0, 1, text, fontsize=6.5, va="top", transform=axes.transAxes)
    axes.set_title("relations", loc="left")
    axes.axis("off")
