"""Documents with coreference: the mentions of a window of tokens, and what each baseline makes of them."""

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.contracts import DrawnInput, Facts
from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.examples import Encoded, Example
from headscope.data_modules.readers.coreference import document_files, read_documents
from headscope.data_modules.readers.mentions import BASELINES, KINDS, Document, Mention, candidates, parsed_document
from headscope.data_modules.readers.parser import Parser
from headscope.errors import DataError, require_choice, require_limit
from headscope.processes import progress

log = logging.getLogger(__name__)
SAMPLE = Path(__file__).parent / "samples" / "coreference"
WITHOUT_KIND = "mentions from the kinds, for want of a part of speech"
UNKNOWN = -1  # in the place of a kind
DRAWN, DRAWN_MENTIONS = 3, range(4, 25)  # documents whose maps can be drawn, and the head words of mentions in one
# What becomes of mentions that are in no window.
OUTSIDE = {
    "first": "mentions outside the first {} tokens of a document (data.windows=all takes all of its windows)",
    "all": "mentions that no window of {} tokens holds whole",
}


class DocumentDataModule(AttentionDataModule):
    """CoNLL-U with Entity=, CoNLL-2012 or three columns; without a file, the packaged documents.

    `parser` is a spaCy pipeline, by name or folder, for documents that have neither a parse nor parts of speech.
    """

    kind = "documents"

    def __init__(
        self,
        test: str | None = None,
        limit: int | None = None,
        windows: str = "first",
        singletons: bool = True,
        parser: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        require_limit(limit)
        require_choice("data.windows", windows, ("first", "all"))
        self.path, self.limit, self.windows, self.singletons = Path(test) if test else SAMPLE, limit, windows, singletons
        self.single = 0  # mentions that are the only one of their entity
        self.parser = Parser(parser) if parser else None
        self.parsed = False
        self._left_out: dict[str, int] = {}

    def files(self) -> list[Path]:
        return document_files(self.path)

    def read(self) -> dict[str, list[Example]]:
        files = progress(self.files(), "reading")
        documents = [document for file in files for document in read_documents(file)][: self.limit]
        if not documents:
            raise DataError(f"{self.path}: expected at least one document, found none.")
        texts = [document.words for document in documents if document.words]
        if again := len(texts) - len(set(texts)):
            log.warning("%s: %d documents have the words of another and count again.", self.path, again)
        documents = self._with_grammar(documents)
        self.single = sum(len(d.mentions) - len(without_singletons(d).mentions) for d in documents)
        if not self.singletons:
            documents = [without_singletons(document) for document in documents]
        tokenizer = self.encoder.tokenizer()
        room = self.max_pieces - tokenizer.num_special_tokens_to_add()
        parts = [
            (number, window)
            for number, document in enumerate(documents)
            for window in windows_of(document, pieces(document, tokenizer), room, self.windows)
        ]
        examples = [example(part, number) for number, part in parts]
        with_chains = [example for example in examples if (example.gold["antecedents"] > 0).any()]
        if not with_chains:
            where = "its first" if self.windows == "first" else "a window of"
            way_out = "; data.windows=all takes all of its windows" if self.windows == "first" else ""
            raise DataError(
                f"{self.path}: no document has a mention with an antecedent in {where} {self.max_pieces} tokens{way_out}."
            )
        self._count_left_out(documents, [part for _, part in parts], len(examples) - len(with_chains))
        return {"test": with_chains}

    def facts(self) -> Facts:
        items = self.read_splits()["test"].items
        taken = "are candidates too" if self.singletons else "are no candidates, as CoNLL-2012 annotates none"
        note = f"singletons: {self.single:,} mentions without any other of their entity {taken} (data.singletons)"
        return replace(super().facts(), drawn=documents_to_draw(items), notes=(note,))

    def _with_grammar(self, documents: list[Document]) -> list[Document]:
        """Documents without parse and part of speech get both from the parser; without a parser, a warning says so."""
        unparsed = [document for document in documents if document.unparsed]
        if not unparsed:
            return documents
        if self.parser is None:
            log.warning(
                "%s: %d documents have neither a parse nor parts of speech: the last word of a mention stands for its head "
                "word, and of the kinds only pronouns are told, by a list of words; parser= names a spaCy pipeline that "
                "gives both.",
                self.path,
                len(unparsed),
            )
            return documents
        self.parsed = True
        grammar = self.parser.parse_words(progress([words for d in unparsed for words in sentences_of(d)], "parsing"))
        return [parsed_document(d, [next(grammar) for _ in d.unparsed]) if d.unparsed else d for d in documents]

    def _count_left_out(self, documents: list[Document], parts: list[Document], without_chains: int) -> None:
        inside = [(m, part) for part in parts for m in part.mentions]
        self._left_out = {
            "windows without any chain": without_chains,
            OUTSIDE[self.windows].format(self.max_pieces): sum(len(d.mentions) for d in documents) - len(inside),
        }
        # What most files do not lack is not listed for them.
        lacking = {
            "documents without a word": sum(not document.words for document in documents),
            "head words, for want of a parse: the last word of a mention stands for it": sum(
                bool(part.unparsed) for _, part in inside
            ),
            WITHOUT_KIND: sum(m.kind is None for m, _ in inside),
        }
        self._left_out |= {what: count for what, count in lacking.items() if count}
        for what in ("windows without any chain", "documents without a word", WITHOUT_KIND):
            if count := self._left_out.get(what):
                log.warning("%s: left out %d %s.", self.path, count, what)

    @property
    def left_out(self) -> dict[str, int]:
        return dict(self._left_out)

    def inputs(self) -> dict[str, str]:
        return {**super().inputs(), **(self.parser.inputs() if self.parser and self.parsed else {})}


def without_singletons(document: Document) -> Document:
    """Without the mentions that no other mention of the document has the entity of."""
    mentions = Counter(m.group for m in document.mentions)
    return replace(document, mentions=tuple(m for m in document.mentions if mentions[m.group] > 1))


def documents_to_draw(items: Sequence[Encoded]) -> tuple[DrawnInput, ...]:
    """The inputs with most mentions that have an antecedent, of those whose head words can be drawn."""
    gold = {index: item.example.gold for index, item in enumerate(items)}
    fitting = [index for index, one in gold.items() if len(set(one["mention_heads"].tolist())) in DRAWN_MENTIONS]
    fitting.sort(key=lambda index: -int((gold[index]["antecedents"] > 0).sum()))
    return tuple(
        DrawnInput(
            index,
            items[index].example.words,
            marked={
                name: tuple(gold[index][key].tolist()) for name, key in (("heads", "mention_heads"), ("groups", "groups"))
            },
        )
        for index in fitting[:DRAWN]
    )


def sentences_of(document: Document) -> Iterator[tuple[str, ...]]:
    """The words of each sentence of an unparsed document."""
    for start, end in pairwise(accumulate(document.unparsed, initial=0)):
        yield document.words[start:end]


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
        yield replace(document, words=document.words[start:end], mentions=tuple(mentions))


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
        "kinds": [KINDS.index(m.kind) if m.kind else UNKNOWN for m in mentions],
        "antecedents": [sum(other.group == m.group for other in b) for m, b in zip(mentions, before, strict=True)],
    }
    for name, rule in BASELINES.items():
        chosen = [rule(m, b) for m, b in zip(mentions, before, strict=True)]
        gold[name] = [int(c is not None and c.group == m.group) for m, c in zip(mentions, chosen, strict=True)]
    return Example(document.words, {name: np.array(values, dtype=np.int32) for name, values in gold.items()})
