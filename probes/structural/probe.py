"""The structural probe of Hewitt and Manning: a projection in which squared distance is tree distance."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headscope.contracts import Facts, Findings, Row
from headscope.data_modules.batches.batch import AttentionBatch, mean_of_all
from headscope.errors import given
from headscope.probes.base import Probe
from headscope.probes.structural.metrics import StructuralScore, length_table, structural_scores
from headscope.probes.structural.trees import tree_distances


class StructuralProbe(Probe):
    """Learns a low-rank projection of one layer's hidden states.

    Beside its scores on test sentences stand those of the order of words alone: words are as far apart as in the text.
    """

    def __init__(self, facts: Facts, rank: int = 64, lr: float = 3e-3) -> None:
        super().__init__(lr)
        self.projection = nn.Parameter(torch.empty(facts.hidden_size, rank).uniform_(-0.05, 0.05))
        self.structure, self.layer = StructuralScore(), facts.hidden_layer
        self.order = StructuralScore()
        self.length_rows: list[Row] = []

    def forward(self, batch: AttentionBatch) -> Float[Tensor, "batch word word"]:
        """The squared distance of every two words."""
        projected = given(batch.hidden, "data with hidden states") @ self.projection
        return (projected[:, :, None] - projected[:, None]).square().sum(-1).float()

    def loss(self, batch: AttentionBatch) -> Tensor:
        governors = batch.gold["governors"]
        return distance_loss(self(batch), tree_distances(governors), governors >= 0)

    def evaluation_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        governors = batch.gold["governors"]
        self.structure.update(self(batch), tree_distances(governors), governors, batch.gold["punctuation"])

    def test_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        super().test_step(batch, batch_idx)
        governors = batch.gold["governors"]
        self.order.update(text_distances(governors), tree_distances(governors), governors, batch.gold["punctuation"])

    def on_test_epoch_end(self) -> None:
        super().on_test_epoch_end()
        sums = self.order.compute()
        self.log_dict({f"test/word_order_{name}": value.float() for name, value in structural_scores(sums).items()})
        order = [{f"word_order_{name}": row[name] for name in ("uuas", "spearman")} for row in length_table(sums)]
        self.length_rows = [{**row, **other} for row, other in zip(self.length_rows, order, strict=True)]
        self.order.reset()

    def findings(self) -> Findings:
        """The scores by length of sentence."""
        return Findings(tables={"lengths": self.length_rows} if self.length_rows else {})

    def scores(self) -> dict[str, Tensor]:
        sums = self.structure.compute()
        scores, self.length_rows = structural_scores(sums), length_table(sums)
        self.structure.reset()
        return scores if self.layer is None else scores | {"layer": torch.tensor(self.layer)}  # told beside its score


def text_distances(governors: Int[Tensor, "batch word"]) -> Float[Tensor, "batch word word"]:
    """The distance of every two words in the text, in words."""
    at = torch.arange(governors.shape[1], device=governors.device, dtype=torch.float32)
    return (at[:, None] - at).abs().expand(len(governors), -1, -1)


def distance_loss(
    predicted: Float[Tensor, "batch word word"], gold: Float[Tensor, "batch word word"], real: Bool[Tensor, "batch word"]
) -> Tensor:
    """Mean absolute error over the pairs of each sentence, then over sentences."""
    pairs = real[:, :, None] & real[:, None]
    errors = ((predicted - gold).abs() * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)
    return mean_of_all(errors.sum(), real.any(1).sum())
