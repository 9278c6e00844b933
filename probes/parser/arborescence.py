"""The best tree: Chu-Liu-Edmonds with one word under ROOT."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def best_trees(scores: Float[Tensor, "batch candidate word"], mask: Tensor) -> Int[Tensor, "batch word"]:
    """The heads of the highest-scoring tree of every sentence; ROOT and padding get 0."""
    governors = np.zeros(mask.shape, dtype=np.int64)
    for row, matrix, size in zip(governors, scores.detach().float().cpu().numpy(), mask.sum(1).tolist(), strict=True):
        row[:size] = best_tree(matrix[:size, :size].astype(np.float64))
    return mask.new_tensor(governors, dtype=torch.int64)


def best_tree(scores: Float[np.ndarray, "candidate word"]) -> Int[np.ndarray, "word"]:
    """The heads of the highest-scoring tree with exactly one child of ROOT (node 0)."""
    finite = scores[np.isfinite(scores)]
    # Each root edge costs more than any difference between trees, so that one alone is used.
    penalty = 1 + len(scores) * (finite.max() - finite.min())
    scores = np.where(np.isfinite(scores), scores, finite.min() - 2 * len(scores) * penalty)
    scores[0] -= penalty
    np.fill_diagonal(scores, -np.inf)
    return _arborescence(scores)


def _arborescence(scores: Float[np.ndarray, "candidate word"]) -> Int[np.ndarray, "word"]:
    governors = scores.argmax(0)
    governors[0] = 0
    cycle = _cycle(governors)
    if cycle is None:
        return governors
    # Contract the cycle to one node, solve the smaller problem, and open the cycle where the solution enters it.
    rest = np.setdiff1d(np.arange(len(governors)), cycle)
    inside = scores[governors[cycle], cycle]
    enter = scores[np.ix_(rest, cycle)] - inside
    leave = scores[np.ix_(cycle, rest)]
    smaller = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    smaller[:-1, :-1] = scores[np.ix_(rest, rest)]
    smaller[:-1, -1] = enter.max(1)
    smaller[-1, :-1] = leave.max(0)
    solved = _arborescence(smaller)
    new = len(rest)
    for index, word in enumerate(rest):
        if word:
            governors[word] = cycle[leave[:, index].argmax()] if solved[index] == new else rest[solved[index]]
    entrance = solved[new]
    governors[cycle[enter[entrance].argmax()]] = rest[entrance]
    return governors


def _cycle(governors: Int[np.ndarray, "word"]) -> np.ndarray | None:
    checked = {0}
    for start in range(1, len(governors)):
        path, word = [], start
        while word not in checked and word not in path:
            path.append(word)
            word = int(governors[word])
        if word not in checked:
            return np.array(path[path.index(word) :])
        checked.update(path)
    return None
