from dataclasses import replace

import numpy as np
import pytest
import torch

from headscope.analysis.frames import DIRECTIONS, FrameHeads, null_pairs
from headscope.analysis.statistics import holm
from headscope.contracts import DrawnInput
from tests.analysis.conftest import HEADS, LAYERS, merged

LENGTHS = [6, 4, 5]
LINKS = [[1, 4, 2, 4], [2, 1], [3, 1, 3, 2]]


@pytest.fixture
def frame_facts(facts):
    drawn = (DrawnInput(0, tuple("abcdef"), title="Giving", marked={"target": (1,), "element": (3, 4)}),)
    return replace(facts, kind="frames", filters={"too long": 2}, drawn=drawn)


@pytest.fixture
def batch(random_batch):
    links = torch.tensor([[*row, *[-100] * (4 - len(row))] for row in LINKS])
    inside = torch.tensor([[0, *[1] * (length - 2), 0, *[-100] * (6 - length)] for length in LENGTHS])
    return random_batch(LENGTHS, {"links": links, "inside": inside})


def test_every_head_and_direction_equals_a_plain_loop(batch, frame_facts):
    metric = FrameHeads(frame_facts, replicates=5, permutations=9)
    metric.update(batch)
    found = metric.compute()
    for direction, backwards in zip(DIRECTIONS, (False, True), strict=True):
        for layer in range(LAYERS):
            for head in range(HEADS):
                best = []
                for n, places in enumerate(LINKS):
                    pairs = [(places[i], places[i + 1]) for i in range(0, len(places), 2)]
                    best.append(max(float(batch.maps[n, layer, head][p[::-1] if backwards else p]) for p in pairs))
                assert found.heads[f"frame_{direction}"].value[layer][head] == pytest.approx(sum(best) / 3, abs=1e-7)
    assert found.tables["filters"] == [{"targets": "too long", "removed": 2}, {"targets": "left", "removed": 3}]


def test_heads_above_the_percentile_are_marked_with_an_example_map(batch, frame_facts):
    metric = FrameHeads(frame_facts, percentile=80.0, min_count=3, replicates=5, permutations=9)
    metric.update(batch)
    found = metric.compute()
    for direction in DIRECTIONS:
        values = np.array(found.heads[f"frame_{direction}"].value).ravel()
        marked = {row["head"] for row in found.tables["marked"] if row["direction"] == direction}
        above = np.flatnonzero(values > np.percentile(values, 80))
        assert marked == {f"{place // HEADS + 1}-{place % HEADS + 1}" for place in above}
    example = found.drawings["example_maps"][0]
    layer, head = map(int, example["head"].split("-"))
    torch.testing.assert_close(torch.tensor(example["attention"]), batch.maps[0, layer - 1, head - 1])
    assert example["marked"] == {"target": [1], "element": [3, 4]}


def test_no_head_is_marked_of_few_inputs(batch, frame_facts):
    enough, few = (
        FrameHeads(frame_facts, percentile=80.0, min_count=count, replicates=5, permutations=9) for count in (3, 4)
    )
    for metric in (enough, few):
        metric.update(batch)
    found = few.compute()
    assert (found.tables["marked"], found.metrics["marked_heads"], found.drawings["example_maps"]) == ([], 0, [])
    why = "no head is marked: that asks for at least 4 targets (analyses.frames.min_count), found 3"
    assert found.notes == {"marked": [why]}
    assert not [row for row in found.tables["marked"] if row["p_holm"] is None]
    assert found.heads == enough.compute().heads
    assert {row["n"] for row in enough.compute().tables["marked"]} == {3}
    assert "80th percentile" in enough.compute().notes["marked"][0]


def test_the_null_is_of_words_at_the_same_distance_without_a_link():
    links, inside = torch.tensor([[1, 3], [5, 2], [4, 1]]), torch.tensor([False, True, True, True, True, True, False])
    drawn, same = null_pairs(links, inside, 200, [0, 7])
    # Two ahead: 2-4 and 3-5 (1-3 is a link). Three back: 4-1 and 5-2 are links, so these stand for themselves.
    assert {tuple(pair) for pair in drawn[:, 0].tolist()} == {(2, 4), (3, 5)}
    assert (drawn[:, 1] == links[1]).all() and (drawn[:, 2] == links[2]).all()
    assert same == 2
    assert torch.equal(drawn, null_pairs(links, inside, 200, [0, 7])[0])
    assert not torch.equal(drawn, null_pairs(links, inside, 200, [1, 7])[0])


def test_p_values_equal_a_loop_over_draws(batch, frame_facts):
    metric = FrameHeads(frame_facts, replicates=5, permutations=30, seed=4)
    metric.update(batch)
    found, observed = metric.compute(), {}
    exceeded = np.zeros((2, LAYERS, HEADS))
    draws = []
    for n, places in enumerate(LINKS):
        inside = torch.tensor([0 < token < LENGTHS[n] - 1 for token in range(6)])
        draws.append(null_pairs(torch.tensor(places).reshape(-1, 2), inside, 30, [4, n])[0].tolist())
    for d, direction in enumerate(DIRECTIONS):
        observed[d] = np.array(found.heads[f"frame_{direction}"].value)
        for permutation in range(30):
            for layer in range(LAYERS):
                for head in range(HEADS):
                    best = []
                    for n in range(3):
                        pairs = [tuple(pair[:: -1 if d else 1]) for pair in draws[n][permutation]]
                        best.append(max(float(batch.maps[n, layer, head][pair]) for pair in pairs))
                    exceeded[d, layer, head] += sum(best) / 3 >= observed[d][layer, head] - 1e-9
    expected = holm(((exceeded + 1) / 31).ravel().tolist())
    values = [found.heads[f"frame_{direction}"].p for direction in DIRECTIONS]
    assert np.array(values).ravel() == pytest.approx(expected)


def test_two_processes_count_as_one(batch, parts_of, frame_facts):
    whole, first, second = (FrameHeads(frame_facts, replicates=20, permutations=9) for _ in range(3))
    whole.update(batch)
    for metric, part in zip((first, second), parts_of(batch, 1), strict=True):
        metric.update(part)
    expected, found = whole.compute().heads, merged(first, second).compute().heads
    for name in expected:
        np.testing.assert_allclose(found[name].value, expected[name].value)
        np.testing.assert_allclose(found[name].p, expected[name].p)
