import pytest
import torch

from probes.pair_scores import PairScores, at_once, sentence_by_sentence, summed_by_products, summed_in_bags

BATCH, WORDS, MAPS = 3, 4, 5


@pytest.fixture
def drawn():
    torch.manual_seed(0)
    maps = torch.rand(BATCH, WORDS, WORDS, MAPS, dtype=torch.float64)
    weights = [torch.randn(BATCH, WORDS, 2, MAPS, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    return maps, *weights


def test_scores_equal_a_plain_loop(drawn):
    maps, by_query, by_key = drawn
    found = PairScores.apply(*drawn)
    for b in range(BATCH):
        for i in range(WORDS):
            for j in range(WORDS):
                ahead = maps[b, i, j] @ (by_query[b, i, 0] + by_key[b, j, 0])
                back = maps[b, j, i] @ (by_query[b, j, 1] + by_key[b, i, 1])
                torch.testing.assert_close(found[b, i, j], ahead + back)


def test_gradients_equal_finite_differences(drawn):
    assert torch.autograd.gradcheck(PairScores.apply, drawn)


def test_bags_and_products_sum_the_same(drawn):
    shares = torch.randn(2, BATCH, WORDS, 2, WORDS, dtype=torch.float64)
    for bags, products in zip(summed_in_bags(drawn[0], *shares), summed_by_products(drawn[0], *shares), strict=True):
        torch.testing.assert_close(bags, products)


def test_all_at_once_gives_what_one_sentence_at_a_time_gives(drawn):
    found = {}
    for products in (at_once, sentence_by_sentence):
        found[products] = torch.empty(2, BATCH, WORDS, WORDS, 2, dtype=torch.float64)
        products(drawn[0], *(weights.detach().mT for weights in drawn[1:]), *found[products])
    torch.testing.assert_close(*found.values())


def test_a_lower_precision_of_the_trainer_does_not_reach_the_maps(drawn):
    drawn = [tensor.detach().float() for tensor in drawn]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = PairScores.apply(*drawn)
    torch.testing.assert_close(found, PairScores.apply(*drawn), atol=0, rtol=0)
