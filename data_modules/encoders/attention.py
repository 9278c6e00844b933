"""Where attention weights are read and changed: one function in transformers' attention interface.

It hands every layer's weights to the sink in scope, in the order in which the layers run, after the changes in scope.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

IMPLEMENTATION = "headscope"
Sink = Callable[[Float[Tensor, "batch head query key"]], None]
Change = Callable[[Float[Tensor, "batch head query key"], Float[Tensor, "#batch #head query key"] | None], Tensor]
_sink: ContextVar[Sink | None] = ContextVar("sink", default=None)
_changes: ContextVar[tuple[Change, ...]] = ContextVar("changes", default=())


@contextmanager
def weights_go_to(sink: Sink) -> Iterator[None]:
    """While in scope, every layer that runs gives its weights to the sink."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)


@contextmanager
def weights_changed_by(change: Change) -> Iterator[None]:
    """While in scope, every layer that runs uses what the change makes of its weights and its additive mask."""
    token = _changes.set((*_changes.get(), change))
    try:
        yield
    finally:
        _changes.reset(token)


def streamed_attention(
    module: nn.Module,
    query: Float[Tensor, "batch head query size"],
    key: Float[Tensor, "batch kv_head key size"],
    value: Float[Tensor, "batch kv_head key value_size"],
    attention_mask: Float[Tensor, "#batch #head query key"] | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: object,
) -> tuple[Float[Tensor, "batch query head value_size"], None]:
    """Scaled dot-product attention; changes and the sink see the weights before dropout."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query * scale) @ key.transpose(-1, -2)
    if attention_mask is not None:
        scores += attention_mask
    weights = scores.softmax(-1, dtype=torch.float32)
    for change in _changes.get():
        weights = change(weights, attention_mask)
    if sink := _sink.get():
        sink(weights)
    weights = nn.functional.dropout(weights.to(value.dtype), dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(IMPLEMENTATION, streamed_attention)
# The additive mask, unlike sdpa's, is built without asking the device whether there is padding.
AttentionMaskInterface.register(
    IMPLEMENTATION, lambda *args, **kwargs: eager_mask(*args, **{**kwargs, "allow_is_bidirectional_skip": False})
)
