"""What watches over every run: signals, the metric that it is chosen by, and a stop that a resumed run remembers."""

import signal
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.trainer.connectors.signal_connector import _SignalConnector

from headscope.errors import ConfigError, did_you_mean
from headscope.runs.signals import SigtermAnswer, stop_if_told

OF_TRAINING = "train/"  # metrics that validation cannot know


class RunWatch(pl.Callback):
    """Goes before all other callbacks, which would end in a traceback, or stop only with the stage."""

    def on_train_batch_start(self, *_: Any) -> None:
        stop_if_told()

    def on_validation_batch_start(self, *_: Any, **__: Any) -> None:
        stop_if_told()

    def on_test_batch_start(self, *_: Any, **__: Any) -> None:
        stop_if_told()

    def on_sanity_check_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.on_validation_end(trainer, pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn == "fit":
            require_monitored(trainer, [name for name in monitored(trainer) if not name.startswith(OF_TRAINING)])

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        validated = sum(trainer.num_val_batches)
        names = [name for name in monitored(trainer) if name.startswith(OF_TRAINING) or not validated]
        require_monitored(trainer, names)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # A run that had stopped early before it was interrupted does not train on.
        if any(one.wait_count >= one.patience or one.stopped_epoch for one in trainer.early_stopping_callbacks if one):
            trainer.should_stop = True


def monitored(trainer: pl.Trainer) -> list[str]:
    """The metrics by which callbacks decide."""
    named = [
        getattr(callback, "monitor", None) for callback in (*trainer.checkpoint_callbacks, *trainer.early_stopping_callbacks)
    ]
    return [name for name in named if name]


def require_monitored(trainer: pl.Trainer, names: list[str]) -> None:
    """Refuse a metric that the run does not have."""
    known = sorted(trainer.callback_metrics)
    for name in names:
        if name not in known:
            raise ConfigError(f"monitor={name}: no such metric; the run has {', '.join(known)}{did_you_mean(name, known)}")


class SignalConnector(_SignalConnector):
    """Lightning's, which sees to SIGUSR1 under SLURM, but does not come between SIGTERM and who answers it.

    Its own handler would let a stage run on to its next check, and in several processes waits for all of them inside the
    handler.
    """

    def register_signal_handlers(self) -> None:
        answer = signal.getsignal(signal.SIGTERM)
        super().register_signal_handlers()
        if answer == signal.SIG_IGN or isinstance(answer, SigtermAnswer):
            self._register_signal(signal.SIGTERM, answer)
