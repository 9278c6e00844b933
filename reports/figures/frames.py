"""The map of each marked head on an example sentence."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import save


def example_maps(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """Tokens on both axes: rows attend to columns."""
    for example in results.drawings["example_maps"]:
        tokens = example["tokens"]
        side = 1.4 + 0.2 * len(tokens)
        figure, axes = pyplot.subplots(figsize=(side + 0.4, side))
        image = axes.imshow(example["attention"], cmap="viridis", vmin=0)
        axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=7)
        axes.set_yticks(range(len(tokens)), tokens, fontsize=7)
        axes.set(xlabel="attends to", ylabel="from")
        axes.set_title(f"head {example['head']} ({example['frame']})", fontsize=9)
        figure.colorbar(image, ax=axes, shrink=0.8, label="attention")
        save(figure, folder, f"example_{example['head']}")
