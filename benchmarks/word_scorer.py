"""Attention and words: the factorised scorer, against the tensor over all pairs of words."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn
from torch.nn.functional import linear
from torch.testing import assert_close

from benchmarks.timing import Comparison, interleaved
from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.batches.words import from_store
from headscope.probes.parser.scorers import AttentionWordScorer, Scores

LAYERS, HEADS, BATCH = 12, 12, 16
IN_A_ROW = 10  # in training the maps have just been written, so the cache is warm
WORDS = (25, 50)
SIZES = (50, 100, 300)


class PairTensorScorer(nn.Module):
    """The obvious way, as the paper writes it: two linear layers over the vectors of every pair."""

    def __init__(self, factorised: AttentionWordScorer) -> None:
        super().__init__()
        (query, query_back), (key, key_back) = (part.weight.detach().chunk(2) for part in (factorised.query, factorised.key))
        self.ahead = nn.Parameter(torch.cat([query, key], dim=1))
        # For the transposed map the candidate is the key and the word the query.
        self.back = nn.Parameter(torch.cat([key_back, query_back], dim=1))

    def forward(self, batch: AttentionBatch) -> Scores:
        candidate, word = torch.broadcast_tensors(batch.vectors[:, :, None], batch.vectors[:, None])
        pairs = torch.cat([candidate, word], dim=-1)
        maps = batch.maps.flatten(1, 2)
        ahead = maps.permute(0, 2, 3, 1) * linear(pairs, self.ahead)
        return ahead.sum(-1) + (maps.permute(0, 3, 2, 1) * linear(pairs, self.back)).sum(-1)


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """Forward and backward at each vector size; then ours alone at the largest and the smallest, whole and for pairs."""
    torch.manual_seed(0)
    for words in WORDS:
        for size in SIZES:
            batch, factorised = random_batch(size, words), random_scorer(size)
            pairs = PairTensorScorer(factorised)
            with torch.inference_mode():
                assert_close(factorised(batch), pairs(batch), atol=1e-4, rtol=1e-4)
            times = interleaved(partial(step, factorised, batch), partial(step, pairs, batch), repeats, IN_A_ROW)
            what = f"word scorer, factorised / tensor of pairs, {words} words, vectors of {size}"
            yield Comparison(what, *times, 10, "times faster")
        (large, of_large), (small, of_small) = (whole_and_layers(size, words, repeats) for size in (SIZES[-1], SIZES[0]))
        what = f"{words} words, vectors of {SIZES[-1]} / {SIZES[0]}"
        yield Comparison(f"word scorer, {what}", large, small, 1.5, "at most")
        # Layers over words grow with the vectors, whoever applies them; what is done for pairs must not.
        yield Comparison(
            f"word scorer beyond its layers over words, {what}", large - of_large, small - of_small, 1.5, "at most"
        )


def whole_and_layers(size: int, words: int, repeats: int) -> tuple[float, float]:
    """The milliseconds of a step, and of its two linear layers alone."""
    batch, scorer = random_batch(size, words), random_scorer(size)
    return interleaved(partial(step, scorer, batch), partial(layers_step, scorer, batch), repeats, IN_A_ROW)


def step(scorer: nn.Module, batch: AttentionBatch) -> None:
    """Forward and backward."""
    scorer.zero_grad()
    scorer(batch).square().mean().backward()


def layers_step(scorer: AttentionWordScorer, batch: AttentionBatch) -> None:
    """Forward and backward of what the scorer does to words alone."""
    scorer.zero_grad()
    by_word = [scorer.query(batch.vectors), scorer.key(batch.vectors)]
    torch.autograd.backward(by_word, [torch.ones_like(part) for part in by_word])


def random_scorer(size: int) -> AttentionWordScorer:
    """Weights that make scores of about one."""
    scorer = AttentionWordScorer(Facts("treebank", layers=LAYERS, heads=HEADS, vector_size=size))
    for part in (scorer.query, scorer.key):
        nn.init.normal_(part.weight, std=size**-0.5)
    return scorer


def random_batch(size: int, words: int) -> AttentionBatch:
    """Maps whose rows sum to one, laid out as the map store gives them, and random vectors; no padding."""
    maps = from_store("maps", torch.randn(BATCH, words, words, LAYERS, HEADS).softmax(2).half())
    mask = torch.ones(BATCH, words, dtype=torch.bool)
    return AttentionBatch(mask=mask, gold={}, maps=maps, vectors=torch.randn(BATCH, words, size))
