"""Treebanks: sentences with gold dependencies."""

import logging
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.contracts import DrawnInput, Facts
from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.batches.examples import NO_WORD, ROOT, Encoded, Example, Split
from headscope.data_modules.batches.word_vectors import UNKNOWN
from headscope.data_modules.readers.conllu import Sentence, conllu_files, read_conllu
from headscope.errors import ConfigError, DataError, require_limit

log = logging.getLogger(__name__)
SAMPLE = Path(__file__).parent / "samples" / "treebank"
PUNCTUATION = "punct"
POSSESSIVE_CLITICS = ("'s", "’s", "'", "’")  # the last two after a plural
UPOS = (
    "NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV", "PRON", "DET", "ADP", "NUM", "CCONJ", "SCONJ", "PART", "INTJ", "PUNCT",
    "SYM", "X",
)  # fmt: skip
DRAWN_LENGTHS = range(5, 19)  # words
DRAWN = 10
ROOT_WORDS = "root words from what asks for ROOT: the tokenizer sets no first token that could stand for it"


class TreebankDataModule(AttentionDataModule):
    """CoNLL-U files; without any, the packaged sample. A tenth of train becomes val where none is given."""

    kind = "treebank"

    def __init__(
        self,
        train: str | None = None,
        val: str | None = None,
        test: str | None = None,
        limit: int | None = None,
        separators: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        # A causal model has no separator behind a text, or one that no word sees.
        self.separators = separators and not self.encoder.layout().causal
        paths = {"train": train, "val": val, "test": test}
        self.paths = {name: Path(path) for name, path in paths.items() if path}
        if not self.paths:
            self.paths = {name: SAMPLE / f"{name}.conllu" for name in paths}
        require_limit(limit)
        self.limit = limit
        self._relations: list[str] = []
        self._root_words = 0

    def files(self) -> list[Path]:
        return [file for path in self.paths.values() for file in conllu_files(path)]

    def sentences(self) -> dict[str, list[Sentence]]:
        """The sentences of each split, read anew; the examples hold all that is used later."""
        splits = {name: self.read_sentences(conllu_files(path)) for name, path in self.paths.items()}
        for name, sentences in splits.items():
            if all(len(sentence.words) == 1 for sentence in sentences):
                raise DataError(f"{self.paths[name]}: expected sentences of two or more words, found only single words.")
        if "train" in splits and "val" not in splits:
            splits["train"], splits["val"] = hold_out(splits["train"], self.seed)
        return splits

    def read_sentences(self, files: Sequence[Path]) -> list[Sentence]:
        """The sentences of some files, up to the limit."""
        return read_conllu(files, self.limit)

    def read(self) -> dict[str, list[Example]]:
        splits = self.sentences()
        self._relations = sorted({relation for part in splits.values() for s in part for relation in s.relations})
        number = {relation: index for index, relation in enumerate(self._relations)}
        if self.encoder.layout().first is None:
            self._root_words = sum(governor == 0 for part in splits.values() for s in part for governor in s.governors)
            log.warning("%s: left out %d %s.", self.encoder.name, self._root_words, ROOT_WORDS)
        return {name: [self._example(s, number) for s in part] for name, part in splits.items()}

    def read_relations(self) -> list[str]:
        """The names of the relations of all splits, sorted; gold has their indices."""
        self.read_examples()
        return self._relations

    def facts(self) -> Facts:
        splits = self.read_splits()
        drawn = sentences_to_draw(splits["test"].items) if "test" in splits and self.units == "words" else ()
        if self.separators:
            layout = self.encoder.layout()
            drawn = [replace(one, tokens=(layout.first or "ROOT", *one.tokens, layout.separator or "")) for one in drawn]
        return replace(
            super().facts(), relations=tuple(self.read_relations()), drawn=tuple(drawn), separators=self.separators
        )

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        split = super().tokenise(examples, tokenizer)
        if self.units == "words":
            split.items = [counted_pieces(item) for item in split.items]
        if self.separators:
            split.items = [with_separator(item) for item in split.items]
        return split

    @property
    def left_out(self) -> dict[str, int]:
        return {ROOT_WORDS: self._root_words} if self._root_words else {}

    def _example(self, sentence: Sentence, number: dict[str, int]) -> Example:
        gold = {
            "governors": sentence.governors,
            "relations": [number[relation] for relation in sentence.relations],
            "punctuation": [relation.partition(":")[0] == PUNCTUATION for relation in sentence.relations],
            "control": control_governors(sentence.words, self.seed),
            "upos": [UPOS.index(tag) if tag in UPOS else len(UPOS) for tag in sentence.upos],
            # Where a possessive clitic follows, the paper asks it instead of the word.
            "asked": [
                index + (index < len(sentence.words) and sentence.words[index].lower() in POSSESSIVE_CLITICS)
                for index in range(1, len(sentence.words) + 1)
            ],
        }
        arrays = {name: np.array([IGNORE, *values], dtype=np.int32) for name, values in gold.items()}
        return Example(sentence.words, arrays)


def counted_pieces(item: Encoded) -> Encoded:
    """With the number of tokens of each word."""
    pieces = np.bincount(item.word_ids[item.word_ids > ROOT], minlength=len(item.example.words) + 1).astype(np.int32)
    pieces[ROOT] = IGNORE
    return replace(item, example=replace(item.example, gold={**item.example.gold, "pieces": pieces}))


def with_separator(item: Encoded) -> Encoded:
    """With one more unit behind the last word: all special tokens that are not ROOT."""
    end = len(item.example.words) + 1
    gold = {name: np.append(values, np.int32(IGNORE)) for name, values in item.example.gold.items()}
    vectors = None if item.vector_ids is None else np.append(item.vector_ids, np.int32(UNKNOWN))
    word_ids = np.where(item.word_ids == NO_WORD, end, item.word_ids).astype(np.int32)
    return replace(item, example=replace(item.example, gold=gold), word_ids=word_ids, size=end + 1, vector_ids=vectors)


def sentences_to_draw(items: list[Encoded]) -> list[DrawnInput]:
    """Sentences of a length that can be drawn, a greedy set cover of the relations: next comes who adds most of them."""
    found: list[DrawnInput] = []
    missing_in = {
        index: set(item.example.gold["relations"][1 : len(item.example.words) + 1].tolist())
        for index, item in enumerate(items)
        if len(item.example.words) in DRAWN_LENGTHS
    }
    while missing_in and len(found) < DRAWN:
        index = max(missing_in, key=lambda index: len(missing_in[index]))
        seen = missing_in.pop(index)
        missing_in = {other: left - seen for other, left in missing_in.items() if left - seen}
        words, gold = items[index].example.words, items[index].example.gold
        governors, relations = (tuple(gold[name][1 : len(words) + 1].tolist()) for name in ("governors", "relations"))
        found.append(DrawnInput(index, words, governors, relations))
    return found


def hold_out(sentences: list[Sentence], seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """A tenth (at least one) of the sentences, drawn by the seed, apart from the rest."""
    if len(sentences) < 2:
        raise ConfigError("data.val is missing, and data.train has too few sentences to hold a tenth out.")
    drawn = set(np.random.default_rng(seed).permutation(len(sentences))[: max(1, len(sentences) // 10)].tolist())
    kept = [s for index, s in enumerate(sentences) if index not in drawn]
    return kept, [s for index, s in enumerate(sentences) if index in drawn]


def control_governors(words: tuple[str, ...], seed: int) -> list[int]:
    """The control task: each word type attaches, at random but always alike, to the next, first or last word.

    A word that would attach to itself, or past the end, attaches to ROOT.
    """
    governors = []
    for index, word in enumerate(words, start=1):
        behaviour = zlib.crc32(f"{seed} {word}".encode()) % 3
        governor = (index + 1, 1, len(words))[behaviour]
        governors.append(0 if governor == index or governor > len(words) else governor)
    return governors
