"""Which head finds which dependency: a grid per relation, and attention as lines between words (Clark, Figure 5)."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import OURS, PUBLISHED, draw_grid, save

TITLES = {"dependent_to_head": "dependent → head", "head_to_dependent": "head → dependent"}
FAINTEST = 0.02


def relation_heatmaps(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """For each ranked relation the accuracy of every head, in both directions on one scale."""
    cells: dict[str, dict] = {}
    for row in heads:
        if row["quantity"].startswith("relation:"):
            cells.setdefault(row["quantity"], {})[row["layer"], row["head"]] = row["value"]
    for row in results.tables["relation_heads"]:
        grids = [cells[f"relation:{row['relation']}:{direction}"] for direction in TITLES]
        layers, columns = (max(index) for index in zip(*grids[0], strict=True))
        size = (1.6 + 0.4 * columns, 0.9 + 0.2 * layers)
        figure, panels = pyplot.subplots(1, 2, figsize=size, sharey=True)
        top = max(value for grid in grids for value in grid.values())
        for axes, grid, title in zip(panels, grids, TITLES.values(), strict=True):
            image = draw_grid(axes, grid, cmap="viridis", vmin=0, vmax=top)
            axes.set_title(title, fontsize=8)
        panels[1].set_ylabel("")
        figure.suptitle(f"{row['relation']}: words whose head is found (%)", fontsize=9)
        figure.colorbar(image, ax=panels, shrink=0.8)
        save(figure, folder, f"relation_{row['relation']}")


def attention_lines(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """The best head of each relation at work in a sentence; the relation's own links in a second colour."""
    for drawing in results.drawings.get("attention_lines", []):
        words = drawing["words"]
        figure, axes = pyplot.subplots(figsize=(2.8, 0.5 + 0.19 * len(words)))
        draw_lines(axes, drawing)
        axes.set_title(f"head {drawing['head']}: {drawing['relation']}\n({TITLES[drawing['direction']]})", fontsize=8)
        save(figure, folder, f"lines_{drawing['relation']}")


def draw_lines(axes: Axes, drawing: Row) -> None:
    """Words on both sides, each left word joined to what it attends to; the darker the line, the more attention."""
    words, attention = drawing["words"], drawing["attention"]
    backwards = drawing["direction"] == "head_to_dependent"
    links = {tuple(reversed(link)) if backwards else tuple(link) for link in drawing["links"]}
    for left, row in enumerate(attention, start=1):
        for right, weight in enumerate(row, start=1):
            linked = (left, right) in links
            if weight > FAINTEST or linked:
                colour = PUBLISHED if linked else OURS
                axes.plot([0, 1], [left, right], color=colour, alpha=min(1, weight), linewidth=1.8 if linked else 1.2)
    marked = {index for link in links for index in link}
    for index, word in enumerate(words, start=1):
        weight = "bold" if index in marked else "normal"
        axes.text(-0.04, index, word, ha="right", va="center", fontsize=8, fontweight=weight)
        axes.text(1.04, index, word, ha="left", va="center", fontsize=8, fontweight=weight)
    axes.set(xlim=(-0.9, 1.9), ylim=(len(words) + 0.6, 0.4))
    axes.axis("off")
