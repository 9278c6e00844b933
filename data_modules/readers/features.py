"""Linguistic features of words, by position: kinds of word, grammatical roles, and links between words."""

from collections.abc import Sequence

import numpy as np

from headscope.data_modules.segments import TOKEN_CLASSES

# Each feature is a bit of a token's number, in this order.
FEATURES = ("noun", "verb", "pronoun", "subject", "object", "negation", "cls", "sep")
LINKS = ("verb_subject", "noun_pronoun")
OF_UPOS = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "PRON": "pronoun"}
SUBJECTS = ("nsubj", "nsubjpass", "csubj", "csubjpass")
OBJECTS = ("obj", "dobj", "iobj", "dative")
NEGATION_WORDS = (
    "neither nor not never none don't won't didn't hadn't haven't can't isn't wasn't shouldn't couldn't nothing nowhere"
)
# Parsers split the contracted words before n't.
NEGATIONS = frozenset([*NEGATION_WORDS.split(), "n't", "n\u2019t"])


def bit(feature: str) -> int:
    """The number that stands for a feature."""
    return 1 << FEATURES.index(feature)


def word_features(word: str, upos: str, relation: str) -> int:
    """All features of a word."""
    base = relation.partition(":")[0]
    found = {OF_UPOS.get(upos)}
    found |= {"subject"} if base in SUBJECTS else set()
    found |= {"object"} if base in OBJECTS else set()
    found |= {"negation"} if word.lower() in NEGATIONS else set()
    return sum(bit(feature) for feature in found if feature)


def special_features(token_classes: np.ndarray) -> np.ndarray:
    """The features of [CLS] and [SEP] tokens; none for all others."""
    found = np.zeros(len(token_classes), dtype=np.int32)
    for name in ("cls", "sep"):
        found |= np.where(token_classes == TOKEN_CLASSES.index(name), bit(name), 0).astype(np.int32)
    return found


def word_links(upos: Sequence[str], relations: Sequence[str], governors: Sequence[int]) -> dict[str, list[tuple[int, int]]]:
    """Pairs of word indices, from 0: each verb with its subjects, and each noun with each pronoun of the text."""
    kinds = [OF_UPOS.get(tag) for tag in upos]
    subjects = [word for word, relation in enumerate(relations) if relation.partition(":")[0] in SUBJECTS]
    nouns, pronouns = ([word for word, kind in enumerate(kinds) if kind == name] for name in ("noun", "pronoun"))
    return {
        "verb_subject": [(governors[s], s) for s in subjects if governors[s] >= 0 and kinds[governors[s]] == "verb"],
        "noun_pronoun": [(noun, pronoun) for noun in nouns for pronoun in pronouns],
    }
