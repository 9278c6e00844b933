"""Scores of all pairs of words from all maps, each map weighted by what the query says of it plus what the key says."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import embedding_bag, linear

Maps = Float[Tensor, "query batch key map"]  # so that the rows of all sentences are evenly spaced, and the columns too
Vectors = Float[Tensor, "batch word size"]
Weight = Float[Tensor, "map_twice size"]  # for all maps as they are, then for their transposes
Pairs = Float[Tensor, "batch query key"]
Shares = Float[Tensor, "batch word 4 other"]  # of a word's row in both directions, then of its column
Sums = Float[Tensor, "batch word 4 map"]


class PairScores(torch.autograd.Function):
    """s(i, j) = Σ a[i→j] (p_i + q_j) + Σ a[j→i] (p'_j + q'_i) over all maps, where p and q are linear in a word's vector.

    One product over rows and one over columns, thin ones: two numbers for each pair. What counts is how the maps are
    read, and autograd would not know. Only the two weights get a gradient.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, maps: Maps, vectors: Vectors, query: Weight, key: Weight) -> Pairs:
        ctx.save_for_backward(maps, vectors)
        words, batch, _, size = maps.shape
        by_query = linear(vectors.transpose(0, 1), query).to(maps.dtype).view(-1, 2, size)
        by_key = linear(vectors, key).to(maps.dtype).view(-1, 2, size)
        rows, columns = maps.new_empty(words * batch, words, 2), maps.new_empty(batch * words, 2, words)
        # With `out`, autocast leaves the maps alone.
        torch.bmm(maps.flatten(0, 1), by_query.mT, out=rows)
        torch.bmm(by_key, maps.flatten(1, 2).permute(1, 2, 0), out=columns)
        ahead, back = rows.view(words, batch, words, 2).transpose(0, 1).unbind(-1)
        ahead_by_key, back_by_key = columns.view(batch, words, 2, words).unbind(2)
        back_by_key += ahead
        ahead_by_key += back
        return back_by_key + ahead_by_key.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Pairs) -> tuple[None, None, Weight, Weight]:
        maps, vectors = ctx.saved_tensors
        shares = torch.stack([grad, grad.mT, grad.mT, grad], 2)
        sums = (summed_in_bags if maps.is_cpu else summed_by_products)(maps, shares)
        weights = sums.flatten(2).flatten(0, 1).mT @ vectors.to(maps.dtype).flatten(0, 1)
        return None, None, *weights.chunk(2)


def summed_by_products(maps: Maps, shares: Shares) -> Sums:
    """For each word and direction, the maps of its row and those of its column, each pair by its share."""
    of_rows, of_columns = shares.chunk(2, dim=2)
    by_query = of_rows.transpose(0, 1).flatten(0, 1) @ maps.flatten(0, 1)
    by_key = of_columns.flatten(0, 1) @ maps.flatten(1, 2).transpose(0, 1)
    return torch.cat([by_query.unflatten(0, maps.shape[:2]).transpose(0, 1), by_key.unflatten(0, maps.shape[1:3])], 2)


def summed_in_bags(maps: Maps, shares: Shares) -> Sums:
    """The same as weighted bags of pairs, which the CPU sums faster than it multiplies matrices of two rows."""
    pair = torch.arange(maps[..., 0].numel(), dtype=torch.int32, device=maps.device).view(maps.shape[:3])
    rows, columns = pair.transpose(0, 1), pair.permute(1, 2, 0)
    bags = torch.stack([rows, rows, columns, columns], 2)
    sums = embedding_bag(bags.flatten(0, 2), maps.flatten(0, 2), mode="sum", per_sample_weights=shares.flatten(0, 2))
    return sums.view(*shares.shape[:3], -1)
