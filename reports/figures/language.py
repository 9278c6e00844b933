"""A masked-LM head: where it knows more than the frequencies of words do."""

from collections.abc import Iterator, Sequence

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLUMN, OURS, SMALL, UNDEFINED, Sheet, legend_below, sheet, written

NOTE = (
    "Below each frequency: how many masked words have it. Frequencies alone: counts of the training text, one added to each."
)


@written
def loss_by_frequency(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The loss on masked words by how often they are in the training text, beside that of their frequencies alone."""
    rows = results.tables.get("frequencies") or []
    if not rows:
        return
    drawn = sheet(results, "Loss on masked words, by their frequency in the training text", COLUMN, 54, [NOTE])
    axes = drawn.body.subplots()
    shown = []
    sources = ((-0.2, "loss", OURS, "the head"), (0.2, "unigram_loss", UNDEFINED, "frequencies alone"))
    for offset, column, colour, name in sources:
        places = [index + offset for index in range(len(rows))]
        shown.append(axes.bar(places, [row[column] for row in rows], 0.38, color=colour, label=name))
        axes.bar_label(shown[-1], fmt="%.1f", padding=1, fontsize=SMALL)
    axes.set_xticks(range(len(rows)), [f"{row['times']}\n{row['n']:,}" for row in rows])
    axes.set(xlabel="times in the training text", ylabel="loss (nats)")
    axes.margins(y=0.12)
    legend_below(drawn, shown)
    yield "frequencies", drawn
