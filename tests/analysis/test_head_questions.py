"""Roles against patterns and against the effect of disabling, beside plain loops and exact enumeration."""

from itertools import permutations, product
from math import comb

import numpy as np
import pytest

from headscope.analysis.head_questions import (
    ablation_by_role,
    layer_contrast,
    orders_within_layers,
    overlap,
    role_effect,
    role_pattern_agreement,
)
from headscope.analysis.statistics import holm

CHANGES = [[-1.0, 0.5, 2.0, -0.25], [0.0, -3.0, 1.5, 0.75]]
HAS = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]


def fisher_by_hand(both, ones, others, n):
    """The probability of all tables with these margins that are as unlikely as this one."""
    chance = {k: comb(ones, k) * comb(n - ones, others - k) / comb(n, others) for k in range(min(ones, others) + 1)}
    return sum(p for p in chance.values() if p <= chance[both] * (1 + 1e-7))


def difference_by_hand(changes, has):
    """Layer by layer: the mean with the role minus that without, weighted by the heads with the role."""
    total = weight = 0
    for row, roles in zip(changes, has, strict=True):
        yes = [value for value, role in zip(row, roles, strict=True) if role]
        no = [value for value, role in zip(row, roles, strict=True) if not role]
        if yes and no:
            total += len(yes) * (sum(yes) / len(yes) - sum(no) / len(no))
            weight += len(yes)
    return total / weight


def test_agreement_equals_counts_by_hand():
    grids = {
        "role:local": [[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]],
        "role:block": [[0.0] * 4] * 2,
        "sieve:local": [[5.0, 4.0, 1.0, 2.0], [3.5, 0.5, 0.25, 0.1]],
        "sieve:block": [[1.0] * 4] * 2,
        "pattern:diagonal": [[0.9, 0.6, 0.2, 0.3], [0.4, 0.7, 0.1, 0.0]],
        "pattern:vertical": [[0.1, 0.4, 0.8, 0.7], [0.6, 0.3, 0.9, 1.0]],
        "pattern:none": [[0.0] * 4] * 2,
        "pattern:abstained": [[1.0] * 4] * 2,  # no class
    }
    found = role_pattern_agreement(grids)
    rows = {(row["role"], row["class"]): row for row in found["rows"]}
    assert (found["n"], len(rows)) == (8, 6)
    # local: heads 1-1, 1-2, 2-1; diagonal is the most frequent class of 1-1, 1-2, 2-2.
    local = rows["local", "diagonal"]
    assert (local["heads_with_role"], local["heads_with_class"], local["both"]) == (3, 3, 2)
    assert local["expected"] == 9 / 8
    by_chance = (3 * 3 + 5 * 5) / 64
    assert local["kappa"] == pytest.approx((6 / 8 - by_chance) / (1 - by_chance))
    assert local["odds_ratio"] == pytest.approx(2 * 4 / (1 * 1))
    assert local["p"] == pytest.approx(fisher_by_hand(2, 3, 3, 8))
    # The ranks of the scores are 8 7 4 5 6 3 2 1, those of the shares 8 6 3 4 5 7 2 1.
    squares = sum((a - b) ** 2 for a, b in zip((8, 7, 4, 5, 6, 3, 2, 1), (8, 6, 3, 4, 5, 7, 2, 1), strict=True))
    assert local["spearman"] == pytest.approx(1 - 6 * squares / (8 * 63))
    tested = [rows["local", "diagonal"], rows["local", "vertical"]]
    assert [row["p_holm"] for row in tested] == holm([row["p"] for row in tested])
    undefined = rows["block", "none"]
    assert (undefined["heads_with_role"], undefined["both"], undefined["expected"]) == (0, 0, 0)
    assert [undefined[name] for name in ("kappa", "odds_ratio", "p", "p_holm", "spearman")] == [None] * 5
    assert rows["block", "diagonal"]["p"] is rows["local", "none"]["p"] is None


@pytest.mark.parametrize("seed", range(5))
def test_overlap_equals_fishers_sum(seed):
    one, other = np.random.default_rng(seed).random((2, 12)) < 0.4
    row, both = overlap(one, other), sum(bool(a and b) for a, b in zip(one, other, strict=True))
    assert row["both"] == both
    assert row["p"] == pytest.approx(fisher_by_hand(both, int(one.sum()), int(other.sum()), 12))


def test_an_infinite_ratio_is_null():
    row = overlap(np.array([True, True, False, False]), np.array([True, True, False, False]))
    assert row["kappa"] == 1
    assert row["odds_ratio"] is None
    assert row["p"] == pytest.approx(2 / comb(4, 2))


def test_the_effect_of_a_role_equals_exact_enumeration():
    found = ablation_by_role({"role:local": HAS, "change_without_head": CHANGES}, draws=40_000, seed=3)
    (row,) = found["rows"]
    difference = difference_by_hand(CHANGES, HAS)
    assert row["difference"] == pytest.approx(difference)
    assert row["mean_change"] == pytest.approx((-1 + 2 - 3) / 3)
    assert row["matched_mean_change"] == pytest.approx(row["mean_change"] - difference)
    everything = [list(order) for order in product(*(permutations(layer) for layer in CHANGES))]
    drawn = [difference_by_hand(order, HAS) for order in everything]
    exact = sum(abs(value) >= abs(difference) - 1e-9 for value in drawn) / len(drawn)
    assert row["p"] == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 40_000) ** 0.5)
    assert row["p_holm"] == row["p"]


def test_the_interval_is_the_test_turned_around():
    """Effects inside it are not rejected by the test, those outside are; an added effect moves it and leaves its width."""
    changes, has = np.array(CHANGES), np.array(HAS) > 0
    orders = np.array([list(order) for order in product(permutations(range(4)), repeat=2)])
    one, moved = role_effect(changes, has, orders), role_effect(changes + 7 * has, has, orders)
    for name in ("mean_change", "difference", "low", "high"):
        assert moved[name] == pytest.approx(one[name] + 7)
    assert one["low"] < one["difference"] < one["high"]
    for end, outwards in ((one["low"], -1), (one["high"], 1)):
        for step, rejected in ((-1e-6, False), (1e-6, True)):
            rest = changes - (end + outwards * step) * has
            left = difference_by_hand(rest, HAS)
            drawn = [difference_by_hand([row[list(o)] for row, o in zip(rest, order, strict=True)], HAS) for order in orders]
            p = (1 + sum(abs(value) >= abs(left) - 1e-9 for value in drawn)) / (1 + len(drawn))
            assert (p <= 0.05) == rejected
    # An effect far from chance has the smallest p-value: only the orders that keep the role's heads are as far.
    far = role_effect(changes + 1000 * has, has, orders)
    same = sum(all(row[list(o)].tolist() == row.tolist() for row, o in zip(has, order, strict=True)) for order in orders)
    assert far["p"] == (1 + same) / (1 + len(orders))


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_leaves_out_zero_where_the_test_rejects_it(seed):
    random = np.random.default_rng(seed)
    for heads_with_role in (1, 2, 5):
        has = (random.permutation(24) < heads_with_role).reshape(2, 12)
        orders = orders_within_layers(np.ones((2, 12), bool), 400, random)
        for effect in (0, 2, 50):
            row = role_effect(random.normal(size=(2, 12)) + effect * has, has, orders)
            open_ended = row["low"] is None
            assert (row["p"] <= 0.05) == (not open_ended and not row["low"] <= 0 <= row["high"])
            assert open_ended == (heads_with_role == 1)  # one head in twelve is extreme by chance too often to be told


def test_equal_differences_count_as_equal_in_the_interval_too():
    """Changes of examples counted, such as those of accuracy, are often equal: no effect is then an end of the interval."""
    random = np.random.default_rng(0)
    orders = orders_within_layers(np.ones((3, 6), bool), 300, random)
    ends = 0
    for _ in range(40):
        has = random.random((3, 6)) < 0.8
        row = role_effect(0.1 * random.integers(0, 2, (3, 6)), has, orders)
        if row["low"] is not None:
            ends += 0 in (row["low"], row["high"])
            assert (row["p"] <= 0.05) == (not row["low"] <= 0 <= row["high"])
    assert ends


def test_a_head_whose_change_is_not_known_is_as_good_as_not_there():
    """A head more in each layer, of which nothing is known, once with the role: all else as without them."""
    changes = [[CHANGES[0][0], None, *CHANGES[0][1:]], [*CHANGES[1], None]]
    has = [[HAS[0][0], 1.0, *HAS[0][1:]], [*HAS[1], 0.0]]
    (row,) = ablation_by_role({"role:x": has, "change_without_head": changes}, draws=20_000)["rows"]
    (without,) = ablation_by_role({"role:x": HAS, "change_without_head": CHANGES}, draws=20_000)["rows"]
    assert (row["heads"], row["heads_compared"], without["heads_compared"]) == (4, 3, 3)
    for name in ("mean_change", "matched_mean_change", "difference"):
        assert row[name] == pytest.approx(without[name])
    assert row["p"] == pytest.approx(without["p"], abs=0.02)


def test_a_head_all_of_whose_maps_were_abstained_from_has_no_class():
    grids = {
        "role:x": [[1.0, 0.0, 1.0, 0.0]],
        "pattern:vertical": [[0.0, 0.0, 0.2, 0.5]],
        "pattern:diagonal": [[0.0, 0.0, 0.8, 0.1]],
        "pattern:abstained": [[1.0, 1.0, 0.0, 0.4]],
    }
    found = role_pattern_agreement(grids)
    assert [(row["class"], row["heads_with_class"], row["both"]) for row in found["rows"]] == [
        ("vertical", 1, 0),
        ("diagonal", 1, 1),
    ]
    assert found["n"] == 4


def test_a_layer_whose_heads_all_have_the_role_is_not_compared():
    has = np.array([[True] * 4, [True, False, False, False]])
    weights, counted = layer_contrast(has)
    assert weights[0].tolist() == [0] * 4
    assert weights[1] == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    assert counted[:, 0].tolist() == [False, True]
    (row,) = ablation_by_role({"role:x": has.astype(float).tolist(), "change_without_head": CHANGES}, draws=100)["rows"]
    assert (row["heads"], row["heads_compared"], row["mean_change"]) == (5, 1, 0.0)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_role_of_no_head_or_all_heads_is_undefined(value):
    grids = {"role:x": [[value] * 4] * 2, "role:local": HAS, "change_without_head": CHANGES}
    rows = {row["role"]: row for row in ablation_by_role(grids, draws=200)["rows"]}
    assert rows["x"].heads == 8 * value
    names = ("mean_change", "matched_mean_change", "difference", "low", "high", "p", "p_holm")
    assert [rows["x"][name] for name in names] == [None] * 7
    assert rows["local"]["p_holm"] == rows["local"]["p"] is not None


@pytest.mark.parametrize("ask", [role_pattern_agreement, ablation_by_role])
def test_an_answer_says_how_it_is_shown(ask):
    """Title and columns whether or not there is an answer; every column and all that a chart draws is in the rows."""
    grids = {"role:local": HAS, "pattern:diagonal": HAS, "pattern:vertical": CHANGES, "change_without_head": CHANGES}
    answer, nothing = ask(grids), ask({})
    assert answer["title"].endswith("?") and answer["verdict"].endswith(".")
    keys = [column["key"] for column in answer["columns"]]
    assert keys == list(dict.fromkeys(keys)) and set(keys) == {key for row in answer["rows"] for key in row}
    assert all(column["label"] for column in answer["columns"])
    texts = ("kind", "caption", "axis", "range")
    assert {key for role, key in answer["chart"].items() if role not in texts} | {answer["sort"]} <= set(keys)
    for key in ("title", "columns", "chart", "caption", "sort", "reading"):
        assert nothing[key] == answer[key]


def test_the_verdict_names_what_is_beyond_chance():
    has = (np.arange(24).reshape(4, 6) % 6 < 2).astype(float)
    other = np.roll(has, 3, axis=1)
    grids = {"role:to_the_left": has, "role:x": other, "pattern:one_class": has, "pattern:y": 0.5 * (1 - has)}
    grids = {name: grid.tolist() for name, grid in grids.items()}
    agreeing = role_pattern_agreement(grids)["verdict"]
    assert agreeing.startswith("After Holm's correction: to the left with one class (8 heads, 2.67 expected); ")
    found = ablation_by_role(grids | {"change_without_head": (-2 * has).tolist()}, draws=2000)
    assert "to the left (−2)" in found["verdict"]
    changes = np.random.default_rng(0).normal(size=(4, 6)).tolist()
    assert ablation_by_role(grids | {"change_without_head": changes}, draws=200)["verdict"] == (
        "No role differs from its matched heads after Holm's correction."
    )


def test_without_its_quantities_a_question_says_why():
    assert "needs patterns" in role_pattern_agreement({"role:local": HAS})["why"]
    assert "needs roles and disabled heads" in ablation_by_role({})["why"]
    assert ablation_by_role({})["rows"] == []


def test_the_same_seed_gives_the_same_answer():
    grids = {"role:local": HAS, "change_without_head": CHANGES}
    assert ablation_by_role(grids, 300, 1) == ablation_by_role(grids, 300, 1)
    assert ablation_by_role(grids, 300, 1) != ablation_by_role(grids, 300, 2)
