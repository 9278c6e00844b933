"""Treebanks: sentences with gold dependencies."""

import logging
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headscope.contracts import DrawnInput, Facts
from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.batches.examples import Encoded, Example
from headscope.data_modules.readers.conllu import Sentence, conllu_files, read_conllu
from headscope.errors import ConfigError, DataError, require_limit

log = logging.getLogger(__name__)
SAMPLE = Path(__file__).parent / "samples" / "treebank"
PUNCTUATION = "punct"
POSSESSIVE_CLITICS = ("'s", "’s")
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
        **options: Any,
    ) -> None:
        super().__init__(**options)
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
        splits = {name: read_conllu(conllu_files(path), self.limit) for name, path in self.paths.items()}
        for name, sentences in splits.items():
            if all(len(sentence.words) == 1 for sentence in sentences):
                raise DataError(f"{self.paths[name]}: expected sentences of two or more words, found only single words.")
        if "train" in splits and "val" not in splits:
            splits["train"], splits["val"] = hold_out(splits["train"], self.seed)
        return splits

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
        return replace(super().facts(), relations=tuple(self.read_relations()), drawn=tuple(drawn))

    @property
    def left_out(self) -> dict[str, int]:
        return {ROOT_WORDS: self._root_words} if self._root_words else {}

    def _example(self, sentence: Sentence, number: dict[str, int]) -> Example:
        gold = {
            "governors": sentence.governors,
            "relations": [number[relation] for relation in sentence.relations],
            "punctuation": [relation.partition(":")[0] == PUNCTUATION for relation in sentence.relations],
            "control": control_governors(sentence.words, self.seed),
            # Where a possessive 's follows, the released code asks that token instead of the word.
            "asked": [
                index + (index < len(sentence.words) and sentence.words[index].lower() in POSSESSIVE_CLITICS)
                for index in range(1, len(sentence.words) + 1)
            ],
        }
        arrays = {name: np.array([IGNORE, *values], dtype=np.int32) for name, values in gold.items()}
        return Example(sentence.words, arrays)


def sentences_to_draw(items: list[Encoded]) -> list[DrawnInput]:
    """Sentences of a length that can be drawn, a greedy set cover of the relations: next comes who adds most of them."""
    found: list[DrawnInput] = []
    missing_in = {
        index: set(item.example.gold["relations"][1:].tolist())
        for index, item in enumerate(items)
        if len(item.example.words) in DRAWN_LENGTHS
    }
    while missing_in and len(found) < DRAWN:
        index = max(missing_in, key=lambda index: len(missing_in[index]))
        seen = missing_in.pop(index)
        missing_in = {other: left - seen for other, left in missing_in.items() if left - seen}
        governors, relations = (tuple(items[index].example.gold[name][1:].tolist()) for name in ("governors", "relations"))
        found.append(DrawnInput(index, items[index].example.words, governors, relations))
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
