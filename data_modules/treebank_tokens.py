"""Treebanks as token maps: gold dependencies between all pieces of both words."""

import numpy as np
from transformers import PreTrainedTokenizerBase

from data_modules.examples import Encoded, Example, Split
from data_modules.parser import dependency_arrays
from data_modules.segments import token_classes
from data_modules.treebank import TreebankDataModule


class TreebankTokenDataModule(TreebankDataModule):
    """The same sentences as in TreebankDataModule, one sentence an input, with tokens as the unit of the maps."""

    units = "tokens"
    kind = "treebank_tokens"

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        words = super().tokenise(examples, tokenizer)
        classes = token_classes(tokenizer)
        items = [self._of_tokens(item, classes) for item in words.items]
        return Split(items, words.skipped, words.dropped_words)

    def _of_tokens(self, item: Encoded, classes: np.ndarray) -> Encoded:
        gold, of_token = item.example.gold, item.word_ids - 1  # words from 0; special tokens below
        heads, relations = gold["heads"][1:] - 1, [self.relations[number] for number in gold["relations"][1:]]
        pairs, numbers = dependency_arrays(of_token, heads.tolist(), relations, self.relations)
        arrays = {
            "token_class": classes[item.input_ids],
            "sentence": np.where(of_token >= 0, 0, -1).astype(np.int8),
            "dependencies": np.array(pairs, dtype=np.int32),
            "dependency_relations": np.array(numbers, dtype=np.int32),
        }
        ids = item.input_ids
        return Encoded(Example(item.example.words, arrays), ids, np.arange(len(ids), dtype=np.int32), len(ids))

    @property
    def shown(self) -> list[dict[str, object]]:
        return []
