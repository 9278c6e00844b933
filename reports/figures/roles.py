"""Roles of heads in pictures: how scores and p-values are spread, which roles go together, who has several."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import ScalarFormatter

from headscope.contracts import Row, RunResults
from headscope.errors import given
from headscope.reports.figures.drawing import (
    COLOURS,
    COLUMN,
    OURS,
    PUBLISHED,
    SMALL,
    Sheet,
    legend_below,
    page_width,
    sheet,
    text_width,
    written,
)

BROAD = {"local": COLOURS[0], "delimiter": COLOURS[1], "block": COLOURS[2], "syntactic": COLOURS[3]}
EMPTY = "#E4E4E4"
TAU = "threshold tau"
ROLES = {"prev": "previous token", "next": "next token", "cls": "[CLS]", "sep": "[SEP]"}


@written
def role_figures(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """All of them."""
    tables, tau = results.tables, given(results.metrics.get("test/tau"), "test/tau")
    yield "roles_distributions", distributions(results, tau)
    yield "roles_overlap", overlap(results, tables["overlap"])
    yield "roles_grid", skills(results, tables["assigned"])
    yield "roles_tau", tau_curve(results, tables["tau_curve"], tau)
    if tables["change_by_third"]:
        yield "roles_change", change(results, tables["change_by_third"])


def distributions(results: RunResults, tau: float) -> Sheet:
    """The distribution of all scores with its mean and tau, one head's scores, and the p-values (Figures 2 and 3)."""
    wide = page_width(results) >= 2 * COLUMN - 1
    drawn = sheet(results, "Sieve scores and their tests", 183, 58 if wide else 150)
    left, middle, right = drawn.body.subplots(*((1, 3) if wide else (3, 1)))
    points, own, bars = (results.tables[name] for name in ("score_quantiles", "head_histogram", "p_histogram"))
    shown = []
    if points:
        left.plot([point["score"] for point in points], [point["share"] for point in points], color=OURS)
        shown.append(left.axvline(points[0]["mean"], color=PUBLISHED, label=f"mean of all scores, {points[0]['mean']:.2f}"))
        left.set_xlim(0, min(points[-1]["score"], 4 * max(tau, points[0]["mean"])))
    shown.append(left.axvline(tau, color="black", linestyle=":", label=f"{TAU}, {tau:g}"))
    left.set(xlabel="sieve score", ylabel="share of scores below", title="all heads, roles and inputs")
    if own:
        width = own[0]["to"] - own[0]["from"]
        middle.bar([b["from"] for b in own], [b["count"] for b in own], width, align="edge", color=OURS)
        middle.axvline(tau, color="black", linestyle=":")
        middle.set_title(f"head {own[0]['head']}, {ROLES.get(own[0]['role'], own[0]['role'])}")
    middle.set(xlabel="sieve score", ylabel="inputs")
    right.bar([bar["from"] for bar in bars], [bar["count"] for bar in bars], 0.045, align="edge", color=OURS)
    right.set(xlabel="p-value", ylabel="heads × roles", title="p-values", yscale="symlog")
    right.yaxis.set_major_formatter(ScalarFormatter())
    legend_below(drawn, shown)
    return drawn


def overlap(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """How many heads have exactly each combination of roles, largest first, the roles as dots below (an UpSet chart)."""
    roles = [role for role in BROAD if any(role in row["roles"].split(" & ") for row in rows)]
    drawn = sheet(results, "Heads with exactly these roles", 26 + 7 * len(rows), 50 + 5 * len(roles))
    bars, dots = drawn.body.subplots(2, 1, height_ratios=[42, 6 + 5 * len(roles)], sharex=True)
    counts = bars.bar(range(len(rows)), [row["heads"] for row in rows], color=OURS)
    bars.bar_label(counts, fontsize=SMALL)
    bars.margins(y=0.12)
    bars.set(ylabel="heads")
    for column, row in enumerate(rows):
        present = [index for index, role in enumerate(roles) if role in row["roles"].split(" & ")]
        dots.plot([column] * len(roles), range(len(roles)), "o", color=EMPTY, markersize=5)
        dots.plot([column] * len(present), present, "o-", color="black", markersize=5)
    dots.set_yticks(range(len(roles)), roles)
    dots.set(xticks=[], ylim=(-0.6, len(roles) - 0.4), xlabel="combination of roles; no black dot: none", ylabel="role")
    return drawn


def skills(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """Each head a cell with its name and the colours of its broad roles; in a layer those with most first (Figure 5)."""
    layers: dict[int, list[tuple[str, list[str]]]] = {}
    for row in rows:
        roles = [role for role in BROAD if role in row["roles"]]
        layers.setdefault(int(row["head"].split("-")[0]), []).append((row["head"], roles))
    width = max(map(len, layers.values()))
    cell = min(9.0, (page_width(results) - 14) / width)
    whole = all(text_width(row["head"], SMALL) < cell - 0.6 for row in rows)
    named = "layer and number" if whole else "number"
    note = f"Above each cell the {named} of the head; in each layer the heads with most roles come first."
    drawn = sheet(results, "Roles of each head", 14 + cell * width, 8 + 5.6 * len(layers), [note])
    axes = drawn.body.subplots()
    for layer, cells in layers.items():
        for column, (head, roles) in enumerate(sorted(cells, key=lambda one: (-len(one[1]), one[1]))):
            draw_cell(axes, column, layer, roles)
            name = head if whole else head.split("-")[1]
            axes.text(column + 0.5, layer + 0.26, name, ha="center", va="center", fontsize=SMALL)
    axes.set(xlim=(0, width), ylim=(max(layers) + 1, 1), xticks=[], ylabel="layer", xlabel="heads")
    axes.set_yticks([layer + 0.5 for layer in layers], [str(layer) for layer in layers])
    axes.spines[:].set_visible(False)
    legend_below(drawn, [Patch(color=colour, label=role) for role, colour in (BROAD | {"none": EMPTY}).items()])
    return drawn


def draw_cell(axes: Axes, column: int, layer: int, roles: Sequence[str]) -> None:
    """A band below the head's name, divided among the roles."""
    share = 0.92 / max(1, len(roles))
    for index, colour in enumerate([BROAD[role] for role in roles] or [EMPTY]):
        left = column + 0.04 + index * share
        axes.add_patch(Rectangle((left, layer + 0.5), share, 0.42, facecolor=colour, linewidth=0))


def tau_curve(results: RunResults, rows: Sequence[Row], tau: float) -> Sheet:
    """How many heads get each broad role as the threshold moves."""
    drawn = sheet(results, "Heads with each role, by threshold", COLUMN, 54)
    axes = drawn.body.subplots()
    for role, colour in BROAD.items():
        if role in rows[0]:
            axes.plot([row["tau"] for row in rows], [row[role] for row in rows], color=colour, label=role)
    axes.axvline(tau, color="black", linestyle=":", label=f"this run, {tau:g}")
    axes.set(xlabel=TAU, ylabel="heads with the role (%)", ylim=(0, 102))
    axes.grid(alpha=0.3, linewidth=0.5)
    legend_below(drawn, axes.get_legend_handles_labels()[0])
    return drawn


def change(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """The mean change of the score after fine-tuning, by thirds of the layers (Figure 6)."""
    thirds = [key for key in rows[0] if key != "role"]
    drawn = sheet(results, "Change of the sieve score by fine-tuning", 24 + 12 * len(rows), 64)
    axes = drawn.body.subplots()
    shown = []
    for number, third in enumerate(thirds):
        positions = [index + 0.27 * (number - 1) for index in range(len(rows))]
        values = [row[third] or 0 for row in rows]
        shown.append(axes.bar(positions, values, 0.25, color=COLOURS[number], label=f"{third} third of the layers"))
    axes.axhline(0, color="black", linewidth=0.8)
    names = [str(ROLES.get(row["role"], row["role"])) for row in rows]
    axes.set_xticks(range(len(rows)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set(ylabel="change of the score")
    legend_below(drawn, shown)
    return drawn
