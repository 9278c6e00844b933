"""A spaCy pipeline as a source of linguistic features; an optional part."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from transformers import BatchEncoding

from headscope.data_modules.readers.features import LINKS, sentence_features, word_links
from headscope.data_modules.readers.mentions import Word
from headscope.errors import ConfigError
from headscope.files import files_sha256, once

NO_TOKEN = -1


@dataclass(frozen=True)
class ParsedText:
    """The words of a text: where they stand, what they are, how they are linked."""

    starts: np.ndarray
    ends: np.ndarray
    features: list[int]
    links: dict[str, list[tuple[int, int]]]
    governors: list[int]  # words from 0; -1 for roots
    relations: list[str]


class Parser:
    """Loads the pipeline when it is first needed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pipeline: Any = None  # of spaCy, which need not be installed

    def parse(self, texts: Sequence[str]) -> Iterator[ParsedText]:
        """The words of each text, in order."""
        for document in self._load().pipe(texts, batch_size=256):
            upos, relations = [token.pos_ for token in document], [token.dep_ for token in document]
            governors = [token.head.i if token.head.i != token.i else -1 for token in document]
            yield ParsedText(
                starts=np.array([token.idx for token in document]),
                ends=np.array([token.idx + len(token.text) for token in document]),
                features=sentence_features([token.text for token in document], upos, relations, governors),
                links=word_links(upos, relations, governors),
                governors=governors,
                relations=relations,
            )

    def parse_words(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[Word]]:
        """The grammar of each sentence, in order; its words are taken as they are given."""
        self.relations()  # a pipeline without them is refused
        pipeline = self._load()
        from spacy.tokens import Doc

        given = (Doc(pipeline.vocab, words=list(words)) for words in sentences)
        for document in pipeline.pipe(given, batch_size=64):
            yield [
                Word(
                    upos=token.pos_,
                    governor=token.head.i + 1 if token.head.i != token.i else 0,
                    relation=token.dep_,
                    plural={"Plur": True, "Sing": False}.get("".join(token.morph.get("Number"))),
                )
                for token in document
            ]

    @once
    def relations(self) -> list[str]:
        """The names of all dependencies that the pipeline knows."""
        if not self._load().has_pipe("parser"):
            raise ConfigError(f"parser={self.name}: this pipeline finds no dependencies.")
        return sorted(self._load().get_pipe("parser").labels)

    def inputs(self) -> dict[str, str]:
        """The checksums of the pipeline's files."""
        files = sorted(file for file in Path(self._load().path).rglob("*") if file.is_file())
        return {str(file): files_sha256([file]) for file in files}

    def _load(self) -> Any:
        if self.pipeline is None:
            try:
                import spacy

                self.pipeline = spacy.load(self.name, exclude=["ner", "lemmatizer"])
            except ImportError as error:
                raise ConfigError("parser: spaCy is not installed; run `make setup`, or pip install spacy.") from error
            except OSError as error:
                raise ConfigError(f"parser={self.name}: no spaCy pipeline of that name or in that folder.") from error
        return self.pipeline


def overlapping_words(encoding: BatchEncoding, texts: Sequence[ParsedText]) -> Iterator[tuple[int, int, np.ndarray]]:
    """Each token with the number of its text and the words that it overlaps: one, or several in one token."""
    for token, number in enumerate(encoding.sequence_ids(0)):
        if number is not None and number < len(texts):
            start, end = cast(tuple[int, int], encoding.token_to_chars(token))
            yield token, number, np.flatnonzero((texts[number].starts < end) & (texts[number].ends > start))


def words_of_tokens(encoding: BatchEncoding, texts: Sequence[ParsedText]) -> list[np.ndarray]:
    """For each text, the first word that each token overlaps; NO_TOKEN where it is of the other text, or of none."""
    found = [np.full(len(encoding["input_ids"]), NO_TOKEN) for _ in texts]
    for token, number, words in overlapping_words(encoding, texts):
        if len(words):
            found[number][token] = words[0]
    return found


def token_features(encoding: BatchEncoding, texts: Sequence[ParsedText]) -> dict[str, np.ndarray]:
    """Features of every token, and the pairs of tokens of each link as (from, to, from, to, ...)."""
    features = np.zeros(len(encoding["input_ids"]), dtype=np.int32)
    for token, number, words in overlapping_words(encoding, texts):
        for word in words:
            features[token] |= texts[number].features[word]
    links: dict[str, list[int]] = {name: [] for name in LINKS}
    for text, of_token in zip(texts, words_of_tokens(encoding, texts), strict=True):
        for name, pairs in text.links.items():
            for one, other in pairs:
                links[name].extend(token for pair in pairs_of_pieces(of_token, one, other) for token in pair)
    return {"features": features} | {name: np.array(tokens, dtype=np.int32) for name, tokens in links.items()}


def pairs_of_pieces(of_token: np.ndarray, one: int, other: int) -> list[tuple[int, int]]:
    """Every token of one word with every token of another."""
    ends = [np.flatnonzero(of_token == word).tolist() for word in (one, other)]
    return [(a, b) for a in ends[0] for b in ends[1]]


def dependency_arrays(
    of_token: np.ndarray, governors: Sequence[int], relations: Sequence[str], names: Sequence[str]
) -> tuple[list[int], list[int]]:
    """All pieces of each word with all of its governor, as (dependent, governor, ...), and the relation of each pair.

    A root, which has no governor, is linked with itself by the relation that says so.
    """
    pairs, numbers = [], []
    for word, governor in enumerate(governors):
        if governor < 0 and relations[word] not in names:
            continue
        for pair in pairs_of_pieces(of_token, word, governor if governor >= 0 else word):
            pairs += pair
            numbers.append(names.index(relations[word]))
    return pairs, numbers


def token_dependencies(encoding: BatchEncoding, texts: Sequence[ParsedText], names: Sequence[str]) -> dict[str, np.ndarray]:
    """The dependencies of an input between its tokens."""
    pairs, numbers = [], []
    for text, of_token in zip(texts, words_of_tokens(encoding, texts), strict=True):
        more_pairs, more_numbers = dependency_arrays(of_token, text.governors, text.relations, names)
        pairs, numbers = pairs + more_pairs, numbers + more_numbers
    return {
        "dependencies": np.array(pairs, dtype=np.int32),
        "dependency_relations": np.array(numbers, dtype=np.int32),
    }
