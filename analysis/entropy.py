"""Entropy of attention, in nats."""

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST = 1e-30  # so that the logarithm of no attention is a number; times that attention it is nothing


def row_entropy(
    maps: Float[Tensor, "batch map query key"], smoothing: float = 0.0, length: Float[Tensor, "batch"] | None = None
) -> Float[Tensor, "batch map query"]:
    """The entropy of each row; smoothing mixes in uniform attention over the input's length."""
    parts = []
    for place, grid in enumerate(maps):  # one input at a time stays in the cache
        if smoothing:
            grid = (1 - smoothing) * grid + smoothing / length[place]
        parts.append(-torch.linalg.vecdot(grid, grid.clamp(min=SMALLEST).log()))
    return torch.stack(parts)
