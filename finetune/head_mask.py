"""Disabling heads: inside a scope, the chosen heads of a model attend in a way that carries no choice of their own."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from headscope.data_modules.encoders.attention import (
    IMPLEMENTATION,
    allowed_keys,
    outputs_changed_by,
    weights_changed_by,
)
from headscope.data_modules.encoders.head_outputs import head_places, hooked_outputs_changed_by, streams
from headscope.errors import ConfigError, InputError, require_choice

WAYS = ("uniform", "zero", "mean", "resample")
SHARED = ("uniform", "mean")  # among the keys that a query may look at
IN_PART = "{}: its queries look at a part of the tokens only, so how={} cannot be had; zero and resample can."
WINDOWS = ("window_size", "sliding_window")  # what families call how far back a query looks
SEED = 0  # of which input of a batch another is resampled from
Head = tuple[int, int]  # layer and head, from 1


@contextmanager
def disabled(
    model: PreTrainedModel, heads: Iterable[Sequence[int]], how: str = "uniform", seed: int = SEED, replayed: int = 0
) -> Iterator[None]:
    """Disable heads, given as (layer, head) from 1, while in scope; `replayed` is how many layers, from below, do not run.

    uniform: the same weight on each token that the query may look at; zero: no attention at all, so that the head adds
    nothing; mean: every query gets the mean of what the head brings to the queries that it may look at, which are all real
    ones unless the model is causal; resample: what the head brings in another input of the batch, chosen by the seed.
    """
    mask = HeadMask(model, heads, how, seed, replayed)
    if not streams(model):
        require_whole(model, how)
        with hooked_outputs_changed_by(model, {layer: partial(mask.outputs, layer) for layer in mask.layers}):
            yield
        return
    before: Any = model.config._attn_implementation
    hooks = [
        model.base_model.register_forward_pre_hook(mask.start),
        model.base_model.register_forward_hook(mask.require_all_layers),
        model.base_model.register_forward_hook(mask.stop, always_call=True),
    ]
    try:
        model.set_attn_implementation(IMPLEMENTATION)
        with weights_changed_by(mask), outputs_changed_by(mask.resampled):
            yield
    finally:
        model.set_attn_implementation(before)
        for hook in hooks:
            hook.remove()


class HeadMask:
    """Counts the layers of one model as they run and replaces the rows of the disabled heads, or what they bring."""

    def __init__(
        self, model: PreTrainedModel, heads: Iterable[Sequence[int]], how: str, seed: int = SEED, replayed: int = 0
    ) -> None:
        require_choice("how", how, WAYS)
        chosen = require_heads(heads, model.config.num_hidden_layers, model.config.num_attention_heads)
        self.chosen = torch.zeros(model.config.num_hidden_layers, model.config.num_attention_heads, dtype=torch.bool)
        for layer, head in chosen:
            self.chosen[layer - 1, head - 1] = True
        self.layers = {layer - 1 for layer, _ in chosen}
        self.how, self.seed, self.replayed, self.layer = how, seed, replayed, None
        self.kind = model.config.model_type
        windows = [getattr(model.config, name, None) for name in WINDOWS]
        self.window = min((window for window in windows if type(window) is int), default=math.inf)

    def start(self, *_: object) -> None:
        self.layer = self.replayed - 1

    def stop(self, *_: object) -> None:
        self.layer = None

    def require_all_layers(self, *_: object) -> None:
        """Refuse a model whose layers do not attend once each, so that it is not known which layer runs."""
        if self.layer is not None and self.layer + 1 != len(self.chosen):
            raise InputError(
                f"{self.kind}: {self.layer + 1} attentions ran, expected {len(self.chosen)}, so no head can be disabled."
            )

    def __call__(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        if self.layer is None:  # another model runs
            return weights
        self.layer += 1
        if self.layer not in self.layers or self.how == "resample":
            return weights
        instead = replacement(weights, allowed_keys(weights, mask), self.how)
        return torch.where(self._chosen(self.layer, weights.device)[:, None, None], instead, weights)

    def resampled(self, brought: Tensor, values: Tensor, allowed: Tensor) -> Tensor:
        """What the heads of the running layer bring, where that is what is replaced."""
        if self.layer is None or self.layer not in self.layers or self.how != "resample":
            return brought
        return self.outputs(self.layer, brought, values, allowed)

    def outputs(self, layer: int, brought: Tensor, values: Tensor, allowed: Tensor) -> Tensor:
        """What the heads of a layer, counted from 0, bring with the disabled ones replaced."""
        if self.how in SHARED and brought.shape[1] > self.window:  # which a tiny batch does not show
            raise InputError(IN_PART.format(self.kind, self.how))
        instead = instead_of(brought, values, allowed, self.how, self.seed)
        return torch.where(self._chosen(layer, brought.device)[:, None], instead, brought)

    def _chosen(self, layer: int, device: torch.device) -> Bool[Tensor, "head"]:
        if self.chosen.device != device:  # once, where the model was moved
            self.chosen = self.chosen.to(device)
        return self.chosen[layer]


def require_whole(model: PreTrainedModel, how: str) -> None:
    """Refuse a way that needs to know which keys a query may look at, where that is not known."""
    if how in SHARED and not head_places(model).whole:
        raise InputError(IN_PART.format(model.config.model_type, how))


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


def replacement(
    weights: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "batch 1 query key"], how: str
) -> Float[Tensor, "batch #head query key"]:
    """What a disabled head attends to."""
    if how == "zero":
        return torch.zeros_like(weights)
    share = shares(allowed, weights.dtype)
    return share if how == "uniform" else share @ weights


def shares(allowed: Bool[Tensor, "*batch query key"], dtype: torch.dtype) -> Float[Tensor, "*batch query key"]:
    """The same weight on each key that a query may look at."""
    return allowed.to(dtype) / allowed.sum(-1, keepdim=True).clamp(min=1)


def instead_of(
    brought: Float[Tensor, "batch query head size"],
    values: Float[Tensor, "batch key head size"],
    allowed: Bool[Tensor, "batch query key"],
    how: str,
    seed: int,
) -> Float[Tensor, "batch query head size"]:
    """What heads would bring were they disabled; the same as their values under the `replacement` of their weights."""
    if how == "zero":
        return torch.zeros_like(brought)
    if how == "resample":
        return of_another_input(brought, allowed.any(1), seed)
    return torch.einsum("bqk,bkhd->bqhd", shares(allowed, brought.dtype), values if how == "uniform" else brought)


def of_another_input(
    brought: Float[Tensor, "batch query head size"], real: Bool[Tensor, "batch query"], seed: int
) -> Float[Tensor, "batch query head size"]:
    """The rows of another input of the batch, a seeded number of inputs on; counted round where that one is shorter."""
    inputs, queries = brought.shape[:2]
    if inputs < 2:
        raise InputError(
            "how=resample: takes what a head brings from another input of the batch, and this one has but one; "
            "raise data.batch_tokens= or take another way."
        )
    on = 1 + int(np.random.default_rng([seed, inputs]).integers(inputs - 1))
    other = (torch.arange(inputs, device=brought.device) + on) % inputs
    row = torch.arange(queries, device=brought.device) % real.sum(1)[other][:, None].clamp(min=1)
    return brought[other[:, None], row]


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
