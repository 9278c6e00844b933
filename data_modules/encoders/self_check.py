"""Whether the maps that are streamed are those of the model's own eager attention: one tiny padded batch, run both ways.

The verdict is kept in `conformance.json` in the cache folder, by the checksum of the weights, of the configuration and of
the attention function, and by the versions of torch and transformers; so a model is checked on its first load alone.
"""

import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from headscope.data_modules.encoders import attention
from headscope.data_modules.encoders.attention import IMPLEMENTATION, weights_go_to
from headscope.data_modules.encoders.models import ModelFiles, quiet_loading
from headscope.data_modules.first_use import cache_file
from headscope.errors import InputError, first_line
from headscope.files import files_sha256, joined_sha256, write_atomically

log = logging.getLogger(__name__)
RECORD = "conformance.json"
MOST = 1000  # models that are remembered
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-5}  # of a weight, and of the output relative to its largest number
ROUGH = 3e-2  # where numbers are rounded to 16 bits
ROW_TOLERANCE = 1e-4
LENGTHS = (9, 6)  # of the inputs of the tiny batch
FIRST_ID, MOST_IDS = 5, 500  # the tokens it is drawn from: most vocabularies begin with special ones

Maps = tuple[Float[Tensor, "batch head query key"], ...]


@dataclass(frozen=True)
class Verdict:
    """How the maps of a model are taken, the largest differences from its own eager attention, and why it is refused."""

    kind: Literal["streamed", "own maps", "refused"]
    maps: float | None = None
    output: float | None = None
    why: str = ""
    causal: bool | None = None  # whether no query looks at what comes after it; None where that is not known


def verdict_of(model: PreTrainedModel, layers: int, heads: int, key: str | None = None) -> Verdict:
    """The verdict of a model with eager attention that is in eval mode; `key` is what it is remembered by.

    The model is left with the attention that its verdict asks for.
    """
    verdict = remembered(key) if key else None
    if verdict is None:
        with quiet_loading():
            verdict = check(model, layers, heads)
        if key:
            _write({**_read(), key: verdict})
    model.set_attn_implementation(IMPLEMENTATION if verdict.kind == "streamed" else "eager")
    return verdict


def remembered(key: str) -> Verdict | None:
    """What was said of a model when it was first loaded; None where it was not, or is not known any more."""
    return _read().get(key)


def key_of(files: ModelFiles, kind: type) -> str:
    """What the verdict of a model, opened by one of transformers' Auto classes, is remembered by."""
    code = files_sha256([Path(attention.__file__), Path(__file__)])
    config = files_sha256([files.folder / "config.json"])
    versions = f"{torch.__version__} {transformers.__version__}"
    spec = f"{files.spec.init} {files.spec.seed} {files.spec.dtype} {kind.__name__}"
    return joined_sha256([files.checksum(), config, code, f"{versions} {spec}"])


@torch.inference_mode()
def check(model: PreTrainedModel, layers: int, heads: int) -> Verdict:
    """Run the tiny batch with the model's own attention, then streamed; what cannot be streamed keeps its own maps."""
    inputs = tiny_batch(model.config)
    real = inputs["attention_mask"].bool()
    try:
        output = model(**inputs, output_attentions=True)
        own: Maps = tuple(getattr(output, "attentions", None) or ())
    except Exception as error:  # whatever a model's own code leads to
        return Verdict("refused", why=f"its own attention cannot be run ({first_line(error)})")
    if wrong := shape_fault(own, layers, heads, real):
        return Verdict("refused", why=wrong)
    # Of real tokens: what padding gives to others is nobody's, and no reason to compare nothing.
    if not all(bool(layer.transpose(1, 2)[real].isfinite().all()) for layer in own):
        # Nothing to compare; who reads the maps names the head where they stop being numbers.
        return Verdict("streamed" if model._supports_attention_backend else "own maps", why="its own maps hold NaN")
    causal = max(float(layer.triu(1).transpose(1, 2)[real].abs().max()) for layer in own) == 0
    return replace(streamed_or_own(model, inputs, own, output[0]), causal=causal)


def streamed_or_own(model: PreTrainedModel, inputs: dict[str, Tensor], own: Maps, expected: Tensor) -> Verdict:
    """Whether streaming gives the same maps and the same output; else the model's own maps, if they are maps."""
    real = inputs["attention_mask"].bool()
    if not model._supports_attention_backend:
        again = model(**inputs, output_attentions=True).attentions
        if max(largest(one, two, real) for one, two in zip(own, again, strict=True)) > ROW_TOLERANCE:
            return Verdict("refused", why="its own maps differ from one pass to the next")
        return own_maps(own, real, "its attention is outside transformers' attention interface")
    try:
        streamed, states = run_streamed(model, inputs)
    except Exception as error:
        return own_maps(own, real, f"streaming fails: {first_line(error)}")
    if [one.shape for one in streamed] != [one.shape for one in own]:
        return own_maps(own, real, f"streams {len(streamed)} maps of other shapes than its own {len(own)}")
    difference = max(largest(one, two, real) for one, two in zip(streamed, own, strict=True))
    of_tokens = states.shape[:2] == real.shape  # a classifier's output is of inputs
    states, expected = (output[real] if of_tokens else output for output in (states, expected))
    apart = float((states - expected).abs().max() / expected.abs().max().clamp(min=1))
    tolerance = TOLERANCE.get(model.dtype, ROUGH)
    if max(difference, apart) <= tolerance:
        return Verdict("streamed", difference, apart)
    return own_maps(own, real, f"streamed maps differ by {difference:.2g}, the output by {apart:.2g}")


def own_maps(own: Maps, real: Bool[Tensor, "batch token"], why: str) -> Verdict:
    """The model's own maps, where they are maps of attention: every row of a real token is shared out among real tokens."""
    rows = max(float((layer.float().sum(-1) - 1).transpose(1, 2)[real].abs().max()) for layer in own)
    if rows > ROW_TOLERANCE:
        return Verdict("refused", why=f"rows of its own maps do not sum to one (by {rows:.2g})")
    return Verdict("own maps", why=why)


def shape_fault(own: Maps, layers: int, heads: int, real: Bool[Tensor, "batch token"]) -> str | None:
    """What keeps a model's own maps from being maps of all heads over all tokens."""
    if len(own) != layers:
        return f"its own attention gives maps of {len(own)} layers, expected {layers}"
    expected = (len(real), heads, real.shape[1], real.shape[1])
    shapes = [tuple(layer.shape) if isinstance(layer, Tensor) else None for layer in own]
    if others := [shape for shape in shapes if shape != expected]:
        return f"its own maps are {others[0]}, expected {expected} (batch, head, query, key)"
    padded = ~real[:, None].expand(-1, real.shape[1], -1)[real][:, None]  # (real query, 1, key)
    padding = max(float((layer.transpose(1, 2)[real] * padded).abs().max()) for layer in own)
    return f"its own maps give {padding:.2g} of attention to padding" if padding > ROW_TOLERANCE else None


def run_streamed(model: PreTrainedModel, inputs: dict[str, Tensor]) -> tuple[list[Tensor], Tensor]:
    """All maps, and the output."""
    maps: list[Tensor] = []
    model.set_attn_implementation(IMPLEMENTATION)
    try:
        with weights_go_to(maps.append):
            return maps, model(**inputs)[0]
    finally:
        model.set_attn_implementation("eager")


def largest(one: Tensor, two: Tensor, real: Bool[Tensor, "batch token"]) -> float:
    """The largest difference of two maps in the rows of real tokens."""
    return float((one.float() - two.float()).transpose(1, 2)[real].abs().max())


def tiny_batch(config: Any) -> dict[str, Tensor]:
    """Two inputs of different lengths, drawn from the vocabulary."""
    pad = getattr(config, "pad_token_id", None)
    pad = pad if isinstance(pad, int) and pad >= 0 else 0
    words = getattr(config, "vocab_size", None) or MOST_IDS
    ids = torch.randint(
        FIRST_ID, min(words, MOST_IDS), (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(0)
    )
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    ids = torch.where(ids == pad, FIRST_ID + (pad == FIRST_ID), ids)
    return {"input_ids": torch.where(real, ids, pad), "attention_mask": real.long()}


def require_usable(name: str, verdict: Verdict) -> Verdict:
    """Refuse a model whose maps cannot be had, in a sentence."""
    if verdict.kind == "refused":
        raise InputError(f"{name}: {verdict.why}, so its maps cannot be had; name another model.")
    return verdict


def require_layout(name: str, verdict: Verdict, causal: bool) -> None:
    """Refuse a model whose maps look ahead where its layout says that none does, or the other way round."""
    if verdict.causal is None or verdict.causal == causal:
        return
    look, known = ("no later token", "no causal one") if verdict.causal else ("later tokens", "a causal one")
    raise InputError(
        f"{name}: its maps look at {look}, though its family is known as {known}, so what a query may see is not known; "
        "name another model."
    )


def _read() -> dict[str, Verdict]:
    """The verdicts by key; what is none is left out."""
    file = cache_file(RECORD)
    try:
        content = json.loads(file.read_text(encoding="utf-8")) if file else {}
        return {key: Verdict(**one) for key, one in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _write(record: dict[str, Verdict]) -> None:
    file = cache_file(RECORD)
    if file is None:
        return
    kept = dict(list(record.items())[-MOST:])
    try:
        write_atomically(file, json.dumps({key: asdict(one) for key, one in kept.items()}, indent=1).encode())
    except (OSError, InputError):
        log.info("%s: cannot be written, so models are checked again.", file)
