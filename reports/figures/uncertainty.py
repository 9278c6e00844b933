"""Grids of differences: which heads differ from zero by more than chance, shown and said."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from headscope.contracts import Row


def has_interval(row: Row) -> bool:
    """Whether the ends of its interval are known."""
    return row.get("low") is not None and row.get("high") is not None


def differs(row: Row) -> bool:
    """Whether its interval, if it has one, leaves zero out."""
    return not has_interval(row) or not row["low"] <= 0 <= row["high"]


def uncertainty(rows: Sequence[Row], unit: str = "head") -> list[str]:
    """How many differ from zero by more than chance, in a sentence; nothing where no interval is known."""
    known, unsure = sum(map(has_interval, rows)), sum(not differs(row) for row in rows)
    if not known:
        return []
    if unsure == known:
        return [f"No {unit} differs from 0 beyond its 95 % interval."]
    return [f"Pale: the 95 % interval holds 0 ({unsure} of {known} {unit}s)."]


def pale(axes: Axes, rows: Sequence[Row], layers: int, heads: int) -> None:
    """Cover the cells of heads that may not differ with a white veil."""
    unsure = {(row["layer"], row["head"]) for row in rows if not differs(row)}
    veil = [[(1.0, 1.0, 1.0, 0.65 * ((la, he) in unsure)) for he in range(1, heads + 1)] for la in range(1, layers + 1)]
    axes.imshow(veil, aspect="auto", interpolation="none")
