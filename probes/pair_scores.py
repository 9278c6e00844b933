"""Scores of all pairs of words from all maps, each map weighted by what the query says of it plus what the key says."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import embedding_bag

Maps = Float[Tensor, "batch query key map"]
Weights = Float[Tensor, "batch word 2 map"]  # for a map as it is, and for its transpose
Shares = Float[Tensor, "batch word 2 other"]
Pairs = Float[Tensor, "batch query key"]


class PairScores(torch.autograd.Function):
    """s(i, j) = Σ a[i→j] (p_i + q_j) + Σ a[j→i] (p'_j + q'_i) over all maps, in one product over rows and one over columns.

    The products are thin, two numbers for each pair, so what counts is how the maps are read; autograd would not know.
    Maps get no gradient.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, maps: Maps, by_query: Weights, by_key: Weights) -> Pairs:
        ctx.save_for_backward(maps)
        rows, columns = (maps.new_empty(*maps.shape[:3], 2) for _ in range(2))
        products = sentence_by_sentence if maps.is_cpu else at_once
        products(maps, by_query.mT, by_key.mT, rows, columns)
        return (rows[..., 0] + columns[..., 1]) + (columns[..., 0] + rows[..., 1]).mT

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Pairs) -> tuple[None, Weights, Weights]:
        (maps,) = ctx.saved_tensors
        add_up = summed_in_bags if maps.is_cpu else summed_by_products
        return None, *add_up(maps, torch.stack([grad, grad.mT], 2), torch.stack([grad.mT, grad], 2))


def at_once(maps: Maps, query: Tensor, key: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Every row with its query's weights and every column with its key's; with `out`, autocast leaves the maps alone."""
    torch.matmul(maps, query, out=rows)
    torch.matmul(maps.transpose(1, 2), key, out=columns)


def sentence_by_sentence(*parts: Tensor) -> None:
    """The same on the CPU, where the second product then finds its maps in the cache, and no column is copied."""
    for maps, query, key, rows, columns in zip(*(part.unbind() for part in parts), strict=True):
        torch.bmm(maps, query, out=rows)
        torch.bmm(maps.transpose(0, 1), key, out=columns)


def summed_by_products(maps: Maps, of_rows: Shares, of_columns: Shares) -> tuple[Weights, Weights]:
    """For each word and direction, the maps of its row and those of its column, each pair by its share."""
    return of_rows @ maps, of_columns @ maps.transpose(1, 2)


def summed_in_bags(maps: Maps, of_rows: Shares, of_columns: Shares) -> tuple[Weights, Weights]:
    """The same as weighted bags of pairs, which the CPU sums faster than it multiplies matrices of two rows."""
    place = torch.arange(maps[..., 0].numel(), device=maps.device).view(maps.shape[:3])
    sums = []
    for pairs, shares in ((place, of_rows), (place.mT, of_columns)):
        bags, weights = (part.flatten(0, 2) for part in (pairs[:, :, None].expand_as(shares), shares))
        sums.append(
            embedding_bag(bags, maps.flatten(0, 2), mode="sum", per_sample_weights=weights).view(*shares.shape[:3], -1)
        )
    return sums[0], sums[1]
