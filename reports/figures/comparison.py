"""Heads of several runs against each other: a point per head, and a grid of differences."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from headscope.contracts import Quantity, Row, RunResults, head_name
from headscope.reports.figures.drawing import (
    GREY,
    Sheet,
    add_bar,
    head_heatmap,
    page_width,
    plain_label,
    sheet,
    wrapped,
    written,
)
from headscope.reports.figures.labels import name_points
from headscope.reports.figures.uncertainty import uncertainty

NAMED = 5
NOT_RUNS = ("quantity", "layer", "head")
SIDE = 60.0


@written
def head_scatters(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """For each quantity, the value of every head in the first run against each other run; the diagonal is agreement."""
    for name, rows in by_quantity(results).items():
        quantity, (first, *others) = quantity_of(results, name), runs_of(rows)
        columns = max(1, min(len(others), int((page_width(results) - 18) / 45)))
        side = min(SIDE, (page_width(results) - 18) / columns)
        lines = -(-len(others) // columns)
        title = f"Run against run: {plain_label(quantity)}"
        note = f"A point is a head; on the line both runs agree; the {NAMED} that differ most are named."
        drawn = sheet(results, title, 18 + columns * side, lines * side, [note])
        panels = drawn.body.subplots(lines, columns, squeeze=False)
        points = [
            scatter(axes, rows, first, other, quantity.unit, side) for axes, other in zip(panels.flat, others, strict=False)
        ]
        for axes in panels.flat[len(others) :]:
            axes.axis("off")
        bar = add_bar(drawn, points[-1], panels, "layer", lines * side - 10)
        layers = sorted({row["layer"] for row in rows})
        bar.set_ticks(layers[:: 1 + len(layers) // 13])
        for axes, other in zip(panels.flat, others, strict=False):
            name_farthest(axes, rows, first, other)
        yield f"scatter_{name}", drawn


def scatter(axes: Axes, rows: Sequence[Row], first: str, other: str, unit: str, side: float) -> PathCollection:
    """One run against another, on the same scale both ways."""
    known = defined(rows, first, other)
    x, y = [row[first] for row in known], [row[other] for row in known]
    points = axes.scatter(x, y, c=[row["layer"] for row in known], cmap="viridis", s=9)
    least, most = min(x + y, default=0), max(x + y, default=1)
    margin = 0.05 * (most - least) or 0.5
    ends = (least - margin, most + margin)
    axes.plot(ends, ends, color=GREY, linewidth=0.7, zorder=0)
    in_unit = f" ({unit})" if unit else ""
    axes.set(xlim=ends, ylim=ends)
    axes.set_xlabel(wrapped(first + in_unit, side - 12, 7))
    axes.set_ylabel(wrapped(other + in_unit, side - 12, 7))
    return points


def name_farthest(axes: Axes, rows: Sequence[Row], first: str, other: str) -> None:
    """The names of the heads that differ most."""
    known = defined(rows, first, other)
    farthest = sorted(known, key=lambda row: -abs(row[other] - row[first]))[:NAMED]
    named = {head_name(row["layer"], row["head"]): (row[first], row[other]) for row in farthest}
    name_points(axes, named, [(row[first], row[other]) for row in known])


def defined(rows: Sequence[Row], first: str, other: str) -> list[Row]:
    """The heads that both runs have a value for."""
    return [row for row in rows if row[first] is not None and row[other] is not None]


@written
def difference_heatmaps(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """For each quantity that is drawn, a grid of the differences of the heads."""
    for quantity, rows in by_quantity(results).items():
        first, *others = runs_of(rows)
        for run in others:
            name = f"difference:{quantity}" if len(others) == 1 else f"difference:{quantity}:{run}"
            own = [row for row in heads if row["quantity"] == name]
            meaning = results.quantities[name]
            notes = [] if uncertainty(own) else ["The runs give no intervals of differences: none is tested."]
            title = f"{plain_label(meaning)}: {run} minus {first}"
            yield name, head_heatmap(results, title, meaning.title, own, notes, difference=True)


def runs_of(rows: Sequence[Row]) -> list[str]:
    """The names of the runs, the first first."""
    return [column for column in rows[0] if column not in NOT_RUNS]


def quantity_of(results: RunResults, name: str) -> Quantity:
    """What a quantity of the runs is called: as its difference is, without that word."""
    found = next((one for key, one in results.quantities.items() if f"{key}:".startswith(f"difference:{name}:")), None)
    label = found.label.removeprefix("difference of ") if found else name.replace("_", " ")
    return Quantity(name, label, unit=found.unit if found else "")


def by_quantity(results: RunResults) -> dict[str, list[Row]]:
    """The values of all runs by quantity."""
    found: dict[str, list[Row]] = {}
    for row in results.tables["head_values"]:
        found.setdefault(row["quantity"], []).append(row)
    return found
