"""Roles of heads in pictures: how scores and p-values are spread, which roles go together, who has several."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from headscope.contracts import Row, RunResults
from headscope.errors import given
from headscope.reports.figures.drawing import (
    COLUMN,
    GREY,
    MARKERS,
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
from headscope.reports.figures.role_tasks import BROAD, INTERVALS, ROLES, change_bars, task_figures

# The nine of Figure 5; the place of a cell says the role as well as its colour.
FINE = {
    "prev": "#0072B2", "next": "#56B4E9", "block": "#009E73", "cls": "#D55E00", "sep": "#E69F00", "nsubj": "#CC79A7",
    "dobj": "#882255", "amod": "#B8A800", "advmod": "#444444",
}  # fmt: skip
EMPTY = "#ECECEC"
TAU = "threshold tau"


@written
def role_figures(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """All of them."""
    tables = results.tables
    if "roles_of_tasks" in tables:
        yield from task_figures(results)
        return
    tau = given(results.metrics.get("test/tau"), "test/tau")
    yield "roles_grid", skills(results, of_first(tables["assigned"]))
    yield "roles_distributions", distributions(results, tau)
    yield "roles_overlap", overlap(results, of_first(tables["overlap"]))
    yield "roles_by_layer", by_layer(results, tables["by_layer"])
    yield "roles_tau", tau_curve(results, tables["tau_curve"], tau)
    if tables["change_by_third"]:
        yield "roles_change", change(results, tables["change_by_third"])


def distributions(results: RunResults, tau: float) -> Sheet:
    """The distribution of all scores with its mean and tau, one head's scores, and the p-values (Figures 2 and 3)."""
    wide = page_width(results) >= 2 * COLUMN - 1
    what = "How the sieve scores for the four coarse roles are spread, and the p-values of their tests"
    title = f"{what}{state(results.tables['by_layer'])}"
    drawn = sheet(results, title, 183, 58 if wide else 150)
    left, middle, right = drawn.body.subplots(*((1, 3) if wide else (3, 1)))
    points, own, bars = (results.tables[name] for name in ("score_quantiles", "head_histogram", "p_histogram"))
    shown = []
    if points:
        left.plot([point["score"] for point in points], [point["share"] for point in points], color=OURS)
        shown.append(left.axvline(points[0]["mean"], color=PUBLISHED, label=f"mean of all scores, {points[0]['mean']:.2f}"))
        left.set_xlim(0, min(points[-1]["score"], 4 * max(tau, points[0]["mean"])))
    shown.append(left.axvline(tau, color="black", linestyle=":", label=f"{TAU}, {tau:g}"))
    left.set(xlabel="sieve score", ylabel="share of scores below", title="all heads, coarse roles and inputs")
    if own:
        width = own[0]["to"] - own[0]["from"]
        middle.bar([b["from"] for b in own], [b["count"] for b in own], width, align="edge", color=OURS)
        middle.axvline(tau, color="black", linestyle=":")
        label = f"mean of this head, {own[0]['mean']:.2f}"
        shown.append(middle.axvline(own[0]["mean"], color=GREY, linestyle="--", label=label))
        middle.set_title(one_head(own[0]))
    middle.set(xlabel="sieve score", ylabel="inputs")
    right.bar([bar["from"] for bar in bars], [bar["count"] for bar in bars], 0.045, align="edge", color=OURS)
    right.set(xlabel="p-value", ylabel="heads × coarse roles", title="p-values", yscale="symlog")
    right.yaxis.set_major_formatter(ScalarFormatter())
    legend_below(drawn, shown)
    return drawn


def one_head(row: Row) -> str:
    """Whose scores are drawn, and what the test says of them (Figure 2)."""
    name = f"head {row['head']}, {ROLES.get(row['role'], row['role'])}"
    return f"{name}: above tau, p = {row['p']:.2f}" if row["fails"] else f"{name}: the highest mean"


def overlap(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """How many heads have exactly each combination of roles, largest first, the roles as dots below (an UpSet chart)."""
    roles = [role for role in BROAD if any(role in row["roles"].split(" & ") for row in rows)]
    drawn = sheet(results, f"Heads with exactly these coarse roles{state(rows)}", 26 + 7 * len(rows), 50 + 5 * len(roles))
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
    """Each head its name and nine cells, one for each fine role; in a layer those with most roles first (Figure 5)."""
    layers: dict[int, list[tuple[str, list[str]]]] = {}
    for row in rows:
        roles = [role for role in FINE if role in row["roles"]]
        layers.setdefault(int(row["head"].split("-")[0]), []).append((row["head"], roles))
    width = max(map(len, layers.values()))
    cell = min(9.5, (page_width(results) - 14) / width)
    whole = all(text_width(row["head"], SMALL) < cell - 0.6 for row in rows)
    named = "layer and number" if whole else "number"
    note = f"Above each head's nine cells its {named}; in each layer the heads with most roles come first."
    drawn = sheet(results, f"The nine fine roles of each head{state(rows)}", 14 + cell * width, 8 + 11 * len(layers), [note])
    axes = drawn.body.subplots()
    for layer, cells in layers.items():
        for column, (head, roles) in enumerate(sorted(cells, key=lambda one: (-len(one[1]), number_of(one[0])))):
            draw_head(axes, column, layer, roles)
            name = head if whole else head.split("-")[1]
            axes.text(column + 0.5, layer + 0.15, name, ha="center", va="center", fontsize=SMALL)
    axes.set(xlim=(0, width), ylim=(max(layers) + 1, 1), xticks=[], ylabel="layer", xlabel="heads")
    axes.set_yticks([layer + 0.6 for layer in layers], [str(layer) for layer in layers])
    axes.spines[:].set_visible(False)
    shown = [Patch(color=colour, label=ROLES.get(role, role)) for role, colour in FINE.items()]
    legend_below(drawn, [*shown, Patch(color=EMPTY, label="not this role")])
    return drawn


def number_of(head: str) -> int:
    """The number of a head in its layer."""
    return int(head.split("-")[1])


def draw_head(axes: Axes, column: int, layer: int, roles: Sequence[str]) -> None:
    """Three rows of three cells below the head's name, each in the same place for the same role."""
    wide, high = 0.84 / 3, 0.62 / 3
    for index, (role, colour) in enumerate(FINE.items()):
        corner = (column + 0.08 + wide * (index % 3), layer + 0.31 + high * (index // 3))
        face = colour if role in roles else EMPTY
        axes.add_patch(Rectangle(corner, wide, high, facecolor=face, edgecolor="white", linewidth=0.4))


def by_layer(results: RunResults, rows: Sequence[Row]) -> Sheet:
    """How many heads of each layer have each coarse role, and how many have several of the fine ones, of both models."""
    wide = page_width(results) >= 2 * COLUMN - 1
    drawn = sheet(results, f"Roles by layer{state(rows)}", 183, 62 if wide else 116)
    left, right = drawn.body.subplots(*((1, 2) if wide else (2, 1)))
    own = of_first(rows)
    layers = [row["layer"] for row in own]
    shown = []
    for number, (role, colour) in enumerate(BROAD.items()):
        counts = [row.get(role) for row in own]
        if None not in counts:  # no input has the role, as block on single sentences
            shown += left.plot(layers, counts, marker=MARKERS[number], markersize=3, color=colour, label=role)
    left.set(ylabel="heads with the role", title="coarse roles")
    for model in dict.fromkeys(row.get("model") for row in rows):
        counts = [row.get("several_fine") or 0 for row in rows if row.get("model") == model]
        before = model == "model"
        label = "several fine roles" + {"model": ", pre-trained", "tuned": ", fine-tuned"}.get(str(model), "")
        look = {"linestyle": "--", "color": GREY, "marker": "s"} if before else {"color": "black", "marker": "o"}
        shown += right.plot(layers, counts, markersize=3, label=label, **look)
    right.set(ylabel="heads with several of nine roles", title="multi-skilled heads")
    for axes in (left, right):
        axes.set(xlabel="layer", xticks=layers)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3, linewidth=0.5)
    legend_below(drawn, shown)
    return drawn


def of_first(rows: Sequence[Row]) -> list[Row]:
    """The rows of the model that is told first: the fine-tuned one, where there are two."""
    return [row for row in rows if row.get("model") == rows[0].get("model")]


def state(rows: Sequence[Row]) -> str:
    """Which model the rows that are drawn are of, where there are two."""
    return " after fine-tuning" if rows and rows[0].get("model") == "tuned" else ""


def tau_curve(results: RunResults, rows: Sequence[Row], tau: float) -> Sheet:
    """How many heads get each broad role as the threshold moves."""
    title = f"Heads with each role, by threshold{state(results.tables['by_layer'])}"
    drawn = sheet(results, title, COLUMN, 54)
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
    """The mean change of the score after fine-tuning, by thirds of the layers, with 95 % intervals (Figure 6)."""
    drawn = sheet(results, "Change of the sieve score by fine-tuning", 24 + 12 * len(rows), 64, [INTERVALS])
    axes = drawn.body.subplots()
    shown = change_bars(axes, rows)
    axes.set(ylabel="change of the score")
    legend_below(drawn, shown)
    return drawn
