"""Attention to linguistic features, a grid per feature and model (Kovaleva, Figures 6 and 7)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import draw_grid, save

GROUPS = {
    "attention_to_": "attention to",
    "cls_to_": "from [CLS] to",
    "verb_subject_": "verb and subject",
    "noun_pronoun_": "noun and pronoun",
}
COLUMNS = 4


def feature_heatmaps(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """One figure for each kind of quantity, and for each model and their difference where there are two."""
    cells: dict[str, dict] = {}
    for row in heads:
        cells.setdefault(row["quantity"], {})[row["layer"], row["head"]] = row["value"]
    for model in ("", "tuned_", "change_"):
        for prefix, title in GROUPS.items():
            own = {name: grid for name, grid in cells.items() if name.startswith(model + prefix)}
            if own:
                draw_group(own, f"{model.rstrip('_')} {title}".strip(), folder, f"features_{model}{prefix}".rstrip("_"))


def draw_group(grids: Mapping[str, Mapping], title: str, folder: Path, name: str) -> None:
    """A panel for each quantity with a scale of its own, since [CLS] gets far more than any word."""
    rows, width = -(-len(grids) // COLUMNS), min(COLUMNS, len(grids))
    layers = max(layer for grid in grids.values() for layer, _ in grid)
    size = (0.4 + 2.3 * width, 0.5 + rows * (0.75 + 0.13 * layers))
    figure, panels = pyplot.subplots(rows, width, figsize=size, squeeze=False)
    for axes in panels.flat[len(grids) :]:
        axes.axis("off")
    for axes, (quantity, grid) in zip(panels.flat, grids.items(), strict=False):
        image = draw_grid(axes, grid, **scale_of(grid))
        axes.tick_params(labelsize=5)
        axes.set_xlabel("head", fontsize=7)
        axes.set_ylabel("layer", fontsize=7)
        axes.set_title(quantity.rpartition("to_")[2] if "to_" in quantity else quantity.rpartition("_")[2], fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=5)
    figure.suptitle(title, fontsize=9)
    save(figure, folder, name)


def scale_of(grid: Mapping[tuple[int, int], float | None]) -> dict[str, Any]:
    """From zero, or on both sides of it where values have both signs."""
    values = [value for value in grid.values() if value is not None]
    top = max(map(abs, values), default=1.0) or 1.0
    signed = min(values, default=0) < 0
    return {"cmap": "PuOr", "vmin": -top, "vmax": top} if signed else {"cmap": "viridis", "vmin": 0, "vmax": top}
