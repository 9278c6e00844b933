"""Treebanks as token maps: gold dependencies and linguistic features between all pieces of both words."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.contracts import Facts
from headscope.data_modules.batches.examples import Encoded, Example, Split
from headscope.data_modules.encoders.layout import TokenClasses
from headscope.data_modules.readers.conllu import Sentence, read_conllu
from headscope.data_modules.readers.entities import with_entities
from headscope.data_modules.readers.features import (
    LINKS,
    SAME_WORD,
    coreferring_pairs,
    sentence_features,
    special_features,
    word_links,
)
from headscope.data_modules.readers.parser import dependency_arrays, pairs_of_pieces
from headscope.data_modules.readers.word_types import WordTypes
from headscope.data_modules.treebank import TreebankDataModule


class TreebankTokenDataModule(TreebankDataModule):
    """The same sentences as in TreebankDataModule, one sentence an input, with tokens as the unit of the maps."""

    units = "tokens"
    kind = "treebank_tokens"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.annotated = True  # with entities, as far as sentences are read

    def facts(self) -> Facts:
        facts = super().facts()  # which reads the sentences
        return replace(facts, features=True, coreference=self.annotated)

    def read_sentences(self, files: Sequence[Path]) -> list[Sentence]:
        found: list[Sentence] = []
        for file in files:
            left = None if self.limit is None else self.limit - len(found)
            found += with_entities(file, read_conllu([file], left))
        self.annotated &= all(sentence.entities is not None for sentence in found)
        return found

    def _example(self, sentence: Sentence, number: dict[str, int]) -> Example:
        example = super()._example(sentence, number)
        governors = [governor - 1 for governor in sentence.governors]
        links = word_links(sentence.upos, sentence.relations, governors)
        if sentence.entities is not None:
            mentions = [(head - 1, entity) for head, entity in sentence.entities]
            links["noun_pronoun"] = coreferring_pairs(sentence.upos, mentions)
        flat = {name: np.array(pairs, dtype=np.int16).reshape(-1) for name, pairs in links.items()}
        found = sentence_features(sentence.words, sentence.upos, sentence.relations, governors)
        features = np.array(found, dtype=np.int16)
        return Example(example.words, {**example.gold, "features": features, **flat})

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        words = super().tokenise(examples, tokenizer)
        classes, types = TokenClasses(tokenizer, self.encoder.layout()), WordTypes()
        items = [self._of_tokens(item, classes(item.input_ids), types) for item in words.items]
        for item in items:
            item.example.gold["word_count"] = types.count_of_tokens(item.example.gold["word_type"])
        return Split(items, words.skipped, words.dropped_words)

    def _of_tokens(self, item: Encoded, classes: np.ndarray, types: WordTypes) -> Encoded:
        gold, of_token = item.example.gold, item.word_ids - 1  # words from 0; special tokens below
        governors, relations = gold["governors"][1:] - 1, [self._relations[number] for number in gold["relations"][1:]]
        pairs, numbers = dependency_arrays(of_token, governors.tolist(), relations, self._relations)
        sentence = np.where(of_token >= 0, 0, -1).astype(np.int8)
        letters = [item.example.words[word] if word >= 0 else "" for word in of_token]
        arrays = {
            "token_class": classes,
            "sentence": sentence,
            **types.of_tokens(sentence.tolist(), of_token.tolist(), letters),
            "dependencies": np.array(pairs, dtype=np.int32),
            "dependency_relations": np.array(numbers, dtype=np.int32),
            "features": np.where(of_token >= 0, gold["features"][of_token.clip(0)], 0) | special_features(classes),
            **{name: token_pairs(of_token, gold[name]) for name in LINKS},
            SAME_WORD: np.zeros(0, dtype=np.int32),  # a sentence has no other beside it
        }
        ids = item.input_ids
        return Encoded(Example(item.example.words, arrays), ids, np.arange(len(ids), dtype=np.int32), len(ids))


def token_pairs(of_token: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Links between words as links between all their pieces."""
    pairs = words.reshape(-1, 2).tolist()
    found = [token for one, other in pairs for pair in pairs_of_pieces(of_token, one, other) for token in pair]
    return np.array(found, dtype=np.int32)
