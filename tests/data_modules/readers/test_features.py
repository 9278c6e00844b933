"""Linguistic features and links of words, by hand."""

import pytest

from headscope.data_modules.readers.features import (
    FEATURES,
    LINKS,
    NEGATIONS,
    bit,
    sentence_features,
    word_features,
    word_links,
)

NOUN, VERB, PRONOUN, SUBJECT, OBJECT, NEGATION, CLS, SEP = 1, 2, 4, 8, 16, 32, 64, 128
PUNCTUATION, MAIN_SUBJECT, MAIN_OBJECT = 256, 512, 1024
KOVALEVA = [
    "neither", "nor", "not", "never", "none", "don't", "won't", "didn't", "hadn't", "haven't", "can't", "isn't", "wasn't",
    "shouldn't", "couldn't", "nothing", "nowhere",
]  # fmt: skip


def test_each_feature_is_a_bit_of_its_own():
    expected = [NOUN, VERB, PRONOUN, SUBJECT, OBJECT, NEGATION, CLS, SEP, PUNCTUATION, MAIN_SUBJECT, MAIN_OBJECT]
    assert [bit(feature) for feature in FEATURES] == expected


@pytest.mark.parametrize(
    ("upos", "expected"),
    [("NOUN", NOUN), ("PROPN", NOUN), ("VERB", VERB), ("PRON", PRONOUN), ("PUNCT", PUNCTUATION)]
    + [(upos, 0) for upos in ("AUX", "ADJ", "ADV", "DET", "PART", "NUM", "X", "SPACE", "")],
)
def test_kinds_of_word(upos, expected):
    assert word_features("word", upos, "dep") == expected


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        *[(name, SUBJECT) for name in ("nsubj", "nsubj:pass", "nsubj:outer", "csubj", "csubj:pass")],  # UD
        *[(name, SUBJECT) for name in ("nsubjpass", "csubjpass")],  # spaCy
        *[(name, OBJECT) for name in ("obj", "iobj", "obj:agent", "iobj:patient")],  # UD
        *[(name, OBJECT) for name in ("dobj", "dative")],  # spaCy
        *[(name, 0) for name in ("root", "ROOT", "obl", "pobj", "aux:pass", "nmod:poss", "expl", "xcomp", "neg", "")],
    ],
)
def test_grammatical_roles_of_ud_and_of_spacy(relation, expected):
    assert word_features("word", "ADJ", relation) == expected


@pytest.mark.parametrize("word", [*KOVALEVA, "Not", "NEVER", "Don't", "don\u2019t"])
def test_negations(word):
    assert word_features(word, "PART", "advmod") == NEGATION


@pytest.mark.parametrize("word", ["no", "nobody", "knot", "nots", "t", "'t", "do", "ca", "cannot", "n't", "doesn't", ""])
def test_words_that_are_no_negation(word):
    assert word_features(word, "PART", "advmod") == 0


def test_the_negations_are_those_of_the_paper():
    assert set(KOVALEVA) == NEGATIONS


@pytest.mark.parametrize(
    ("words", "expected"),
    [("I do n't", [2, 3]), ("I wo n\u2019t", [2, 3]), ("It does n't", []), ("n't", []), ("Ca n't we not", [1, 2, 4])],
)
def test_a_contracted_negation_is_one_where_the_list_has_it(words, expected):
    split = words.split()
    found = sentence_features(split, ["PART"] * len(split), ["dep"] * len(split), [-1] * len(split))
    assert [index for index, features in enumerate(found, start=1) if features & NEGATION] == expected


def test_subjects_and_objects_of_the_main_predicate():
    # Ann says she sees him .
    relations, governors = ["nsubj", "root", "nsubj", "ccomp", "obj", "punct"], [1, -1, 3, 1, 3, 1]
    upos = ["PROPN", "VERB", "PRON", "VERB", "PRON", "PUNCT"]
    found = sentence_features(["Ann", "says", "she", "sees", "him", "."], upos, relations, governors)
    assert found == [NOUN + SUBJECT + MAIN_SUBJECT, VERB, PRONOUN + SUBJECT, VERB, PRONOUN + OBJECT, PUNCTUATION]


@pytest.mark.parametrize(
    ("word", "upos", "relation", "expected"),
    [
        ("dogs", "NOUN", "nsubj:pass", NOUN + SUBJECT),
        ("Ann", "PROPN", "dobj", NOUN + OBJECT),
        ("him", "PRON", "iobj", PRONOUN + OBJECT),
        ("she", "PRON", "nsubj", PRONOUN + SUBJECT),
        ("swimming", "VERB", "csubj", VERB + SUBJECT),
        ("Nothing", "PRON", "nsubj", PRONOUN + SUBJECT + NEGATION),
        ("none", "NOUN", "obj", NOUN + OBJECT + NEGATION),
    ],
)
def test_several_features_add_up(word, upos, relation, expected):
    assert word_features(word, upos, relation) == expected


def links(*words):
    """The links of words that are given as (upos, relation, head)."""
    found = word_links(*zip(*words, strict=True)) if words else word_links([], [], [])
    assert tuple(found) == LINKS == ("verb_subject", "noun_pronoun")
    return found["verb_subject"], found["noun_pronoun"]


def test_a_subject_before_its_verb():
    # dogs see them
    assert links(("NOUN", "nsubj", 1), ("VERB", "root", -1), ("PRON", "obj", 1)) == ([(1, 0)], [(0, 2)])


def test_a_subject_behind_its_verb():
    # says Ann
    assert links(("VERB", "root", -1), ("PROPN", "nsubj", 0)) == ([(0, 1)], [])


def test_a_verb_with_several_subjects_and_subjects_of_several_verbs():
    words = [("NOUN", "nsubj:outer", 2), ("PRON", "nsubj", 2), ("VERB", "root", -1), ("PRON", "nsubjpass", 4)]
    assert links(*words, ("VERB", "ccomp", 2)) == ([(2, 0), (2, 1), (4, 3)], [(0, 1), (0, 3)])


@pytest.mark.parametrize("upos", ["AUX", "ADJ", "NOUN"])
def test_a_subject_of_something_else_than_a_verb_is_not_linked(upos):
    assert links(("DET", "nsubj", 1), (upos, "root", -1)) == ([], [])


def test_a_subject_without_a_head_is_not_linked_to_the_last_word():
    assert links(("NOUN", "nsubj", -1), ("VERB", "root", -1)) == ([], [])


def test_other_dependents_of_a_verb_are_not_linked():
    words = [("NOUN", "obj", 3), ("NOUN", "obl", 3), ("ADV", "advmod", 3), ("VERB", "root", -1), ("NOUN", "vocative", 3)]
    assert links(*words)[0] == []


def test_every_noun_with_every_pronoun_on_either_side():
    words = [("PRON", "dep", -1), ("NOUN", "dep", -1), ("PROPN", "dep", -1), ("DET", "dep", -1), ("PRON", "dep", -1)]
    assert links(*words) == ([], [(1, 0), (1, 4), (2, 0), (2, 4)])


def test_no_words_have_no_links():
    assert links() == ([], [])
