"""The structural probe of Hewitt and Manning: a projection in which squared distance is tree distance."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch, mean_of_all
from headscope.errors import given
from headscope.probes.base import Probe
from headscope.probes.structural.metrics import StructuralScore
from headscope.probes.structural.trees import tree_distances


class StructuralProbe(Probe):
    """Learns a low-rank projection of one layer's hidden states."""

    def __init__(self, facts: Facts, rank: int = 64, lr: float = 3e-3) -> None:
        super().__init__(lr)
        self.projection = nn.Parameter(torch.empty(facts.hidden_size, rank).uniform_(-0.05, 0.05))
        self.structure, self.layer = StructuralScore(), facts.hidden_layer

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

    def scores(self) -> dict[str, Tensor]:
        scores = self.structure.compute()
        self.structure.reset()
        return scores if self.layer is None else scores | {"layer": torch.tensor(self.layer)}  # told beside its score


def distance_loss(
    predicted: Float[Tensor, "batch word word"], gold: Float[Tensor, "batch word word"], real: Bool[Tensor, "batch word"]
) -> Tensor:
    """Mean absolute error over the pairs of each sentence, then over sentences."""
    pairs = real[:, :, None] & real[:, None]
    errors = ((predicted - gold).abs() * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)
    return mean_of_all(errors.sum(), real.any(1).sum())
