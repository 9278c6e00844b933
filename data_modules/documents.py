"""Documents with coreference: the mentions of a window of tokens, and what each baseline makes of them."""

import logging
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.examples import Example
from headscope.data_modules.readers.conll2012 import read_conll2012
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.readers.mentions import BASELINES, KINDS, Document, Mention, candidates
from headscope.errors import DataError, require_choice, require_limit
from headscope.files import data_files
from headscope.processes import progress

log = logging.getLogger(__name__)
SAMPLE = Path(__file__).parent / "samples" / "coreference"
READERS = {".conllu": read_entity_documents, "_conll": read_conll2012}


class DocumentDataModule(AttentionDataModule):
    """CoNLL-U with Entity= or CoNLL-2012 (*_conll); without a file, the packaged documents."""

    kind = "documents"

    def __init__(self, test: str | None = None, limit: int | None = None, windows: str = "first", **options: Any) -> None:
        super().__init__(**options)
        require_limit(limit)
        require_choice("data.windows", windows, ("first", "all"))
        self.path, self.limit, self.windows = Path(test) if test else SAMPLE, limit, windows
        self.without_chains = self.mentions_outside = self.without_words = 0

    def files(self) -> list[Path]:
        return document_files(self.path)

    def read(self) -> dict[str, list[Example]]:
        files = progress(self.files(), "reading")
        documents = [document for file in files for document in READERS[cast(str, suffix_of(file))](file)][: self.limit]
        if not documents:
            raise DataError(f"{self.path}: expected at least one document, found none.")
        self.without_words = sum(not document.words for document in documents)
        if self.without_words:
            log.warning("%s: left out %d documents without a word.", self.path, self.without_words)
        tokenizer = self.encoder.tokenizer()
        parts = [
            (number, window)
            for number, document in enumerate(documents)
            for window in windows_of(document, pieces(document, tokenizer), self._room(tokenizer), self.windows)
        ]
        self.mentions_outside = sum(len(d.mentions) for d in documents) - sum(len(part.mentions) for _, part in parts)
        examples = [example(part, number) for number, part in parts]
        with_chains = [example for example in examples if (example.gold["antecedents"] > 0).any()]
        self.without_chains = len(examples) - len(with_chains)
        if not with_chains:
            raise DataError(
                f"{self.path}: no document has a mention with an antecedent in its first {self.max_pieces} tokens."
            )
        if self.without_chains:
            log.warning("%s: left out %d windows without any chain.", self.path, self.without_chains)
        return {"test": with_chains}

    def _room(self, tokenizer: PreTrainedTokenizerBase) -> int:
        return self.max_pieces - tokenizer.num_special_tokens_to_add()

    @property
    def left_out(self) -> dict[str, int]:
        counts = {"windows without any chain": self.without_chains, "mentions outside the windows": self.mentions_outside}
        return counts | ({"documents without a word": self.without_words} if self.without_words else {})


def document_files(path: str | Path) -> list[Path]:
    """The file itself, or all files of a folder, also below it, that a reader takes."""
    many, one = "*.conllu or *_conll files", "a *.conllu or *_conll file"
    files = data_files(path, lambda file: suffix_of(file) is not None, many, one, below=True)
    if not suffix_of(files[0]):
        raise DataError(f"{files[0]}: expected a name that ends in .conllu or _conll.")
    # CoNLL-2012 comes with its documents twice: with gold and with automatic annotation.
    gold = any(file.name.endswith("_gold_conll") for file in files)
    return [file for file in files if not (gold and file.name.endswith("_auto_conll"))]


def suffix_of(file: Path) -> str | None:
    """How the name ends, where that says how to read the file."""
    return next((suffix for suffix in READERS if file.name.endswith(suffix)), None)


def pieces(document: Document, tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """The number of tokens of each word."""
    encoding = tokenizer(list(document.words), is_split_into_words=True, add_special_tokens=False, verbose=False)
    return np.bincount(np.array(encoding.word_ids(0), dtype=int), minlength=len(document.words))


def windows_of(document: Document, sizes: np.ndarray, room: int, which: str) -> Iterator[Document]:
    """The document cut to what fits, or cut into such windows; each has the mentions that lie wholly in it."""
    edges = window_edges(sizes, room, which)
    inside: list[list[Mention]] = [[] for _ in edges[1:]]
    for m in document.mentions:
        number = bisect_right(edges, m.start - 1) - 1
        if number < len(inside) and m.end <= edges[number + 1]:
            inside[number].append(_moved(m, edges[number]))
    for (start, end), mentions in zip(pairwise(edges), inside, strict=True):
        yield Document(document.name, document.words[start:end], tuple(mentions))


def window_edges(sizes: np.ndarray, room: int, which: str) -> list[int]:
    """Where windows of words begin, from 0, and where the last one ends; a word that does not fit stands alone."""
    before = np.concatenate([[0], np.cumsum(sizes)])  # tokens before each word
    edges = [0]
    while edges[-1] < len(sizes) and (which == "all" or len(edges) == 1):
        fitting = int(np.searchsorted(before, before[edges[-1]] + room, side="right")) - 1
        edges.append(max(edges[-1] + 1, fitting))
    return edges


def _moved(m: Mention, by: int) -> Mention:
    return replace(m, start=m.start - by, end=m.end - by, head=m.head - by)


def example(document: Document, number: int) -> Example:
    """The words with one gold value per mention, and the number of the document.

    A baseline's value is 1 where its choice is an antecedent.
    """
    mentions = document.mentions
    groups = {name: number for number, name in enumerate(dict.fromkeys(m.group for m in mentions))}
    before = [candidates(m, mentions) for m in mentions]
    gold = {
        "document": [number],
        "mention_heads": [m.head for m in mentions],
        "groups": [groups[m.group] for m in mentions],
        "kinds": [KINDS.index(m.kind) for m in mentions],
        "antecedents": [sum(other.group == m.group for other in b) for m, b in zip(mentions, before, strict=True)],
    }
    for name, rule in BASELINES.items():
        chosen = [rule(m, b) for m, b in zip(mentions, before, strict=True)]
        gold[name] = [int(c is not None and c.group == m.group) for m, c in zip(mentions, chosen, strict=True)]
    return Example(document.words, {name: np.array(values, dtype=np.int32) for name, values in gold.items()})
