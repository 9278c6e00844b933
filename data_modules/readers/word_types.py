"""Which tokens are of the same word, and how often a word occurs in the data: for sieves that ask for words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import BatchEncoding

NO_WORD = -1
QUESTION_MARK = "?"


class WordTypes:
    """Numbers the words of all inputs, in lower case, and counts them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.counts: list[int] = []

    def of_tokens(self, sentences: Sequence[int], words: Sequence[int], texts: Sequence[str]) -> dict[str, np.ndarray]:
        """For each token its word's index in its sentence and its number; the sentence is below 0 where there is no word."""
        numbers, seen = [], set()
        for sentence, word, text in zip(sentences, words, texts, strict=True):
            if sentence < 0:
                numbers.append(NO_WORD)
                continue
            number = self.numbers.setdefault(text.lower(), len(self.numbers))
            if number == len(self.counts):
                self.counts.append(0)
            if (sentence, word) not in seen:  # all pieces of a word are one word
                self.counts[number] += 1
                seen.add((sentence, word))
            numbers.append(number)
        inside = [sentence >= 0 for sentence in sentences]
        marks = [there and text == QUESTION_MARK for there, text in zip(inside, texts, strict=True)]
        return {
            "word_index": np.where(inside, words, NO_WORD).astype(np.int32),
            "word_type": np.array(numbers, dtype=np.int32),
            "question_mark": np.array(marks, dtype=np.int8),
        }

    def count_of_tokens(self, numbers: np.ndarray) -> np.ndarray:
        """How often the word of each token occurs in all inputs; 0 where there is no word."""
        return np.where(numbers >= 0, np.array([*self.counts, 0])[numbers], 0).astype(np.int32)


def same_word_pairs(sentences: Sequence[int], letters: Sequence[str]) -> np.ndarray:
    """Every token of a word of the first text with every token of the same word in the second, as (from, to, from, ...).

    Words are compared in lower case; what has neither letter nor digit is no word.
    """
    places: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
    for token, (sentence, text) in enumerate(zip(sentences, letters, strict=True)):
        if sentence in (0, 1) and any(sign.isalnum() for sign in text):
            places[sentence].setdefault(text.lower(), []).append(token)
    pairs = [(one, other) for word, tokens in places[0].items() for one in tokens for other in places[1].get(word, ())]
    return np.array(pairs, dtype=np.int32).reshape(-1)


def words_of_encoding(encoding: BatchEncoding, texts: Sequence[str]) -> tuple[list[int], list[int], list[str]]:
    """The text, the word in it and the letters of that word, of each token of a text or pair; -1 for special tokens."""
    sentences, words, letters = [], [], []
    spans: dict[tuple[int, int], str] = {}
    known: Any = encoding
    for sentence, word in zip(encoding.sequence_ids(0), encoding.word_ids(0), strict=True):
        if sentence is None or word is None:
            sentences.append(-1), words.append(NO_WORD), letters.append("")
            continue
        if (sentence, word) not in spans:
            start, end = known.word_to_chars(0, word, sequence_index=sentence)
            spans[sentence, word] = texts[sentence][start:end].strip()
        sentences.append(sentence), words.append(word), letters.append(spans[sentence, word])
    return sentences, words, letters
