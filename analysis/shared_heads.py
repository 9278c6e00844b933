"""Whether several tasks rely on the same heads (Kovaleva, section 5, of STS-B and RTE): a question to the runs of tasks."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, cast

from scipy.stats import spearmanr

from headscope.analysis.statistics import holm
from headscope.contracts import ChildRun, Findings, Row, head_name

FIRST = 5  # heads of each task
TUNED = "tuned_"
Cells = dict[tuple[int, int], float]
HOW = (
    f"spearman: over all heads, p corrected by Holm over the rows; shared: of the {FIRST} heads with most of each task; "
    "the models began with the same weights, so that some agreement is no wonder"
)


def shared_heads(parts: Sequence[ChildRun], quantities: Sequence[str]) -> Findings:
    """For every two tasks and each quantity, how alike heads rank in both, and which are first in both.

    Of fine-tuned models where all tasks have one.
    """
    rows = [row for name in quantities for one, other in combinations(parts, 2) for row in of_two(one, other, name)]
    rows = [{**row, "p_holm": p} for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True)]
    return Findings(tables={"shared_heads": rows}, notes={"shared_heads": [HOW]} if rows else {})


def of_two(one: ChildRun, other: ChildRun, quantity: str) -> list[Row]:
    """The row of two tasks; none where one of them lacks the quantity, or all heads are alike."""
    named = [[cells(part, name) for part in (one, other)] for name in (TUNED + quantity, quantity)]
    grids = next((grids for grids in named if all(grids)), None)
    if grids is None or any(len(set(grid.values())) < 2 for grid in grids):
        return []
    heads = sorted(set(grids[0]) & set(grids[1]))
    one_values, other_values = ([grid[head] for head in heads] for grid in grids)
    found = cast(Any, spearmanr(one_values, other_values))
    first = [sorted(grid, key=lambda head: (-grid[head], head))[:FIRST] for grid in grids]
    shared = [head_name(*head) for head in first[0] if head in first[1]]
    return [
        {
            "quantity": quantity,
            "tasks": f"{one.value} and {other.value}",
            "spearman": float(found.statistic),
            "p": float(found.pvalue),
            "shared": ", ".join(shared) or "none",
            "n": len(heads),
        }
    ]


def cells(part: ChildRun, quantity: str) -> Cells:
    """The values of a quantity by layer and head; none where the run has no such quantity."""
    rows = [row for row in part.heads if row["quantity"] == quantity and row["value"] not in (None, "")]
    return {(int(row["layer"]), int(row["head"])): float(row["value"]) for row in rows}
