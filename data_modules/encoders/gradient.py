"""How much a loss depends on each cell of attention: gradient maps in the place of attention maps (Clark, section 3.2)."""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, PreTrainedModel

from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.encoders.attention import Sink, weights_go_to
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.errors import ConfigError, InputError, given, require_choice

OBJECTIVES = {"masked_lm": AutoModelForMaskedLM, "classification": AutoModelForSequenceClassification}


class GradientEncoder(FrozenEncoder):
    """Hands on |d loss / d attention| of each layer; each input's loss is its own, whatever batch it is in.

    `masked_lm`: the mean cross-entropy of the masked tokens. `classification`: the cross-entropy of the class that
    the classifier itself finds most likely, since running text has no gold class.
    """

    gives = "gradients"

    def __init__(self, objective: str = "masked_lm", **options: Any) -> None:
        require_choice("encoder.objective", objective, OBJECTIVES)
        super().__init__(**options)
        if self.spec.init != "pretrained":
            raise ConfigError(f"encoder.init={self.spec.init}: gradients need a trained head, so only pretrained works.")
        self.objective, self.kind = objective, OBJECTIVES[objective]
        self.masks_tokens = objective == "masked_lm"
        if self.masks_tokens and self._traits().causal:
            raise ConfigError(
                f"encoder.objective=masked_lm: {self.name} is a causal model ({self.config.model_type}), which has no "
                "masked tokens to fill in; name an encoder with a masked-LM head, or encoder.objective=classification."
            )

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "objective": self.objective}

    def load(self) -> "GradientEncoder":
        if self.model is None:
            with torch.inference_mode(False):
                model = self._with_head().eval().requires_grad_(False)
            if self._verdict(model).kind != "streamed":
                raise InputError(f"{self.name}: {self.config.model_type} gives no access to its attention for gradients.")
            self.model = model
        return self

    def _with_head(self) -> PreTrainedModel:
        try:
            model, missing = self.files.load(self.kind)
        except InputError as error:
            if "Unrecognized configuration class" in str(error.__cause__):  # an architecture without such a head
                raise InputError(f"{self.name}: {self._way_out()}") from error
            raise
        if missing or (self.objective == "classification" and (model.config.num_labels or 0) < 2):
            raise InputError(f"{self.name}: {self._way_out()}")
        return model

    def _way_out(self) -> str:
        if self.objective == "masked_lm":
            return (
                "has no masked-language-model head; name an encoder that has one, such as encoder=bert_base, "
                "or a fine-tuned classifier with encoder.objective=classification."
            )
        return "has no trained classification head of two or more classes; name a fine-tuned classifier."

    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Int[Tensor, "batch token"],
        sink: Sink | None = None,
        hidden_states: bool = False,
        token_type_ids: Int[Tensor, "batch token"] | None = None,
        labels: Int[Tensor, "batch token"] | None = None,
    ) -> None:
        """Give each layer's gradient map to the sink."""
        if hidden_states:
            raise ConfigError("data.hidden_layer: a gradient encoder gives no hidden states.")
        tensors = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        weights: list[Tensor] = []
        # Copies, since tensors made in inference mode cannot take part in a backward pass.
        with torch.inference_mode(False), torch.enable_grad(), weights_go_to(lambda layer: weights.append(followed(layer))):
            inputs = {name: tensor.clone() for name, tensor in tensors.items() if tensor is not None}
            logits = self.loaded()(**inputs).logits.float()
            masked = given(labels, "the masked tokens").clone() if self.masks_tokens else None
            loss = own_class_loss(logits) if masked is None else masked_loss(logits, masked)
            gradients = torch.autograd.grad(loss, weights)
        if len(gradients) != self.layers:
            raise InputError(f"{self.name}: gave the maps of {len(gradients)} layers, expected {self.layers}.")
        if sink:
            for gradient in gradients:
                sink(gradient.abs())


def followed(weights: Tensor) -> Tensor:
    """A layer's attention, made part of the graph also where nothing before it learns."""
    return weights if weights.requires_grad else weights.requires_grad_()


def masked_loss(logits: Tensor, labels: Int[Tensor, "batch token"]) -> Tensor:
    """The sum over inputs of the mean cross-entropy of their masked tokens."""
    each = nn.functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORE, reduction="none")
    return (each.sum(1) / (labels != IGNORE).sum(1).clamp(min=1)).sum()


def own_class_loss(logits: Tensor) -> Tensor:
    """The sum over inputs of the cross-entropy of the most likely class."""
    return nn.functional.cross_entropy(logits, logits.detach().argmax(-1), reduction="sum")
