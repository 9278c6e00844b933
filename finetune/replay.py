"""A pass that begins at a layer: those below it, which a head above them cannot change, hand on what they gave before.

Works for any model whose layers are one list of modules that run once each and in order, with one attention in each. That
is seen on a tiny batch, not told by names; other models run whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headscope.data_modules.encoders.attention import IMPLEMENTATION, weights_changed_by
from headscope.data_modules.encoders.head_outputs import head_places, inner
from headscope.data_modules.encoders.self_check import tiny_batch

Layers = Sequence[nn.Module]
Outputs = Sequence[Any]  # of a layer its tensor, or a tuple with it

_found: WeakKeyDictionary[nn.Module, Layers | None] = WeakKeyDictionary()


def layers_in_order(model: PreTrainedModel) -> Layers | None:
    """The layers of a model that can be replayed; None where there are none such."""
    base = inner(model)
    if base not in _found:
        training = base.training
        base.eval()
        try:
            _found[base] = next((layers for layers in _lists(base) if _is_stack(base, layers)), None)
        finally:
            base.train(training)
    return _found[base]


def _lists(base: PreTrainedModel) -> Iterator[Layers]:
    """The lists of as many different modules as there are layers, the outermost first."""
    for module in base.modules():
        if isinstance(module, nn.ModuleList) and len(module) == len(set(module)) == base.config.num_hidden_layers:
            yield list(module)


@torch.no_grad()
def _is_stack(base: PreTrainedModel, layers: Layers) -> bool:
    """Whether, on a tiny batch, each module runs once, in order, and in it one attention."""
    places = () if base._supports_attention_backend else head_places(base).layers
    attended: list[Any] = []
    ran: list[tuple[int, int]] = []
    with ExitStack() as scope:
        for number, layer in enumerate(layers):
            ends: Any = lambda *_, number=number: ran.append((number, len(attended)))  # noqa: E731
            scope.callback(layer.register_forward_hook(ends).remove)
        for place in places:
            value: Any = lambda *_: attended.append(1)  # noqa: E731
            scope.callback(place.value.register_forward_hook(value).remove)
        if not places:
            before: Any = base.config._attn_implementation
            scope.callback(base.set_attn_implementation, before)
            base.set_attn_implementation(IMPLEMENTATION)
            scope.enter_context(weights_changed_by(lambda weights, _: attended.append(1) or weights))
        base(**{name: tensor.to(base.device) for name, tensor in tiny_batch(base.config).items()})
    return ran == [(number, number + 1) for number in range(len(layers))]


def layer_outputs(model: PreTrainedModel, layers: Layers, inputs: Mapping[str, Tensor]) -> Outputs:
    """What each layer gives in an undisturbed pass."""
    seen: list[Any] = []
    with ExitStack() as scope:
        for layer in layers:
            scope.callback(layer.register_forward_hook(lambda _, __, output: seen.append(_copy(output))).remove)
        model(**inputs)
    return seen


def _copy(output: Any) -> Any:
    """Of its own memory, since a layer may add to what it is given in place."""
    if isinstance(output, tuple):
        return tuple(map(_copy, output))
    return output.clone() if isinstance(output, Tensor) else output


@contextmanager
def replayed(layers: Layers, outputs: Outputs) -> Iterator[None]:
    """While in scope, layers do not run but give an output of before; their hooks are called as ever."""
    with ExitStack() as scope:
        for layer, output in zip(layers, outputs, strict=True):
            scope.callback(delattr, layer, "forward")  # that of its class again
            layer.forward = lambda *_, output=output, **__: _copy(output)
        yield
