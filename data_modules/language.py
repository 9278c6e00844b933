"""Text for a language model's own loss: segments whose tokens are masked or follow each other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.contracts import Facts
from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.batches.examples import Encoded, Example, Split, encode_texts
from headscope.data_modules.encoders.layout import mask_token_id
from headscope.data_modules.readers.articles import Article, read_articles, text_files
from headscope.data_modules.segments import SAMPLE, masked_tokens, paragraph_pairs, sampled
from headscope.errors import ConfigError, DataError, require_choice, require_limit
from headscope.processes import progress

OBJECTIVES = ("auto", "masked", "causal")
Parts = dict[str, list[Article]]


class LanguageDataModule(AttentionDataModule):
    """Paragraph pairs with labelled tokens; without a file, of the packaged articles.

    `masked`: a seeded share of the tokens is hidden behind the mask token and asked for; `causal`: every token but special
    ones is asked for where the token before it stands; `auto`: masked where the tokenizer has a mask token. `held_out_share`
    is the share of articles that is for the test alone, and as large a one for validation; without it all are for the test.
    With `train`, the articles of `test` are all for the test. Training segments are read `masks` times, each time with
    other tokens masked.
    """

    units = "tokens"
    kind = "language"

    def __init__(
        self,
        test: str | None = None,
        train: str | None = None,
        held_out_share: float | int | None = None,
        objective: str = "auto",
        limit: int | None = 1000,
        mask_share: float = 0.15,
        masks: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        require_limit(limit)
        if not isinstance(masks, int) or masks < 1:
            raise ConfigError(f"data.masks={masks}: expected a whole number from 1.")
        require_choice("data.objective", objective, OBJECTIVES)
        for key, share in (("mask_share", mask_share), ("held_out_share", held_out_share)):
            if share is not None and not 0 < share < 1:
                raise ConfigError(f"data.{key}={share}: expected a share between 0 and 1.")
        self.test, self.train = Path(test) if test else SAMPLE, Path(train) if train else None
        self.held_out_share, self.mask_share = held_out_share, mask_share
        self.objective, self.limit, self.masks = objective, limit, masks
        self.short_articles = 0

    def files(self) -> list[Path]:
        return [file for path in (self.test, self.train) if path for file in text_files(path)]

    def read(self) -> dict[str, list[Example]]:
        found: dict[str, list[Example]] = {}
        for name, articles in self._parts().items():
            pairs = paragraph_pairs(articles)
            self.short_articles += sum(len(article.paragraphs) < 2 for article in articles)
            if not pairs:
                raise DataError(f"{self.test}: expected articles of two or more paragraphs for {name}, found none.")
            times = self.masks if name == "train" else 1  # which tokens are masked is drawn by an example's index
            found[name] = [Example(pair, {}) for pair in sampled(pairs, self.limit, self.seed) * times]
        return found

    def _parts(self) -> Parts:
        """The articles of each part; an article is in one alone."""
        tested = [article for file in text_files(self.test) for article in read_articles(file)]
        if self.train:
            rest = [article for file in text_files(self.train) for article in read_articles(file)]
            val, train = drawn_apart(rest, self.held_out_share or 0.1, self.seed)
            return {"train": train, "val": val, "test": tested}
        if self.held_out_share is None:
            return {"test": tested}
        test, rest = drawn_apart(tested, self.held_out_share, self.seed)
        val, train = drawn_apart(rest, self.held_out_share, self.seed)
        return {"train": train, "val": val, "test": test}

    @property
    def left_out(self) -> dict[str, int]:
        return {"articles of fewer than two paragraphs": self.short_articles}

    def asked(self, tokenizer: PreTrainedTokenizerBase) -> str:
        """The objective, told by the tokenizer where it is not given."""
        if self.objective == "masked":
            mask_token_id(self.encoder.name, tokenizer)
        if self.objective != "auto":
            return self.objective
        return "causal" if tokenizer.mask_token_id is None else "masked"

    def facts(self) -> Facts:
        tokenizer = self.encoder.tokenizer()
        objective = self.asked(tokenizer)
        mask = mask_token_id(self.encoder.name, tokenizer) if objective == "masked" else None
        return replace(super().facts(), objective=objective, mask_token=mask)

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        objective, special = self.asked(tokenizer), np.array(tokenizer.all_special_ids)
        shown = enumerate(progress(examples, "tokenising"))
        return Split([self._encoded(index, example, objective, special, tokenizer) for index, example in shown])

    def _encoded(
        self, index: int, example: Example, objective: str, special: np.ndarray, tokenizer: PreTrainedTokenizerBase
    ) -> Encoded:
        # A language model reads on, so that nothing stands between two paragraphs but the end of a line.
        texts = example.words if objective == "masked" else ("\n".join(example.words),)
        ids, inputs, _ = encode_texts(texts, tokenizer, self.max_pieces)
        if objective == "masked":
            asked = masked_tokens(ids, special, self.mask_share, [self.seed, index])
        else:
            asked = ~np.isin(ids, special)
        inputs["labels"] = np.where(asked, ids, IGNORE)
        if objective == "masked":
            ids = np.where(asked, mask_token_id(self.encoder.name, tokenizer), ids)
        return Encoded(Example((), {}), ids, np.arange(len(ids), dtype=np.int32), len(ids), model_inputs=inputs)


def drawn_apart(articles: list[Article], share: float, seed: int) -> tuple[list[Article], list[Article]]:
    """A share of the articles (at least one, and not all), drawn by the seed, and the others; both in order."""
    if len(articles) < 2:
        raise DataError(
            f"expected several articles to hold some out, found {len(articles)}; name data.train= and data.test=."
        )
    count = min(max(1, round(share * len(articles))), len(articles) - 1)
    chosen = set(np.random.default_rng(seed).permutation(len(articles))[:count].tolist())
    return [articles[index] for index in sorted(chosen)], [one for index, one in enumerate(articles) if index not in chosen]
