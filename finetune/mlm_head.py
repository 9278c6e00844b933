"""A masked-LM head for an encoder without one: dense, norm, and a decoder tied to the embeddings."""

from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torchmetrics import MeanMetric, Metric
from transformers import AutoModelForMaskedLM, PreTrainedModel, get_linear_schedule_with_warmup
from transformers.modeling_outputs import BaseModelOutput

from headscope.contracts import EncoderSpec, Facts, Findings, Row
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch, mean_of_all
from headscope.data_modules.encoders.models import ModelFiles
from headscope.errors import ConfigError, InputError, given, require_choice
from headscope.finetune.classifier_model import require_number

WARMUP = 0.1
MASK_EMBEDDINGS = ("average", "kept")
AVERAGE = "masked tokens have the embedding of an average word; no text has such tokens, so it is read as before"
PARTS = {
    "loss": 1,
    "accuracy": 100,
    "unigram_loss": 1,
    "unigram_accuracy": 100,
}  # what is counted of each token, in which unit
MOST = (0, 9, 99, 999)  # times that a word of each band, but the last, is in the training text
BANDS = ("never", "1–9", "10–99", "100–999", "1,000+")


class FrequencySums(Metric):
    """Sums over masked tokens, apart by how often the masked word is in the training text."""

    full_state_update = False
    sums: Tensor
    tokens: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("sums", torch.zeros(len(PARTS), len(BANDS), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("tokens", torch.zeros(len(BANDS), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, parts: Float[Tensor, "part asked"], seen: Float[Tensor, "asked"]) -> None:
        """Add what is counted of each token, whose word was seen so many times."""
        band = torch.bucketize(seen, torch.tensor(MOST, dtype=seen.dtype, device=seen.device))
        self.sums.index_add_(1, band, parts.double())
        self.tokens.index_add_(0, band, torch.ones_like(seen, dtype=torch.float64))

    def compute(self) -> Float[Tensor, "part_and_tokens band"]:
        """The sums, and below them the tokens."""
        return torch.cat([self.sums, self.tokens[None]])


def token_means(sums: Float[Tensor, "part_and_tokens *band"]) -> dict[str, Tensor]:
    """The mean of each part over tokens: losses in nats, accuracies in percent."""
    return {name: unit * total / sums[-1].clamp(min=1) for (name, unit), total in zip(PARTS.items(), sums, strict=False)}


def frequency_table(sums: Float[Tensor, "part_and_tokens band"]) -> list[Row]:
    """The means of the words of each frequency that were masked."""
    means = {name: values.tolist() for name, values in token_means(sums).items()}
    rows = [
        {"times": band, **{name: values[at] for name, values in means.items()}, "n": int(sums[-1, at])}
        for at, band in enumerate(BANDS)
    ]
    return [row for row in rows if row["n"]]


class MaskedHead(pl.LightningModule):
    """Learns a head from the states of masked tokens, which are computed once: neither encoder nor masks change.

    An encoder that was trained without masks, as one that compares texts, has never used the embedding of its mask token:
    it is no word to it, so that no head looks from it at its neighbours, and its state knows nothing of them. With
    `mask_embedding` average it becomes that of an average word; no text has such a token, so texts are read as before.

    Beside the head stands what the frequencies of the training tokens alone say: the baseline, with one added to each count.
    """

    def __init__(
        self,
        facts: Facts,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        mask_embedding: str = "average",
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_number("module.lr", lr, above=0.0)
        require_number("module.weight_decay", weight_decay)
        require_choice("module.mask_embedding", mask_embedding, MASK_EMBEDDINGS)
        if facts.objective != "masked":
            raise ConfigError("module=mlm_head: needs data=language with data.objective=masked.")
        self.model = load_without_head(given(facts.encoder, "an encoder"), seed)
        self.lr, self.weight_decay, self.mask_embedding = lr, weight_decay, mask_embedding
        self.mask_token = given(facts.mask_token, "a mask token")
        words: int = cast(Any, self.model.get_output_embeddings()).weight.shape[0]
        self.counts: Tensor
        self.register_buffer("counts", torch.zeros(words))  # of the training tokens
        self.kept: dict[tuple[str, int], Tensor] = {}  # the states of an input's masked tokens, by its part and index there
        self.sums, self.training_loss = FrequencySums(), MeanMetric()
        self.by_epoch: list[dict[str, float]] = []  # losses after each epoch
        self.frequency_rows: list[Row] = []

    def on_fit_start(self) -> None:
        split = cast(Any, self.trainer).datamodule.read_splits()["train"]
        self.counts.zero_()  # those of the checkpoint, where a run goes on
        labels = [item.model_inputs["labels"] for item in split.items]
        read = [np.where(one == IGNORE, item.input_ids, one) for item, one in zip(split.items, labels, strict=True)]
        for ids in {ids.tobytes(): ids for ids in read}.values():  # a text that is masked in several ways counts once
            self.counts += torch.bincount(torch.from_numpy(ids).long(), minlength=len(self.counts)).to(self.device)
        if self.mask_embedding == "average":
            table: Tensor = cast(Any, self.model.get_input_embeddings()).weight
            table.data[self.mask_token] = average_embedding(table.detach(), self.counts)

    def on_train_start(self) -> None:
        """Begin with the baseline: what is learnt beyond the words' frequencies is then all that is learnt."""
        bias = cast(Any, self.model.get_output_embeddings()).bias
        if bias is not None and not self.trainer.global_step:
            bias.data.copy_(self.unigram_log_chances())

    def states(self, batch: AttentionBatch) -> Float[Tensor, "asked size"]:
        """The last layer's states of the masked tokens."""
        inputs = {name: tensor for name, tensor in batch.encoder_inputs.items() if name != "labels"}
        with torch.no_grad():
            return self.model.base_model(**inputs)[0][batch.encoder_inputs["labels"] != IGNORE]

    def _kept_states(self, batch: AttentionBatch, part: str) -> Float[Tensor, "asked size"]:
        index = [(part, one) for one in batch.input_index.tolist()]
        asked = (batch.encoder_inputs["labels"] != IGNORE).sum(1).tolist()
        if not any(asked):  # of a process that has no input of its own, and must not keep that for the input's states
            return self.states(batch)
        if any(one not in self.kept for one in index):
            self.kept |= dict(zip(index, self.states(batch).split(asked), strict=True))
        return torch.cat([self.kept[one] for one in index])

    def on_train_epoch_start(self) -> None:
        self.model.eval()  # the encoder is not trained, so nothing of it is dropped

    def training_step(self, batch: AttentionBatch, batch_idx: int) -> Tensor:
        labels = asked_words(batch)
        logits = head_logits(self.model, self._kept_states(batch, "train"))
        count = torch.tensor(len(labels), device=labels.device)
        total = nn.functional.cross_entropy(logits, labels, reduction="sum")
        self.training_loss.update(total.detach() / count.clamp(min=1), count)
        loss = mean_of_all(total, count)
        self.log("train/loss", loss, on_step=False, on_epoch=True, sync_dist=True, batch_size=batch.size)
        return loss

    def validation_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        if len(batch.mask):  # none in an idle process, and models refuse a batch of none
            self._score(batch, self._kept_states(batch, "val"))

    def test_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        if len(batch.mask):
            self._score(batch, self.states(batch))

    def _score(self, batch: AttentionBatch, states: Float[Tensor, "asked size"]) -> None:
        labels, logits = asked_words(batch), head_logits(self.model, states)
        chances = self.unigram_log_chances()
        found = {
            "loss": nn.functional.cross_entropy(logits, labels, reduction="none"),
            "accuracy": logits.argmax(-1) == labels,
            "unigram_loss": -chances[labels],
            "unigram_accuracy": labels == chances.argmax(),
        }
        self.sums.update(torch.stack([found[name].double() for name in PARTS]), self.counts[labels])

    def unigram_log_chances(self) -> Float[Tensor, "word"]:
        """How likely each word is by its count in the training text, to which one is added."""
        return torch.log((self.counts + 1) / (self.counts + 1).sum())

    def on_validation_epoch_end(self) -> None:
        scores = self._log("val")
        if self.trainer.state.fn == "fit" and not self.trainer.sanity_checking:
            losses = {"training": float(self.training_loss.compute()), "validation": scores["loss"]}
            losses["frequencies alone"] = scores["unigram_loss"]
            self.by_epoch = [*self.by_epoch[: self.current_epoch], losses]
            self.training_loss.reset()

    def on_test_epoch_end(self) -> None:
        self._log("test")

    def _log(self, part: str) -> dict[str, float]:
        sums = self.sums.compute()
        self.frequency_rows = frequency_table(sums)
        scores = {name: float(mean) for name, mean in token_means(sums.sum(1)).items()}
        self.log_dict({f"{part}/{name}": mean for name, mean in scores.items()})
        self.sums.reset()
        return scores

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["by_epoch"] = self.by_epoch

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # The best epoch, loaded for the test, knows less than the last.
        self.by_epoch = max(self.by_epoch, checkpoint.get("by_epoch", []), key=len)

    def findings(self) -> Findings:
        """The losses of each epoch, and the scores by how often a word is in the training text."""
        epochs = [{"epoch": epoch, **losses} for epoch, losses in enumerate(self.by_epoch, start=1)]
        tables = {"epochs": epochs, "frequencies": self.frequency_rows}
        notes = {"epochs": [AVERAGE]} if self.mask_embedding == "average" else {}
        return Findings(tables={name: rows for name, rows in tables.items() if rows}, notes=notes)

    def configure_optimizers(self) -> dict[str, Any]:
        learnt = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(learnt, lr=self.lr, weight_decay=self.weight_decay)
        steps = self.trainer.estimated_stepping_batches
        schedule = get_linear_schedule_with_warmup(optimizer, round(WARMUP * steps), steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def average_embedding(table: Float[Tensor, "word size"], counts: Float[Tensor, "word"]) -> Float[Tensor, "size"]:
    """The mean of the embeddings of all words of a text, brought to their mean length: a mean of many is short."""
    shares = counts / counts.sum()
    mean = shares @ table
    return mean / mean.norm() * (shares @ table.norm(dim=1))


def asked_words(batch: AttentionBatch) -> Int[Tensor, "asked"]:
    """The words behind the masked tokens."""
    labels = batch.encoder_inputs["labels"]
    return labels[labels != IGNORE]


def head_logits(model: PreTrainedModel, states: Float[Tensor, "asked size"]) -> Float[Tensor, "asked word"]:
    """What the model's head makes of states: the model run with its encoder's work already done."""

    class Done(nn.Module):
        def forward(self, *_: Any, **__: Any) -> BaseModelOutput:
            return BaseModelOutput(last_hidden_state=cast(Any, states[None]))

    name = model.base_model_prefix
    encoder = getattr(model, name)
    setattr(model, name, Done())
    try:
        return cast(Any, model)(input_ids=torch.zeros(1, len(states), dtype=torch.long)).logits[0]
    finally:
        setattr(model, name, encoder)


def load_without_head(spec: EncoderSpec, seed: int) -> PreTrainedModel:
    """The encoder, frozen, with a new head whose decoder is tied to the embeddings; refused where it has a head already."""
    if spec.dtype != "float32":
        raise ConfigError(f"encoder.dtype={spec.dtype}: a head is trained in float32.")
    try:
        model, missing = ModelFiles(spec).load(AutoModelForMaskedLM, seed=seed)
    except InputError as error:
        if "Unrecognized configuration class" in str(error.__cause__):
            raise InputError(f"{spec.name}: its architecture has no masked-language-model head in transformers.") from error
        raise
    prefix = f"{model.base_model_prefix}."
    if not missing:
        raise InputError(f"{spec.name}: has a trained masked-language-model head already; use it as it is.")
    if inside := [name for name in missing if name.startswith(prefix) and "pooler" not in name]:
        raise InputError(f"{spec.name}: the weights lack {len(inside)} tensors of the encoder, such as {inside[0]}.")
    tied: Any = model.get_output_embeddings()
    if tied is None or tied.weight is not cast(Any, model.get_input_embeddings()).weight:
        raise InputError(f"{spec.name}: its head is not tied to its embeddings, so there is too much to learn.")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(prefix))
    return model.eval()
