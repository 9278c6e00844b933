"""What disabling does to the score: a cell per head, or a bar per layer, as changes from the undisturbed score."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLUMN, OURS, Sheet, head_heatmap, sheet, written
from headscope.reports.figures.uncertainty import differs, uncertainty

METRICS = {"f1": "F1", "pearson": "Pearson's r", "loss": "the loss"}
CHANGES = ("change_without_head", "loss_without_head")
WAYS = {
    "uniform": "attention made uniform",
    "zero": "attention set to zero",
    "mean": "attention set to its mean",
    "resample": "output of another input",
}


@written
def disabled_heatmap(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The change of the score without each head or layer; the scale is centred on the baseline (Figures 8, 9)."""
    facts = results.tables["sweep"][0]
    if "task" in facts:  # of several, which have a figure of their own
        return
    metric, unit = str(METRICS.get(facts["metric"], facts["metric"])), facts["units"].removesuffix("s")
    title = f"Change of {metric} when a {unit} is disabled ({WAYS.get(facts['how'], facts['how'])})"
    of_text = facts["metric"] == "loss"
    label = f"change of {metric} ({'nats per token' if of_text else 'points'})"
    notes = [f"{metric[:1].upper()}{metric[1:]} of the whole model: {facts['baseline']:.{3 if of_text else 1}f}."]
    if unit == "layer":
        yield "disabled_layers", layer_bars(results, title, label, results.tables["layers"], notes)
    else:
        rows = [row for row in heads if row["quantity"] in CHANGES]
        yield "disabled_heads", head_heatmap(results, title, label, rows, notes, difference=True)


def layer_bars(results: RunResults, title: str, label: str, rows: Sequence[Row], notes: Sequence[str]) -> Sheet:
    """A bar per layer from the baseline, with its interval; pale where that holds zero."""
    notes = [*notes, "Whiskers are 95 % intervals over inputs.", *uncertainty(rows, "layer")]
    drawn = sheet(results, title, COLUMN, 11 + 5 * len(rows), notes)
    axes = drawn.body.subplots()
    draw_layers(axes, rows)
    axes.set(xlabel=label, ylabel="layer")
    return drawn


def draw_layers(axes: Axes, rows: Sequence[Row]) -> None:
    """A bar for each layer, from the top."""
    ends = [[max(0, row["change"] - row["low"]) for row in rows], [max(0, row["high"] - row["change"]) for row in rows]]
    style = {"elinewidth": 0.7, "capsize": 1.5, "ecolor": "#444444"}
    layers, changes = ([row[key] for row in rows] for key in ("layer", "change"))
    bars = axes.barh(layers, changes, 0.7, color=OURS, xerr=ends, error_kw=style)
    for bar, row in zip(bars, rows, strict=True):
        bar.set_alpha(1.0 if differs(row) else 0.35)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(layers)
    axes.set_ylim(len(rows) + 0.6, 0.4)
