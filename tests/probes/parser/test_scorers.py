import pytest
import torch
from torch import nn

from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.batches.words import from_store
from headscope.probes.parser.scorers import (
    AttentionScorer,
    AttentionWordScorer,
    DistanceWordScorer,
    RightBranchingScorer,
    distance_features,
    query_first,
)

LAYERS, HEADS, SIZE, WORDS = 2, 3, 4, 5
FACTS = Facts("treebank", layers=LAYERS, heads=HEADS, vector_size=SIZE)


def random_batch(seed=0, examples=2):
    generator = torch.Generator().manual_seed(seed)
    maps = torch.rand(examples, LAYERS, HEADS, WORDS, WORDS, generator=generator)
    vectors = torch.randn(examples, WORDS, SIZE, generator=generator)
    vectors[:, 0] = 0
    return AttentionBatch(mask=torch.ones(examples, WORDS, dtype=torch.bool), gold={}, maps=maps, vectors=vectors)


def with_random_weights(scorer):
    torch.manual_seed(1)
    for parameter in scorer.parameters():
        nn.init.normal_(parameter)
    return scorer


@pytest.mark.parametrize("examples", [1, 3])
def test_stored_maps_are_not_copied_for_a_scorer(examples):
    stored = torch.rand(examples, WORDS, WORDS, LAYERS, HEADS).half()
    maps = from_store("maps", stored)
    assert torch.equal(maps, stored.float().permute(0, 3, 4, 1, 2))
    seen = query_first(AttentionBatch(mask=torch.ones(examples, WORDS, dtype=torch.bool), gold={}, maps=maps))
    assert seen.is_contiguous()
    assert seen.data_ptr() == maps.data_ptr()


def test_attention_scores_equal_the_sum_over_heads_of_both_directions():
    batch, scorer = random_batch(), with_random_weights(AttentionScorer(FACTS))
    scores = scorer(batch)
    for example in range(2):
        for i in range(WORDS):
            for j in range(WORDS):
                expected = sum(
                    scorer.head_to_dependent[layer, head] * batch.maps[example, layer, head, i, j]
                    + scorer.dependent_to_head[layer, head] * batch.maps[example, layer, head, j, i]
                    for layer in range(LAYERS)
                    for head in range(HEADS)
                )
                torch.testing.assert_close(scores[example, i, j], expected)


def test_factorised_words_equal_one_linear_layer_over_the_concatenated_pair():
    batch, scorer = random_batch(), with_random_weights(AttentionWordScorer(FACTS))
    maps = LAYERS * HEADS
    a, d = scorer.query.weight.view(2, maps, SIZE)
    b, c = scorer.key.weight.view(2, maps, SIZE)
    # W_k (v_i + v_j concatenated) weighs a[i -> j], U_k weighs a[j -> i]; i is its own word's vector, never its neighbour's.
    from_candidate, to_candidate = torch.cat([a, b], 1), torch.cat([c, d], 1)
    scores = scorer(batch)
    for example in range(2):
        flat = batch.maps[example].reshape(maps, WORDS, WORDS)
        for i in range(WORDS):
            for j in range(WORDS):
                pair = torch.cat([batch.vectors[example, i], batch.vectors[example, j]])
                expected = (from_candidate @ pair) @ flat[:, i, j] + (to_candidate @ pair) @ flat[:, j, i]
                torch.testing.assert_close(scores[example, i, j], expected, atol=1e-4, rtol=1e-4)


def test_gradient_of_the_word_scorer_equals_finite_differences():
    batch, scorer = random_batch(), with_random_weights(AttentionWordScorer(FACTS)).double()
    batch.maps, batch.vectors = batch.maps.double(), batch.vectors.double()
    (scorer(batch) ** 2).sum().backward()
    step = 1e-6
    for parameter in (scorer.query.weight, scorer.key.weight):
        before, values = parameter.grad[3, 1].item(), []
        for sign in (1, -1):
            with torch.no_grad():
                parameter[3, 1] += sign * step
                values.append((scorer(batch) ** 2).sum().item())
                parameter[3, 1] -= sign * step
        assert abs((values[0] - values[1]) / (2 * step) - before) < 1e-4 * abs(before)


def test_distance_features_of_a_padded_sentence_by_hand():
    mask = torch.tensor([[1, 1, 1, 1, 0]], dtype=torch.bool)
    features = distance_features(mask)[0]
    assert features[0, 2].tolist() == [0, 0, 0, 0, 0, 0, 0, 1]  # ROOT has no distance
    torch.testing.assert_close(features[3, 1], torch.tensor([2 / 3, 0, 0, 0, 0, 0, 1, 0]))  # two ahead of three words
    torch.testing.assert_close(features[1, 2], torch.tensor([0, 1 / 3, 0, 1, 0, 0, 0, 0]))  # one behind


def test_distance_scores_equal_a_layer_over_the_concatenated_input():
    batch, scorer = random_batch(), with_random_weights(DistanceWordScorer(FACTS, hidden=6))
    features, scores = distance_features(batch.mask), scorer(batch)
    weight = torch.cat([scorer.candidate.weight, scorer.word.weight, scorer.distance.weight], 1)
    for i in range(WORDS):
        for j in range(WORDS):
            pair = torch.cat([batch.vectors[1, i], batch.vectors[1, j], features[1, i, j]])
            expected = scorer.score.weight[0] @ torch.tanh(weight @ pair + scorer.candidate.bias)
            torch.testing.assert_close(scores[1, i, j], expected)


def test_right_branching_chooses_the_next_word_and_root_for_the_last():
    mask = torch.tensor([[1, 1, 1, 1, 0]], dtype=torch.bool)
    batch = AttentionBatch(mask=mask, gold={})
    scores = RightBranchingScorer(FACTS)(batch).masked_fill(~mask[:, :, None], -torch.inf)
    assert scores.argmax(1)[0, 1:4].tolist() == [2, 3, 0]


def released_vectors(batch):
    """Candidate i has the vector of word i + 1; the last has none."""
    return torch.stack([torch.cat([one[1:], torch.zeros(1, SIZE)]) for one in batch.vectors])


def test_released_weights_take_the_vector_of_the_word_behind_a_candidate():
    batch, scorer = random_batch(), with_random_weights(AttentionWordScorer(FACTS, released=True))
    scores, candidate, maps = scorer(batch), released_vectors(batch), batch.maps.flatten(1, 2)
    ahead, back = scorer.query.weight.chunk(2), scorer.key.weight.chunk(2)
    for n in range(2):
        for i in range(WORDS):
            for j in range(WORDS):
                expected = 0
                for k in range(LAYERS * HEADS):
                    expected += maps[n, k, i, j] * (ahead[0][k] @ candidate[n, i] + back[0][k] @ batch.vectors[n, j])
                    expected += maps[n, k, j, i] * (ahead[1][k] @ batch.vectors[n, j] + back[1][k] @ candidate[n, i])
                torch.testing.assert_close(scores[n, i, j], expected)


def test_released_weights_learn():
    batch, scorer = random_batch(), with_random_weights(AttentionWordScorer(FACTS, released=True))
    scorer(batch).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in scorer.parameters())


def test_released_distances_take_the_vector_of_the_word_behind_a_candidate():
    batch, scorer = random_batch(), with_random_weights(DistanceWordScorer(FACTS, hidden=3, released=True))
    plain = DistanceWordScorer(FACTS, hidden=3)
    plain.load_state_dict(scorer.state_dict())
    found, candidate = scorer(batch), released_vectors(batch)
    features = distance_features(batch.mask)
    for i in range(WORDS):
        for j in range(WORDS):
            hidden = (
                scorer.candidate(candidate[0, i]) + scorer.word(batch.vectors[0, j]) + scorer.distance(features[0, i, j])
            )
            torch.testing.assert_close(found[0, i, j], scorer.score(hidden.tanh()).squeeze())
    assert not torch.equal(found, plain(batch))
