import pytest
import torch

from headscope.probes.parser.pair_scores import PairScores, summed_by_products, summed_in_bags

BATCH, WORDS, MAPS, SIZE = 3, 4, 5, 2


@pytest.fixture
def drawn():
    torch.manual_seed(0)
    maps = torch.rand(WORDS, BATCH, WORDS, MAPS, dtype=torch.float64)
    vectors = torch.randn(BATCH, WORDS, SIZE, dtype=torch.float64)
    weights = [torch.randn(2 * MAPS, SIZE, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    return maps, vectors, *weights


def test_scores_equal_a_plain_loop(drawn):
    maps, vectors, query, key = drawn
    found = PairScores.apply(*drawn)
    for b in range(BATCH):
        for i in range(WORDS):
            for j in range(WORDS):
                ahead = maps[i, b, j] @ (query[:MAPS] @ vectors[b, i] + key[:MAPS] @ vectors[b, j])
                back = maps[j, b, i] @ (query[MAPS:] @ vectors[b, j] + key[MAPS:] @ vectors[b, i])
                torch.testing.assert_close(found[b, i, j], ahead + back)


def test_gradients_equal_finite_differences(drawn):
    assert torch.autograd.gradcheck(PairScores.apply, drawn)


def test_bags_and_products_sum_what_a_plain_loop_sums(drawn):
    maps = drawn[0]
    shares = torch.randn(BATCH, WORDS, 4, WORDS, dtype=torch.float64)
    expected = torch.zeros(BATCH, WORDS, 4, MAPS, dtype=torch.float64)
    for b in range(BATCH):
        for word in range(WORDS):
            for other in range(WORDS):
                for way in range(4):
                    pair = maps[word, b, other] if way < 2 else maps[other, b, word]
                    expected[b, word, way] += shares[b, word, way, other] * pair
    torch.testing.assert_close(summed_in_bags(maps, shares), expected)
    torch.testing.assert_close(summed_by_products(maps, shares), expected)


def test_a_lower_precision_of_the_trainer_does_not_reach_the_maps(drawn):
    maps, *_ = (tensor.detach().float() for tensor in drawn)
    # Vectors and weights that bfloat16 holds without loss.
    exact = [torch.ones(BATCH, WORDS, SIZE), *(torch.ones(2 * MAPS, SIZE) for _ in range(2))]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = PairScores.apply(maps, *exact)
    torch.testing.assert_close(found, PairScores.apply(maps, *exact), atol=0, rtol=0)
