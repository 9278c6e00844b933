"""What every figure shares: a sheet with a title in words, grids of heads, legends, and files as SVG and PNG.

Colours are those that colour-blind readers can tell apart; sizes are millimetres of paper, text is 6 points or more.
"""

import functools
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import matplotlib
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage
from matplotlib.text import Text
from matplotlib.textpath import TextToPath

from headscope.contracts import Quantity, Row, RunResults
from headscope.errors import require_figure_width
from headscope.files import write_atomically
from headscope.layout import Layout
from headscope.reports.evidence import inputs, is_sample, sample_notes
from headscope.reports.figures.fonts import families
from headscope.reports.figures.uncertainty import pale, uncertainty

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
OURS, PUBLISHED, GREY, UNDEFINED = "#0072B2", "#E69F00", "#595959", "#D0D0D0"
INCH, POINT = 25.4, 25.4 / 72  # in millimetres
PAGE, COLUMN = 183.0, 89.0  # of a journal
TITLE, SMALL = 8.0, 6.0  # points
STYLE = {
    "font.size": 7.0, "axes.titlesize": 7.0, "axes.labelsize": 7.0, "legend.fontsize": 6.5, "figure.titlesize": TITLE,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "axes.linewidth": 0.6, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "xtick.major.size": 2.0, "ytick.major.size": 2.0, "lines.linewidth": 1.1,
    "axes.formatter.useoffset": False, "hatch.linewidth": 0.5, "legend.frameon": False,
    "text.parse_math": False,  # a dollar sign is a word
    "svg.fonttype": "none", "svg.hashsalt": "headscope",  # text stays text; the same results give the same file
}  # fmt: skip
PNG_DPI = 220
CELL, BAR_WIDTH = 5.2, 2.4  # of a grid and its colour bar, in millimetres
GENERIC = ("train", "dev", "val", "test")  # names of files that say nothing without their folder's
Cells = Mapping[tuple[int, int], float | None]  # a value for each (layer, head), from 1


@dataclass(frozen=True)
class Sheet:
    """A figure with title and notes, and the room between them for panels and legends."""

    figure: Figure
    body: SubFigure
    width: float  # in millimetres


def written(draw: Callable[..., Iterator[tuple[str, Sheet]]]) -> Callable[..., None]:
    """Make what yields named sheets of (results, heads, options) a figure of the configuration, which writes files."""

    @functools.wraps(draw)
    def write(results: RunResults, heads: Sequence[Row], folder: Path, **options: Any) -> None:
        layout = Layout.from_json(results.provenance.layout)
        with house_style():
            for name, sheet in draw(results, heads, **options):
                for text in cast(list[Text], sheet.figure.findobj(Text)):
                    text.set_text(layout.said(text.get_text()))
                save(sheet.figure, folder, name)

    return write


def house_style() -> Any:
    """The context in which figures are made and saved; what the user set for figures of his own has no part in it."""
    return style.context(["default", cast(Any, STYLE | {"font.family": families()})])


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write both formats, each whole or not at all.

    The canvases are asked themselves: `savefig` would draw the figure once more for each format, to find the layout again.
    """
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    figure.set_layout_engine("none")  # the layout is found once, for both
    vector, pixels = io.BytesIO(), io.BytesIO()
    FigureCanvasSVG(figure).print_svg(vector, metadata={"Date": None})
    figure.set_dpi(PNG_DPI)
    FigureCanvasAgg(figure).print_png(pixels)
    for suffix, image in (("svg", vector), ("png", pixels)):
        write_atomically(folder / f"{name.replace(':', '_').replace('/', '_')}.{suffix}", image.getvalue())


# The sheet, and what it says of the run


def page_width(results: RunResults) -> float:
    """How wide a figure may be, in millimetres."""
    return require_figure_width(results.provenance.config.get("figure_width", PAGE))


def sheet(results: RunResults, title: str, width: float, height: float, notes: Sequence[str] = ()) -> Sheet:
    """Room of so many millimetres below a title that also names model and data, and above notes in small print.

    The sheet is at least a column wide, so that the title has room, and never wider than the page.
    """
    width = min(page_width(results), max(width, COLUMN))
    source = caption(results)
    about = f"\u00a0— {source}" if source else ""  # a dash ends a line, it does not begin one
    title = wrapped(f"{title[:1].upper()}{title[1:]}{about}", width - 4, TITLE)
    notes = [wrapped(note, width - 4, SMALL) for note in (*notes, *sample_notes(results.provenance))]
    lines = (TITLE * (title.count("\n") + 1) + SMALL * sum(note.count("\n") + 1 for note in notes)) * 1.25 * POINT
    figure = Figure(figsize=(width / INCH, (height + lines + 3) / INCH), layout="constrained")
    figure.suptitle(title, x=2 / width, ha="left")
    if notes:
        figure.supxlabel("\n".join(notes), x=2 / width, ha="left", fontsize=SMALL, color=GREY)
    return Sheet(figure, cast(SubFigure, figure.subfigures()), width)


def caption(results: RunResults) -> str:
    """The model, the data and how many inputs, as far as they are known."""
    provenance = results.provenance
    names = [model_name(one) for one in (provenance.encoder, provenance.tuned_encoder) if one and one.get("name")]
    data = data_name(tested_files(results))
    count = inputs(results.provenance)
    parts = [" and ".join(names), f"on {data}" if data else "", f"(n\u00a0=\u00a0{count:,})" if count else ""]
    return " ".join(part for part in parts if part)


def tested_files(results: RunResults) -> list[Path]:
    """The files that the numbers are about: where nothing was trained, the training data only if it was what was tested."""
    provenance, files = results.provenance, [Path(file) for file in results.provenance.data]
    on_train = (provenance.config.get("data") or {}).get("test_on") == "train"
    tested = [file for file in files if (file.stem == "train") == on_train]
    return tested if tested and set(provenance.examples) == {"test"} else files


def model_name(encoder: Mapping[str, Any]) -> str:
    """The last name of a hub id, folder or package, with what was done to the weights."""
    name = str(encoder["name"])
    parts = [part for part in name.removeprefix("package:").split("/") if part not in ("", "model")]
    last = parts[-1] if parts else name
    last = last.replace("_", "-") if name.startswith("package:") else last
    if name.rstrip("/").endswith("_pre-trained/model"):  # a row of Table 1 is called by what training began with
        last = f"{last.removesuffix('_pre-trained')}, fine-tuned"
    done = {"embeddings": ", random but for its embeddings", "normal": ", random weights"}.get(encoder.get("init", ""), "")
    return last + (f" + {Path(encoder['change']).stem}" if encoder.get("change") else "") + done


def data_name(files: Sequence[Path]) -> str:
    """The files in words, by their folders; several of one folder as the folder."""
    folders: dict[Path, list[str]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file.stem)
    names = [_folder_name(folder, stems) for folder, stems in folders.items()]
    shown = names if len(names) < 4 else [*names[:2], f"{len(names) - 2} more"]
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def _folder_name(folder: Path, stems: Sequence[str]) -> str:
    if is_sample(folder):
        return f"the packaged {folder.name} sample"
    if len(stems) > 2:
        return f"{folder.name} ({len(stems)} files)"
    named = " and ".join(stems)
    return f"{folder.name} {named}" if any(stem in GENERIC for stem in stems) else named


# Text


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """The length of a line in millimetres."""
    width, _, _ = TextToPath().get_text_width_height_descent(text, FontProperties(size=size), ismath=False)
    return width * POINT


def wrapped(text: str, width: float, size: float) -> str:
    """The text in lines of at most so many millimetres; a longer word has a line of its own."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def legend_below(drawn: Sheet, handles: Sequence[Any], title: str | None = None) -> None:
    """One legend for all panels, below them, with as many columns as there is room for; the sheet grows by its height."""
    size = float(STYLE["legend.fontsize"])
    widest = max(text_width(str(handle.get_label()), size) for handle in handles) + 6 * size * POINT
    columns = max(1, min(len(handles), int((drawn.width - 4) / widest)))
    rows = -(-len(handles) // columns) + (title is not None)
    drawn.figure.set_figheight(drawn.figure.get_figheight() + (1.5 * size * rows * POINT + 3) / INCH)
    drawn.body.legend(handles=handles, loc="outside lower center", ncols=columns, title=title)


# Grids of heads


def cells_by_quantity(heads: Sequence[Row]) -> dict[str, dict[tuple[int, int], float | None]]:
    """The values of each quantity by layer and head."""
    found: dict[str, dict[tuple[int, int], float | None]] = {}
    for row in heads:
        found.setdefault(row["quantity"], {})[row["layer"], row["head"]] = row["value"]
    return found


def shape_of(cells: Cells) -> tuple[int, int]:
    """How many layers and heads."""
    layers, heads = (max(index) for index in zip(*cells, strict=True))
    return layers, heads


def cell_size(results: RunResults, heads: int, panels: int = 1, margin: float = 27.0) -> float:
    """How large the cells of grids side by side can be, in millimetres."""
    return min(CELL, (page_width(results) - margin) / (heads * panels))


def scale_of(values: Sequence[float | None], from_zero: bool = False, difference: bool = False) -> dict[str, Any]:
    """Colours and ends of a scale, for all panels that are compared.

    Diverging around zero where values have both signs or are differences; else from the least, or zero, to the most.
    """
    known = [value for value in values if value is not None]
    largest = max(map(abs, known), default=1.0) or 1.0
    if difference or min(known, default=0.0) < 0:
        return {"cmap": matplotlib.colormaps["PuOr"].with_extremes(bad=UNDEFINED), "norm": Normalize(-largest, largest)}
    least = 0.0 if from_zero or len(set(known)) < 2 else min(known)
    return {"cmap": matplotlib.colormaps["viridis"].with_extremes(bad=UNDEFINED), "norm": Normalize(least, largest)}


def draw_grid(axes: Axes, cells: Cells, cell: float, **scale: Any) -> AxesImage:
    """A cell per head, layers from the top; as many are named on the axes as there is room for in cells of that size."""
    layers, heads = shape_of(cells)
    grid = [[cells.get((layer, head)) for head in range(1, heads + 1)] for layer in range(1, layers + 1)]
    numbers = [[float("nan") if value is None else value for value in row] for row in grid]
    image = axes.imshow(numbers, aspect="auto", interpolation="none", **scale)
    name_cells(axes, layers, heads, cell)
    return image


def name_cells(axes: Axes, layers: int, heads: int, cell: float) -> None:
    """Layers and heads on the axes of a grid; every second or third where cells are too small for their numbers."""
    for axis, count, room in ((axes.xaxis, heads, 3.4), (axes.yaxis, layers, 2.7)):
        step = math.ceil(room / cell)
        axis.set_ticks(range(0, count, step), [str(index + 1) for index in range(0, count, step)])
    axes.set(xlabel="head", ylabel="layer")


def add_bar(drawn: Sheet, image: Any, axes: Any, label: str, height: float) -> Colorbar:
    """A labelled colour bar as tall as the panels, which are so many millimetres."""
    # Its width follows from that height, within a share of the panels' width: too small a share would shorten the bar.
    return drawn.body.colorbar(
        image, ax=axes, aspect=max(2.0, height / BAR_WIDTH), fraction=0.15, label=wrapped(label, max(height, 20.0), 7)
    )


def head_heatmap(
    results: RunResults, title: str, label: str, rows: Sequence[Row], notes: Sequence[str] = (), difference: bool = False
) -> Sheet:
    """One grid; where values have both signs and intervals are known, cells whose interval holds zero are pale."""
    cells: Cells = {(row["layer"], row["head"]): row["value"] for row in rows}
    layers, heads = shape_of(cells)
    cell = cell_size(results, heads)
    scale = scale_of(list(cells.values()), difference=difference)
    signed = scale["norm"].vmin < 0
    drawn = sheet(results, title, heads * cell + 27, layers * cell + 11, [*notes, *(uncertainty(rows) if signed else [])])
    axes = drawn.body.subplots()
    image = draw_grid(axes, cells, cell, **scale)
    if signed:
        pale(axes, rows, layers, heads)
    add_bar(drawn, image, axes, label, layers * cell)
    return drawn


@written
def head_heatmaps(results: RunResults, heads: Sequence[Row], sections: Sequence[str]) -> Iterator[tuple[str, Sheet]]:
    """A (layer, head) grid for every per-head quantity of some sections that any head has."""
    for name, quantity in results.quantities.items():
        rows = [row for row in heads if row["quantity"] == name]
        if quantity.section.name in sections and any(row["value"] is not None for row in rows):
            label = plain_label(quantity)
            title = f"{label} (by head)" if "," in label else f"{label} by head"
            yield f"heads_{name}", head_heatmap(results, title, quantity.title, rows)


def plain_label(quantity: Quantity) -> str:
    """The label without the unit, which stands at the scale."""
    return quantity.label.replace(f" ({quantity.unit})", "") if quantity.unit else quantity.label
