"""The map of each marked head on an example sentence, its frame's target and elements marked."""

from collections.abc import Iterator, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLOURS, COLUMN, UNDEFINED, Sheet, add_bar, legend_below, sheet, written

MARKS = {"target": COLOURS[1], "element": COLOURS[0]}
CELL = 4.2


@written
def example_maps(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """Tokens on both axes: rows attend to columns; the cells that join target and elements are framed."""
    for example in results.drawings["example_maps"]:
        tokens, marked = example["tokens"], example.get("marked") or {}
        side = CELL * len(tokens)
        title = f"Attention of head {example['head']} in a sentence with the frame {example['frame']}"
        drawn = sheet(results, title, side + 48, side + 20)
        axes = drawn.body.subplots()
        image = axes.imshow(example["attention"], cmap="viridis", vmin=0, aspect="auto", interpolation="none")
        axes.set_xticks(range(len(tokens)), tokens, rotation=90)
        axes.set_yticks(range(len(tokens)), tokens)
        axes.set(xlabel="attends to", ylabel="from")
        mark(axes, marked)
        add_bar(drawn, image, axes, "attention", side)
        if marked:
            legend_below(drawn, legend_of(marked))
        yield f"example_{example['head']}", drawn
        if marked.get("target"):
            yield f"example_{example['head']}_target", target_row(results, example)


def target_row(results: RunResults, example: Row) -> Sheet:
    """What the target attends to, the mean of its tokens' rows (Figure 3); its elements in their colour."""
    tokens, marked = example["tokens"], example["marked"]
    rows = [example["attention"][index] for index in marked["target"]]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    colours = [MARKS["element"] if index in marked.get("element", ()) else UNDEFINED for index in range(len(tokens))]
    title = f"What the target attends to by head {example['head']}, in a sentence with the frame {example['frame']}"
    note = "Coloured name: the target; coloured bars: the frame's elements."
    drawn = sheet(results, title, COLUMN, 10 + 3.6 * len(tokens), [note])
    axes = drawn.body.subplots()
    axes.barh(range(len(tokens)), means, 0.8, color=colours)
    axes.set_yticks(range(len(tokens)), tokens)
    for index in marked["target"]:
        axes.get_yticklabels()[index].set(color=MARKS["target"], fontweight="bold")
    axes.set(xlabel="attention from the target", ylim=(len(tokens) - 0.4, -0.6))
    return drawn


def mark(axes: Axes, marked: Mapping[str, Sequence[int]]) -> None:
    """Colour the names of target and elements, and frame the cells from one to the other."""
    for role, tokens in marked.items():
        for index in tokens:
            for label in (axes.get_xticklabels()[index], axes.get_yticklabels()[index]):
                label.set(color=MARKS[role], fontweight="bold")
    for target in marked.get("target", ()):
        for element in marked.get("element", ()):
            for (query, key), role in (((target, element), "target"), ((element, target), "element")):
                box = Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, edgecolor=MARKS[role], linewidth=1.2)
                axes.add_patch(box)


def legend_of(marked: Mapping[str, Sequence[int]]) -> list[Line2D]:
    """What the colours mean."""
    words = {"target": "target (framed: from it to an element)", "element": "element (framed: from it to the target)"}
    return [Line2D([], [], color=MARKS[role], marker="s", linewidth=0, label=words[role]) for role in marked]
