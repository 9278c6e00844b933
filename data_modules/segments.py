"""Segments of running text: two consecutive paragraphs of an article, `[CLS] p1 [SEP] p2 [SEP]`, as token maps."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.contracts import DrawnInput, Facts
from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.batches.examples import Encoded, Example, Split, encode_texts
from headscope.data_modules.encoders.layout import TOKEN_CLASSES as TOKEN_CLASSES
from headscope.data_modules.encoders.layout import TokenClasses, mask_token_id
from headscope.data_modules.readers.articles import Article, read_articles, text_files
from headscope.errors import ConfigError, DataError, require_choice, require_limit
from headscope.processes import progress

log = logging.getLogger(__name__)
SAMPLE = Path(__file__).parent / "samples" / "articles"
MASKINGS = {"bert": (0.8, 0.1), "all": (1.0, 0.0)}  # shares of [MASK] and of random tokens; the rest stays as it is
DRAWN_TOKENS = range(12, 73)  # of a segment whose maps can be drawn


class SegmentDataModule(AttentionDataModule):
    """A seeded sample of paragraph pairs; without a file, from the packaged articles."""

    units = "tokens"
    kind = "segments"

    def __init__(
        self,
        test: str | None = None,
        limit: int | None = 1000,
        mask_share: float = 0.15,
        masking: str = "bert",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        require_limit(limit)
        if not 0 < mask_share < 1:
            raise ConfigError(f"data.mask_share={mask_share}: expected a share between 0 and 1.")
        require_choice("data.masking", masking, MASKINGS)
        self.path, self.limit = Path(test) if test else SAMPLE, limit
        self.mask_share, self.masking = mask_share, masking
        self.short_articles = 0

    def files(self) -> list[Path]:
        return text_files(self.path)

    def read(self) -> dict[str, list[Example]]:
        articles = [article for file in progress(self.files(), "reading") for article in read_articles(file)]
        self.short_articles = sum(len(article.paragraphs) < 2 for article in articles)
        pairs = paragraph_pairs(articles)
        if not pairs:
            raise DataError(f"{self.path}: expected articles of two or more paragraphs, found none.")
        if self.short_articles:
            log.warning("%s: left out %d articles of fewer than two paragraphs.", self.path, self.short_articles)
        return {"test": [Example(pair, {}) for pair in sampled(pairs, self.limit, self.seed)]}

    @property
    def left_out(self) -> dict[str, int]:
        return {"articles of fewer than two paragraphs": self.short_articles}

    def facts(self) -> Facts:
        drawn = segment_to_draw(self.read_splits()["test"].items, self.encoder.tokenizer())
        return replace(super().facts(), drawn=drawn)

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        classes = TokenClasses(tokenizer, self.encoder.layout())
        if self.encoder.masks_tokens:
            mask_token_id(self.encoder.name, tokenizer)
        shown = enumerate(progress(examples, "tokenising"))
        return Split([self._encoded(index, example, classes, tokenizer) for index, example in shown])

    def _encoded(self, index: int, example: Example, classes: TokenClasses, tokenizer: PreTrainedTokenizerBase) -> Encoded:
        ids, inputs, _ = encode_texts(example.words, tokenizer, self.max_pieces)
        if self.encoder.masks_tokens:
            special, seed = np.array(tokenizer.all_special_ids), [self.seed, index]
            masked = masked_tokens(ids, special, self.mask_share, seed)
            inputs["labels"] = np.where(masked, ids, IGNORE)
            mask = mask_token_id(self.encoder.name, tokenizer)
            ids = replaced_tokens(ids, masked, special, len(tokenizer), mask, self.masking, seed)
        example = Example((), {"token_class": classes(ids)})  # of what the model sees
        return Encoded(example, ids, np.arange(len(ids), dtype=np.int32), len(ids), model_inputs=inputs)


def paragraph_pairs(articles: list[Article]) -> list[tuple[str, str]]:
    """All pairs of paragraphs that follow each other in an article."""
    return [pair for article in articles for pair in pairwise(article.paragraphs)]


def sampled(pairs: list[tuple[str, str]], limit: int | None, seed: int) -> list[tuple[str, str]]:
    """At most `limit` of the pairs, drawn by the seed, in the order of the text."""
    if limit is None or len(pairs) <= limit:
        return pairs
    return [pairs[index] for index in np.sort(np.random.default_rng(seed).permutation(len(pairs))[:limit])]


def masked_tokens(ids: np.ndarray, special: np.ndarray, share: float, seed: list[int]) -> np.ndarray:
    """Which tokens to mask: a share (at least one) of those that are not special, drawn by the seed."""
    plain = np.flatnonzero(~np.isin(ids, special))
    count = max(1, round(share * len(plain)))
    return np.isin(np.arange(len(ids)), np.random.default_rng(seed).permutation(plain)[:count])


def replaced_tokens(
    ids: np.ndarray, masked: np.ndarray, special: np.ndarray, vocabulary: int, mask: int, masking: str, seed: list[int]
) -> np.ndarray:
    """The ids that the model gets: of the masked ones, by BERT's rule, 80 % [MASK], 10 % another token, 10 % as they are."""
    of_mask, of_random = MASKINGS[masking]
    draw = np.random.default_rng([*seed, 1])
    chance = draw.random(len(ids))
    plain = np.setdiff1d(np.arange(vocabulary), special)
    drawn = plain[draw.integers(len(plain), size=len(ids))]
    ids = np.where(masked & (chance < of_mask), mask, ids)
    return np.where(masked & (chance >= of_mask) & (chance < of_mask + of_random), drawn, ids).astype(np.int32)


def segment_to_draw(items: Sequence[Encoded], tokenizer: PreTrainedTokenizerBase) -> tuple[DrawnInput, ...]:
    """The shortest segment of a length that can be drawn, with its special tokens; none where all are longer."""
    lengths = {index: len(item.input_ids) for index, item in enumerate(items) if len(item.input_ids) in DRAWN_TOKENS}
    if not lengths:
        return ()
    index = min(lengths, key=lambda index: lengths[index])
    return (DrawnInput(index, tuple(tokenizer.convert_ids_to_tokens(items[index].input_ids.tolist()))),)
