"""Trees in hidden states: what a structural probe finds of them, by the length of sentences, beside the order of words."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import (
    COLUMN,
    GREY,
    MARKERS,
    OURS,
    PUBLISHED,
    Sheet,
    legend_below,
    page_width,
    sheet,
    written,
)

# A score's label, the end of its axis, and how its numbers are written.
SCORES = {"uuas": ("edges of the tree found (UUAS, %)", 100, ".1f"), "spearman": ("Spearman's ρ of distances", 1, ".2f")}
SOURCES = {"": ("probe", OURS, "-"), "word_order_": ("word order alone", GREY, "--")}
NOTE = (
    "Below each length: how many sentences have it. Word order alone: two words are as far apart as they are in the text, "
    "so that its tree links neighbours."
)


@written
def structure_by_length(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """UUAS and Spearman by length of sentence: the probe, the order of words, and the published UUAS of all lengths."""
    rows = results.tables.get("lengths") or []
    if not rows:
        return
    wide = page_width(results) >= 2 * COLUMN - 1
    layer = results.metrics.get("test/layer")
    title = "Trees in hidden states" + ("" if layer is None else f" of layer {layer:.0f}") + ", by length of sentence"
    drawn = sheet(results, title, 2 * COLUMN, 56 if wide else 112, [NOTE])
    left, right = drawn.body.subplots(*((1, 2) if wide else (2, 1)))
    draw_score(left, results, rows, "uuas")
    draw_score(right, results, rows, "spearman")
    shown = list(left.get_lines())
    if published := next((row["published"] for row in results.tables["summary"] if row["metric"] == "test/uuas"), None):
        shown.append(left.axhline(published, color=PUBLISHED, linestyle=":", label=f"published, all lengths: {published}"))
    legend_below(drawn, shown)
    yield "structure", drawn


def draw_score(axes: Axes, results: RunResults, rows: Sequence[Row], score: str) -> None:
    """A line for the probe and one for the order of words, through the lengths that have the score; all lengths above."""
    label, most, form = SCORES[score]
    known = [row for row in rows if row[score] is not None]
    said, least = [], 0.0
    for (prefix, (name, colour, dashes)), marker in zip(SOURCES.items(), MARKERS, strict=False):
        values = [row[f"{prefix}{score}"] for row in known if f"{prefix}{score}" in row]
        if values:
            axes.plot(values, color=colour, linestyle=dashes, marker=marker, markersize=3, label=name)
            least = min(least, *values)
        if (whole := results.metrics.get(f"test/{prefix}{score}")) is not None:
            said.append(f"{name} {whole:{form}}")
    axes.set_xticks(range(len(known)), [f"{row['words']}\n{row['sentences']:,}" for row in known])
    axes.set(xlabel="words in the sentence", ylabel=label, title=f"all: {', '.join(said)}" if said else "")
    axes.set(xlim=(-0.4, len(known) - 0.6), ylim=(1.1 * least, 1.04 * most))
    axes.grid(alpha=0.3, linewidth=0.5)
