"""Mentions: number, gender and person by hand, and who agrees with whom."""

import pytest

from headscope.data_modules.readers.mentions import Mention, mention, pronoun_number


def made(text, head, kind, plural=None, before=""):
    """The mention of a text, whose head word is given by its form, after some other words."""
    words = [*before.split(), *text.split()]
    start = len(before.split()) + 1
    return mention(words, (start, len(words)), words.index(head, start - 1) + 1, "g", kind, plural)


def with_features(number=None, gender=None, person=3):
    return Mention(1, 1, 1, "g", "nominal", "x", "x", number, gender, person)


def test_a_mention_by_hand():
    words = ["Then", "The", "Old", "Man", "of", "Rome", "left"]
    expected = Mention(2, 6, 4, "7", "nominal", "the old man of rome", "man", "singular", "masculine", 3)
    assert mention(words, (2, 6), 4, "7", "nominal", False) == expected


@pytest.mark.parametrize(
    ("word", "number", "gender", "person"),
    [
        ("I", "singular", None, 1),
        ("my", "singular", None, 1),
        ("We", "plural", None, 1),
        ("ourselves", "plural", None, 1),
        ("you", None, None, 2),
        ("yourself", "singular", None, 2),
        ("yourselves", "plural", None, 2),
        ("He", "singular", "masculine", 3),
        ("himself", "singular", "masculine", 3),
        ("her", "singular", "feminine", 3),
        ("hers", "singular", "feminine", 3),
        ("its", "singular", "neuter", 3),
        ("they", "plural", None, 3),
        ("themselves", "plural", None, 3),
        ("this", "singular", None, 3),
        ("those", "plural", None, 3),
        ("who", None, None, 3),
        ("which", None, None, 3),
    ],
)
def test_pronouns_by_hand(word, number, gender, person):
    found = made(word, word, "pronoun")
    assert (found.number, found.gender, found.person) == (number, gender, person)
    assert pronoun_number(word.lower()) == number


@pytest.mark.parametrize(("plural", "number"), [(True, "plural"), (False, "singular"), (None, None)])
def test_the_number_of_a_noun_is_what_the_annotation_says(plural, number):
    assert made("the sheep", "sheep", "nominal", plural).number == number
    assert made("Texas", "Texas", "proper", plural).number == number


@pytest.mark.parametrize(
    ("text", "head", "kind", "gender"),
    [
        ("the old king", "king", "nominal", "masculine"),
        ("two girls", "girls", "nominal", "feminine"),
        ("his mother", "mother", "nominal", "feminine"),
        ("her car", "car", "nominal", None),
        ("the king 's car", "car", "nominal", None),
        ("a doctor", "doctor", "nominal", None),
        ("Mr. Smith", "Smith", "proper", "masculine"),
        ("Mrs Lee", "Lee", "proper", "feminine"),
        ("MS. Lee", "Lee", "proper", "feminine"),
        ("Sir Walter Scott", "Scott", "proper", "masculine"),
        ("Queen Anne", "Anne", "proper", None),
        ("Ann", "Ann", "proper", None),
    ],
)
def test_gender_from_the_head_word_or_a_title_before_a_name(text, head, kind, gender):
    assert made(text, head, kind).gender == gender


def test_the_title_of_a_possessor_says_nothing_of_the_head():
    assert made("Mr. Smith 's car", "car", "nominal").gender is None


@pytest.mark.parametrize(
    ("text", "head", "kind"), [("the US", "US", "proper"), ("the mine", "mine", "nominal"), ("I - 44", "I", "proper")]
)
def test_nouns_and_names_are_of_the_third_person(text, head, kind):
    assert made(text, head, kind).person == 3


def test_a_coordination_that_starts_with_a_pronoun_is_plural():
    assert made("he and Ann", "he", "pronoun", True).number == "plural"


def test_only_words_of_the_span_count():
    found = made("Lee", "Lee", "proper", before="Mrs.")
    assert (found.text, found.gender, found.start, found.head) == ("lee", None, 2, 2)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {}, True),
        ({"number": "singular"}, {}, True),
        ({"number": "singular"}, {"number": "singular"}, True),
        ({"number": "singular"}, {"number": "plural"}, False),
        ({"gender": "feminine"}, {}, True),
        ({"gender": "feminine"}, {"gender": "feminine"}, True),
        ({"gender": "feminine"}, {"gender": "neuter"}, False),
        ({"person": 1}, {"person": 1}, True),
        ({"person": 1}, {}, False),
        ({"person": 1}, {"person": 2}, False),
        ({"number": "singular", "gender": "feminine"}, {"number": "singular", "gender": "masculine"}, False),
        ({"number": "singular"}, {"gender": "masculine"}, True),
        ({"number": "singular", "gender": "neuter"}, {"number": "plural", "gender": "neuter"}, False),
    ],
)
def test_agreement_by_hand(one, other, expected):
    assert with_features(**one).agrees_with(with_features(**other)) is expected
    assert with_features(**other).agrees_with(with_features(**one)) is expected
