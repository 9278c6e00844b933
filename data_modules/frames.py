"""Short sentences with one target and its core frame elements, as token maps (Kovaleva, section 4.2)."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import BatchEncoding, PreTrainedTokenizerBase

from headscope.contracts import DrawnInput, Facts
from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.examples import Encoded, Example, Split, encode_texts
from headscope.data_modules.readers.framenet import Element, FrameExample, Span, framenet_files, read_framenet
from headscope.errors import DataError, require_choice, require_limit
from headscope.processes import progress

log = logging.getLogger(__name__)
SAMPLE = Path(__file__).parent / "samples" / "frames"
DRAWN = 1  # inputs, from the first
KEEP = {"sentences": all, "elements": any}  # those all of whose core elements pass, or any of them, which then are left


class FrameDataModule(AttentionDataModule):
    """FrameNet XML, filtered as in the paper; without a file, the packaged sample."""

    units = "tokens"
    kind = "frames"

    def __init__(
        self,
        test: str | None = None,
        limit: int | None = None,
        max_words: int = 12,
        max_element: int = 3,
        min_distance: int = 2,
        one_target: bool = True,
        keep: str = "elements",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        require_limit(limit)
        self.path, self.limit = Path(test) if test else SAMPLE, limit
        self.max_words, self.max_element, self.min_distance = max_words, max_element, min_distance
        require_choice("data.keep", keep, KEEP)
        self.one_target, self.keep = one_target, keep
        self.removed: dict[str, int] = {}

    def files(self) -> list[Path]:
        return framenet_files(self.path)

    def read(self) -> dict[str, list[Example]]:
        found = [example for file in progress(self.files(), "reading") for example in read_framenet(file)]
        kept, self.removed = filtered(found, self.max_words, self.max_element, self.min_distance, self.one_target, self.keep)
        kept = kept[: self.limit]
        if not kept:
            counts = ", ".join(f"{count} {reason}" for reason, count in self.removed.items())
            raise DataError(f"{self.path}: none of {len(found)} annotated targets is left ({counts or 'none found'}).")
        if any(element.core is None for example in kept for element in example.elements):
            log.warning("%s: does not say which elements are core, so all count as core.", self.path)
        return {"test": [Example((example.text,), {}, example) for example in kept]}

    @property
    def left_out(self) -> dict[str, int]:
        return {f"targets: {reason}": count for reason, count in self.removed.items()}

    def facts(self) -> Facts:
        tokenizer, items = self.encoder.tokenizer(), self.read_splits()["test"].items[:DRAWN]
        drawn = tuple(
            DrawnInput(
                index,
                tuple(tokenizer.convert_ids_to_tokens(item.input_ids.tolist())),
                title=item.example.annotation.frame,
                marked=ends_of(item.example.gold["links"]),
            )
            for index, item in enumerate(items)
        )
        return replace(super().facts(), drawn=drawn, filters=self.removed)

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        items = [self._encoded(example.annotation, tokenizer) for example in progress(examples, "tokenising")]
        # A sentence is never cut: where it does not fit, its links may be lost.
        fitting = [item for item in items if len(item.input_ids) < self.max_pieces and len(item.example.gold["links"])]
        return Split(fitting, skipped=len(items) - len(fitting))

    def _encoded(self, example: FrameExample, tokenizer: PreTrainedTokenizerBase) -> Encoded:
        ids, inputs, encoding = encode_texts((example.text,), tokenizer, self.max_pieces)
        targets = [t for span in example.targets for t in tokens_of(span, encoding)]
        elements = [t for element in example.elements for t in tokens_of(element.span, encoding)]
        links = np.array(
            [token for target in targets for element in elements for token in (target, element)], dtype=np.int32
        )
        inside = np.array([number == 0 for number in encoding.sequence_ids(0)], dtype=np.int8)
        with_links = Example((example.text,), {"links": links, "inside": inside}, example)
        return Encoded(with_links, ids, np.arange(len(ids), dtype=np.int32), len(ids), model_inputs=inputs)


def ends_of(links: np.ndarray) -> dict[str, tuple[int, ...]]:
    """The tokens of target and elements of links, which are pairs of a target's token and an element's, flattened."""
    pairs = links.reshape(-1, 2).T.tolist()
    return {name: tuple(dict.fromkeys(tokens)) for name, tokens in zip(("target", "element"), pairs, strict=True)}


def tokens_of(span: Span, encoding: BatchEncoding) -> list[int]:
    """The tokens that overlap some characters of the text."""
    spans = [(token, encoding.token_to_chars(token)) for token, text in enumerate(encoding.sequence_ids(0)) if text == 0]
    return [token for token, chars in spans if chars and chars.start <= span[1] and chars.end > span[0]]


def filtered(
    examples: list[FrameExample],
    max_words: int,
    max_element: int,
    min_distance: int,
    one_target: bool = False,
    keep: str = "elements",
) -> tuple[list[FrameExample], dict[str, int]]:
    """The examples that pass all filters, and how many each filter removes, in turn.

    Of `elements`, an example keeps those that are short and far enough; of `sentences`, all its core elements must be.
    """
    whole = keep == "sentences"
    filters: list[tuple[str, Callable[[FrameExample], FrameExample | None]]] = [
        (f"longer than {max_words} words", lambda e: e if len(e.text.split()) <= max_words else None),
        ("without a core element", lambda e: _keeping(e, lambda x: x.core is not False)),
        (
            f"with an element of over {max_element} words"
            if whole
            else f"without an element of at most {max_element} words",
            lambda e: _keeping(e, lambda x: size(e, x.span) <= max_element, keep),
        ),
        (
            f"{'with an element less than' if whole else 'without an element at least'} {min_distance} words away",
            lambda e: _keeping(e, lambda x: min(distance(e, x.span, t) for t in e.targets) >= min_distance, keep),
        ),
    ]
    if one_target:
        targets = Counter(example.text for example in examples)
        filters.insert(1, ("in a sentence with several", lambda e: e if targets[e.text] == 1 else None))
    removed = {}
    for reason, passed in filters:
        left = [kept for example in examples if (kept := passed(example))]
        removed[reason] = len(examples) - len(left)
        examples = left
    return examples, removed


def _keeping(example: FrameExample, wanted: Callable[[Element], bool], keep: str = "elements") -> FrameExample | None:
    """The example with the elements that are wanted; None without any, or where all must be."""
    elements = tuple(element for element in example.elements if wanted(element))
    passes = KEEP[keep](map(wanted, example.elements))
    return replace(example, elements=elements) if elements and passes else None


def word_range(example: FrameExample, span: Span) -> tuple[int, int]:
    """The first and last word of some characters."""
    return len(example.text[: span[0] + 1].split()) - 1, len(example.text[: span[1] + 1].split()) - 1


def size(example: FrameExample, span: Span) -> int:
    """How many words."""
    first, last = word_range(example, span)
    return last - first + 1


def distance(example: FrameExample, one: Span, other: Span) -> int:
    """How many words lie from one to the other; neighbours are one apart, and what overlaps is not apart at all."""
    (first, last), (other_first, other_last) = word_range(example, one), word_range(example, other)
    return max(0, other_first - last, first - other_last)
