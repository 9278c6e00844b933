"""Sieve bias scores of all heads and roles at once."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.statistics import mixed_bits


def sieve_weights(
    sieves: Bool[Tensor, "batch role token token"],
    visible: Bool[Tensor, "batch token token"],
    windows: Int[Tensor, "role"] | None = None,
) -> tuple[Float[Tensor, "batch role token token"], Bool[Tensor, "batch role"]]:
    """What each cell of a map adds to the input's score, and whether the role has a token with a sieve in the input.

    A token's score is the mean attention in its sieve over the mean attention to all tokens that it may see, which is 1/L
    of L such tokens; what it may not see is in no sieve. Where a role has a window (not 0), its size divides the sum
    instead of the number of tokens that there are.
    """
    sieves = sieves & visible[:, None]
    sizes = sieves.sum(3, keepdim=True)
    tokens = (sizes > 0).sum(2, keepdim=True)
    length = visible.sum(2)[:, None, :, None]
    divisors = sizes if windows is None else torch.where(windows[:, None, None] > 0, windows[:, None, None], sizes)
    weights = sieves * (length / (divisors.clamp(min=1) * tokens.clamp(min=1)))
    return weights, tokens.flatten(2).squeeze(2) > 0


def bias_scores(
    maps: Float[Tensor, "batch map token token"], weights: Float[Tensor, "batch role token token"]
) -> Float[Tensor, "batch map role"]:
    """The scores of all heads and roles of each input, in one product."""
    return maps.flatten(2) @ weights.flatten(2).mT.to(maps.dtype)


def highest_scores(weights: Float[Tensor, "batch role token token"]) -> Float[Tensor, "batch role"]:
    """The highest score that any head could get: each token gives all its attention where it weighs most."""
    return weights.amax(3).sum(2) if weights.shape[3] else weights.sum((2, 3))


def entropy_scores(
    maps: Float[Tensor, "batch map token token"],
    weights: Float[Tensor, "batch token token"],
    entropy: Float[Tensor, "batch map token"],
) -> Float[Tensor, "batch map"]:
    """The scores of one role, each token's times the entropy of its row; so even a uniform head may pass."""
    return ((maps * weights[:, None]).sum(3) * entropy).sum(2)


def shuffled_columns(real: Bool[Tensor, "batch *query token"], index: Tensor, number: int, seed: int) -> Tensor:
    """An order of each input's real columns, drawn by seed, input and number; padding stays behind.

    Where rows differ in the columns that they may see, an order for each row, of these alone.
    """
    positions = torch.arange(real.shape[-1], device=real.device)
    drawn = mixed_bits(mixed_bits(index + (seed << 32)) + number)
    keys = mixed_bits(drawn[:, None] ^ mixed_bits(positions + 1))
    keys = keys if real.dim() == 2 else keys[:, None]
    return torch.where(real, keys, 2**32 + positions).argsort(-1)
