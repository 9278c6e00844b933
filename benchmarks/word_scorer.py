"""Attention and words: the factorised scorer, against the tensor over all pairs of words."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn
from torch.testing import assert_close

from benchmarks.timing import Comparison, Work, interleaved
from data_modules.batch import AttentionBatch
from data_modules.word_encoder import from_store
from probes.scorers import AttentionWordScorer, Scores

LAYERS, HEADS, BATCH, STEPS = 12, 12, 16, 5
WORDS = (25, 50)
SIZES = (50, 100, 300)


class PairTensorScorer(nn.Module):
    """The obvious way: one linear layer over the vectors of every pair."""

    def __init__(self, factorised: AttentionWordScorer) -> None:
        super().__init__()
        query, key = factorised.query.weight.detach(), factorised.key.weight.detach()
        # The scorer's second half is over (word, candidate): there the query's vector is the second of the pair.
        ahead, back = torch.cat([query, key], dim=1), torch.cat([key, query], dim=1)
        self.weight = nn.Parameter(torch.cat([ahead[: factorised.maps], back[factorised.maps :]]))

    def forward(self, batch: AttentionBatch) -> Scores:
        candidate, word = torch.broadcast_tensors(batch.vectors[:, :, None], batch.vectors[:, None])
        pairs = torch.cat([candidate, word], dim=-1)
        ahead, back = (pairs @ self.weight.T).chunk(2, dim=-1)
        maps = batch.maps.flatten(1, 2)
        return (maps.permute(0, 2, 3, 1) * ahead).sum(-1) + (maps.permute(0, 3, 2, 1) * back).sum(-1)


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """Forward and backward at each vector size; then ours alone, at the largest and the smallest."""
    for words in WORDS:
        works = {size: both_ways(size, words) for size in SIZES}
        for size, (factorised, pairs) in works.items():
            what = f"word scorer, factorised / tensor of pairs, {words} words, vectors of {size}"
            yield Comparison(what, *interleaved(factorised, pairs, repeats), 10, "times faster")
        flat = interleaved(works[SIZES[-1]][0], works[SIZES[0]][0], repeats)
        yield Comparison(f"word scorer, {words} words, vectors of {SIZES[-1]} / {SIZES[0]}", *flat, 1.5, "at most")


def both_ways(size: int, words: int) -> tuple[Work, Work]:
    """Steps of each scorer with the same parameters, whose scores are equal."""
    torch.manual_seed(0)
    batch = random_batch(size, words)
    factorised = AttentionWordScorer({"layers": LAYERS, "heads": HEADS, "vector_size": size})
    nn.init.normal_(factorised.query.weight, std=size**-0.5)
    nn.init.normal_(factorised.key.weight, std=size**-0.5)
    pairs = PairTensorScorer(factorised)
    with torch.inference_mode():
        assert_close(factorised(batch), pairs(batch), atol=1e-4, rtol=1e-4)
    return partial(steps, factorised, batch), partial(steps, pairs, batch)


def steps(scorer: nn.Module, batch: AttentionBatch) -> None:
    """Some steps in a row, forward and backward: in training the maps have just been written, so the cache is warm."""
    for _ in range(STEPS):
        scorer.zero_grad()
        scorer(batch).square().mean().backward()


def random_batch(size: int, words: int) -> AttentionBatch:
    """Maps whose rows sum to one, laid out as the map store gives them, and random vectors; no padding."""
    maps = from_store("maps", torch.randn(BATCH, words, words, LAYERS, HEADS).softmax(2))
    mask = torch.ones(BATCH, words, dtype=torch.bool)
    return AttentionBatch(mask=mask, gold={}, maps=maps, vectors=torch.randn(BATCH, words, size))
