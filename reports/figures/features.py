"""Attention to linguistic features, a grid per feature and model (Kovaleva, Figures 6 and 7)."""

from collections.abc import Iterator, Mapping, Sequence

from headscope.contracts import Row, RunResults
from headscope.layout import Layout
from headscope.reports.evidence import FEW
from headscope.reports.figures.drawing import (
    Cells,
    Sheet,
    add_bar,
    cells_by_quantity,
    draw_grid,
    page_width,
    scale_of,
    shape_of,
    sheet,
    written,
)

GROUPS = {
    "attention_to_": "Attention to {}",
    "cls_to_": "Attention from {read} to {}",
    "verb_subject_": "Attention between verb and subject",
    "noun_pronoun_": "Attention between noun and pronoun",
    "same_word_": "Attention to the same word in the other sentence",
}
MODELS = {"": "", "tuned_": ", fine-tuned model", "change_": ", change by fine-tuning"}
ENDS = {"verb_subject": ("verb", "subject"), "noun_pronoun": ("noun", "pronoun"), "same_word": ("a word", "its second")}
SPECIAL = {"cls": "[CLS]", "sep": "[SEP]"}
NARROWEST, LOWEST = 27.0, 10.0  # of a panel, in millimetres


@written
def feature_heatmaps(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """One figure for each kind of quantity, and for each model and their difference where there are two.

    Special tokens have figures of their own: [CLS] gets far more than any word, and would leave words no colours.
    """
    if results.provenance.config.get("tasks"):  # of several, which have figures of their own
        return
    cells, layout = cells_by_quantity(heads), Layout.from_json(results.provenance.layout)
    counts = {row["quantity"]: row["n"] for row in heads if row.get("n") is not None}
    for prefix, title in GROUPS.items():
        for special in (False, True):
            own = {model: chosen(cells, model + prefix, special) for model in MODELS}
            for model, grids in own.items():
                if grids:
                    # Both models on one scale, so that their figures can be laid side by side.
                    compared = [grids] if model == "change_" else [own[""], own["tuned_"]]
                    values = [value for some in compared for grid in some.values() for value in grid.values()]
                    about = (
                        title.format("special tokens" if special else "linguistic features", read=layout.read_name)
                        + MODELS[model]
                    )
                    name = f"features_{'special_' if special else ''}{model}{prefix}".rstrip("_")
                    notes = notes_of(model + prefix, {quantity: counts.get(quantity) for quantity in grids})
                    yield name, panels_of(results, grids, about, values, notes, change=model == "change_")


def notes_of(group: str, counts: Mapping[str, int | None]) -> list[str]:
    """What a figure and the table must not be taken to contradict each other in, and which panels few inputs are behind."""
    notes = ["The intervals of the differences are in heads.csv; none is tested."] if group.startswith("change_") else []
    if group.endswith("cls_to_"):
        notes.append("The table of features is about the last layer of these grids.")
    few = [f"{panel_title(quantity)} ({count})" for quantity, count in counts.items() if count is not None and count < FEW]
    return [*notes, f"Of fewer than {FEW} inputs: {', '.join(few)}."] if few else notes


def chosen(cells: Mapping[str, Cells], prefix: str, special: bool) -> dict[str, Cells]:
    """The grids of the quantities whose name begins so and that are, or are not, about special tokens."""
    return {n: g for n, g in cells.items() if n.startswith(prefix) and (n.removeprefix(prefix) in SPECIAL) == special}


def panels_of(
    results: RunResults,
    grids: Mapping[str, Cells],
    title: str,
    values: Sequence[float | None],
    notes: Sequence[str],
    change: bool,
) -> Sheet:
    """A panel for each quantity, all on the scale of the values."""
    layers, heads = shape_of(next(iter(grids.values())))
    room = page_width(results) - 24
    width = max(1, min(len(grids), int(room / max(NARROWEST, 1.4 * heads + 5))))
    rows = -(-len(grids) // width)
    width = -(-len(grids) // rows)
    cell = min(4.0, (room / width - 5) / heads)
    # Of few heads a panel has room for its title and its numbers.
    height = rows * (max(LOWEST, layers * cell) + 7) + 4
    drawn = sheet(results, title, width * max(NARROWEST, heads * cell + 5) + 24, height, notes)
    panels = drawn.body.subplots(rows, width, squeeze=False, sharex=True, sharey=True)
    scale = scale_of(values, from_zero=True, difference=change)
    images = [draw_grid(axes, grid, cell, **scale) for axes, grid in zip(panels.flat, grids.values(), strict=False)]
    for axes, quantity in zip(panels.flat, grids, strict=False):
        axes.set_title(panel_title(quantity))
        axes.label_outer()
    for axes in panels.flat[len(grids) :]:
        axes.axis("off")
    for axes in panels[-2:].flat[len(grids) - rows * width + width :] if len(grids) % width else ():
        axes.tick_params(labelbottom=True)
    add_bar(drawn, images[0], panels, "change of attention" if change else "attention", height - 11)
    return drawn


def panel_title(quantity: str) -> str:
    """What a panel is about: `to noun`, `from verb to subject`."""
    for link, (one, other) in ENDS.items():
        if link in quantity:
            return f"from {one} to {other}" if quantity.endswith("forward") else f"from {other} to {one}"
    feature = quantity.rpartition("to_")[2]
    return "to " + SPECIAL.get(feature, feature.replace("_", " "))
