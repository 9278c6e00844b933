import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import floyd_warshall, minimum_spanning_tree
from scipy.stats import rankdata, spearmanr

from headscope.probes.structural.trees import average_ranks, spanning_tree, spearman_rows, tree_distances


def random_tree(words, random):
    """Heads of words 1..n, each among those placed before it, in a random order."""
    order, heads = random.permutation(words) + 1, np.full(words + 1, -100)
    for place, word in enumerate(order):
        heads[word] = 0 if place == 0 else random.choice(order[:place])
    return heads


@pytest.mark.parametrize("words", [1, 2, 9, 40])
def test_tree_distances_equal_shortest_paths(words):
    heads = random_tree(words, np.random.default_rng(words))
    graph = np.zeros((words + 1, words + 1))
    for word in range(1, words + 1):
        graph[word, heads[word]] = 1
    expected = floyd_warshall(graph, directed=False)
    np.testing.assert_array_equal(tree_distances(torch.from_numpy(heads)[None])[0].numpy(), expected)


def test_a_chain_as_long_as_the_longest_sentence():
    heads = torch.arange(-1, 128)[None]
    heads[0, 0] = -100
    assert tree_distances(heads)[0, 1, 128].item() == 127


def test_spanning_trees_equal_scipy():
    random = np.random.default_rng(0)
    distances = random.random((3, 12, 12))
    distances = distances + distances.transpose(0, 2, 1)
    nodes = random.random((3, 12)) < 0.7
    parents = spanning_tree(torch.from_numpy(distances).float(), torch.from_numpy(nodes)).numpy()
    for row in range(3):
        kept = np.flatnonzero(nodes[row])
        tree = minimum_spanning_tree(distances[row][np.ix_(kept, kept)]).tocoo()
        expected = {frozenset((kept[a], kept[b])) for a, b in zip(tree.row, tree.col, strict=True)}
        found = {frozenset((word, parents[row, word])) for word in range(12) if parents[row, word] >= 0}
        assert found == expected


def test_spanning_tree_of_one_node_or_none_has_no_edge():
    nodes = torch.tensor([[False, True, False], [False, False, False]])
    assert (spanning_tree(torch.rand(2, 3, 3), nodes) == -1).all()


def test_ranks_share_ties_as_in_scipy():
    values = torch.tensor([[3.0, 1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 5.0, 4.0]])
    np.testing.assert_array_equal(average_ranks(values).numpy(), rankdata(values.numpy(), axis=-1))


def test_spearman_equals_scipy_on_the_words_of_the_mask():
    generator = torch.Generator().manual_seed(0)
    left = torch.rand(2, 6, 6, generator=generator)
    right = torch.randint(0, 4, (2, 6, 6), generator=generator).float()
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 0]], dtype=torch.bool)
    correlation = spearman_rows(left, right, mask)
    for example in range(2):
        kept = mask[example]
        for row in range(6):
            expected = spearmanr(left[example, row, kept], right[example, row, kept]).statistic
            assert correlation[example, row].item() == pytest.approx(np.nan_to_num(expected), abs=1e-6)
