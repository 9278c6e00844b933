"""Trees as tensors: distances in a gold tree, the spanning tree of predicted distances, rank correlation."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def tree_distances(governors: Int[Tensor, "batch word"]) -> Float[Tensor, "batch word word"]:
    """Edges between any two words of a tree; words without a head (ROOT, padding) stand alone."""
    words = governors.shape[1]
    position = torch.arange(words, device=governors.device)
    reach = (governors[:, :, None] == position).float() + torch.eye(words, device=governors.device)
    for _ in range(words.bit_length()):  # each squaring doubles the height that is covered
        reach = (reach @ reach).clamp(max=1)
    depth = reach.sum(-1)
    return depth[:, :, None] + depth[:, None, :] - 2 * reach @ reach.transpose(1, 2)


def spanning_tree(
    distances: Float[Tensor, "batch word word"], nodes: Bool[Tensor, "batch word"]
) -> Int[Tensor, "batch word"]:
    """Prim's algorithm for all sentences at once: the node that each node hangs on, -1 for the first and for non-nodes."""
    batch, words = nodes.shape
    row = torch.arange(batch, device=nodes.device)
    first = nodes.int().argmax(1)
    waiting = nodes & (torch.arange(words, device=nodes.device) != first[:, None])
    cost, parent = distances[row, first], first[:, None].expand(-1, words)
    tree = torch.full_like(parent, -1)
    for _ in range(words - 1):
        new = cost.masked_fill(~waiting, torch.inf).argmin(1, keepdim=True)
        added = waiting & torch.zeros_like(waiting).scatter(1, new, True)
        tree = torch.where(added, parent, tree)
        waiting = waiting & ~added
        from_new = distances.gather(1, new[:, :, None].expand(-1, -1, words)).squeeze(1)
        nearer = from_new < cost
        cost, parent = torch.where(nearer, from_new, cost), torch.where(nearer, new, parent)
    return tree


def average_ranks(values: Float[Tensor, "*rows word"]) -> Float[Tensor, "*rows word"]:
    """Ranks from 1, ties sharing their mean; infinite values come last."""
    ordered = values.sort(-1).values
    below = torch.searchsorted(ordered, values.contiguous())
    up_to = torch.searchsorted(ordered, values.contiguous(), right=True)
    return (below + up_to + 1) / 2


def spearman_rows(
    left: Float[Tensor, "batch row word"], right: Float[Tensor, "batch row word"], mask: Bool[Tensor, "batch word"]
) -> Float[Tensor, "batch row"]:
    """Rank correlation of each pair of rows over the words of the mask; 0 where a row is constant."""
    columns = mask[:, None, :]
    count = columns.sum(-1, keepdim=True).clamp(min=1)
    centred = []
    for values in (left, right):
        ranks = average_ranks(values.masked_fill(~columns, torch.inf)) * columns
        centred.append((ranks - ranks.sum(-1, keepdim=True) / count) * columns)
    spread = (centred[0].square().sum(-1) * centred[1].square().sum(-1)).sqrt()
    return ((centred[0] * centred[1]).sum(-1) / spread).nan_to_num(0.0)
