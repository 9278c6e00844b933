"""Linguistic features of words, by position: kinds of word, grammatical roles, and links between words."""

from collections.abc import Sequence

import numpy as np

from headscope.data_modules.segments import TOKEN_CLASSES

# Each feature is a bit of a token's number, in this order.
FEATURES = (
    "noun", "verb", "pronoun", "subject", "object", "negation", "cls", "sep", "punctuation", "main_subject", "main_object",
)  # fmt: skip
LINKS = ("verb_subject", "noun_pronoun")  # within a text
SAME_WORD = "same_word"  # a link from the first text of a pair to the second
OF_UPOS = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "PRON": "pronoun", "PUNCT": "punctuation"}
SUBJECTS = ("nsubj", "nsubjpass", "csubj", "csubjpass")
OBJECTS = ("obj", "dobj", "iobj", "dative")
NEGATION_WORDS = (
    "neither nor not never none don't won't didn't hadn't haven't can't isn't wasn't shouldn't couldn't nothing nowhere"
)
NEGATIONS = frozenset(NEGATION_WORDS.split())  # the paper's, and no other: not no, nobody or doesn't
NOT = "n't"  # parsers split the contracted words before it


def bit(feature: str) -> int:
    """The number that stands for a feature."""
    return 1 << FEATURES.index(feature)


def word_features(word: str, upos: str, relation: str) -> int:
    """All features of a word."""
    base = relation.partition(":")[0]
    found = {OF_UPOS.get(upos)}
    found |= {"subject"} if base in SUBJECTS else set()
    found |= {"object"} if base in OBJECTS else set()
    found |= {"negation"} if plain(word) in NEGATIONS else set()
    return sum(bit(feature) for feature in found if feature)


def plain(word: str) -> str:
    """In lower case, with the typewriter's apostrophe."""
    return word.lower().replace("\u2019", "'")


def sentence_features(
    words: Sequence[str], upos: Sequence[str], relations: Sequence[str], governors: Sequence[int]
) -> list[int]:
    """All features of each word; governors are words from 0, below 0 for roots.

    Both parts of a contracted negation are one where they make a word of the list (do + n't, not does + n't). Subjects and
    objects of a root are also those of the main predicate.
    """
    found = [word_features(*word) for word in zip(words, upos, relations, strict=True)]
    for index, word in enumerate(words):
        if index and plain(word) == NOT and plain(words[index - 1]) + NOT in NEGATIONS:
            found[index - 1] |= bit("negation")
            found[index] |= bit("negation")
        if (governor := governors[index]) >= 0 and governors[governor] < 0:
            for role in ("subject", "object"):
                if found[index] & bit(role):
                    found[index] |= bit(f"main_{role}")
    return found


def special_features(token_classes: np.ndarray) -> np.ndarray:
    """The features of [CLS] and [SEP] tokens; none for all others."""
    found = np.zeros(len(token_classes), dtype=np.int32)
    for name in ("cls", "sep"):
        found |= np.where(token_classes == TOKEN_CLASSES.index(name), bit(name), 0).astype(np.int32)
    return found


def coreferring_pairs(upos: Sequence[str], entities: Sequence[tuple[int, str]]) -> list[tuple[int, int]]:
    """Each noun with each pronoun of the same entity; mentions come as head word, from 0, and entity."""
    kinds = [OF_UPOS.get(tag) for tag in upos]
    nouns, pronouns = ([(word, entity) for word, entity in entities if kinds[word] == name] for name in ("noun", "pronoun"))
    found = [(noun, pronoun) for noun, one in nouns for pronoun, other in pronouns if one == other]
    return list(dict.fromkeys(found))  # a word may be the head of several mentions


def word_links(upos: Sequence[str], relations: Sequence[str], governors: Sequence[int]) -> dict[str, list[tuple[int, int]]]:
    """Pairs of word indices, from 0: each verb with its subjects, and each noun with each pronoun of the text."""
    kinds = [OF_UPOS.get(tag) for tag in upos]
    subjects = [word for word, relation in enumerate(relations) if relation.partition(":")[0] in SUBJECTS]
    nouns, pronouns = ([word for word, kind in enumerate(kinds) if kind == name] for name in ("noun", "pronoun"))
    return {
        "verb_subject": [(governors[s], s) for s in subjects if governors[s] >= 0 and kinds[governors[s]] == "verb"],
        "noun_pronoun": [(noun, pronoun) for noun in nouns for pronoun in pronouns],
    }
