"""Several tasks in one figure: a panel for each task, all on one scale (Kovaleva, Figures 5 to 9)."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from headscope.contracts import Row, RunResults
from headscope.layout import Layout
from headscope.reports.figures.disabling import METRICS, WAYS, draw_layers
from headscope.reports.figures.drawing import (
    COLUMN,
    Cells,
    Sheet,
    add_bar,
    draw_grid,
    page_width,
    plain_label,
    scale_of,
    shape_of,
    sheet,
    written,
)
from headscope.reports.figures.features import panel_title
from headscope.reports.figures.uncertainty import pale, uncertainty

TASKS = {"mrpc": "MRPC", "stsb": "STS-B", "sst2": "SST-2", "qqp": "QQP", "rte": "RTE", "qnli": "QNLI", "mnli": "MNLI"}
OF_TASKS = "_of_tasks"  # how the sections of quantities end that are of one of several tasks
NARROWEST = 27.0  # of a panel, in millimetres
NAMED_ROW = 2.6  # millimetres for a line of small print
Panels = Mapping[str, Sequence[Row]]  # the rows of heads.csv by task


def by_quantity(heads: Sequence[Row], tasks: Sequence[str]) -> dict[str, dict[str, list[Row]]]:
    """The rows of each quantity that is of one of the tasks (`cosine:mrpc`), by its name without the task, and by task."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in heads:
        name, _, task = row["quantity"].rpartition(":")
        if task in tasks:
            found.setdefault(name, {}).setdefault(task, []).append(row)
    return found


def tasks_of(results: RunResults) -> list[str]:
    """The tasks that a run was for; none where it was for one."""
    return list(results.provenance.config.get("tasks") or ())


@written
def task_panels(results: RunResults, heads: Sequence[Row], sections: Sequence[str]) -> Iterator[tuple[str, Sheet]]:
    """Every quantity of some sections, a grid of heads for each task."""
    for name, panels in by_quantity(heads, tasks_of(results)).items():
        quantity = results.quantities[f"{name}:{next(iter(panels))}"]
        if quantity.section.name.removesuffix(OF_TASKS) in sections:
            label = plain_label(quantity).rpartition(", ")[0]
            title = quantity.title.replace(f", {next(iter(panels))}", "")
            yield f"tasks_{name}", grids(results, panels, f"{label}, by task and head", title)


@written
def feature_panels(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """Attention to each feature, of the fine-tuned model if there is one (Figure 6); [CLS] in the last layer (Figure 7)."""
    found = by_quantity(heads, tasks_of(results))
    model = "tuned_" if any(name.startswith("tuned_") for name in found) else ""
    state = ", fine-tuned models" if model else ""
    links = ("verb_subject_", "noun_pronoun_", "same_word_")
    for name, panels in found.items():
        plain = name.removeprefix(model)
        if name.startswith(model) and plain.startswith(("attention_to_", *links)):
            title = f"Attention {panel_title(plain)}{state}, by task and head"
            yield f"tasks_{name}", grids(results, panels, title, "attention", from_zero=True)
    from_cls = {name.removeprefix(model): one for name, one in found.items() if name.startswith(f"{model}cls_to_")}
    if from_cls:
        yield f"tasks_{model}cls_last_layer", last_layer(results, from_cls, state)


def last_layer(results: RunResults, quantities: Mapping[str, Panels], state: str) -> Sheet:
    """For each task, the heads of the last layer by the feature that [CLS] attends to."""
    tasks = list(next(iter(quantities.values())))
    layers = max(row["layer"] for row in next(iter(quantities.values()))[tasks[0]])
    features = list(quantities)
    panels: dict[str, Cells] = {
        task: {
            (number + 1, row["head"]): row["value"]
            for number, feature in enumerate(features)
            for row in quantities[feature].get(task, ())
            if row["layer"] == layers
        }
        for task in tasks
    }
    names = [panel_title(feature).removeprefix("to ") for feature in features]
    read = Layout.from_json(results.provenance.layout).read_name
    title = f"Attention from {read} in the last layer, by task, feature and head{state}"
    shown = {task: cells for task, cells in panels.items() if cells}
    drawn, axes = panel_sheet(results, shown, title, "attention", (), least=NAMED_ROW)
    for one in axes[:, 0]:
        one.set_yticks(range(len(names)), names)
        one.set_ylabel("feature")
    return drawn


@written
def disabled_panels(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """What disabling a head, or a layer, does to the score of each task (Figures 8 and 9)."""
    tasks = tasks_of(results)
    facts = {row["task"]: row for row in results.tables["sweep"] if row.get("task") in tasks}
    if not facts:
        return
    first = next(iter(facts.values()))
    scores = "; ".join(
        f"{TASKS.get(task, task)} {METRICS.get(row['metric'], row['metric'])} {row['baseline']:.1f}"
        for task, row in facts.items()
    )
    notes = [f"Whole models: {scores}.", "Changes are of each task's own metric, in points."]
    way = WAYS.get(first["how"], first["how"])
    if first["units"] == "layers":
        yield "tasks_disabled_layers", layer_panels(results, f"Change of the score when a layer is disabled ({way})", notes)
    elif panels := by_quantity(heads, tasks).get("change_without_head"):
        title = f"Change of the score when a head is disabled ({way})"
        yield "tasks_disabled_heads", grids(results, panels, title, "change of the score (points)", notes, difference=True)


def layer_panels(results: RunResults, title: str, notes: Sequence[str]) -> Sheet:
    """A panel of bars for each task, on one scale."""
    rows = results.tables["layers"]
    by_task = {task: [row for row in rows if row["task"] == task] for task in dict.fromkeys(row["task"] for row in rows)}
    width = max(1, min(len(by_task), int((page_width(results) - 8) / 42)))
    high = -(-len(by_task) // width)
    layers = max(map(len, by_task.values()))
    notes = [*notes, "Whiskers are 95 % intervals over inputs.", *uncertainty(rows, "layer")]
    drawn = sheet(results, title, max(COLUMN, 42 * width + 8), high * (12 + 4 * layers), notes)
    axes = drawn.body.subplots(high, width, squeeze=False, sharex=True, sharey=True)
    for one, (task, some) in zip(axes.flat, by_task.items(), strict=False):
        draw_layers(one, some)
        one.set_title(TASKS.get(task, task))
        one.set(xlabel="change (points)", ylabel="layer")
        one.label_outer()
    for one in axes.flat[len(by_task) :]:
        one.axis("off")
    return drawn


def grids(
    results: RunResults,
    panels: Panels,
    title: str,
    label: str,
    notes: Sequence[str] = (),
    difference: bool = False,
    from_zero: bool = False,
) -> Sheet:
    """A grid of heads for each task; where values have both signs, cells whose interval holds zero are pale."""
    cells: dict[str, Cells] = {
        task: {(row["layer"], row["head"]): row["value"] for row in rows} for task, rows in panels.items()
    }
    values = [value for grid in cells.values() for value in grid.values() if value is not None]
    every = [row for rows in panels.values() for row in rows]
    signed = difference or min(values, default=0.0) < 0
    notes = [*notes, *(uncertainty(every) if signed else [])]
    drawn, axes = panel_sheet(results, cells, title, label, notes, difference, from_zero)
    if signed:
        for one, (task, rows) in zip(axes.flat, panels.items(), strict=False):
            pale(one, rows, *shape_of(cells[task]))
    return drawn


def panel_sheet(
    results: RunResults,
    cells: Mapping[str, Cells],
    title: str,
    label: str,
    notes: Sequence[str],
    difference: bool = False,
    from_zero: bool = True,
    least: float = 1.4,
) -> tuple[Sheet, np.ndarray]:
    """A sheet with a grid for each task, all on one scale, and its panels; cells are at least so many millimetres."""
    rows, columns = shape_of(next(iter(cells.values())))
    room = page_width(results) - 30
    width = max(1, min(len(cells), int(room / max(NARROWEST, least * columns + 5))))
    high = -(-len(cells) // width)
    width = -(-len(cells) // high)
    cell = min(4.0, (room / width - 5) / columns)
    height = high * (rows * cell + 8) + 4
    drawn = sheet(results, title, width * (columns * cell + 5) + 30, height, notes)
    panels = drawn.body.subplots(high, width, squeeze=False, sharex=True, sharey=True)
    values = [value for grid in cells.values() for value in grid.values()]
    scale = scale_of(values, from_zero=from_zero, difference=difference)
    images = [draw_grid(one, grid, cell, **scale) for one, grid in zip(panels.flat, cells.values(), strict=False)]
    for one, task in zip(panels.flat, cells, strict=False):
        one.set_title(TASKS.get(task, task))
        one.label_outer()
    for one in panels.flat[len(cells) :]:
        one.axis("off")
    for one in panels[-2:].flat[len(cells) - high * width + width :] if len(cells) % width else ():
        one.tick_params(labelbottom=True)
    add_bar(drawn, images[0], panels, label, height - 11)
    return drawn, panels
