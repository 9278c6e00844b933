"""Attention to linguistic features, a grid per feature and model (Kovaleva, Figures 6 and 7)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import pyplot

from reports.figures import draw_grid, save

GROUPS = {
    "attention_to_": "attention to",
    "cls_to_": "from [CLS] to",
    "verb_subject_": "verb and subject",
    "noun_pronoun_": "noun and pronoun",
}
COLUMNS = 4


def feature_heatmaps(results: Mapping, heads: Sequence[Mapping], folder: Path) -> None:
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
    """All grids of a group on one scale; a diverging one where values have both signs."""
    values = [value for grid in grids.values() for value in grid.values() if value is not None]
    top, signed = max(map(abs, values), default=1.0) or 1.0, min(values, default=0) < 0
    scale = {"cmap": "PuOr", "vmin": -top, "vmax": top} if signed else {"cmap": "viridis", "vmin": 0, "vmax": top}
    rows = -(-len(grids) // COLUMNS)
    width = min(COLUMNS, len(grids))
    figure, panels = pyplot.subplots(rows, width, figsize=(0.8 + 1.9 * width, 0.6 + 1.9 * rows), squeeze=False)
    for axes in panels.flat[len(grids) :]:
        axes.axis("off")
    for axes, (quantity, grid) in zip(panels.flat, grids.items(), strict=False):
        image = draw_grid(axes, grid, **scale)
        axes.tick_params(labelsize=5)
        axes.set_title(quantity.rpartition("to_")[2] if "to_" in quantity else quantity.rpartition("_")[2], fontsize=8)
    figure.suptitle(title, fontsize=9)
    figure.colorbar(image, ax=panels, shrink=0.7)
    save(figure, folder, name)
