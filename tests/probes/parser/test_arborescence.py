import itertools

import numpy as np
import pytest
import torch

from headscope.probes.parser.arborescence import best_tree, best_trees


def brute_force(scores):
    """The best of all head assignments that are trees with one child of ROOT."""
    words = len(scores) - 1
    best, best_score = None, -np.inf
    for heads in itertools.product(range(words + 1), repeat=words):
        if heads.count(0) != 1 or not all(reaches_root(heads, word) for word in range(1, words + 1)):
            continue
        score = sum(scores[head, word] for word, head in enumerate(heads, start=1))
        if score > best_score:
            best, best_score = heads, score
    return best


def reaches_root(heads, word):
    for _ in range(len(heads) + 1):
        if word == 0:
            return True
        word = heads[word - 1]
    return False


@pytest.mark.parametrize("seed", range(40))
def test_best_tree_equals_trying_all_trees(seed):
    random = np.random.default_rng(seed)
    scores = random.normal(size=(random.integers(2, 6) + 1,) * 2)
    assert tuple(best_tree(scores.copy())[1:]) == brute_force(scores)


def test_nested_cycles_are_opened():
    scores = np.full((5, 5), -10.0)
    scores[2, 1] = scores[1, 2] = 9  # a cycle of 1 and 2
    scores[4, 3] = scores[3, 4] = 9  # a cycle of 3 and 4
    scores[1, 3] = scores[3, 1] = 8  # and one of the two cycles
    scores[0, 4] = 1
    assert tuple(best_tree(scores.copy())[1:]) == brute_force(scores)


def test_a_batch_with_padding_and_impossible_candidates():
    scores = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]], dtype=torch.bool)
    scores = scores.masked_fill(~mask[:, :, None] | torch.eye(4, dtype=torch.bool), -torch.inf)
    heads = best_trees(scores, mask)
    assert tuple(heads[0, 1:].tolist()) == brute_force(scores[0].nan_to_num(neginf=-1e6).numpy())
    assert tuple(heads[1, 1:3].tolist()) == brute_force(scores[1, :3, :3].nan_to_num(neginf=-1e6).numpy())
    assert heads[1, 3] == 0
