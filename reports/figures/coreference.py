"""Who finds the antecedent: the baselines and the best head, by kind of mention, with their intervals."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import pyplot

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLOURS, save


def coreference_rows(results: RunResults, heads: Sequence[Row], folder: Path) -> None:
    """A group of bars for each kind of mention."""
    cells = results.tables["coreference_intervals"]
    rows, kinds = (list(dict.fromkeys(cell[key] for cell in cells)) for key in ("row", "kind"))
    width = 0.8 / len(rows)
    figure, axes = pyplot.subplots(figsize=(5.5, 3.2))
    for number, row in enumerate(rows):
        own = [cell for cell in cells if cell["row"] == row]
        positions = [kinds.index(cell["kind"]) + (number - (len(rows) - 1) / 2) * width for cell in own]
        ends = [[max(0, c["accuracy"] - c["low"]) for c in own], [max(0, c["high"] - c["accuracy"]) for c in own]]
        style = {"color": COLOURS[number], "label": row, "error_kw": {"elinewidth": 0.8, "capsize": 1.5}}
        axes.bar(positions, [cell["accuracy"] for cell in own], width, yerr=ends, **style)
    counts = {cell["kind"]: cell["n"] for cell in cells}
    axes.set_xticks(range(len(kinds)), [f"{kind}\n({counts[kind]})" for kind in kinds])
    axes.set(ylabel="antecedent found (%)", ylim=(0, 100), title="coreference by kind of mention")
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save(figure, folder, "coreference")
