"""Entropy of attention, in nats."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SMALLEST = 1e-30  # so that the logarithm of no attention is a number; times that attention it is nothing


def row_entropy(
    maps: Float[Tensor, "batch map query key"], real: Bool[Tensor, "batch key"], smoothing: float = 0.0
) -> Float[Tensor, "batch map query"]:
    """The entropy of each row; smoothing mixes in uniform attention over the input's real tokens."""
    parts = []
    for grid, keys in zip(maps, real, strict=True):  # one input at a time stays in the cache
        if smoothing:
            grid = smoothed(grid, keys, smoothing)
        parts.append(-torch.linalg.vecdot(grid, grid.clamp(min=SMALLEST).log()))
    return torch.stack(parts)


def smoothed(
    grid: Float[Tensor, "map query key"], real: Bool[Tensor, "key"], share: float
) -> Float[Tensor, "map query key"]:
    """Attention with a share of it spread evenly over the real tokens, as the released code does against zeros."""
    return (1 - share) * grid + share * real / real.sum()
