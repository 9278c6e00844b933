"""Where heads look, layer by layer: a point per head, a line through the means of the layers (Clark, Figures 2 and 4)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLOURS, MARKERS, save

NEAR = {"previous token": "attention_to_previous", "same token": "attention_to_current", "next token": "attention_to_next"}
CLASSES = {"[CLS]": "attention_to_cls", "[SEP]": "attention_to_sep", "periods and commas": "attention_to_punctuation"}
FROM_SEP = {"[SEP] to [SEP]": "sep_to_sep", "all tokens to [SEP]": "attention_to_sep"}
ENTROPY = {"all tokens": "entropy", "[CLS]": "cls_entropy"}
IMPORTANCE = {
    "[SEP]": "importance_of_sep",
    "periods and commas": "importance_of_punctuation",
    "other": "importance_of_other",
}


def surface_by_layer(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """Attention by offset and by class of token; then entropy."""
    panels = {"near tokens": NEAR, "special tokens and punctuation": CLASSES, "from and to [SEP]": FROM_SEP}
    figure, rows = pyplot.subplots(len(panels), 1, figsize=(4.2, 6.6), sharex=True)
    for axes, (title, lines) in zip(rows, panels.items(), strict=True):
        by_layer(axes, heads, lines)
        axes.set(ylabel="average attention", ylim=(-0.02, 1.02), title=title)
    rows[-1].set_xlabel("layer")
    save(figure, folder, "surface_attention")
    draw_one(heads, ENTROPY, "average entropy (nats)", "entropy of attention", folder, "surface_entropy")


def importance_by_layer(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """How much the loss depends on the attention to each class of token (Clark, Figure 3)."""
    label = "mean |d loss / d attention|"
    draw_one(heads, IMPORTANCE, label, "importance of attention", folder, "gradients")


def draw_one(heads: Sequence[Row], lines: Mapping[str, str], label: str, title: str, folder: Path, name: str) -> None:
    """A figure of one panel."""
    figure, axes = pyplot.subplots(figsize=(4.2, 2.8))
    by_layer(axes, heads, lines)
    axes.set(xlabel="layer", ylabel=label, title=title)
    axes.set_ylim(bottom=0)
    save(figure, folder, name)


def by_layer(axes: Axes, heads: Sequence[Row], lines: Mapping[str, str]) -> None:
    """The heads of each quantity as points and the mean of each layer as a line."""
    for index, (label, quantity) in enumerate(lines.items()):
        points = [(row["layer"], row["value"]) for row in heads if row["quantity"] == quantity and row["value"] is not None]
        if not points:
            continue
        layers = sorted({layer for layer, _ in points})
        means = [_mean([value for at, value in points if at == layer]) for layer in layers]
        style: dict[str, Any] = {"color": COLOURS[index], "marker": MARKERS[index]}
        axes.scatter(*zip(*points, strict=True), s=8, alpha=0.5, linewidths=0, **style)
        axes.plot(layers, means, markersize=4, label=label, **style)
        axes.set_xticks(layers)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, framealpha=0.8)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
