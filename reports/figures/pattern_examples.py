"""An example map of each pattern (Kovaleva, Figure 1): the one that the classifier is surest of."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import SMALL, Sheet, page_width, sheet, written
from headscope.reports.figures.patterns import PATTERNS, readable, task_name

PANEL, LABELS = 58.0, 16.0  # millimetres of a panel, and what of it the names of tokens take
TOKEN = 2.5  # millimetres for the name of a token
MODELS = {"model": "", "tuned": "_tuned"}


@written
def pattern_examples(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """A sheet for each model, on which every class has a panel."""
    rows = results.drawings.get("pattern_examples") or ()
    for model, suffix in MODELS.items():
        found = {row["class"]: row for row in rows if row["model"] == model}
        if found:
            yield f"pattern_examples{suffix}", panels(results, found, model)


def panels(results: RunResults, found: dict[str, Row], model: str) -> Sheet:
    """All classes, also those that no map is of."""
    names = [name for name in PATTERNS if name != "abstained"]
    width = max(1, min(3, int((page_width(results) - 4) / PANEL)))
    height = -(-len(names) // width)
    notes = [
        "Of all maps that were classified, the one of each class that the classifier is surest of. Rows attend to columns.",
        "Tokens are named where there is room; else ticks are special tokens. Shade: root of the weight.",
    ]
    title = f"An example of each attention pattern, {readable(model)} model"
    drawn = sheet(results, title, 4 + PANEL * width, (PANEL + 6) * height, notes)
    grid = drawn.body.subplots(height, width, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=False):
        axes.set_title(readable(name))
        if name in found:
            draw_map(axes, found[name])
        else:
            axes.set(xticks=[], yticks=[])
            axes.text(0.5, 0.5, "no map", ha="center", va="center", transform=axes.transAxes, fontsize=SMALL)
    for axes in grid.flat[len(names) :]:
        axes.axis("off")
    return drawn


def draw_map(axes: Axes, row: Row) -> None:
    """One map, with its tokens where they have room."""
    cells, tokens = row["attention"], row["tokens"]
    axes.imshow(cells, cmap="magma", norm=PowerNorm(0.5, 0, 1), aspect="auto", interpolation="none")
    named = bool(tokens) and len(tokens) * TOKEN <= PANEL - LABELS
    ticks = range(len(tokens)) if named else row["special"]
    axes.set_xticks(ticks, labels=tokens if named else [], rotation=90)
    axes.set_yticks(ticks, labels=tokens if named else [])
    task = f"{task_name(row['task'])}, " if row.get("task") else ""
    axes.set_xlabel(f"{task}input {row['input']}, head {row['head']}, {100 * row['confidence']:.1f} % sure", fontsize=SMALL)
