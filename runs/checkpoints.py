"""Checkpoints that are whole or not there: written beside their place, with a checksum inside, and checked when read."""

import hashlib
import io
import os
import shutil
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from pytorch_lightning.callbacks import ModelCheckpoint

from headscope.errors import ConfigError, InputError, did_you_mean
from headscope.files import appears_whole
from headscope.processes import is_first_process

OF_TRAINING = "train/"  # metrics that validation cannot know
FOLDER, LAST, PREVIOUS = "checkpoints", "last.ckpt", "previous.ckpt"
LABEL = b"sha256 "
HEX = hashlib.sha256().digest_size * 2
# The checksum is the comment of the zip file that torch writes, whose length stands in the two bytes before it: one file
# and one rename, so that no kill can part them.
COMMENT = struct.pack("<H", len(LABEL) + HEX) + LABEL


class WholeCheckpointIO(TorchCheckpointIO):
    """Reads and writes the checkpoints of a trainer; of the last one, the one before is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: set[Path] = set()  # known to be so, since written or checked here

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        path, content = Path(path), with_checksum(checkpoint)
        try:
            with appears_whole(path) as draft:
                with draft.open("wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())  # else a crash of the machine may leave the name without the content
                if path.name == LAST and path in self.whole:
                    path.replace(path.with_name(PREVIOUS))
        except OSError as error:
            raise InputError(
                f"{path}: could not be written ({error.strerror}); the checkpoint before it is kept, "
                "and resume=true with the same run_dir goes on from there."
            ) from error
        self.whole.add(path)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        path = Path(path)
        if reason := damage(path):
            raise InputError(f"{path}: the checkpoint is damaged ({reason}); resume=true goes on from one that is whole.")
        self.whole.add(path)
        return super().load_checkpoint(path, map_location or (lambda storage, _: storage), weights_only)


def with_checksum(checkpoint: Mapping[str, Any]) -> memoryview:
    """A checkpoint as torch saves it, its checksum in place of the empty comment at its end."""
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    buffer.seek(-2, os.SEEK_END)
    buffer.write(COMMENT)
    digest = hashlib.sha256(buffer.getbuffer()).hexdigest()
    buffer.write(digest.encode())
    return buffer.getbuffer()


def damage(file: Path) -> str | None:
    """What is wrong with a checkpoint; None where it is as it was written. A file that did not change is read once."""
    if not file.is_file():
        return "there is no such file"
    now = file.stat()
    return _damage(file, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=16)
def _damage(file: Path, _changed: int, size: int) -> str | None:
    with file.open("rb") as stream:
        stream.seek(max(0, size - HEX - len(COMMENT)))
        end = stream.read()
        if end[: len(COMMENT)] != COMMENT:
            return "it has no checksum at its end"
        stream.seek(0)
        digest, left = hashlib.sha256(), size - HEX
        while left > 0 and (part := stream.read(min(left, 1 << 20))):
            digest.update(part)
            left -= len(part)
    return None if digest.hexdigest().encode() == end[len(COMMENT) :] else "its checksum does not match"


class BestAndLast(ModelCheckpoint):
    """Keeps the best weights by a validation score, and the last after every epoch, wherever the run's folder lies."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.best_step: int | None = None  # after which the best weights were saved

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        if self._should_save_on_train_epoch_end(trainer):
            self._save_last_anyway(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_validation_end(trainer, pl_module)
        if not self._should_save_on_train_epoch_end(trainer):
            self._save_last_anyway(trainer)

    def _save_last_anyway(self, trainer: pl.Trainer) -> None:
        """Also where the score is not better: Lightning saves the last weights with the best ones alone."""
        if not self._should_skip_saving_checkpoint(trainer):
            self._save_last_checkpoint(trainer, self._monitor_candidates(trainer))

    def _save_checkpoint(self, trainer: pl.Trainer, filepath: str) -> None:
        if filepath == self.best_model_path:
            self.best_step = trainer.global_step
        super()._save_checkpoint(trainer, filepath)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "best_step": self.best_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best_step = state_dict["best_step"]
        moved = {key: self._here(value) if key.endswith("_path") else value for key, value in state_dict.items()}
        models = {self._here(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**moved, "dirpath": self.dirpath, "best_k_models": models})
        self._last_checkpoint_saved = self.last_model_path

    def _here(self, path: str) -> str:
        return str(Path(str(self.dirpath)) / Path(path).name) if path else path


class TrainingWatch(pl.Callback):
    """Goes before the callbacks that monitor a metric: refuses one that does not exist, remembers that training is over."""

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


@dataclass(frozen=True)
class Saved:
    """What a checkpoint says of itself: the step after which it was saved, and the best weights by then."""

    step: int
    best: str  # the name of their file, empty where none are kept
    best_step: int | None

    @classmethod
    def read(cls, file: Path) -> "Saved":
        """From a file that is whole."""
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        of_callback = next(
            (state for key, state in content["callbacks"].items() if key.startswith(BestAndLast.__name__)), {}
        )
        return cls(content["global_step"], Path(of_callback.get("best_model_path", "")).name, of_callback.get("best_step"))


def resume_point(run_folder: Path) -> Path | None:
    """The newest checkpoint with which the run can go on, together with the best weights that it knows of.

    What is damaged is told by the first process; where nothing can be used, the run starts anew.
    """
    files = sorted((run_folder / FOLDER).glob("[!.]*.ckpt"))
    damaged = {file: reason for file in files if (reason := damage(file))}
    saved = {file: Saved.read(file) for file in files if file not in damaged}
    steps = {(file.name, one.step) for file, one in saved.items()}
    usable = {
        file: one.step
        for file, one in saved.items()
        if not one.best or one.best_step == one.step or (one.best, one.best_step) in steps
    }
    chosen = max(usable, key=lambda file: (usable[file], file.name == LAST), default=None)
    if is_first_process() and files:
        if damaged or chosen is None:
            tell(run_folder, damaged, chosen)
        settle(files, chosen, saved[chosen] if chosen else None, steps)
    return chosen


def tell(run_folder: Path, damaged: Mapping[Path, str], chosen: Path | None) -> None:
    """Say which checkpoints are damaged, and what the run does."""
    names = " and ".join(f"{file.name} ({reason})" for file, reason in damaged.items())
    wrong = f"damaged: {names}" if damaged else "the best weights are missing"
    then = f"goes on from {chosen.name}" if chosen else "starts anew"
    print(f"{run_folder / FOLDER}: {wrong}; the run {then}.", file=sys.stderr)


def settle(files: list[Path], chosen: Path | None, saved: Saved | None, steps: set[tuple[str, int]]) -> None:
    """Leave what fits the chosen checkpoint: nothing where there is none, its own weights where they are the best."""
    if chosen is None or saved is None:
        remove(files)
    elif saved.best and (saved.best, saved.best_step) not in steps:
        with appears_whole(chosen.with_name(saved.best)) as draft:
            shutil.copyfile(chosen, draft)


def remove_drafts(run_folder: Path) -> None:
    """Remove what a killed save left."""
    remove((run_folder / FOLDER).glob(".*.ckpt"))


def remove(files: Iterable[Path]) -> None:
    """By the first process."""
    for file in files if is_first_process() else ():
        file.unlink(missing_ok=True)
