"""Where heads look, layer by layer: a point per head, a line through the means of the layers (Clark, Figures 2 and 4)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import (
    COLOURS,
    COLUMN,
    GREY,
    INCH,
    MARKERS,
    SMALL,
    Sheet,
    legend_below,
    page_width,
    sheet,
    written,
)
from headscope.reports.figures.relations import draw_lines

NEAR = {"previous token": "attention_to_previous", "same token": "attention_to_current", "next token": "attention_to_next"}
CLASSES = {"[CLS]": "attention_to_cls", "[SEP]": "attention_to_sep", "periods and commas": "attention_to_punctuation"}
FROM_SEP = {"from [SEP] to [SEP]": "sep_to_sep", "from the others to [SEP]": "others_to_sep"}
ENTROPY = {"of all tokens": "entropy", "of [CLS]": "cls_entropy"}
IMPORTANCE = {
    "[SEP]": "importance_of_sep",
    "periods and commas": "importance_of_punctuation",
    "other": "importance_of_other",
}
BELOW = 8.0  # millimetres for ticks and the name of the axis
NOTE = "A point is a head, a line the mean of a layer."


@written
def surface_by_layer(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """Attention by offset and by class of token; then entropy."""
    panels = {"to near tokens": NEAR, "to special tokens and punctuation": CLASSES, "from and to [SEP]": FROM_SEP}
    wide = page_width(results) >= 2 * COLUMN - 1
    drawn = sheet(results, "Where heads attend, by layer", 183, 72 if wide else 195, [NOTE])
    rooms = drawn.body.subplots(*((1, 3) if wide else (3, 1)), sharey=True, sharex=True)
    for axes, (title, lines) in zip(rooms, panels.items(), strict=True):
        by_layer(axes, heads, lines)
        if lines is FROM_SEP:
            uniform_line(axes, results, "attention_to_sep")
        axes.set(ylim=(-0.02, 1.02), xlabel="layer", ylabel="average attention", title=title)
        name_lines(axes)
        axes.tick_params(labelbottom=True)
        if wide and axes is not rooms[0]:
            axes.set_ylabel("")
    yield "surface_attention", drawn
    title = "Entropy of attention, by layer"
    yield "surface_entropy", one_panel(results, heads, ENTROPY, "average entropy (nats)", title, "entropy")


@written
def example_heads(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The head that is most so of each kind, on one input with its special tokens (Clark, Figure 1)."""
    examples = results.drawings.get("example_heads", [])
    if not examples:
        return
    across = len(examples) if page_width(results) >= 2 * COLUMN - 1 else 2
    down = -(-len(examples) // across)
    height = down * (8 + 2.9 * len(examples[0]["words"]))
    drawn = sheet(results, "Examples of heads", page_width(results), height, ["The darker a line, the more attention."])
    rooms = drawn.body.subplots(down, across, squeeze=False).flatten()
    for axes, example in zip(rooms, examples, strict=False):
        draw_lines(axes, example["words"], example["attention"], drawn.width / across - 2, size=SMALL)
        axes.set_title(f"{example['head']}: {example['what']}")
    for axes in rooms[len(examples) :]:
        axes.axis("off")
    yield "example_heads", drawn


@written
def importance_by_layer(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """How much the loss depends on the attention to each class of token (Clark, Figure 3)."""
    label, title = "mean size of d loss / d attention", "How much the loss depends on attention to a token, by layer"
    yield "gradients", one_panel(results, heads, IMPORTANCE, label, title)


def name_lines(axes: Axes) -> None:
    """Below the panel, under the name of its axis: each panel has lines of its own."""
    below = axes.transAxes + ScaledTranslation(0, -BELOW / INCH, cast(Figure, axes.get_figure(root=True)).dpi_scale_trans)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below)


def uniform_line(axes: Axes, results: RunResults, quantity: str) -> None:
    """What uniform attention would give, where it is known."""
    for row in results.tables.get("uniform", []):
        if row["quantity"] == quantity:
            axes.axhline(row["uniform"], color=GREY, linestyle="--", linewidth=0.9, label="uniform attention")


def one_panel(
    results: RunResults, heads: Sequence[Row], lines: Mapping[str, str], label: str, title: str, uniform: str = ""
) -> Sheet:
    """A figure of one panel."""
    drawn = sheet(results, title, COLUMN, 56, [NOTE])
    axes = drawn.body.subplots()
    by_layer(axes, heads, lines)
    uniform_line(axes, results, uniform)
    axes.set(xlabel="layer", ylabel=label)
    axes.set_ylim(bottom=0)
    legend_below(drawn, axes.get_legend_handles_labels()[0])
    return drawn


def by_layer(axes: Axes, heads: Sequence[Row], lines: Mapping[str, str]) -> None:
    """The heads of each quantity as points and the mean of each layer as a line."""
    for index, (label, quantity) in enumerate(lines.items()):
        points = [(row["layer"], row["value"]) for row in heads if row["quantity"] == quantity and row["value"] is not None]
        if not points:
            continue
        layers = sorted({layer for layer, _ in points})
        means = [_mean([value for at, value in points if at == layer]) for layer in layers]
        style: dict[str, Any] = {"color": COLOURS[index], "marker": MARKERS[index]}
        axes.scatter(*zip(*points, strict=True), s=5, alpha=0.5, linewidths=0, **style)
        axes.plot(layers, means, markersize=3, label=label, **style)
        axes.set_xticks(layers[:: 1 + len(layers) // 13])
    axes.grid(alpha=0.3, linewidth=0.5)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
