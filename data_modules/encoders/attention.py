"""Where attention weights are read and changed: one function in transformers' attention interface.

It hands every layer's weights to the sink in scope, in the order in which the layers run, after the changes in scope.

A map is what the model's own eager attention returns: the weights that multiply the values. A learned sink takes a part of
each row that goes to no token, so that such rows sum to less than one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from headscope.errors import InputError

IMPLEMENTATION = "headscope"
# What models hand on that no eager attention reads: windows and packed inputs are in the mask, the rest asks for outputs.
NO_EFFECT = frozenset(
    (
        "is_causal", "sliding_window", "local_attention", "position_ids", "cache_position", "position_embeddings",
        "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "deterministic", "target_dtype", "use_cache",
        "output_attentions", "output_hidden_states", "return_dict", "output_router_logits", "num_items_in_batch",
    )
)  # fmt: skip
Sink = Callable[[Float[Tensor, "batch head query key"]], None]
Change = Callable[[Float[Tensor, "batch head query key"], Float[Tensor, "#batch #head query key"] | None], Tensor]
# From what each head brings to its queries, the values, and which keys each query may look at.
OutputChange = Callable[
    [Float[Tensor, "batch query head size"], Float[Tensor, "batch key head size"], Bool[Tensor, "batch #query key"]], Tensor
]
_sink: ContextVar[Sink | None] = ContextVar("sink", default=None)
_changes: ContextVar[tuple[Change, ...]] = ContextVar("changes", default=())
_output_changes: ContextVar[tuple[OutputChange, ...]] = ContextVar("output_changes", default=())


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


@contextmanager
def outputs_changed_by(change: OutputChange) -> Iterator[None]:
    """While in scope, every layer that runs hands on what the change makes of what its heads bring."""
    token = _output_changes.set((*_output_changes.get(), change))
    try:
        yield
    finally:
        _output_changes.reset(token)


def streamed_attention(
    module: nn.Module,
    query: Float[Tensor, "batch head query size"],
    key: Float[Tensor, "batch kv_head key size"],
    value: Float[Tensor, "batch kv_head key value_size"],
    attention_mask: Shaped[Tensor, "#batch #head query key"] | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Float[Tensor, "head"] | None = None,
    position_bias: Float[Tensor, "#batch #head query key"] | None = None,
    **others: object,
) -> tuple[Float[Tensor, "batch query head value_size"], None]:
    """Scaled dot-product attention; changes and the sink see the weights before dropout.

    `softcap` squeezes the scores into (-softcap, softcap); `s_aux` is the score of each head's learned sink.
    """
    require_known(module, others)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query * scale) @ key.transpose(-1, -2)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias
    if attention_mask is not None:
        scores += additive(attention_mask, scores.dtype)
    weights = scores.softmax(-1, dtype=torch.float32) if s_aux is None else softmax_beside_sinks(scores, s_aux)
    for change in _changes.get():
        weights = change(weights, attention_mask)
    if sink := _sink.get():
        sink(weights)
    weights = nn.functional.dropout(weights.to(value.dtype), dropout, module.training)
    brought = (weights @ value).transpose(1, 2)
    for change in _output_changes.get():
        brought = change(brought, value.transpose(1, 2), allowed_keys(weights, attention_mask)[:, 0])
    return brought.contiguous(), None


def allowed_keys(
    weights: Float[Tensor, "batch head query key"], mask: Shaped[Tensor, "#batch #head query key"] | None
) -> Bool[Tensor, "batch 1 query key"]:
    """Which keys each query may look at. A mask may hold biases too, so that only its lowest numbers forbid."""
    batch, _, queries, keys = weights.shape
    if mask is None:
        return torch.ones(batch, 1, queries, keys, dtype=torch.bool, device=weights.device)
    allowed = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return allowed[:, :1].expand(batch, 1, queries, keys)


def require_known(module: nn.Module, keywords: Mapping[str, object]) -> None:
    """Refuse a keyword that may change the result and that is not honoured here."""
    for name, value in keywords.items():
        if value is not None and name not in NO_EFFECT:
            raise InputError(
                f"{type(module).__name__}: gives its attention {name}=, which is not known here and may change the maps; "
                "name a model of another family (docs/conformance.md lists them)."
            )


def additive(mask: Shaped[Tensor, "#batch #head query key"], dtype: torch.dtype) -> Tensor:
    """A mask as numbers to add to scores; some models give one of booleans, true where a query may look."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, torch.finfo(dtype).min)


def softmax_beside_sinks(
    scores: Float[Tensor, "batch head query key"], sinks: Float[Tensor, "head"]
) -> Float[Tensor, "batch head query key"]:
    """The softmax over the keys and one learned score more per head, whose share then goes to nobody."""
    column = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, column.to(scores.dtype)], -1).softmax(-1, dtype=torch.float32)[..., :-1]


AttentionInterface.register(IMPLEMENTATION, streamed_attention)
# The additive mask, unlike sdpa's, is built without asking the device whether there is padding.
AttentionMaskInterface.register(
    IMPLEMENTATION, lambda *args, **kwargs: eager_mask(*args, **{**kwargs, "allow_is_bidirectional_skip": False})
)
