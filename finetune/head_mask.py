"""Disabling heads: inside a scope, the chosen heads of a model attend in a way that carries no choice of their own."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytorch_lightning as pl
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from headscope.data_modules.encoders.attention import IMPLEMENTATION, weights_changed_by
from headscope.errors import ConfigError, InputError, require_choice

WAYS = ("uniform", "zero", "mean")
Head = tuple[int, int]  # layer and head, from 1


@contextmanager
def disabled(model: PreTrainedModel, heads: Iterable[Sequence[int]], how: str = "uniform") -> Iterator[None]:
    """Disable heads, given as (layer, head) from 1, while in scope.

    uniform: 1/L on each of the L real tokens, for every query; zero: no attention at all, so that the head adds nothing;
    mean: every query gets the head's mean row over the real queries of the input.
    """
    mask = HeadMask(model, heads, how)
    before: Any = model.config._attn_implementation
    hooks = [
        model.base_model.register_forward_pre_hook(mask.start),
        model.base_model.register_forward_hook(mask.stop, always_call=True),
    ]
    try:
        model.set_attn_implementation(IMPLEMENTATION)
        with weights_changed_by(mask):
            yield
    finally:
        model.set_attn_implementation(before)
        for hook in hooks:
            hook.remove()


class HeadMask:
    """Counts the layers of one model as they run and replaces the rows of the disabled heads."""

    def __init__(self, model: PreTrainedModel, heads: Iterable[Sequence[int]], how: str) -> None:
        require_choice("how", how, WAYS)
        if not model._supports_attention_backend:
            raise InputError(f"{model.config.model_type}: its attention cannot be changed, so no head can be disabled.")
        chosen = require_heads(heads, model.config.num_hidden_layers, model.config.num_attention_heads)
        self.chosen = torch.zeros(model.config.num_hidden_layers, model.config.num_attention_heads, dtype=torch.bool)
        for layer, head in chosen:
            self.chosen[layer - 1, head - 1] = True
        self.layers = {layer - 1 for layer, _ in chosen}
        self.how, self.layer = how, None

    def start(self, *_: object) -> None:
        self.layer = -1

    def stop(self, *_: object) -> None:
        self.layer = None

    def __call__(self, weights: Tensor, additive_mask: Tensor | None) -> Tensor:
        if self.layer is None:  # another model runs
            return weights
        self.layer += 1
        if self.layer not in self.layers:
            return weights
        if self.chosen.device != weights.device:  # once, where the model was moved
            self.chosen = self.chosen.to(weights.device)
        instead = replacement(weights, allowed_keys(weights, additive_mask), self.how)
        return torch.where(self.chosen[self.layer][:, None, None], instead, weights)


def require_heads(heads: Iterable[Sequence[int]], layers: int, per_layer: int) -> list[Head]:
    """The heads as (layer, head); an error for one that is not there."""
    found = [cast(Head, tuple(head)) for head in heads]
    for head in found:
        if len(head) != 2 or not 1 <= head[0] <= layers or not 1 <= head[1] <= per_layer:
            raise ConfigError(f"head {list(head)}: expected [layer, head] from [1, 1] to [{layers}, {per_layer}].")
    return found


def heads_of_layers(layers: Iterable[int], model_layers: int, per_layer: int) -> list[Head]:
    """All heads of some layers."""
    layers = list(layers)
    if wrong := [layer for layer in layers if not 1 <= layer <= model_layers]:
        raise ConfigError(f"layer {wrong[0]}: expected 1 to {model_layers}.")
    return [(layer, head) for layer in layers for head in range(1, per_layer + 1)]


def allowed_keys(
    weights: Float[Tensor, "batch head query key"], additive_mask: Tensor | None
) -> Bool[Tensor, "batch 1 query key"]:
    """Which keys each query may attend to."""
    batch, _, queries, keys = weights.shape
    if additive_mask is None:
        return torch.ones(batch, 1, queries, keys, dtype=torch.bool, device=weights.device)
    return (additive_mask[:, :1] >= 0).expand(batch, 1, queries, keys)


def replacement(
    weights: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch 1 query key"], how: str
) -> Float[Tensor, "batch #head query key"]:
    """What a disabled head attends to."""
    if how == "zero":
        return torch.zeros_like(weights)
    if how == "uniform":
        return allowed / allowed.sum(-1, keepdim=True).clamp(min=1).to(weights.dtype)
    real = allowed.any(2)[..., None].to(weights.dtype)  # (batch, 1, query, 1): real as keys, so real as queries
    mean = (weights * real).sum(2, keepdim=True) / real.sum(2, keepdim=True)
    return mean.expand_as(weights)


class DisableHeads(pl.Callback):
    """Keeps heads of the module's `model` disabled, in training and in evaluation."""

    def __init__(self, heads: Sequence[Sequence[int]], how: str = "uniform") -> None:
        require_choice("how", how, WAYS)
        self.heads, self.how = heads, how
        self.scope: ExitStack | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self.scope = ExitStack()
        self.scope.enter_context(disabled(cast(Any, pl_module).model, self.heads, self.how))

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._release()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._release()

    def _release(self) -> None:
        if self.scope:
            self.scope.close()
            self.scope = None
