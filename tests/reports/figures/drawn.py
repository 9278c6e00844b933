"""What a figure shows, found by drawing it: every line of text with its place and size, and the places of panels."""

from dataclasses import dataclass
from itertools import combinations
from weakref import WeakKeyDictionary

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

from headscope.contracts import Provenance, Quantity, RunResults, Section
from headscope.reports.figures.drawing import house_style

MODEL = {"name": "google-bert/bert-base-uncased"}
SMALLEST = 6  # points
PAINTED = {"draw_path", "draw_markers", "draw_path_collection", "draw_quad_mesh", "draw_image", "draw_gouraud_triangles"}
WRITTEN = WeakKeyDictionary()  # of each figure, its lines of text


def results(tables=None, *, metrics=None, quantities=(), drawings=None, width=183, tasks=(), **provenance):
    """Results of a run on 2,001 inputs of a file, or of several tasks."""
    source = {"encoder": MODEL, "data": {"/data/ewt/dev.conllu": "0"}, "examples": {"test": 2001}} | provenance
    config = {"figure_width": width, "stages": ["test"], "data": {}, "tasks": list(tasks)}
    return RunResults(
        "t",
        metrics or {},
        tables or {},
        Provenance(**{"config": config, **source}),
        {quantity.name: quantity for quantity in quantities},
        drawings or {},
    )


def quantity(name, label, unit="", section="probe"):
    return Quantity(name, label, unit=unit, section=Section(section, section))


def head_rows(quantities, layers, heads, value=lambda layer, head: layer + head / 100, **columns):
    """A row of heads.csv for each quantity and head; columns are functions of layer and head too."""
    return [
        {"layer": layer, "head": head, "quantity": name, "value": value(layer, head)}
        | {column: of(layer, head) for column, of in columns.items()}
        for name in quantities
        for layer in range(1, layers + 1)
        for head in range(1, heads + 1)
    ]


def figures(draw, found, heads=(), **options):
    """The figures that a function draws, by name, laid out as in their files."""
    with house_style():
        made = {name: sheet.figure for name, sheet in draw.__wrapped__(found, heads, **options)}
        for figure in made.values():
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # it stays where it was laid out: laying out takes most of the time
    for figure in made.values():
        WRITTEN[figure] = lines(figure)
    return made


def one(draw, found, heads=(), **options):
    """The only figure that a function draws."""
    (figure,) = figures(draw, found, heads, **options).values()
    return figure


@dataclass
class Line:
    """A line of text: what it says, its size in points, its box in pixels from the top left, and its angle."""

    text: str
    size: float
    box: tuple[float, float, float, float]
    angle: float


class Recorder(RendererAgg):
    """Keeps every line of text that is drawn, and paints nothing: most of a figure's time is painting."""

    def __init__(self, figure):
        super().__init__(*FigureCanvasAgg(figure).get_width_height(), figure.dpi)
        self.found = []

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        width, height, below = self.get_text_width_height_descent(s, prop, ismath)
        sides = (x, y - height + below, x + width, y + below)
        if angle == 90:
            sides = (x - height + below, y - width, x + below, y)
        self.found.append(Line(s, prop.get_size_in_points(), sides, angle))

    def _not_painted(self, *_, **__):
        """Anything but text."""

    def __getattribute__(self, name):
        return super().__getattribute__("_not_painted" if name in PAINTED else name)


def lines(figure):
    """Every line of text that is really drawn; for a figure of ours, as it was when it was laid out."""
    if figure in WRITTEN:
        return WRITTEN[figure]
    with house_style():
        recorder = Recorder(figure)
        figure.draw(recorder)
    return [line for line in recorder.found if line.text.strip()]


def texts(figure):
    """The words of a figure."""
    return [line.text for line in lines(figure)]


def said(figure):
    """All of its words as one text."""
    return " ".join(texts(figure)).replace("\u00a0", " ")


def overlapping(found):
    """Pairs of lines that share more than a pixel; those at a slant are left out."""
    straight = [line for line in found if line.angle in (0, 90)]
    return [
        (one.text, other.text)
        for one, other in combinations(straight, 2)
        if min(one.box[2], other.box[2]) - max(one.box[0], other.box[0]) > 1
        and min(one.box[3], other.box[3]) - max(one.box[1], other.box[1]) > 1
    ]


def assert_readable(figure, width):
    """No text is cut, too small or over other text, and the figure is no wider than its millimetres."""
    found, (right, bottom) = lines(figure), figure.canvas.get_width_height()
    assert found
    assert figure.get_figwidth() * 25.4 <= width + 0.01
    assert [line.text for line in found if line.size < SMALLEST] == []
    straight = [line for line in found if line.angle in (0, 90)]
    outside = [line for line in straight if min(line.box[:2]) < -1 or line.box[2] > right + 1 or line.box[3] > bottom + 1]
    assert [line.text for line in outside] == []
    assert overlapping(found) == []


def panels(figure):
    """The axes that are no colour bars."""
    return [axes for axes in figure.axes if not hasattr(axes, "_colorbar") and axes.axison]


def bars(figure):
    """The axes of colour bars."""
    return [axes for axes in figure.axes if hasattr(axes, "_colorbar")]


def edges(axes):
    """Bottom and top in pixels, together, of one or several axes."""
    boxes = [one.get_window_extent() for one in axes]
    return min(box.y0 for box in boxes), max(box.y1 for box in boxes)
