"""Roles of heads in pictures: how scores and p-values are spread, which roles go together, who has several."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from headscope.contracts import Row, RunResults
from headscope.errors import given
from headscope.reports.figures.drawing import COLOURS, OURS, PUBLISHED, save

BROAD = {"local": COLOURS[0], "delimiter": COLOURS[1], "block": COLOURS[2], "syntactic": COLOURS[3]}
EMPTY = "#EEEEEE"


def role_figures(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """All of them."""
    tables, tau = results.tables, given(results.metrics.get("test/tau"), "test/tau")
    distributions(tables, tau, folder)
    overlap(tables["overlap"], folder)
    skills(tables["assigned"], folder)
    tau_curve(tables["tau_curve"], tau, folder)
    if tables["change_by_third"]:
        change(tables["change_by_third"], folder)


def distributions(tables: Mapping[str, Sequence[Row]], tau: float, folder: Path) -> None:
    """The distribution of all scores with its mean and tau, one head's scores, and the p-values (Figures 2 and 3)."""
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(9.2, 2.6))
    points = tables["score_quantiles"]
    if points:
        left.plot([point["score"] for point in points], [point["share"] for point in points], color=OURS)
        left.axvline(points[0]["mean"], color=PUBLISHED, label=f"mean {points[0]['mean']:.2f}")
        left.axvline(tau, color="black", linestyle=":", label=f"tau {tau:g}")
        left.set_xlim(0, min(points[-1]["score"], 4 * max(tau, points[0]["mean"])))
        left.legend(fontsize=7)
    left.set(xlabel="sieve bias score", ylabel="share of scores", title="all heads, roles and inputs")
    own = tables["head_histogram"]
    if own:
        middle.bar(
            [b["from"] for b in own], [b["count"] for b in own], own[0]["to"] - own[0]["from"], align="edge", color=OURS
        )
        middle.axvline(tau, color="black", linestyle=":")
        middle.set_title(f"head {own[0]['head']}, {own[0]['role']}")
    middle.set(xlabel="sieve bias score", ylabel="inputs")
    bars = tables["p_histogram"]
    right.bar([bar["from"] for bar in bars], [bar["count"] for bar in bars], 0.045, align="edge", color=OURS)
    right.set(xlabel="p-value", ylabel="heads × roles", title="p-values", yscale="symlog")
    save(figure, folder, "roles_distributions")


def overlap(rows: Sequence[Row], folder: Path) -> None:
    """How many heads have exactly each combination of roles, largest first, the roles as dots below (an UpSet chart)."""
    roles = [role for role in BROAD if any(role in row["roles"].split(" & ") for row in rows)]
    figure, (bars, dots) = pyplot.subplots(
        2, 1, figsize=(1.5 + 0.45 * len(rows), 3.4), height_ratios=[3, 1 + 0.2 * len(roles)], sharex=True
    )
    drawn = bars.bar(range(len(rows)), [row["heads"] for row in rows], color=OURS)
    bars.bar_label(drawn, fontsize=7)
    bars.set(ylabel="heads", title="heads with exactly these roles")
    for column, row in enumerate(rows):
        present = [index for index, role in enumerate(roles) if role in row["roles"].split(" & ")]
        dots.plot([column] * len(roles), range(len(roles)), "o", color=EMPTY, markersize=6)
        dots.plot([column] * len(present), present, "o-", color="black", markersize=6)
    dots.set_yticks(range(len(roles)), roles)
    dots.set(xticks=[], ylim=(-0.6, len(roles) - 0.4))
    save(figure, folder, "roles_overlap")


def skills(rows: Sequence[Row], folder: Path) -> None:
    """Each head a cell with the colours of its broad roles; within a layer those with most roles first (Figure 5)."""
    layers: dict[int, list[list[str]]] = {}
    for row in rows:
        roles = [role for role in BROAD if role in row["roles"]]
        layers.setdefault(int(row["head"].split("-")[0]), []).append(roles)
    width = max(map(len, layers.values()))
    figure, axes = pyplot.subplots(figsize=(1.0 + 0.36 * width, 1.2 + 0.3 * len(layers)))
    for layer, cells in layers.items():
        for column, roles in enumerate(sorted(cells, key=lambda cell: (-len(cell), cell))):
            draw_cell(axes, column, layer, roles)
    for role, colour in BROAD.items():
        axes.plot([], [], "s", color=colour, label=role)
    axes.set(xlim=(0, width), ylim=(max(layers) + 1, 1), xticks=[], ylabel="layer", title="roles of each head")
    axes.set_yticks([layer + 0.5 for layer in layers], [str(layer) for layer in layers])
    axes.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.01), frameon=False, handletextpad=0.1)
    save(figure, folder, "roles_grid")


def draw_cell(axes: Axes, column: int, layer: int, roles: Sequence[str]) -> None:
    """A square, divided among the roles."""
    share = 1 / max(1, len(roles))
    for index, colour in enumerate([BROAD[role] for role in roles] or [EMPTY]):
        axes.add_patch(Rectangle((column + index * share, layer), share, 1, facecolor=colour, linewidth=0))
    axes.add_patch(Rectangle((column, layer), 1, 1, fill=False, edgecolor="white", linewidth=1.5))


def tau_curve(rows: Sequence[Row], tau: float, folder: Path) -> None:
    """How many heads get each broad role as the threshold moves."""
    figure, axes = pyplot.subplots(figsize=(4.2, 2.8))
    for role, colour in BROAD.items():
        if role in rows[0]:
            axes.plot([row["tau"] for row in rows], [row[role] for row in rows], color=colour, label=role)
    axes.axvline(tau, color="black", linestyle=":")
    axes.set(xlabel="tau", ylabel="heads with the role (%)", ylim=(0, 100), title="sensitivity to the threshold")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    save(figure, folder, "roles_tau")


def change(rows: Sequence[Row], folder: Path) -> None:
    """The mean change of the score after fine-tuning, by thirds of the layers (Figure 6)."""
    thirds = [key for key in rows[0] if key != "role"]
    figure, axes = pyplot.subplots(figsize=(1.0 + 0.5 * len(rows), 2.8))
    for number, third in enumerate(thirds):
        positions = [index + 0.27 * (number - 1) for index in range(len(rows))]
        axes.bar(positions, [row[third] or 0 for row in rows], 0.25, color=COLOURS[number], label=f"{third} third")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), [row["role"] for row in rows], rotation=45, ha="right")
    axes.set(ylabel="change of the score", title="after fine-tuning")
    axes.legend(fontsize=7)
    save(figure, folder, "roles_change")
