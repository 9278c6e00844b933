"""A fine-tuned model as a plain Hugging Face folder, beside the Lightning checkpoint."""

import shutil
import uuid
from pathlib import Path

import pytorch_lightning as pl
from transformers import AutoTokenizer


class SaveModel(pl.Callback):
    """After the test of what was trained, writes its model and tokenizer; the folder appears only when whole."""

    def __init__(self, folder: str) -> None:
        self.folder, self.trained = Path(folder), False

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.trained = True

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self.trained or not trainer.is_global_zero:
            return
        draft = self.folder.with_name(f".{self.folder.name}.{uuid.uuid4().hex}")
        try:
            pl_module.model.save_pretrained(draft)
            AutoTokenizer.from_pretrained(trainer.datamodule.encoder.folder).save_pretrained(draft)
            shutil.rmtree(self.folder, ignore_errors=True)
            draft.replace(self.folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
