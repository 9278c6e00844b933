"""Whether tasks share heads: ranks by a loop, the first heads by hand."""

import numpy as np
import pytest

from headscope.analysis.shared_heads import shared_heads
from headscope.contracts import ChildRun, Provenance, RunResults


def part(task, **grids):
    """A run of a task with these values of heads, two layers of four."""
    results = RunResults("t", {}, {}, Provenance({}, {}, {}))
    rows = [
        {"layer": str(n // 4 + 1), "head": str(n % 4 + 1), "quantity": name, "value": str(value)}
        for name, values in grids.items()
        for n, value in enumerate(values)
    ]
    return ChildRun("features", task, results, rows)


def test_two_tasks_by_hand():
    one = [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    other = [0.8, 0.7, 0.6, 0.1, 0.2, 0.3, 0.4, 0.5]
    found = shared_heads([part("stsb", same_word_forward=one), part("rte", same_word_forward=other)], ["same_word_forward"])
    (row,) = found.tables["shared_heads"]
    ranks = [sorted(values).index(value) for values in (one, other) for value in values]
    expected = np.corrcoef(ranks[:8], ranks[8:])[0, 1]
    assert (row["tasks"], row["shared"], row["n"]) == ("stsb and rte", "1-1, 1-2, 1-3", 8)
    assert row["spearman"] == pytest.approx(expected)
    assert row["p"] == row["p_holm"]


def test_fine_tuned_models_come_first_and_p_is_corrected_over_pairs_of_tasks():
    rising, falling = np.linspace(0, 1, 8), np.linspace(1, 0, 8)
    tasks = {"stsb": rising, "rte": rising, "mrpc": falling}
    parts = [part(task, x=rising, tuned_x=values + 0.01 * np.sin(range(8))) for task, values in tasks.items()]
    rows = shared_heads(parts, ["x", "not_there"]).tables["shared_heads"]
    assert [row["tasks"] for row in rows] == ["stsb and rte", "stsb and mrpc", "rte and mrpc"]
    assert [row["spearman"] for row in rows] == pytest.approx([1, -1, -1])
    assert [row["shared"] for row in rows] == ["2-4, 2-3, 2-2, 2-1, 1-4", "2-1, 1-4", "2-1, 1-4"]
    assert all(row["p_holm"] >= row["p"] for row in rows)


def test_heads_that_are_all_alike_or_unknown_have_no_row():
    assert shared_heads([part("a", x=[1.0] * 8), part("b", x=range(8))], ["x"]).tables == {"shared_heads": []}
    assert shared_heads([part("a"), part("b", x=range(8))], ["x"]).notes == {}
