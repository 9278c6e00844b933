import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import spearmanr

from headscope.contracts import ChildRun, Facts, Provenance, RunResults
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.probes.structural.layers import chosen_layer
from headscope.probes.structural.metrics import BANDS, StructuralScore, length_table, structural_scores
from headscope.probes.structural.probe import StructuralProbe, distance_loss, text_distances
from headscope.probes.structural.trees import tree_distances
from tests.probes.structural.test_trees import random_tree


def reference(predicted, gold, heads, punctuation):
    """UUAS and Spearman of a list of sentences, written out."""
    found = edges = 0
    by_length = {}
    for distances, tree, head, punct in zip(predicted, gold, heads, punctuation, strict=True):
        words = [word for word in range(1, len(head)) if not punct[word]]
        gold_edges = {frozenset((word, head[word])) for word in words if head[word] in words}
        tree_of = minimum_spanning_tree(distances[np.ix_(words, words)]).tocoo()
        mine = {frozenset((words[a], words[b])) for a, b in zip(tree_of.row, tree_of.col, strict=True)}
        found, edges = found + len(mine & gold_edges), edges + len(gold_edges)
        length = len(head) - 1
        if 5 <= length <= 50:
            rows = [spearmanr(distances[word, 1:], tree[word, 1:]).statistic for word in range(1, length + 1)]
            by_length.setdefault(length, []).append(np.mean(rows))
    return 100 * found / edges, np.mean([np.mean(values) for values in by_length.values()])


def pad(arrays, value):
    size = max(map(len, arrays))
    return torch.from_numpy(np.stack([np.pad(a, [(0, size - len(a))] * a.ndim, constant_values=value) for a in arrays]))


@pytest.fixture
def sentences():
    """Distances that a probe could say, those of the tree, governors and punctuation of sentences of several lengths."""
    random = np.random.default_rng(0)
    heads = [random_tree(words, random) for words in (3, 5, 5, 8, 60, 12)]
    gold = [tree_distances(torch.from_numpy(head)[None])[0].numpy() for head in heads]
    noise = [random.random(tree.shape) for tree in gold]
    predicted = [(tree + 2 * (extra + extra.T)).astype(np.float32) for tree, extra in zip(gold, noise, strict=True)]
    return predicted, gold, heads, [(random.random(len(head)) < 0.2).astype(np.int64) for head in heads]


def counted(sentences):
    metric = StructuralScore()
    for part in (slice(0, 4), slice(4, 6)):
        metric.update(*(pad(arrays[part], fill) for arrays, fill in zip(sentences, (0, 0, -100, -100), strict=True)))
    return metric.compute()


def test_scores_equal_a_plain_reference(sentences):
    scores = structural_scores(counted(sentences))
    uuas, spearman = reference(*sentences)
    assert scores["uuas"].item() == pytest.approx(uuas, abs=1e-6)
    assert scores["spearman"].item() == pytest.approx(spearman, abs=1e-6)


def test_scores_by_length_are_those_of_the_sentences_alone(sentences):
    rows = {row["words"]: row for row in length_table(counted(sentences))}
    assert {words: row["sentences"] for words, row in rows.items()} == {"1–4": 1, "5–9": 3, "10–14": 1, "51+": 1}
    for row, (first, last) in zip(rows.values(), (BANDS[0], BANDS[1], BANDS[2], BANDS[-1]), strict=True):
        inside = [n for n, head in enumerate(sentences[2]) if first <= len(head) - 1 <= (last or 999)]
        own = [[arrays[n] for n in inside] for arrays in sentences]
        assert row["uuas"] == pytest.approx(reference(*own)[0])
        if (first, last) in (BANDS[0], BANDS[-1]):
            assert row["spearman"] is None
        else:  # here over sentences, and not first within each length
            each = [reference(*([one] for one in sentence))[1] for sentence in zip(*own, strict=True)]
            assert row["spearman"] == pytest.approx(np.mean(each))


def test_the_order_of_words_links_neighbours():
    """1 ← 2 ← 3 ← 4 are neighbours; 5 hangs on 1, and 3 is punctuation: of the edges 1-2 and 1-5, the order finds 1-2."""
    governors = torch.tensor([[-100, 0, 1, 2, 3, 1, -100]])
    punctuation = torch.tensor([[-100, 0, 0, 1, 0, 0, -100]])
    metric = StructuralScore()
    distances = text_distances(governors)
    assert distances[0, 2].tolist() == [2, 1, 0, 1, 2, 3, 4]
    metric.update(distances, tree_distances(governors), governors, punctuation)
    assert structural_scores(metric.compute())["uuas"] == 50


def test_a_tree_written_into_the_states_is_read_back():
    heads = torch.from_numpy(random_tree(9, np.random.default_rng(3)))[None]
    # A state that marks the word's ancestors has squared distances equal to tree distances.
    reach = torch.eye(10)
    for word in range(1, 10):
        node = word
        while node:
            node = int(heads[0, node])
            reach[word, node] = 1
    gold = {"governors": heads, "punctuation": torch.zeros(1, 10, dtype=torch.long)}
    batch = AttentionBatch(mask=torch.ones(1, 10, dtype=torch.bool), gold=gold, hidden=reach[None])
    probe = StructuralProbe(Facts(kind="treebank", hidden_size=10), rank=10)
    with torch.no_grad():
        probe.projection.copy_(torch.eye(10))
    assert probe.loss(batch).item() == pytest.approx(0, abs=1e-6)
    probe.evaluation_step(batch, 0)
    scores = probe.scores()
    assert scores["uuas"].item() == 100
    assert scores["spearman"].item() == pytest.approx(1)
    (row,) = probe.findings().tables["lengths"]
    assert (row["words"], row["uuas"], row["spearman"], row["sentences"]) == ("5–9", 100, pytest.approx(1), 1)


def test_loss_is_the_mean_over_sentences_of_the_mean_over_pairs():
    predicted, gold = torch.zeros(2, 3, 3), torch.ones(2, 3, 3)
    gold[1] = 4
    real = torch.tensor([[False, True, True], [False, True, False]])
    assert distance_loss(predicted, gold, real).item() == (1 + 4) / 2


def test_the_layer_is_chosen_on_validation_and_told():
    """The second layer is the best in validation, the third on the test sentences: the second is told."""
    scores = {1: (60.0, 58.0), 2: (70.0, 66.0), 3: (69.0, 71.0)}
    config = {"published": {"test/uuas": 80}}
    parts = [
        ChildRun("probe", layer, RunResults("structural_probe", {"val/uuas": val, "test/uuas": test}, {},
                 Provenance({"name": "one"}, {}, {"test": 9}, config=config)), [])
        for layer, (val, test) in scores.items()
    ]  # fmt: skip
    found = chosen_layer(parts)
    assert found.metrics == {"val/uuas": 70.0, "test/uuas": 66.0, "layer": 2}
    (row,) = found.tables["summary"]
    assert (row["ours"], row["published"], row["layer"]) == (66.0, 80, "layer 2, chosen on validation")
    assert [(row["layer"], row["chosen"]) for row in found.tables["layers"]] == [(1, ""), (2, "yes"), (3, "")]


def test_the_score_of_a_probe_comes_with_its_layer():
    probe = StructuralProbe(Facts(kind="treebank", hidden_size=10, hidden_layer=4), rank=10)
    assert probe.scores()["layer"] == 4
