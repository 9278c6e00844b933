"""Training of the network that tells attention patterns apart (Kovaleva, section 4.1)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch, seed_epoch
from headscope.probes.patterns.augmentation import augmented, relabelled, without_gaps
from headscope.probes.patterns.classifier import PatternClassifier
from headscope.probes.patterns.files import load_pattern_cnn as load_pattern_cnn
from headscope.probes.patterns.net import SHARE, PatternNet
from headscope.probes.patterns.scores import best_temperature


class PatternCNN(PatternClassifier):
    """Eight convolutions and measures, each trained for itself; every map is seen a little changed each time.

    Rare classes weigh more with `balance`. What is watched decides one temperature, by which the logits are divided; where
    nothing is watched, it is given.
    """

    class_weights: Tensor

    def __init__(
        self,
        facts: Facts,
        lr: float = 0.003,
        weight_decay: float = 0.02,
        size: int = 32,
        channels: Sequence[int] = (12, 16, 16, 24, 24, 32, 32, 32),
        axes: bool = True,
        dropout: float = 0.3,
        share: float = SHARE,
        balance: float = 0.0,
        smoothing: float = 0.0,
        relabel: float = 0.0,
        temperature: float = 1.0,
        augmentation: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(facts, lr)
        self.weight_decay, self.smoothing, self.relabel, self.seed = weight_decay, smoothing, relabel, seed
        self.labels_sha256: str = self.patterns.labels_sha256
        self.augmentation = dict(augmentation or {})
        self.net = PatternNet(len(self.classes), size, channels, axes, dropout, share=share)
        self.net.temperature.fill_(temperature)
        self.register_buffer("class_weights", class_weights(self.patterns.class_counts, balance), persistent=False)

    def logits(self, batch: AttentionBatch) -> Float[Tensor, "batch class"]:
        return self.net(batch.flat_maps(), batch.mask, batch.gold["token_class"]).squeeze(1)

    def on_train_batch_start(self, batch: AttentionBatch, batch_idx: int) -> None:
        if batch_idx == 0:
            seed_epoch(self.seed, self.current_epoch)  # changes of maps and dropout, the same in every process

    def loss(self, batch: AttentionBatch) -> Tensor:
        classes = batch.gold["token_class"]
        maps, votes = batch.flat_maps(), batch.gold["votes"]
        if self.relabel:
            maps, votes = relabelled(maps, classes, votes, self.relabel)
        maps, widths = augmented(maps, batch.mask, classes, **self.augmentation)
        maps, classes, widths = without_gaps(maps, classes, widths)
        opinions = self.net.opinions(maps, widths > 0, classes, widths).squeeze(2)
        losses = [soft_cross_entropy(logits, votes, self.class_weights, self.smoothing) for logits in opinions]
        return torch.stack(losses).sum()

    def calibrated(self, logits: Float[Tensor, "map class"], labels: Tensor) -> Tensor:
        if not self.trainer.testing:
            self.net.temperature.copy_(best_temperature(logits, labels))
        return self.net.temperature

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        steps = cast(int, self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.lr, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def soft_cross_entropy(
    logits: Float[Tensor, "map class"],
    votes: Float[Tensor, "map class"],
    weights: Float[Tensor, "class"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The cross entropy with shares of votes; a map weighs what its votes' classes weigh, on average."""
    smooth = (1 - smoothing) * votes + smoothing / votes.shape[1]
    per_map = -(smooth * logits.log_softmax(1)).sum(1)
    own = votes @ weights
    return (own * per_map).sum() / own.sum()


def class_weights(counts: Sequence[int], power: float) -> Float[Tensor, "class"]:
    """Rarer classes weigh more: the inverse of their share to some power; 1 on average over the maps."""
    maps = torch.tensor(counts, dtype=torch.float32)
    weights = maps.clamp(min=1) ** -power
    return weights * maps.sum() / (weights * maps).sum().clamp(min=1e-9)
