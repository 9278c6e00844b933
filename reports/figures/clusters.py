"""Heads in the plane, near where they attend alike (Clark, Figure 6)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from matplotlib.axes import Axes

from headscope.contracts import Row, RunResults, head_name
from headscope.reports.figures.drawing import (
    COLOURS,
    COLUMN,
    MARKERS,
    Sheet,
    cells_by_quantity,
    legend_below,
    page_width,
    sheet,
    written,
)
from headscope.reports.figures.labels import name_points

MOSTLY = {
    "previous token": "attention_to_previous",
    "next token": "attention_to_next",
    "[CLS]": "attention_to_cls",
    "[SEP]": "attention_to_sep",
    "periods and commas": "attention_to_punctuation",
}
BROAD_SHARE = 0.1  # the heads of highest entropy that count as broad
OTHER = "#BBBBBB"
MOST_NAMED = 30
RING = "ring: best head of a relation or of coreference"
NOTE = "Heads that attend alike are near each other. Broad: the tenth of the heads with the highest entropy."
Head = tuple[int, int]
Places = Mapping[Head, tuple[float, float]]


@written
def head_plane(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The same plane twice, coloured by layer and marked by behaviour; relation heads by name, where they are known."""
    values = cells_by_quantity(heads)
    both = {head: (x, values["mds_y"][head]) for head, x in values["mds_x"].items()}
    places = {head: (x, y) for head, (x, y) in both.items() if x is not None and y is not None}
    groups, relations = behaviours(values), relations_of(results.tables.get("marked_relations", []))
    wide = page_width(results) >= 2 * COLUMN - 1
    side = min(80.0, (page_width(results) - 16) / (2 if wide else 1))
    size = (2 * side + 16, side + 8) if wide else (side, 2 * side + 20)
    listed = relation_list(relations)
    notes = [NOTE, *([listed] if listed else [])]
    drawn = sheet(results, "Heads by how alike they attend", *size, notes)
    left, right = drawn.body.subplots(*((1, 2) if wide else (2, 1)))
    draw_layers(drawn, left, places, "right" if wide else "bottom")
    draw_behaviour(right, places, groups)
    mark_relations(right, places, relations)
    legend_below(drawn, right.get_legend_handles_labels()[0], "heads that give over half of their attention to")
    middle, reach = limits(places.values())
    for axes in (left, right):
        axes.set(xticks=[], yticks=[])
        axes.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach))
    notable = list(dict.fromkeys([*relations, *(head for chosen in groups.values() for head in chosen)]))[:MOST_NAMED]
    named = {head_name(*head): places[head] for head in notable if head in places}
    name_points(right, named, list(places.values()))
    yield "clusters", drawn


def limits(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], float]:
    """The middle of a square around all points, and how far it reaches."""
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*points, strict=True))
    return ((left + right) / 2, (low + high) / 2), 0.55 * max(right - left, high - low)


def behaviours(values: Mapping[str, Mapping[Head, float | None]]) -> dict[str, list[Head]]:
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


def draw_layers(drawn: Sheet, axes: Axes, places: Places, side: Literal["right", "bottom"]) -> None:
    """Colour by layer, with a scale on that side."""
    layers = sorted({layer for layer, _ in places})
    points = axes.scatter(*zip(*places.values(), strict=True), c=[layer for layer, _ in places], cmap="viridis", s=14)
    drawn.body.colorbar(points, ax=axes, label="layer", aspect=30, location=side, ticks=layers[:: 1 + len(layers) // 13])
    axes.set_title("by layer")


def draw_behaviour(axes: Axes, places: Places, groups: Mapping[str, Sequence[Head]]) -> None:
    """Mark by behaviour; heads without one stay grey."""
    axes.scatter(*zip(*places.values(), strict=True), color=OTHER, s=8, label="none of these")
    for index, (name, chosen) in enumerate(groups.items()):
        if chosen:
            points = zip(*(places[head] for head in chosen), strict=True)
            label = f"{'none of these, but broad' if name == 'broad' else name} ({len(chosen)})"
            axes.scatter(*points, s=18, color=COLOURS[index], marker=MARKERS[index], label=label)
    axes.set_title("by behaviour")


def relations_of(rows: Sequence[Row]) -> dict[Head, list[str]]:
    """What each relation head finds, by head."""
    found: dict[Head, list[str]] = {}
    for row in rows:
        if row["relation"] != "all":
            layer, head = map(int, row["head"].split("-"))
            found.setdefault((layer, head), []).append(row["relation"])
    return dict(sorted(found.items()))


def mark_relations(axes: Axes, places: Places, names: Mapping[Head, Sequence[str]]) -> None:
    """A ring at each relation head that is on the plane."""
    if here := [places[head] for head in names if head in places]:
        ring = {
            "facecolors": "none",
            "edgecolors": "black",
            "linewidths": 0.7,
            "zorder": 0.5,
            "label": RING,
        }
        axes.scatter(*zip(*here, strict=True), s=42, **ring)


def relation_list(names: Mapping[Head, Sequence[str]]) -> str:
    """The relations of each ringed head, in words."""
    found = "; ".join(f"{head_name(*head)} {', '.join(relations)}" for head, relations in names.items())
    return f"Best heads: {found}." if found else ""
