"""How well predicted distances between words tell the tree: UUAS and Spearman correlation."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

from headscope.contracts import Row
from headscope.probes.structural.trees import spanning_tree, spearman_rows

SHORTEST, LONGEST = 5, 50  # the sentences that count for Spearman
BANDS = ((1, 4), (5, 9), (10, 14), (15, 19), (20, 29), (30, 50), (51, None))  # of sentences, by their words


def count_edges(
    distances: Float[Tensor, "batch word word"],
    governors: Int[Tensor, "batch word"],
    nodes: Bool[Tensor, "batch word"],
) -> tuple[Tensor, Tensor]:
    """Gold edges of each sentence that the minimum spanning tree finds, and all of them, among the nodes."""
    words = torch.arange(governors.shape[1], device=governors.device)
    gold = (governors[:, :, None] == words) & nodes[:, :, None] & nodes[:, None, :]
    found = spanning_tree(distances, nodes)[:, :, None] == words
    return ((gold | gold.transpose(1, 2)) & found).sum((1, 2)), gold.sum((1, 2))


class StructuralScore(Metric):
    """Sums of edges and of rank correlations, by sentence length."""

    full_state_update = False
    found: Tensor
    edges: Tensor
    correlation: Tensor
    sentences: Tensor

    def __init__(self) -> None:
        super().__init__()
        for state in ("found", "edges", "correlation", "sentences"):
            self.add_state(state, torch.zeros(LONGEST + 2, dtype=torch.float64), dist_reduce_fx="sum")

    def update(
        self,
        predicted: Float[Tensor, "batch word word"],
        gold: Float[Tensor, "batch word word"],
        governors: Int[Tensor, "batch word"],
        punctuation: Int[Tensor, "batch word"],
    ) -> None:
        real = governors >= 0
        found, edges = count_edges(predicted, governors, real & (punctuation != 1))
        rows = spearman_rows(predicted, gold, real) * real
        length = real.sum(1)
        sums = {"found": found, "edges": edges, "correlation": rows.sum(1).double() / length}
        for state, value in {**sums, "sentences": torch.ones_like(length)}.items():
            getattr(self, state).index_add_(0, length.clamp(max=LONGEST + 1), value.double())

    def compute(self) -> Float[Tensor, "sum length"]:
        """Gold edges found, gold edges, rank correlations and sentences, of each length."""
        return torch.stack([self.found, self.edges, self.correlation, self.sentences])


def structural_scores(sums: Float[Tensor, "sum length"]) -> dict[str, Tensor]:
    """UUAS in percent without punctuation; Spearman, first averaged within each length from 5 to 50."""
    found, edges = sums[:2].sum(1)
    correlation, sentences = sums[2:, SHORTEST : LONGEST + 1]
    by_length = correlation / sentences.clamp(min=1)
    return {"uuas": 100 * found / edges, "spearman": by_length.sum() / (sentences > 0).sum()}


def length_table(sums: Float[Tensor, "sum length"]) -> list[Row]:
    """The scores of sentences of about the same length; Spearman is the mean over those that count for it."""
    rows: list[Row] = []
    for first, last in BANDS:
        found, edges, correlation, sentences = sums[:, first : 1 + (last or LONGEST + 1)].sum(1).tolist()
        counts = first >= SHORTEST and last
        row = {"words": f"{first}–{last}" if last else f"{first}+", "uuas": 100 * found / edges if edges else None}
        row |= {"spearman": correlation / sentences if counts and sentences else None}
        rows.append(row | {"edges": int(edges), "sentences": int(sentences)})
    return [row for row in rows if row["sentences"]]
