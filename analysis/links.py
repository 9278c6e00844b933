"""Attention along links between tokens, which come as (from, to, from, to, ...)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def largest(
    values: Float[Tensor, "batch map position"], among: Bool[Tensor, "batch position"]
) -> Float[Tensor, "batch map"]:
    """The largest value among some positions; 0 where there is none."""
    if not values.shape[2]:
        return values.new_zeros(values.shape[:2])
    return values.masked_fill(~among[:, None], 0).amax(2)


def link_ends(
    pairs: Int[Tensor, "batch twice"],
) -> tuple[Int[Tensor, "batch link"], Int[Tensor, "batch link"], Bool[Tensor, "batch link"]]:
    """The two ends of each link, and whether it is no padding."""
    ends = pairs.unflatten(1, (-1, 2)) if pairs.shape[1] else pairs.new_zeros(len(pairs), 0, 2)
    return ends[..., 0].clamp(min=0), ends[..., 1].clamp(min=0), (ends >= 0).all(-1)


def seen_links(
    visible: Bool[Tensor, "batch token token"], start: Int[Tensor, "batch link"], end: Int[Tensor, "batch link"]
) -> Bool[Tensor, "batch link"]:
    """Whether each start may see its end."""
    return visible[torch.arange(len(visible), device=visible.device)[:, None], start, end]


def link_attention(
    maps: Float[Tensor, "batch map token token"], start: Int[Tensor, "batch link"], end: Int[Tensor, "batch link"]
) -> Float[Tensor, "batch map link"]:
    """The attention from each start to its end."""
    example = torch.arange(len(maps), device=maps.device)[:, None]
    return maps[example, :, start, end].transpose(1, 2)
