"""What a person sees while a run trains: epochs from 1 with their loss and score, and the loss between them in the logs."""

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback, RichProgressBar

LOSS, STEP_LOSS = "train/loss", "train/step_loss"


class EpochBar(RichProgressBar):
    """Lightning's bar, whose epochs count from 1 and show the loss and the score that checkpoints are chosen by."""

    def __init__(self, monitor: str | None) -> None:
        super().__init__(leave=True, console_kwargs={"stderr": True})
        self.shown = tuple(name for name in (LOSS, monitor) if name)

    def _get_train_description(self, current_epoch: int) -> str:
        last = self.trainer.max_epochs
        text = f"epoch {current_epoch + 1}" + (f" of {last}" if last and last > 0 else "")
        return f"{text:{len(self.validation_description)}}"  # as long as the other bar's, or the bars flicker

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """The figures beside the bar: of the last epoch that is through."""
        known = trainer.callback_metrics
        return {name: f"{float(known[name]):.4g}" for name in self.shown if name in known}


class StepLoss(Callback):
    """The loss of single steps in the logs, every so many of them as the trainer says."""

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # The loss comes to the host only when it is logged: a transfer at every step would wait for the device.
        every: int = getattr(trainer, "log_every_n_steps", 0)
        if every and trainer.global_step % every == 0 and outputs is not None:
            loss = outputs["loss"] if isinstance(outputs, dict) else outputs
            for logger in trainer.loggers:
                logger.log_metrics({STEP_LOSS: float(loss)}, trainer.global_step - 1)
