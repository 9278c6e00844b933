from dataclasses import replace

import pytest
import torch

from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch

LAYERS, HEADS = 2, 3


@pytest.fixture
def facts():
    """What every analysis must know; a test adds its own."""
    return Facts(kind="", layers=LAYERS, heads=HEADS, maps="attention", encoder_sha256="")


@pytest.fixture
def random_batch():
    """Inputs of the given lengths with random maps: zero beyond the length, rows of padding filled as softmax fills them."""

    def make(lengths, gold, first=0, seed=0):
        draw = torch.Generator().manual_seed(seed)
        size = max(lengths)
        mask = torch.arange(size) < torch.tensor(lengths)[:, None]
        scores = 2 * torch.randn(len(lengths), LAYERS, HEADS, size, size, generator=draw)
        maps = scores.masked_fill(~mask[:, None, None, None], -torch.inf).softmax(-1)
        return AttentionBatch(mask, gold, torch.arange(first, first + len(lengths)), maps=maps)

    return make


@pytest.fixture
def parts_of():
    """The same batch in two halves, as two processes would get it."""

    def split(batch, at):
        return [
            AttentionBatch(
                batch.mask[part], {k: v[part] for k, v in batch.gold.items()}, batch.index[part], maps=batch.maps[part]
            )
            for part in (slice(0, at), slice(at, None))
        ]

    return split


def merged(first, second):
    """What torchmetrics makes of two processes: every state is summed, but for examples, of which the surest is kept."""
    for name, how in first._reductions.items():
        assert how.__name__ == ("most_confident" if name == "examples" else "dim_zero_sum")
        setattr(first, name, how(torch.stack([getattr(first, name), getattr(second, name)])))
    return first


@pytest.fixture
def causal_batch(random_batch):
    """The same of a causal model: a query gives nothing to what is behind it."""

    def make(lengths, gold, first=0, seed=0):
        batch = random_batch(lengths, gold, first, seed)
        size = batch.mask.shape[1]
        back = torch.ones(size, size, dtype=torch.bool).tril()
        maps = batch.maps * back
        seen = batch.mask[:, :, None] & batch.mask[:, None] & back
        return replace(batch, maps=maps / maps.sum(-1, keepdim=True), seen=seen)

    return make
