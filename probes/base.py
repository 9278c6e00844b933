"""What all probes share: Adam with linear decay, and scores named by the part of the data."""

from abc import abstractmethod
from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor

from headscope.contracts import Findings
from headscope.data_modules.batches.batch import AttentionBatch


class Probe(pl.LightningModule):
    """A small model over a frozen encoder; a subclass says what a step learns and what is counted."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr

    @abstractmethod
    def loss(self, batch: AttentionBatch) -> Tensor:
        """What a training step makes smaller: a mean over the whole batch, also where processes share it (`mean_of_all`)."""

    @abstractmethod
    def evaluation_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        """Count what a batch shows."""

    @abstractmethod
    def scores(self) -> dict[str, Tensor]:
        """The scores of all that was counted; counting starts anew."""

    def findings(self) -> Findings:
        """Tables and per-head quantities of the last evaluation, beyond the scores."""
        return Findings()

    def training_step(self, batch: AttentionBatch, batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss, on_step=False, on_epoch=True, sync_dist=True, batch_size=batch.size)
        return loss

    def validation_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        self.evaluation_step(batch, batch_idx)

    def test_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        self.evaluation_step(batch, batch_idx)

    def on_validation_epoch_end(self) -> None:
        self.log_dict({f"val/{name}": value.float() for name, value in self.scores().items()})

    def on_test_epoch_end(self) -> None:
        self.log_dict({f"test/{name}": value.float() for name, value in self.scores().items()})

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        steps = cast(int, self.trainer.estimated_stepping_batches)
        decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1 / max(1, steps), total_iters=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": decay, "interval": "step"}}
