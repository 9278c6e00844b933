"""What a tokenizer and a model say of the layout of inputs: special tokens, padding, and which keys a query may see."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Int, Int8
from tokenizers import processors
from torch import Tensor
from transformers import AutoModel, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from headscope.errors import InputError
from headscope.layout import Layout

TOKEN_CLASSES = ("other", "cls", "sep", "punctuation")  # numbers in the gold array `token_class`
CLS, SEP, PUNCTUATION = (TOKEN_CLASSES.index(name) for name in TOKEN_CLASSES[1:])
PERIODS_AND_COMMAS = (".", ",")
WORD_START = "Ġ▁"  # how tokenizers mark the piece that starts a word
NEWLINE = "\n"
WHOLE_INPUT = ("xlnet",)  # see it, though they have a head for causal language modelling and none for masked
PAST_ONLY = ("clip_text_model", "evolla")  # see it, though neither their attention nor a head says so


def layout_of(tokenizer: PreTrainedTokenizerBase, causal: bool) -> Layout:
    """The layout, as the tokenizer sets two texts; it must part them (`with_separator`)."""
    ids, before, between, after = parts_of_pair(tokenizer)
    special = (*before, *between, *after)
    first = tokenizer.cls_token_id if tokenizer.cls_token_id in special else next(iter(before), None)
    separator = next(iter([*between, *after]), None)
    first, separator = (
        None if token is None else cast(str, tokenizer.convert_ids_to_tokens(cast(int, token)))
        for token in (first, separator)
    )
    return Layout(first, separator, causal, padding_id(tokenizer, ids))


def parts_of_pair(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int], list[int], list[int]]:
    """The ids of a pair of texts, and the special ones before, between and after the texts."""
    encoding = cast(Any, tokenizer)("a", "b")
    ids, texts = encoding["input_ids"], encoding.sequence_ids(0)
    start, end = (texts.index(0), len(texts) - 1 - texts[::-1].index(1)) if {0, 1} <= set(texts) else (len(ids), len(ids))
    between = [token for token, text in zip(ids[start:end], texts[start:end], strict=True) if text is None]
    return ids, ids[:start], between, ids[end + 1 :]


def padding_id(tokenizer: PreTrainedTokenizerBase, pair: Sequence[int]) -> int:
    """The id that fills a batch up: the tokenizer's own, or that of a special token which does not end inputs.

    No real token sees padding; but classifiers of causal models find the last real token by this id.
    """
    others = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, tokenizer.bos_token_id)
    usable = [token for token in others[1:] if token is not None and token != pair[-1]]
    return cast(int, next((token for token in (others[0], *usable) if token is not None), 0))


def with_separator(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The tokenizer, made to part the texts of a pair where its own template does not.

    It then sets one token between them: its separator, the one that ends a text, or a new line.
    """
    _, before, between, after = parts_of_pair(tokenizer)
    if between:
        return tokenizer
    token = cast(str | None, tokenizer.sep_token or tokenizer.eos_token)
    parting = (
        tokenizer.encode(NEWLINE, add_special_tokens=False) if token is None else tokenizer.convert_tokens_to_ids([token])
    )
    pieces = {"before": before, "parting": cast(list[int], parting), "after": after}
    named = [{"id": name, "ids": ids, "tokens": tokenizer.convert_ids_to_tokens(ids)} for name, ids in pieces.items() if ids]
    start, end = (["before"] if before else []), (["after"] if after else [])
    template = processors.TemplateProcessing(
        single=[*start, "$A:0", *end],
        pair=[*start, "$A:0", *(["parting"] if parting else []), "$B:1", *end],
        special_tokens=cast(Any, named),
    )
    backend: Any = tokenizer.backend_tokenizer
    # What says which characters a token covers stays; what sets special tokens is replaced.
    kept = '"ByteLevel"' in json.dumps(json.loads(backend.to_str())["post_processor"])
    backend.post_processor = processors.Sequence([processors.ByteLevel(), template]) if kept else template
    return tokenizer


@dataclass(frozen=True)
class ModelTraits:
    """What a model does with its inputs: whether a token sees only itself and what is before it, and whether the model
    is told which text of a pair a token is of (`token_type_ids`)."""

    causal: bool
    segments: bool


def traits_of(config: PreTrainedConfig, trust_remote_code: bool = False) -> ModelTraits:
    """As the model says, which is built without weights and asked.

    Of a model with encoder and decoder, the maps are those of the encoder. Families whose attention does not say it, or
    that cannot be built so, are causal where they are language models and no masked ones.
    """
    kind = config.model_type
    masked, causal = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES, kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    causal = causal and not masked and kind not in WHOLE_INPUT
    try:
        with torch.device("meta"):
            model = AutoModel.from_config(config, trust_remote_code=trust_remote_code)
    except Exception:  # whatever is wrong with the model, who loads it will say
        return ModelTraits(causal or kind in PAST_ONLY, segments=True)
    said = {bool(cast(Any, module).is_causal) for module in model.modules() if hasattr(module, "is_causal")}
    causal = said == {True} if len(said) == 1 else causal
    causal = (causal or bool(getattr(config, "is_decoder", False))) and not config.is_encoder_decoder
    return ModelTraits(causal or kind in PAST_ONLY, segments="token_type_ids" in signature(model.forward).parameters)


class TokenClasses:
    """The class of every token of an input, by its id; its first token's and its separators' as the layout says."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, layout: Layout) -> None:
        tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        marks = [token is not None and token.lstrip(WORD_START) in PERIODS_AND_COMMAS for token in tokens]
        self.of_id = (PUNCTUATION * np.array(marks)).astype(np.int8)
        self.first = token_id(tokenizer, layout.first)
        for number, token in ((CLS, self.first), (SEP, token_id(tokenizer, layout.separator))):
            if token is not None:
                self.of_id[token] = number
        self.alike = layout.first is not None and layout.first == layout.separator

    def __call__(self, ids: Int[np.ndarray, "token"]) -> Int8[np.ndarray, "token"]:
        classes = self.of_id[ids]
        if self.alike:  # the one that starts the input is the first token, the others part its texts
            classes[:1][ids[:1] == self.first] = CLS
        return classes


def mask_token_id(name: str, tokenizer: PreTrainedTokenizerBase) -> int:
    """The id of the token that stands for a masked one; an error where the model of a name has none."""
    if tokenizer.mask_token_id is None:
        raise InputError(
            f"{name}: its tokenizer has no mask token, so it is no masked language model; name an encoder that is one."
        )
    return cast(int, tokenizer.mask_token_id)


def token_id(tokenizer: PreTrainedTokenizerBase, token: str | None) -> int | None:
    """The id of a special token of a layout."""
    return None if token is None else cast(int, tokenizer.convert_tokens_to_ids(token))


def visible_from_pieces(
    unit_ids: Int[Tensor, "batch token"], units: int, from_word: str = "mean"
) -> Bool[Tensor, "batch query key"]:
    """Which units, words or tokens, a unit of a causal model may see: those with a piece not behind its own last piece.

    `unit_ids` names the unit of each token, -1 for none. With `first`, only the first piece of a word looks. A unit
    without pieces sees none and is seen by none.
    """
    tokens = unit_ids.shape[1]
    member = unit_ids[:, :, None] == torch.arange(units, device=unit_ids.device)
    position = torch.arange(tokens, device=unit_ids.device)[:, None]
    first = torch.where(member, position, tokens).amin(1)
    looking = torch.where(first < tokens, first, -1) if from_word == "first" else torch.where(member, position, -1).amax(1)
    return first[:, None] <= looking[:, :, None]
