"""Mentions and what can be seen of them, and the antecedents that baselines choose, by hand."""

import pytest

from headscope.data_modules.readers.mentions import (
    BASELINES,
    Mention,
    candidates,
    mention,
    nearest,
    pronoun_number,
    rules,
    same_head_word,
)


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


def named(text, head, start=None, end=None, **features):
    """A mention whose group is its text and whose last word is its head word, unless told otherwise."""
    head_text = features.pop("head_text", text.split()[-1])
    return Mention(start or head, end or head, head, f"{text}@{head}", "nominal", text, head_text, **features)


ANN = named("ann", 1, number="singular")
DOG = named("the dog", 4, 3, number="singular", gender="neuter")
DOGS = named("the dogs", 7, 6, number="plural")
BLACK = named("a black dog", 12, 10, number="singular")
BEFORE = [BLACK, DOGS, DOG, ANN]  # nearest first


def test_candidates_have_their_head_before_and_come_nearest_first():
    mention = named("it", 9)
    assert candidates(mention, [ANN, DOG, DOGS, mention, BLACK]) == [DOGS, DOG, ANN]
    assert candidates(mention, [DOGS, ANN, BLACK, DOG, mention]) == [DOGS, DOG, ANN]


def test_the_first_mention_has_no_candidate():
    assert candidates(ANN, [ANN, DOG]) == []
    assert candidates(ANN, []) == []


def test_a_mention_that_contains_another_counts_where_its_head_is_before():
    """[the man with [his] dog]: the man is before, for his; his is not, for the man."""
    man, his = named("the man with his dog", 2, 1, 5, head_text="man"), named("his", 4)
    assert candidates(his, [man, his]) == [man]
    assert candidates(man, [man, his]) == []


def test_a_mention_inside_another_is_before_it_where_its_head_is():
    """[[his] dog]: the possessor is a candidate for what is possessed."""
    his, dog = named("his", 1), named("his dog", 2, 1)
    assert candidates(dog, [his, dog]) == [his]


def test_mentions_of_one_head_word_are_no_candidates_of_each_other():
    """[[Nadia] and [Beth]] has the head word of [Nadia]."""
    both, nadia = named("nadia and beth", 1, 1, 3, head_text="nadia"), named("nadia", 1)
    assert candidates(nadia, [both, nadia]) == candidates(both, [both, nadia]) == []


def test_of_two_with_one_head_word_the_inner_one_is_nearer():
    outer, inner = named("old ann lee", 3, 1), named("ann lee", 3, 2)
    assert candidates(named("she", 5), [outer, inner]) == [inner, outer]
    assert candidates(named("she", 5), [inner, outer]) == [inner, outer]


@pytest.mark.parametrize("rule", BASELINES.values())
def test_without_any_mention_before_there_is_no_antecedent(rule):
    assert rule(ANN, []) is None


def test_nearest():
    assert nearest(named("x", 20), BEFORE) is BLACK
    assert nearest(named("x", 20), [ANN]) is ANN


def test_same_head_word_takes_the_nearest_or_none():
    assert same_head_word(named("that dog", 20), BEFORE) is BLACK
    assert same_head_word(named("that dog", 20), [DOGS, DOG, ANN]) is DOG
    assert same_head_word(named("dogs", 20), BEFORE) is DOGS
    assert same_head_word(named("cat", 20), BEFORE) is None


def test_rules_prefer_the_same_words_though_a_same_head_word_is_nearer():
    assert rules(named("the dog", 20, 19), BEFORE) is DOG


def test_rules_prefer_the_same_head_word_though_one_that_agrees_is_nearer():
    mention = named("two big dogs", 20, 18)
    assert mention.agrees_with(BLACK)
    assert rules(mention, BEFORE) is DOGS


def test_rules_take_the_nearest_that_agrees():
    assert rules(named("they", 20, number="plural"), BEFORE) is DOGS
    assert rules(named("it", 20, number="singular", gender="neuter"), BEFORE) is BLACK
    assert rules(named("she", 20, number="singular", gender="feminine"), [DOGS, DOG, ANN]) is ANN
    assert rules(named("x", 20), BEFORE) is BLACK


def test_rules_take_the_nearest_where_none_agrees():
    assert rules(named("i", 20, number="singular", person=1), BEFORE) is BLACK
    assert rules(named("she", 20, gender="feminine"), [DOG]) is DOG


def test_rules_take_the_nearest_of_several_with_the_same_words():
    earlier, later = named("the dog", 4, 3), named("the dog", 9, 8)
    assert rules(named("the dog", 20, 19), [later, earlier]) is later


def test_baselines_by_name():
    assert list(BASELINES.items()) == [("nearest mention", nearest), ("same head word", same_head_word), ("rules", rules)]
