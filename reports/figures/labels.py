"""Names beside points, none over another name or over a point."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from headscope.reports.figures.drawing import INCH, POINT, SMALL, text_width

# Where a name may stand: on the four sides of its point and between them; then further away, with a line to the point.
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
DISTANCES = (1.5, 3.0, 5.0, 7.5)  # millimetres
DOT = 0.6
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top, in millimetres of the sheet


def name_points(axes: Axes, named: Mapping[str, Point], points: Sequence[Point]) -> list[str]:
    """Write names beside their points, in the given order; returns those for which there is no room.

    Comes last of all that is drawn, since the layout decides where there is room.
    """
    figure = axes.get_figure(root=True)
    if figure is None or not named:
        return []
    figure.draw_without_rendering()
    millimetre = figure.dpi / INCH  # in pixels
    dots = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in axes.transData.transform(list(points)) / millimetre]
    frame = axes.get_window_extent()
    room: Box = (frame.x0 / millimetre, frame.y0 / millimetre, frame.x1 / millimetre, frame.y1 / millimetre)
    taken, left_out = list(dots), []
    for name, point in named.items():
        x, y = axes.transData.transform(point) / millimetre
        found = free_offset(name, (x, y), taken, room)
        if found is None:
            left_out.append(name)
            continue
        (right, up), near = found
        taken.append(box_of(name, (x + right, y + up)))
        line = None if near else {"arrowstyle": "-", "linewidth": 0.4, "color": "grey", "shrinkA": 0, "shrinkB": 0}
        text = axes.annotate(
            name, point, (right / POINT, up / POINT), textcoords="offset points", ha="center", va="center", fontsize=SMALL,
            arrowprops=line,
        )  # fmt: skip
        text.set_in_layout(False)
    return left_out


def free_offset(name: str, at: Point, taken: Sequence[Box], room: Box) -> tuple[Point, bool] | None:
    """The nearest place for a name that touches nothing and stays inside, and whether it is close to the point."""
    width, height = size_of(name)
    for distance in DISTANCES:
        for right, up in SIDES:
            offset = (right * (distance + width / 2), up * (distance + height / 2))
            box = box_of(name, (at[0] + offset[0], at[1] + offset[1]))
            inside = box[0] >= room[0] and box[1] >= room[1] and box[2] <= room[2] and box[3] <= room[3]
            if inside and not any(overlap(box, other) for other in taken):
                return offset, distance == DISTANCES[0]
    return None


def size_of(name: str) -> tuple[float, float]:
    """Width and height of a name."""
    return text_width(name, SMALL) + 0.3, SMALL * POINT


def box_of(name: str, centre: Point) -> Box:
    """What a name covers around its centre."""
    width, height = size_of(name)
    return centre[0] - width / 2, centre[1] - height / 2, centre[0] + width / 2, centre[1] + height / 2


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share some room."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
