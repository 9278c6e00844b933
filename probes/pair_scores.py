"""Scores of all pairs of words from all maps, each map weighted by what the query says of it plus what the key says."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

Maps = Float[Tensor, "batch query key map"]
Weights = Float[Tensor, "batch word 2 map"]  # for a map as it is, and for its transpose


class PairScores(torch.autograd.Function):
    """s(i, j) = Σ a[i→j] (p_i + q_j) + Σ a[j→i] (p'_j + q'_i) over all maps, in two products over rows and columns.

    On the CPU one sentence goes at a time, so that the second product finds its maps in the cache; that is why autograd,
    which would take all sentences through one product after the other, is not left to it. Maps get no gradient.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, maps: Maps, by_query: Weights, by_key: Weights) -> Float[Tensor, "batch query key"]:
        ctx.save_for_backward(maps)
        scores = maps.new_empty(maps.shape[:3])
        for part in pieces(maps):
            # With `out`, autocast keeps away: the maps would be copied to a lower precision.
            rows, columns = (maps.new_empty(*scores[part].shape, 2) for _ in range(2))
            torch.matmul(maps[part], by_query[part].mT, out=rows)  # (batch, query, key, 2)
            torch.matmul(maps[part].transpose(1, 2), by_key[part].mT, out=columns)  # (batch, key, query, 2)
            rows += columns.transpose(1, 2)
            torch.add(rows[..., 0], rows[..., 1].mT, out=scores[part])
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Float[Tensor, "batch query key"]) -> tuple[None, Weights, Weights]:
        (maps,) = ctx.saved_tensors
        of_rows, of_columns = torch.stack([grad, grad.mT], 2), torch.stack([grad.mT, grad], 2)
        by_query, by_key = (maps.new_empty(*maps.shape[:2], 2, maps.shape[3]) for _ in range(2))
        for part in pieces(maps):
            torch.matmul(of_rows[part], maps[part], out=by_query[part])
            torch.matmul(of_columns[part], maps[part].transpose(1, 2), out=by_key[part])
        return None, by_query, by_key


def pieces(maps: Maps) -> Iterator[slice]:
    """Sentences that go through both products together: one where a cache decides, all where launches do."""
    size = 1 if maps.device.type == "cpu" else max(1, len(maps))
    return (slice(start, start + size) for start in range(0, len(maps), size))
