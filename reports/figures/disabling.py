"""What disabling does to the score: a cell per head or layer, the undisturbed score marked on the scale."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import draw_grid, save


def disabled_heatmap(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """The score without each head (or layer); the scale is centred on the baseline, which a line marks (Figures 8, 9)."""
    facts = results.tables["sweep"][0]
    if facts["units"] == "layers":
        changes = {(row["layer"], 1): row["change"] for row in results.tables["layers"]}
    else:
        changes = {(row["layer"], row["head"]): row["value"] for row in heads if row["quantity"] == "change_without_head"}
    cells = {head: facts["baseline"] + change for head, change in changes.items()}
    width = max(head for _, head in cells)
    reach = max(map(abs, changes.values()), default=0) or 1
    figure, axes = pyplot.subplots(figsize=(2.2 + 0.3 * width, 1.0 + 0.3 * max(layer for layer, _ in cells)))
    scale = {"cmap": "PuOr_r", "vmin": facts["baseline"] - reach, "vmax": facts["baseline"] + reach}
    image = draw_grid(axes, cells, **scale, aspect="auto" if width == 1 else "equal")
    if facts["units"] == "layers":
        axes.set(xticks=[], xlabel="")
    bar = figure.colorbar(image, ax=axes, shrink=0.9, label=f"{facts['metric']} (%)")
    bar.ax.axhline(facts["baseline"], color="black", linewidth=1.5)
    unit = facts["units"].removesuffix("s")
    axes.set_title(f"without each {unit} ({facts['how']})\nbaseline {facts['baseline']:.1f}", fontsize=9)
    save(figure, folder, f"disabled_{facts['units']}")
