"""How well predicted distances between words tell the tree: UUAS and Spearman correlation."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from headscope.probes.structural.trees import spanning_tree, spearman_rows

SHORTEST, LONGEST = 5, 50  # the sentences that count for Spearman


def count_edges(
    distances: Float[Tensor, "batch word word"],
    governors: Int[Tensor, "batch word"],
    nodes: Bool[Tensor, "batch word"],
) -> tuple[Tensor, Tensor]:
    """Gold edges that the minimum spanning tree finds, and all gold edges, among the nodes."""
    words = torch.arange(governors.shape[1], device=governors.device)
    gold = (governors[:, :, None] == words) & nodes[:, :, None] & nodes[:, None, :]
    found = spanning_tree(distances, nodes)[:, :, None] == words
    return ((gold | gold.transpose(1, 2)) & found).sum(), gold.sum()


class StructuralScore(Metric):
    """Sums of edges, and of rank correlations by sentence length."""

    full_state_update = False
    found: Tensor
    edges: Tensor
    correlation: Tensor
    sentences: Tensor

    def __init__(self) -> None:
        super().__init__()
        for state, size in (("found", ()), ("edges", ()), ("correlation", LONGEST + 2), ("sentences", LONGEST + 2)):
            self.add_state(state, torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")

    def update(
        self,
        predicted: Float[Tensor, "batch word word"],
        gold: Float[Tensor, "batch word word"],
        governors: Int[Tensor, "batch word"],
        punctuation: Int[Tensor, "batch word"],
    ) -> None:
        real = governors >= 0
        found, edges = count_edges(predicted, governors, real & (punctuation != 1))
        self.found += found
        self.edges += edges
        rows = spearman_rows(predicted, gold, real) * real
        length = real.sum(1)
        self.correlation.index_add_(0, length.clamp(max=LONGEST + 1), rows.sum(1).double() / length)
        self.sentences.index_add_(0, length.clamp(max=LONGEST + 1), torch.ones_like(length, dtype=torch.float64))

    def compute(self) -> dict[str, Tensor]:
        """UUAS in percent without punctuation; Spearman, first averaged within each length from 5 to 50."""
        correlation, sentences = (state[SHORTEST : LONGEST + 1] for state in (self.correlation, self.sentences))
        by_length = correlation / sentences.clamp(min=1)
        return {"uuas": 100 * self.found / self.edges, "spearman": by_length.sum() / (sentences > 0).sum()}
