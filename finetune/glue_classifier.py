"""Fine-tuning on GLUE (Kovaleva, section 3): the whole encoder learns, with the recipe of the paper."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedModel, get_linear_schedule_with_warmup

from headscope.contracts import Facts, Findings, Row
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch, mean_of_all, seed_epoch
from headscope.data_modules.encoders.models import START_KEY, TASK_KEY, weight_files
from headscope.data_modules.glue import require_task
from headscope.errors import ConfigError, given, require_choice
from headscope.files import appears_whole, file_sha256
from headscope.finetune.classifier_model import load_classifier, require_number
from headscope.finetune.glue_scores import prediction_rows, task_scores
from headscope.finetune.head_mask import WAYS, disabled, require_heads
from headscope.finetune.per_input import PerInput

OPTIMIZERS = ("adamw", "lamb")
NOT_DECAYED = ("bias", "LayerNorm", "layer_norm", "norm")


class GlueClassifier(pl.LightningModule):
    """An encoder with a classification head; on request some of its heads stay disabled."""

    def __init__(
        self,
        facts: Facts,
        lr: float = 2e-5,
        weight_decay: float = 0.01,
        optimizer: str = "adamw",
        warmup: float | int = 0.1,
        dropout: float | int | None = None,
        seed: int = 0,
        disable: Sequence[Sequence[int]] = (),
        how: str = "uniform",
    ) -> None:
        super().__init__()
        require_choice("module.how", how, WAYS)  # also where no head is disabled
        require_number("module.lr", lr, above=0.0)
        require_number("module.weight_decay", weight_decay)
        require_choice("module.optimizer", optimizer, OPTIMIZERS)
        require_number("module.warmup", warmup)
        self.optimizer, self.warmup = adamw if optimizer == "adamw" else load_lamb(), warmup
        self.task = require_task(facts)
        spec = given(facts.encoder, "an encoder")
        self.model: PreTrainedModel = load_classifier(spec, self.task, seed, dropout=dropout, layout=facts.layout)
        self.start = {TASK_KEY: facts.task, START_KEY: getattr(self.model.config, START_KEY, None) or spec.init}
        self.lr, self.weight_decay, self.seed = lr, weight_decay, seed
        self.disable, self.how = require_heads(disable, facts.layers, facts.heads), how
        self.predictions = PerInput("logits", "labels")
        self.rows: list[Row] = []
        self.by_epoch: list[dict[str, float]] = []  # the scores of the dev set after each epoch

    def forward(self, batch: AttentionBatch) -> Float[Tensor, "batch output"]:
        if not len(batch.mask):  # of an idle process; models refuse a batch of none
            return torch.zeros(0, self.task.outputs, device=batch.mask.device)
        with self._heads():
            return self.model(**batch.encoder_inputs).logits

    @contextmanager
    def _heads(self) -> Iterator[None]:
        if not self.disable:
            yield
            return
        with disabled(self.model, self.disable, self.how):
            yield

    def on_train_epoch_start(self) -> None:
        self.model.train()

    def on_train_batch_start(self, batch: AttentionBatch, batch_idx: int) -> None:
        if batch_idx == 0:
            seed_epoch(self.seed + self.global_rank, self.current_epoch)  # dropout

    def training_step(self, batch: AttentionBatch, batch_idx: int) -> Tensor:
        logits, labels = self(batch), batch.gold["label"].squeeze(1)
        known = labels != IGNORE
        if self.task.labels:
            total = nn.functional.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
        else:
            total = ((logits.squeeze(1) - labels).square() * known).sum()
        loss = mean_of_all(total, known.sum())
        self.log("train/loss", loss, on_step=False, on_epoch=True, sync_dist=True, batch_size=batch.size)
        return loss

    def validation_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        self.predictions.update(batch.input_index, logits=self(batch), labels=batch.gold["label"].squeeze(1))

    def test_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        self.validation_step(batch, batch_idx)

    def on_validation_epoch_end(self) -> None:
        scores = self._log_scores("val")
        if self.trainer.state.fn == "fit" and not self.trainer.sanity_checking:
            self.by_epoch = [*self.by_epoch[: self.current_epoch], scores]

    def on_test_epoch_end(self) -> None:
        self._log_scores("test")
        if self.by_epoch:  # beside the best epoch on this same dev set, which was chosen by its labels
            self.log_dict({f"test/{name}_last_epoch": value for name, value in self.by_epoch[-1].items()})

    def _log_scores(self, part: str) -> dict[str, float]:
        index, logits, labels = self.predictions.rows().values()
        self.rows = prediction_rows(index, logits, labels, self.task)
        scores = task_scores(logits, labels, self.task)
        self.log_dict(
            {f"{part}/{name}": value for name, value in scores.items()} | {f"{part}/main": scores[self.task.metrics[0]]}
        )
        self.predictions.reset()
        return scores

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["by_epoch"] = self.by_epoch

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # The best epoch, loaded for the test, knows less than the last.
        self.by_epoch = max(self.by_epoch, checkpoint.get("by_epoch", []), key=len)

    def findings(self) -> Findings:
        """The scores after each epoch, and what the model says of each dev example, as a file."""
        epochs = [{"epoch": epoch, **scores} for epoch, scores in enumerate(self.by_epoch, start=1)]
        return Findings(tables={"epochs": epochs} if epochs else {}, files={"predictions.csv": self.rows})

    def configure_optimizers(self) -> dict[str, Any]:
        named = [(name, parameter) for name, parameter in self.model.named_parameters() if parameter.requires_grad]
        decayed = [parameter for name, parameter in named if not any(part in name for part in NOT_DECAYED)]
        others = [parameter for name, parameter in named if any(part in name for part in NOT_DECAYED)]
        groups = [{"params": decayed, "weight_decay": self.weight_decay}, {"params": others, "weight_decay": 0.0}]
        optimizer = self.optimizer(groups, self.lr)
        steps = self.trainer.estimated_stepping_batches
        warm = round(self.warmup * steps) if self.warmup < 1 else int(self.warmup)
        schedule = get_linear_schedule_with_warmup(optimizer, warm, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def adamw(groups: list[dict[str, Any]], lr: float) -> torch.optim.Optimizer:
    """What Kovaleva et al. fine-tune with."""
    return torch.optim.AdamW(groups, lr=lr)


def load_lamb() -> Callable[[list[dict[str, Any]], float], torch.optim.Optimizer]:
    """What Pande et al. fine-tune with, of an optional package; decay is part of the update that the trust ratio scales."""
    try:
        package: Any = import_module("pytorch_optimizer")
    except ImportError as error:
        raise ConfigError(
            "module.optimizer=lamb: needs the package pytorch-optimizer; pip install it (extra lamb)."
        ) from error
    # Its debiasing would make the first steps many times larger; warm-up is what begins gently.
    return lambda groups, lr: package.Lamb(groups, lr=lr, weight_decouple=False, adam_debias=True)


class SaveModel(pl.Callback):
    """After the test of what was trained, writes its model and tokenizer as a plain Hugging Face folder."""

    def __init__(self, folder: str) -> None:
        self.folder, self.trained = Path(folder), False

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.trained = True

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self.trained or not trainer.is_global_zero:
            return
        encoder = cast(Any, trainer).datamodule.encoder
        tokenizer = AutoTokenizer.from_pretrained(encoder.folder, trust_remote_code=encoder.spec.trust_remote_code)
        with appears_whole(self.folder, durable=True) as draft:
            model = cast(GlueClassifier, pl_module).model
            model.config.update(getattr(pl_module, "start", {}))  # a head alone, on a frozen encoder, has no such start
            model.save_pretrained(draft)
            tokenizer.save_pretrained(draft)
            for file in weight_files(draft):  # whoever reads the model compares it
                file.with_name(f"{file.name}.sha256").write_text(f"{file_sha256(file)}  {file.name}\n")
