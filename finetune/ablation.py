"""What a model says with each head, or each layer, disabled in turn: exactly, and without redoing work.

For encoders built like BERT the layers below the disabled one run once; a disabled head changes only its slice of the
output projection; the heads of a layer are stacked along the batch; and the last layer runs only for the tokens that are
read, which for a classifier is the first. Other models take one pass per head, which begins at the head's layer where the
layers are a plain stack (`replay`) and is a full one elsewhere. Beside it, the importance of heads by gradients (Michel et
al. 2019), which one backward pass gives.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headscope.data_modules.encoders.attention import IMPLEMENTATION, weights_changed_by
from headscope.data_modules.encoders.head_outputs import hooked_outputs_changed_by, streams
from headscope.finetune.head_mask import SEED, Head, disabled, heads_of_layers, of_another_input
from headscope.finetune.replay import layer_outputs, layers_in_order, replayed

LIKE_BERT = ("bert", "roberta", "xlm-roberta", "electra")
Inputs = Mapping[str, Tensor]
Layer = Any  # one like BERT's; torch knows the parts of a module as tensors or modules only


@runtime_checkable
class Readout(Protocol):
    """What is kept of what a model says: of all its logits, or of the last layer's states by the model's own head."""

    queries: int | None  # of the last layer, from the first; None for all

    def knows(self, model: PreTrainedModel) -> bool:
        """Whether it can read the last layer's states."""
        ...

    def of_logits(self, logits: Tensor) -> Float[Tensor, "batch output"]: ...

    def of_states(
        self, model: PreTrainedModel, states: Float[Tensor, "variant batch query size"]
    ) -> Float[Tensor, "variant batch output"]: ...


class FirstToken:
    """The logits of a classifier, which reads the first token."""

    queries: int | None = 1

    def knows(self, model: PreTrainedModel) -> bool:
        return True

    def of_logits(self, logits: Tensor) -> Float[Tensor, "batch output"]:
        return logits

    def of_states(
        self, model: PreTrainedModel, states: Float[Tensor, "variant batch query size"]
    ) -> Float[Tensor, "variant batch output"]:
        return first_token_logits(model, states.flatten(0, 1)).unflatten(0, states.shape[:2])


FIRST_TOKEN = FirstToken()


def is_fast(model: PreTrainedModel, readout: Readout = FIRST_TOKEN) -> bool:
    """Whether the exact shortcut knows this architecture."""
    config = model.config
    if not readout.knows(model):
        return False
    plain = not getattr(config, "is_decoder", False) and not getattr(config, "chunk_size_feed_forward", 0)
    return config.model_type in LIKE_BERT and plain


def path_of(model: PreTrainedModel, readout: Readout = FIRST_TOKEN) -> str:
    """How much of a pass each head, or layer, costs, in words."""
    if is_fast(model, readout):
        return "fast"
    return "from its layer on" if layers_in_order(model) else "one full pass each"


def without_each_head(
    model: PreTrainedModel, inputs: Inputs, how: str, readout: Readout = FIRST_TOKEN
) -> Float[Tensor, "layer head batch output"]:
    """What is read with one head disabled."""
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    if not is_fast(model, readout):
        every = [[head] for head in heads_of_layers(range(1, layers + 1), layers, heads)]
        return _one_pass_each(model, inputs, how, every, readout).unflatten(0, (layers, heads))
    real, states = inputs["attention_mask"].bool(), layer_inputs(model, inputs)
    return torch.stack([_tail(model, layer, _changed_heads, states, real, how, readout) for layer in range(len(states))])


def without_each_layer(
    model: PreTrainedModel, inputs: Inputs, how: str, readout: Readout = FIRST_TOKEN
) -> Float[Tensor, "layer batch output"]:
    """What is read with all heads of one layer disabled."""
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    if not is_fast(model, readout):
        every = [heads_of_layers([layer], layers, heads) for layer in range(1, layers + 1)]
        return _one_pass_each(model, inputs, how, every, readout)
    real, states = inputs["attention_mask"].bool(), layer_inputs(model, inputs)
    return torch.stack([_tail(model, layer, _changed_layer, states, real, how, readout)[0] for layer in range(len(states))])


def without_layers(
    model: PreTrainedModel, inputs: Inputs, how: str, sets: Sequence[Sequence[int]], readout: Readout = FIRST_TOKEN
) -> Float[Tensor, "set batch output"]:
    """What is read with all heads of several layers disabled together, for each set of layers."""
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    return _one_pass_each(model, inputs, how, [heads_of_layers(some, layers, heads) for some in sets], readout)


def _one_pass_each(
    model: PreTrainedModel, inputs: Inputs, how: str, sets: Sequence[Sequence[Head]], readout: Readout
) -> Float[Tensor, "set batch output"]:
    layers = layers_in_order(model) or ()
    outputs = layer_outputs(model, layers, inputs) if layers else ()
    rows = []
    for heads in sets:
        below = min((layer - 1 for layer, _ in heads), default=0) if layers else 0
        with disabled(model, heads, how, replayed=below), replayed(layers[:below], outputs[:below]):
            rows.append(readout.of_logits(model(**inputs).logits))
    return torch.stack(rows)


def layers_of(model: PreTrainedModel) -> Any:
    """The layers of a model that `is_fast` knows."""
    return cast(Any, model.base_model).encoder.layer


def layer_inputs(model: PreTrainedModel, inputs: Inputs) -> list[Float[Tensor, "batch token size"]]:
    """What each layer gets in an undisturbed pass."""
    seen: list[Tensor] = []
    layers = layers_of(model)
    hooks = [layer.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for layer in layers]
    try:
        model.base_model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _tail(
    model: PreTrainedModel,
    number: int,
    changed: Callable[..., Tensor],
    states: list[Tensor],
    real: Bool[Tensor, "batch token"],
    how: str,
    readout: Readout,
) -> Float[Tensor, "variant batch output"]:
    """The layer of a number, from 0, with its variants of attention, and all layers above it."""
    layers = layers_of(model)
    last, tokens = len(layers) - 1, states[number].shape[1]
    read = readout.queries or tokens
    queries = read if number == last else tokens
    attended = changed(layers[number], states[number], real, queries, how)  # (variant, batch, query, size)
    variants, batch = attended.shape[:2]
    hidden = layers[number].feed_forward_chunk(attended.flatten(0, 1))
    stacked = real.repeat(variants, 1)
    for above in range(number + 1, last + 1):
        hidden = run_layer(layers[above], hidden, stacked, read if above == last else tokens)
    return readout.of_states(model, hidden.unflatten(0, (variants, batch)))


def run_layer(layer: Layer, hidden: Tensor, real: Bool[Tensor, "batch token"], queries: int) -> Tensor:
    """A layer as it is, for its first queries only."""
    context, _ = heads_context(layer, hidden, real, queries)
    attended = layer.attention.output(context.transpose(1, 2).flatten(2), hidden[:, :queries])
    return layer.feed_forward_chunk(attended)


def heads_context(
    layer: Layer, hidden: Tensor, real: Bool[Tensor, "batch token"], queries: int
) -> tuple[Float[Tensor, "batch head query size"], Float[Tensor, "batch head token size"]]:
    """What each head brings to its queries, and its values."""
    attention = layer.attention.self
    shape = (-1, attention.attention_head_size)
    query = attention.query(hidden[:, :queries]).unflatten(-1, shape).transpose(1, 2)
    key, value = (part(hidden).unflatten(-1, shape).transpose(1, 2) for part in (attention.key, attention.value))
    return nn.functional.scaled_dot_product_attention(query, key, value, real[:, None, None]), value


def _disabled_context(
    layer: Layer, hidden: Tensor, real: Bool[Tensor, "batch token"], queries: int, how: str
) -> tuple[Tensor, Tensor]:
    """The context of every head as it is, and as it would be were the head disabled."""
    every = how in ("mean", "resample")
    context, value = heads_context(layer, hidden, real, hidden.shape[1] if every else queries)
    share = (real / real.sum(1, keepdim=True)).to(hidden.dtype)[:, None, :, None]
    if how == "zero":
        instead = torch.zeros_like(context[:, :, :queries])
    elif how == "resample":
        instead = of_another_input(context.transpose(1, 2), real, SEED).transpose(1, 2)[:, :, :queries]
    else:
        instead = ((value if how == "uniform" else context) * share).sum(2, keepdim=True)
    context = context[:, :, :queries]
    return context, instead.expand_as(context)


def _changed_heads(
    layer: Layer, hidden: Tensor, real: Bool[Tensor, "batch token"], queries: int, how: str
) -> Float[Tensor, "head batch query size"]:
    """What attention hands on, once for each disabled head: only that head's slice of the projection differs."""
    context, instead = _disabled_context(layer, hidden, real, queries, how)
    output = layer.attention.output
    slices = output.dense.weight.unflatten(1, (context.shape[1], -1))  # (size, head, head size)
    difference = torch.einsum("bhqd,ohd->hbqo", instead - context, slices)
    whole = output.dense(context.transpose(1, 2).flatten(2)) + hidden[:, :queries]
    return output.LayerNorm(whole + difference)


def _changed_layer(
    layer: Layer, hidden: Tensor, real: Bool[Tensor, "batch token"], queries: int, how: str
) -> Float[Tensor, "1 batch query size"]:
    _, instead = _disabled_context(layer, hidden, real, queries, how)
    return layer.attention.output(instead.transpose(1, 2).flatten(2), hidden[:, :queries])[None]


def first_token_logits(model: PreTrainedModel, hidden: Float[Tensor, "batch 1 size"]) -> Float[Tensor, "batch output"]:
    """What the model's own head makes of the first token."""
    pooler = getattr(model.base_model, "pooler", None)
    return cast(Any, model).classifier(pooler(hidden) if pooler is not None else hidden)


def head_importance(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], loss: Callable[[Tensor], Float[Tensor, "batch"]]
) -> Float[Tensor, "batch layer head"]:
    """|d loss / d gate| of each input, where a gate of 1 multiplies what a head brings: the effect of turning it down."""
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    # Copies, since tensors made in inference mode cannot take part in a backward pass.
    with torch.inference_mode(False), torch.enable_grad():
        inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        size, device = len(inputs["input_ids"]), inputs["input_ids"].device
        gates = torch.ones(layers, size, heads, device=device, requires_grad=True)
        with gated(model, gates):
            losses = loss(model(**inputs).logits)
        (gradient,) = torch.autograd.grad(losses.sum(), gates)
    return gradient.abs().transpose(0, 1)


@contextmanager
def gated(model: PreTrainedModel, gates: Float[Tensor, "layer batch head"]) -> Iterator[None]:
    """While in scope, what each head brings to an input is multiplied by its gate."""
    if not streams(model):
        multiplied: dict[int, Any] = {layer: partial(_times, gate) for layer, gate in enumerate(gates)}
        with hooked_outputs_changed_by(model, multiplied):
            yield
        return
    before: Any = model.config._attn_implementation
    open_gates = iter(gates)
    model.set_attn_implementation(IMPLEMENTATION)
    try:
        with weights_changed_by(lambda weights, _: weights * next(open_gates)[:, :, None, None]):
            yield
    finally:
        model.set_attn_implementation(before)


def _times(gate: Float[Tensor, "batch head"], brought: Tensor, *_: Tensor) -> Tensor:
    return brought * gate[:, None, :, None]
