"""What the tables that experiments show have in a narrow terminal: the number of inputs, and first what matters most."""

import pytest

from headscope.reports.terminal import table_of
from tests.runs.conftest import composed

# A row of each table, with cells as long as they come, and the columns that a terminal of 64 characters has room for.
ROWS = {
    ("clark_relations", "relation_heads"): (
        {"relation": "nmod:poss", "head": "12-12", "direction": "dependent_to_head", "accuracy": 100.0, "low": 100.0,
         "high": 100.0, "held_out": 100.0, "held_out_low": 100.0, "held_out_high": 100.0,
         "offset": -2, "baseline": 100.0, "p": 0.5, "p_holm": 0.5, "n": 25094,
         "published": "dobj 8-10 86.8 (40.0, -2)"},
        ["relation", "head", "accuracy", "baseline", "n", "published"],
    ),
    ("clark_coreference", "coreference"): (
        {"row": "best head, among all words", "head": "12-12", "all": 100.0, "pronoun": 100.0, "proper": 100.0,
         "nominal": 100.0, "low": 100.0, "high": 100.0, "held_out": 100.0, "held_out_low": 100.0, "held_out_high": 100.0,
         "p": 0.5, "p_holm": 0.5, "n": 2500, "published": "5-4 65 (64/73/58)"},
        ["row", "head", "all", "n", "published"],
    ),
    ("kovaleva_features", "features"): (
        {"quantity": "attention to negation", "layer": "12, the last", "mean": 0.5, "tuned_mean": 0.5, "change": -0.5,
         "highest_head": "12-12", "highest_held_out": 0.5, "n": 3668, "diagonal_correlation": -0.5},
        ["quantity", "layer", "mean", "n", "highest_head"],
    ),
    ("kovaleva_frames", "marked"): (
        {"head": "12-12", "direction": "element_to_target", "score": 0.2, "low": 0.1, "high": 0.3, "n": 4730,
         "p_holm": 0.5, "finding": "yes"},
        ["head", "direction", "score", "p_holm", "n"],
    ),
    ("kovaleva_patterns_task", "patterns_by_layer"): (
        {"model": "tuned", "layer": "all", "vertical": 100.0, "diagonal": 100.0, "vertical_diagonal": 100.0, "block": 100.0,
         "heterogeneous": 100.0, "abstained": 100.0, "n": 1000},
        ["model", "layer", "heterogeneous", "n"],
    ),
    ("kovaleva_patterns", "summary"): (
        {"task": "mrpc", "model": "tuned", "vertical": 100.0, "diagonal": 100.0, "vertical_diagonal": 100.0, "block": 100.0,
         "heterogeneous": 100.0, "abstained": 100.0, "n": 1000, "heterogeneous, published bound": 32},
        ["task", "model", "heterogeneous", "heterogeneous, published bound", "n"],
    ),
    ("kovaleva_disable_heads", "best_and_worst"): (
        {"task": None, "disabled": "12-12", "score": 100.0, "change": -100.0, "low": -100.0, "high": 100.0, "n": 40430,
         "p_holm": 0.5, "deviation_over_checkpoints": 10.0},
        ["disabled", "change", "low", "high", "n", "score"],
    ),
    ("kovaleva_disable_heads", "sweep"): (
        {"task": None, "units": "layers", "how": "uniform", "metric": "accuracy", "baseline": 100.0, "n": 40430,
         "checkpoints": 5, "importance_rank_correlation": -0.5, "path": "one full pass each"},
        ["units", "how", "metric", "baseline", "n"],
    ),
    ("kovaleva_disable_heads", "gains"): (
        {"task": "mrpc", "row": "heads that gain beyond their interval", "change": -100.0, "published": "-0.2 at most",
         "disabled": "144 of 144", "low": -100.0, "high": 100.0, "p_holm": 0.5, "n": 40430},
        ["task", "row", "change", "published", "n"],
    ),
    ("kovaleva_disable_heads", "frame_heads"): (
        {"task": "mrpc", "head": "12-12", "direction": "element_to_target", "change": -100.0, "n": 40430, "frame_score": 0.2,
         "p_holm": 0.5, "low": -100.0, "high": 100.0, "frame_p": 0.5},
        ["task", "head", "direction", "change", "n"],
    ),
    ("kovaleva_disable_layers", "layers"): (
        {"layer": 12, "change": -100.0, "low": -100.0, "high": 100.0, "n": 40430},
        ["layer", "change", "low", "high", "n"],
    ),
    ("pande_sieves", "roles"): (
        {"model": "tuned", "role": "question_mark", "kind": "coarse, fine", "heads": 144, "share": 100.0, "mean_score": 10.5,
         "highest": 100.5, "highest_head": "12-12", "highest_held_out": 100.5, "possible": 10.5, "above_permuted": 144,
         "n": 1000},
        ["model", "role", "heads", "share", "n", "highest_head"],
    ),
    ("pande_sieves", "by_layer"): (
        {"model": "tuned", "layer": 12, "local": 12, "delimiter": 12, "block": 12, "syntactic": 12, "none": 12,
         "delimiter_only": 12, "several_fine": 12},
        ["model", "layer", "local", "delimiter", "block", "syntactic"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("experiment", "table"), ROWS)
def test_a_narrow_terminal_has_what_matters_most(experiment, table):
    row, first = ROWS[experiment, table]
    shown = composed(f"experiment={experiment}").show[table]
    columns = list(row) if shown == "all" else list(shown)
    assert set(columns) <= set(row)
    left_out = {width: table_of("", [row], columns, width)[1] for width in (64, 80, 120)}
    for width, without in left_out.items():
        assert not set(first) & set(without), width
    assert len(left_out[120]) <= 3


@pytest.mark.parametrize("experiment", ["kovaleva_disable_heads", "kovaleva_disable_layers"])
def test_the_largest_change_is_not_told_without_its_interval(experiment):
    """The summary has the best and the worst of all heads, which chance alone makes."""
    assert not composed(f"experiment={experiment}").show.summary
