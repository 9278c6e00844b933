"""What a sweep over heads scores: the metric of a GLUE task, or the language model's own loss."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Num, Shaped
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from headscope.contracts import EncoderSpec, Facts, Quantity, Section
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch
from headscope.data_modules.encoders.models import ModelFiles
from headscope.data_modules.encoders.self_check import check
from headscope.data_modules.glue import require_task
from headscope.data_modules.readers.glue import Task
from headscope.errors import ConfigError, InputError, require_choice
from headscope.finetune.ablation import FIRST_TOKEN, Readout
from headscope.finetune.classifier_model import load_classifier
from headscope.finetune.glue_scores import predicted
from headscope.finetune.weighted_scores import main_score

SECTION = Section("ablation", "disabling heads")
OBJECTIVES = {"masked": AutoModelForMaskedLM, "causal": AutoModelForCausalLM}
Outputs = Float[np.ndarray, "unit example output"]


@runtime_checkable
class Score(Protocol):
    """How a model is opened, what is kept of what it says of an input, and the score of all inputs together."""

    metric: str
    better: int  # 1 where more is better, -1 where less is
    change: Quantity
    importance: Quantity

    @property
    def outputs(self) -> int:
        """How many numbers are kept of an input."""
        ...

    def open(self, spec: EncoderSpec, seed: int) -> PreTrainedModel: ...

    def labels(self, batch: AttentionBatch) -> Tensor: ...

    def inputs(self, batch: AttentionBatch) -> dict[str, Tensor]: ...

    def readout(self, batch: AttentionBatch) -> Readout: ...

    def losses(self, batch: AttentionBatch, logits: Tensor) -> Float[Tensor, "batch"]: ...

    def of(
        self, outputs: Outputs, labels: Num[np.ndarray, "example"], weights: Float[np.ndarray, "example weighting"]
    ) -> Float[np.ndarray, "unit weighting"]: ...


class TaskScore:
    """The main metric of a GLUE task in percent, of a fine-tuned classifier."""

    better = 1
    change = Quantity(
        "change_without_head",
        "change of the score when disabled",
        "The task's score of the fine-tuned model with this head disabled, minus its score as it is.",
        better="low",
        section=SECTION,
        headline=True,
    )
    importance = Quantity(
        "gradient_importance",
        "gradient importance",
        "How much the fine-tuned model's loss depends on the head, by its gradient.",
        better="high",
        section=SECTION,
        headline=True,
    )

    def __init__(self, facts: Facts) -> None:
        self.task: Task = require_task(facts)
        self.layout = facts.layout
        self.metric = self.task.metrics[0]

    @property
    def outputs(self) -> int:
        return self.task.outputs

    def open(self, spec: EncoderSpec, seed: int) -> PreTrainedModel:
        return load_classifier(spec, self.task, seed, trained=True, layout=self.layout)

    def labels(self, batch: AttentionBatch) -> Tensor:
        return batch.gold["label"].squeeze(1)

    def inputs(self, batch: AttentionBatch) -> dict[str, Tensor]:
        return batch.encoder_inputs

    def readout(self, batch: AttentionBatch) -> Readout:
        return FIRST_TOKEN

    def losses(self, batch: AttentionBatch, logits: Tensor) -> Float[Tensor, "batch"]:
        return task_losses(logits, self.labels(batch).clone(), self.task)

    def of(self, outputs: Outputs, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return main_score(predicted(torch.from_numpy(outputs), self.task).numpy(), labels, weights, self.task)


def task_losses(logits: Tensor, labels: Shaped[Tensor, "batch"], task: Task) -> Float[Tensor, "batch"]:
    """The loss of each input."""
    if task.labels:
        return nn.functional.cross_entropy(logits, labels, reduction="none")
    return (logits.squeeze(1) - labels).square()


class LanguageScore:
    """The language model's own loss in nats per token, masked or causal (methods 17)."""

    metric, better, outputs = "loss", -1, 2  # the summed loss of an input's tokens, and how many there are
    change = Quantity(
        "loss_without_head",
        "change of the loss when disabled",
        "The language model's loss per token with this head disabled, minus its loss as it is.",
        unit="nats",
        better="high",
        section=SECTION,
        headline=True,
    )
    importance = Quantity(
        "loss_gradient_importance",
        "gradient importance for the loss",
        "How much the language model's loss depends on the head, by its gradient.",
        better="high",
        section=SECTION,
        headline=True,
    )

    def __init__(self, facts: Facts) -> None:
        if facts.objective is None:
            raise ConfigError(f"module: the loss of a language model needs data=language, found data of kind {facts.kind}.")
        self.objective = facts.objective
        require_choice("data.objective", self.objective, OBJECTIVES)

    def open(self, spec: EncoderSpec, seed: int) -> PreTrainedModel:
        return load_language_model(spec, self.objective)

    def labels(self, batch: AttentionBatch) -> Tensor:
        return (batch.encoder_inputs["labels"] != IGNORE).sum(1)

    def inputs(self, batch: AttentionBatch) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in batch.encoder_inputs.items() if name != "labels"}

    def readout(self, batch: AttentionBatch) -> "TokenLosses":
        return TokenLosses(batch.encoder_inputs["labels"], self.objective)

    def losses(self, batch: AttentionBatch, logits: Tensor) -> Float[Tensor, "batch"]:
        total, count = TokenLosses(batch.encoder_inputs["labels"].clone(), self.objective).of_logits(logits).unbind(1)
        return total / count.clamp(min=1)

    def of(self, outputs: Outputs, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        totals, counts = (outputs[..., part].astype(np.float64) @ weights for part in (0, 1))
        return totals / np.maximum(counts, 1)


class TokenLosses:
    """The summed cross-entropy of an input's labelled tokens, and their number; a causal model says the next token."""

    queries: int | None = None

    def __init__(self, labels: Int[Tensor, "batch token"], objective: str) -> None:
        self.objective = objective
        # What is said at a token is of that token, or of the one after it.
        self.labels = labels if objective == "masked" else nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORE)

    def knows(self, model: PreTrainedModel) -> bool:
        return self.objective == "masked" and language_head(model) is not None

    def of_logits(self, logits: Tensor) -> Float[Tensor, "batch 2"]:
        asked = self.labels != IGNORE
        return self._summed(logits[asked])

    def of_states(
        self, model: PreTrainedModel, states: Float[Tensor, "variant batch token size"]
    ) -> Float[Tensor, "variant batch 2"]:
        asked, head = self.labels != IGNORE, language_head(model)
        return torch.stack(
            [self._summed(head(variant[asked])) for variant in states]
        )  # one at a time: vocabularies are large

    def _summed(self, logits: Float[Tensor, "asked word"]) -> Float[Tensor, "batch 2"]:
        asked = self.labels != IGNORE
        each = nn.functional.cross_entropy(logits.float(), self.labels[asked], reduction="none")
        totals = torch.zeros(len(asked), device=each.device).index_add(0, asked.nonzero()[:, 0], each)
        return torch.stack([totals, asked.sum(1).float()], 1)


def language_head(model: PreTrainedModel) -> Any:
    """What makes words of the last layer's states in a masked model like BERT or RoBERTa; None where it is not known."""
    kinds = {"bert": "cls", "roberta": "lm_head", "xlm-roberta": "lm_head"}
    return getattr(model, kinds.get(model.config.model_type, ""), None)


def load_language_model(spec: EncoderSpec, objective: str) -> PreTrainedModel:
    """A model with its own trained head; refused where it has none, or sees the tokens that it is asked for."""
    ways = {"masked": "experiment=mlm_head trains one", "causal": "data.objective=masked asks an encoder"}
    lacks = f"{spec.name}: has no trained {objective} language-model head; {ways[objective]}."
    try:
        model, missing = ModelFiles(spec).load(OBJECTIVES[objective])
    except InputError as error:
        if "Unrecognized configuration class" in str(error.__cause__):
            raise InputError(lacks) from error
        raise
    if missing:
        raise InputError(lacks)
    model = model.eval().requires_grad_(False)
    found = check(model, model.config.num_hidden_layers, model.config.num_attention_heads)
    if found.kind == "refused":
        raise InputError(f"{spec.name}: {found.why}, so its heads cannot be disabled; name another model.")
    if found.causal is not None and found.causal != (objective == "causal"):
        looks = "looks at no later token" if found.causal else "looks at the tokens that it would have to say"
        other = "causal" if found.causal else "masked"
        raise ConfigError(f"data.objective={objective}: {spec.name} {looks}; use data.objective={other}.")
    return model
