"""Treebanks: sentences with gold dependencies."""

import zlib
from pathlib import Path

import numpy as np

from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.batches.examples import Encoded, Example
from headscope.data_modules.readers.conllu import Sentence, conllu_files, read_conllu
from headscope.errors import ConfigError, require_limit

SAMPLE = Path(__file__).parent / "samples" / "treebank"
PUNCTUATION = "punct"
POSSESSIVE_CLITICS = ("'s", "’s")
SHOWN_LENGTHS = range(5, 19)
SHOWN = 10


class TreebankDataModule(AttentionDataModule):
    """CoNLL-U files; without any, the packaged sample. A tenth of train becomes val where none is given."""

    kind = "treebank"

    def __init__(
        self,
        train: str | None = None,
        val: str | None = None,
        test: str | None = None,
        limit: int | None = None,
        **options: object,
    ) -> None:
        super().__init__(**options)
        paths = {"train": train, "val": val, "test": test}
        self.paths = {name: Path(path) for name, path in paths.items() if path}
        if not self.paths:
            self.paths = {name: SAMPLE / f"{name}.conllu" for name in paths}
        require_limit(limit)
        self.limit = limit

    @property
    def files(self) -> list[Path]:
        return [file for path in self.paths.values() for file in conllu_files(path)]

    def sentences(self) -> dict[str, list[Sentence]]:
        """The sentences of each split, read anew; the examples hold all that is used later."""
        splits = {name: read_conllu(conllu_files(path), self.limit) for name, path in self.paths.items()}
        if "train" in splits and "val" not in splits:
            splits["train"], splits["val"] = hold_out(splits["train"], self.seed)
        return splits

    def read(self) -> dict[str, list[Example]]:
        splits = self.sentences()
        self._relations = sorted({relation for part in splits.values() for s in part for relation in s.relations})
        number = {relation: place for place, relation in enumerate(self._relations)}
        return {name: [self._example(s, number) for s in part] for name, part in splits.items()}

    @property
    def relations(self) -> list[str]:
        """All relations of the data, by name."""
        return self._relations if self.examples else []

    @property
    def facts(self) -> dict[str, object]:
        return {**super().facts, "relations": self.relations, "shown": self.shown}

    @property
    def shown(self) -> list[dict[str, object]]:
        """Some test sentences of a length that can be drawn, which together have most relations."""
        return sentences_to_show(self.splits["test"].items) if "test" in self.splits else []

    def _example(self, sentence: Sentence, number: dict[str, int]) -> Example:
        gold = {
            "heads": sentence.heads,
            "relations": [number[relation] for relation in sentence.relations],
            "punctuation": [relation.partition(":")[0] == PUNCTUATION for relation in sentence.relations],
            "control": control_heads(sentence.words, self.seed),
            # Where a possessive 's follows, the released code asks that token instead of the word.
            "asked": [
                place + (place < len(sentence.words) and sentence.words[place].lower() in POSSESSIVE_CLITICS)
                for place in range(1, len(sentence.words) + 1)
            ],
        }
        arrays = {name: np.array([IGNORE, *values], dtype=np.int16) for name, values in gold.items()}
        return Example(sentence.words, arrays)


def sentences_to_show(items: list[Encoded]) -> list[dict[str, object]]:
    """One after another the sentence with most relations that none before it has."""
    found: list[dict[str, object]] = []
    missing_in = {
        place: set(item.example.gold["relations"][1:].tolist())
        for place, item in enumerate(items)
        if len(item.example.words) in SHOWN_LENGTHS
    }
    while missing_in and len(found) < SHOWN:
        place = max(missing_in, key=lambda place: len(missing_in[place]))
        seen = missing_in.pop(place)
        missing_in = {other: left - seen for other, left in missing_in.items() if left - seen}
        gold = {name: items[place].example.gold[name][1:].tolist() for name in ("heads", "relations")}
        found.append({"index": place, "words": items[place].example.words, **gold})
    return found


def hold_out(sentences: list[Sentence], seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """A tenth (at least one) of the sentences, drawn by the seed, apart from the rest."""
    if len(sentences) < 2:
        raise ConfigError("data.val is missing, and data.train has too few sentences to hold a tenth out.")
    drawn = set(np.random.default_rng(seed).permutation(len(sentences))[: max(1, len(sentences) // 10)].tolist())
    kept = [s for place, s in enumerate(sentences) if place not in drawn]
    return kept, [s for place, s in enumerate(sentences) if place in drawn]


def control_heads(words: tuple[str, ...], seed: int) -> list[int]:
    """The control task: each word type attaches, at random but always alike, to the next, first or last word.

    A word that would attach to itself, or past the end, attaches to ROOT.
    """
    heads = []
    for place, word in enumerate(words, start=1):
        behaviour = zlib.crc32(f"{seed} {word}".encode()) % 3
        head = (place + 1, 1, len(words))[behaviour]
        heads.append(0 if head == place or head > len(words) else head)
    return heads
