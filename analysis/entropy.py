"""Entropy of attention, in nats."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SMALLEST = 1e-30  # so that the logarithm of no attention is a number; times that attention it is nothing
MAPS_IN_CACHE = 12


def row_entropy(
    maps: Float[Tensor, "batch map query key"], real: Bool[Tensor, "batch *query key"], smoothing: float = 0.0
) -> Float[Tensor, "batch map query"]:
    """The entropy of each row; smoothing mixes in uniform attention over the real keys, or over those that are visible."""
    entropies = maps.new_empty(maps.shape[:3])
    for grid, keys, out in zip(maps, real, entropies, strict=True):
        for part, part_out in zip(grid.split(MAPS_IN_CACHE), out.split(MAPS_IN_CACHE), strict=True):
            weights = (smoothed(part, keys, smoothing) if smoothing else part).clamp(min=SMALLEST)
            torch.sum(weights.log().mul_(weights).neg_(), -1, out=part_out)
    return entropies


def smoothed(
    grid: Float[Tensor, "map query key"], real: Bool[Tensor, "*query key"], share: float
) -> Float[Tensor, "map query key"]:
    """Attention with a share of it spread evenly over the real tokens, as the released code does against zeros."""
    return (1 - share) * grid + share * real / real.sum(-1, keepdim=True).clamp(min=1)
