"""Some sentences with the maps of all heads, as bytes, for a page that draws them."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from headscope.data_modules.batches.finite import FiniteCheck
from headscope.data_modules.encoders.frozen import FrozenEncoder

BASE64 = 4 / 3


@dataclass(frozen=True)
class Shown:
    """An input to be shown: words of a treebank, or a text or pair as it stands; typed by the user, or of the data."""

    texts: tuple[str, ...]
    split: bool = False
    typed: bool = False

    def __str__(self) -> str:
        return " ".join(self.texts) if self.split else " | ".join(self.texts)

    def tokenised(self, tokenizer: PreTrainedTokenizerBase) -> BatchEncoding:
        """As the encoder sees it, whole."""
        if self.split:
            return tokenizer(list(self.texts), is_split_into_words=True, verbose=False)
        return cast(Any, tokenizer)(*self.texts, verbose=False)


class SentenceMaps:
    """Chooses inputs and computes the entries that the page draws."""

    @staticmethod
    def typed(sentences: Sequence[str]) -> list[Shown]:
        """What the user wrote."""
        return [Shown((text,), typed=True) for text in sentences]

    @staticmethod
    def of_data(
        examples: Sequence[tuple[str, ...]], split: bool, count: int, tokens: Sequence[int], encoder: FrozenEncoder
    ) -> list[Shown]:
        """The first inputs that have not too few and not too many tokens to be drawn; `split` where they are words."""
        tokenizer, (least, most) = encoder.tokenizer(), tokens
        found: list[Shown] = []
        for texts in examples:
            if len(found) == count:
                break
            shown = Shown(texts, split)
            if least <= len(shown.tokenised(tokenizer)["input_ids"]) <= most and shown not in found:
                found.append(shown)
        return found

    @staticmethod
    def entries(
        encoder: FrozenEncoder, inputs: Sequence[Shown], longest_typed: int, most_bytes: int
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """The inputs with the maps of all heads, as long as they fit; and a sentence for each that is left out."""
        tokenizer, heads = encoder.tokenizer(), encoder.layers * encoder.heads
        entries, left_out, used = [], [], 0.0
        for shown in inputs:
            encoding = shown.tokenised(tokenizer)
            length = len(encoding["input_ids"])
            size = BASE64 * heads * length**2
            if shown.typed and length > longest_typed:
                left_out.append(f"“{shown}” has {length} tokens; the page shows up to {longest_typed} (typed_tokens).")
            elif used + size > most_bytes:
                left_out.append(f"“{shown}” would take the maps of {heads} heads over the page's limit (map_bytes).")
            else:
                used += size
                tokens = tokenizer.convert_ids_to_tokens(encoding["input_ids"])
                entries.append(entry_of(shown, encoding, tokens, token_maps(encoder, encoding)))
        return entries, left_out


def entry_of(
    shown: Shown, encoding: BatchEncoding, tokens: Sequence[str], maps: Float[Tensor, "layer head query key"]
) -> dict[str, Any]:
    """An input with the maps of all heads, as the page draws it."""
    packed = base64.b64encode(map_bytes(maps).numpy(force=True).tobytes()).decode()
    words = words_of(shown, encoding)
    return {"text": str(shown), "tokens": list(tokens), **words, "maps": packed, "typed": shown.typed}


def words_of(shown: Shown, encoding: BatchEncoding) -> dict[str, list[Any]]:
    """The `words` of an input and the `word_ids` of its tokens, None for special ones; nothing where they are not known."""
    if not encoding.is_fast:
        return {}
    index: dict[tuple[int, int], int] = {}  # by text and word of it
    ids = [
        None if text is None or word is None else index.setdefault((text, word), len(index))
        for text, word in zip(encoding.sequence_ids(), encoding.word_ids(), strict=True)
    ]
    if shown.split:
        return {"words": [shown.texts[word] for _, word in index], "word_ids": ids}
    spans = [(text, encoding.word_to_chars(word, sequence_index=text)) for text, word in index]
    words = [shown.texts[text][span.start : span.end].strip() for text, span in spans]
    # Some tokenizers take the whole text for one word.
    return {} if any(" " in word for word in words) else {"words": words, "word_ids": ids}


def token_maps(encoder: FrozenEncoder, encoding: BatchEncoding) -> Float[Tensor, "layer head query key"]:
    """The maps of all heads of one input."""
    layers: list[Tensor] = []
    types = encoding.get("token_type_ids")
    encoder.load()(
        torch.tensor([encoding["input_ids"]]),
        torch.tensor([encoding["attention_mask"]]),
        sink=lambda weights: layers.append(weights[0].float()),
        token_type_ids=None if types is None else torch.tensor([types]),
    )
    maps = torch.stack(layers)
    require_finite(encoder, encoding, maps)
    return maps


def require_finite(encoder: FrozenEncoder, encoding: BatchEncoding, maps: Float[Tensor, "layer head query key"]) -> None:
    """Refuse maps that hold what is no number."""
    check = FiniteCheck(encoder.name, encoder.layers, encoder.heads)
    check.count({"maps": maps[None]}, torch.tensor([encoding["attention_mask"]]).bool())
    check.require_none(maps.device)


def map_bytes(maps: Float[Tensor, "layer head query key"]) -> UInt8[Tensor, "layer head query key"]:
    """Square roots as bytes, so that small weights keep their differences."""
    return (255 * maps.clamp(0, 1).sqrt()).round().to(torch.uint8)
