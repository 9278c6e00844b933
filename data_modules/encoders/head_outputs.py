"""What each head brings to its queries, where attention cannot be replaced: by hooks on two projections of a layer.

The values are what the value projection gives, and what all heads bring, side by side, is what the output projection gets.
Which two modules these are is not told by their names: they are the two between which, on a tiny batch, the layer's own map
times the values is what is projected.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from headscope.data_modules.encoders.attention import OutputChange
from headscope.data_modules.encoders.self_check import ROUGH, ROW_TOLERANCE, TOLERANCE, run_streamed, tiny_batch
from headscope.errors import InputError, first_line

SAME = 1e-4  # relative to the largest number
BETWEEN = 8  # projections that may run between a layer's value and output projection
FUSED = ("plain", "last third", "third of each head")  # where a projection's output has the values


@dataclass(frozen=True)
class Projections:
    """Of one layer: the module whose output has the values and where in it they are, and the one that gets all heads."""

    value: nn.Module
    output: nn.Module
    fused: str
    heads: int
    size: int

    def values(self, projected: Float[Tensor, "batch key width"]) -> Float[Tensor, "batch key head size"] | None:
        """The values of every head, of its group where several heads share them; None where the width does not fit."""
        width = projected.shape[-1]
        if self.fused == "last third":
            projected = projected[..., width - width // 3 :] if width % 3 == 0 else projected[..., :0]
        if self.fused == "third of each head":
            if width != 3 * self.heads * self.size:
                return None
            return projected.unflatten(-1, (self.heads, 3, self.size))[..., 2, :]
        groups, rest = divmod(projected.shape[-1], self.size)
        if not groups or rest or self.heads % groups:
            return None
        return projected.unflatten(-1, (groups, self.size)).repeat_interleave(self.heads // groups, 2)


@dataclass(frozen=True)
class HeadPlaces:
    """The projections of all layers, and which keys a query may look at."""

    layers: tuple[Projections, ...]
    causal: bool
    whole: bool  # whether a query looks at all keys that padding and causality leave it

    def allowed(self, real: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch query key"]:
        """Which keys each query may look at."""
        tokens = real.shape[1]
        allowed = real[:, None].expand(-1, tokens, -1)
        return allowed & torch.ones(tokens, tokens, dtype=torch.bool, device=real.device).tril() if self.causal else allowed


_found: WeakKeyDictionary[nn.Module, HeadPlaces | str] = WeakKeyDictionary()
_faults: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


def streams(model: PreTrainedModel) -> bool:
    """Whether heads are disabled in the one attention function; an error where that would change what a model computes."""
    base = inner(model)
    if not base._supports_attention_backend:
        return False
    if base not in _faults:
        training, before = base.training, base.config._attn_implementation
        try:
            _faults[base] = _streaming_fault(base.eval())
        except Exception as error:  # whatever a model's own code leads to
            _faults[base] = first_line(error).partition("; ")[0]
        finally:
            base.train(training)
            base.set_attn_implementation(before or "eager")
    if fault := _faults[base]:
        raise InputError(f"{base.config.model_type}: {fault}, so no head can be disabled.")
    return True


@torch.no_grad()
def _streaming_fault(base: PreTrainedModel) -> str:
    """What is wrong with a tiny batch that goes through the one attention function, heads as they are; "" for nothing."""
    inputs = {name: tensor.to(base.device) for name, tensor in tiny_batch(base.config).items()}
    real, layers = inputs["attention_mask"].bool(), base.config.num_hidden_layers
    with torch.autocast(base.device.type, enabled=False):
        base.set_attn_implementation("eager")
        expected: Tensor = base(**inputs)[0][real]
        maps, states = run_streamed(base, inputs)
    if len(maps) != layers:
        return f"{len(maps)} attentions ran, expected {layers}"
    apart = float((states[real] - expected).abs().max() / expected.abs().max().clamp(min=1))
    # Only the output matters here, and rounding adds up in it: what is computed otherwise is off by far more.
    tolerance = max(ROW_TOLERANCE, TOLERANCE.get(base.dtype, ROUGH))
    return f"its output changes by {apart:.2g} where its attention can be replaced" if apart > tolerance else ""


def head_places(model: PreTrainedModel) -> HeadPlaces:
    """Where the heads of a model are; an error where they are not found."""
    base = inner(model)
    if base not in _found:
        training, before = base.training, base.config._attn_implementation
        try:
            _found[base] = _find(base.eval())
        except Exception as error:  # whatever a model's own code leads to
            _found[base] = first_line(error)
        finally:
            base.train(training)
            base.set_attn_implementation(before or "eager")
    found = _found[base]
    if isinstance(found, str):
        raise InputError(f"{base.config.model_type}: {found}, so no head can be disabled.")
    return found


def inner(model: PreTrainedModel) -> Any:
    """What has the heads: the model without its head for a task, the encoder where there is a decoder too."""
    base: Any = model.base_model
    return base.get_encoder() if base.config.is_encoder_decoder and hasattr(base, "decoder") else base


@torch.no_grad()
def _find(model: PreTrainedModel) -> HeadPlaces | str:
    inputs = {name: tensor.to(model.device) for name, tensor in tiny_batch(model.config).items()}
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []
    kept: Any = lambda part, given, out: calls.append((part, given[0], out))  # noqa: E731
    with ExitStack() as scope:
        for module in model.modules():
            if getattr(getattr(module, "weight", None), "ndim", 0) == 2 and not isinstance(module, nn.Embedding):
                scope.callback(module.register_forward_hook(kept).remove)
        model.set_attn_implementation("eager")
        maps: list[Tensor] = list(model(**inputs, output_attentions=True).attentions or ())
    real, found, start = inputs["attention_mask"].bool(), [], 0
    for layer in maps:
        place, start = _match(layer, calls, start, real)
        if place is None:
            return f"the projections of layer {len(found) + 1} are not like those of other models"
        found.append(place)
    if len(maps) != model.config.num_hidden_layers:
        return f"gives the maps of {len(maps)} layers, expected {model.config.num_hidden_layers}"
    causal = all(float(layer.triu(1).transpose(1, 2)[real].abs().max()) == 0 for layer in maps)
    places = HeadPlaces(tuple(found), causal, whole=True)
    expected = places.allowed(real)[:, None].expand_as(maps[0]).transpose(1, 2)[real]
    whole = all(bool(((layer > 0).transpose(1, 2)[real] == expected).all()) for layer in maps)
    return HeadPlaces(tuple(found), causal, whole)


def _match(
    maps: Float[Tensor, "batch head query key"],
    calls: list[tuple[nn.Module, Tensor, Tensor]],
    start: int,
    real: Bool[Tensor, "batch token"],
) -> tuple[Projections | None, int]:
    """The first pair of projections from a call on that fits a layer's map, and the call after it."""
    shape, heads = tuple(real.shape), maps.shape[1]
    for index in range(start, len(calls)):
        value, _, projected = calls[index]
        if projected.ndim != 3 or tuple(projected.shape[:2]) != shape:
            continue
        for after in range(index + 1, min(index + 1 + BETWEEN, len(calls))):
            output, brought, _ = calls[after]
            if brought.ndim != 3 or tuple(brought.shape[:2]) != shape or brought.shape[-1] % heads:
                continue
            for fused in FUSED:
                place = Projections(value, output, fused, heads, brought.shape[-1] // heads)
                values = place.values(projected)
                if values is not None and _same(
                    torch.einsum("bhqk,bkhd->bqhd", maps, values).flatten(2)[real], brought[real]
                ):
                    return place, after + 1
    return None, start


def _same(one: Tensor, two: Tensor) -> bool:
    return float((one - two).abs().max()) <= SAME * float(two.abs().max().clamp(min=1e-3))


@contextmanager
def hooked_outputs_changed_by(model: PreTrainedModel, changes: dict[int, OutputChange]) -> Iterator[None]:
    """While in scope, layers hand on what their change makes of what their heads bring; layers are counted from 0."""
    places, masks, values = head_places(model), [], {}

    def start(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids: Any = named.get("input_ids", given[0] if given else named.get("inputs_embeds"))
        mask = named.get("attention_mask")
        real = torch.ones(ids.shape[:2], device=ids.device) if mask is None else mask
        masks[:] = [places.allowed(real.bool())]

    def keep(layer: int, _: nn.Module, __: tuple[Any, ...], projected: Tensor) -> None:
        values[layer] = places.layers[layer].values(projected)

    def change(layer: int, _: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        place, (brought, *others) = places.layers[layer], given
        changed = changes[layer](brought.unflatten(-1, (place.heads, place.size)), values.pop(layer), masks[0])
        return (changed.to(brought.dtype).flatten(2), *others)

    with ExitStack() as scope:
        scope.callback(inner(model).register_forward_pre_hook(start, with_kwargs=True).remove)
        for layer in changes:
            place = places.layers[layer]
            kept: Any = partial(keep, layer)
            changed: Any = partial(change, layer)
            scope.callback(place.value.register_forward_hook(kept).remove)
            scope.callback(place.output.register_forward_pre_hook(changed).remove)
        yield
