"""Rules by hand on constructed maps, and their thresholds against a loop over the grid."""

from itertools import product

import pytest
import torch
from sklearn.metrics import f1_score

from headscope.data_modules.patterns.labels import CLASSES
from headscope.probes.patterns.resampling import CLS, SEP
from headscope.probes.patterns.rules import GRIDS, best_thresholds, map_measures, ruled_classes

TOKENS = torch.tensor([[CLS, 0, 0, SEP, 0, 0, SEP, -100]])
REAL = torch.tensor([[True] * 7 + [False]])


def measured(weights):
    padded = torch.zeros(1, 1, 8, 8)
    padded[0, 0, :7, :7] = weights
    padded[0, 0, 7] = 1 / 8  # a row of padding
    return map_measures(padded, REAL, TOKENS)[0, 0].tolist()


def test_measures_by_hand():
    even = torch.full((7, 7), 1 / 7)
    # 3 of 7 tokens are special; four ordinary tokens, each with itself and one ordinary neighbour in reach
    assert measured(even) == pytest.approx([3 / 7, 2 / 7, 0.5])
    column = torch.zeros(7, 7)
    column[:, 6] = 1
    assert measured(column) == pytest.approx([1, 0, 0])
    assert measured(torch.eye(7)) == pytest.approx([3 / 7, 1, 1])
    block = torch.zeros(7, 7)
    block[1:3, 1:3] = block[4:6, 4:6] = 0.5
    block[[0, 3, 6], 1] = 1
    assert measured(block) == pytest.approx([0, 1, 1])
    across = torch.zeros(7, 7)
    across[1:3, 4:6] = across[4:6, 1:3] = 0.5
    across[[0, 3, 6], 1] = 1
    assert measured(across) == pytest.approx([0, 0, 0])


def test_a_single_sentence_has_no_block():
    tokens = torch.tensor([[CLS, 0, 0, 0, SEP]])
    measures = map_measures(torch.full((1, 1, 5, 5), 0.2), torch.ones(1, 5, dtype=torch.bool), tokens)
    assert measures[0, 0].tolist() == pytest.approx([0.4, (2 + 3 + 2) * 0.2 / 3, 0])


@pytest.mark.parametrize(
    ("measures", "label"),
    [
        ((0.6, 0.1, 0.5), "vertical"),
        ((0.1, 0.6, 0.9), "diagonal"),
        ((0.5, 0.5, 0.9), "vertical_diagonal"),
        ((0.1, 0.1, 0.9), "block"),
        ((0.1, 0.1, 0.5), "heterogeneous"),
    ],
)
def test_rules_by_hand(measures, label):
    found = ruled_classes(torch.tensor([measures]), torch.tensor([0.4, 0.4, 0.8]))
    assert CLASSES[int(found)] == label


def test_the_best_thresholds_are_those_of_a_loop_over_the_grid(monkeypatch):
    for name, values in (("special", [0.2, 0.35, 0.5]), ("near", [0.3, 0.5, 0.7]), ("inside", [0.6, 0.75, 1.01])):
        monkeypatch.setitem(GRIDS, name, values)
    draw = torch.Generator().manual_seed(1)
    measures, labels = torch.rand(60, 3, generator=draw), torch.randint(5, (60,), generator=draw)
    labels[:40] = ruled_classes(measures[:40], torch.tensor([0.35, 0.5, 0.75]))
    scores = {}
    for thresholds in product(*GRIDS.values()):
        found = [
            ("vertical_diagonal" if n >= thresholds[1] else "vertical")
            if s >= thresholds[0]
            else ("diagonal" if n >= thresholds[1] else "block" if b >= thresholds[2] else "heterogeneous")
            for s, n, b in measures.tolist()
        ]
        scores[thresholds] = f1_score([CLASSES[n] for n in labels], found, average="macro", zero_division=0)
    best = best_thresholds(measures, labels, 5).tolist()
    assert best == pytest.approx(max(scores, key=scores.get))
