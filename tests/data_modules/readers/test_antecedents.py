"""Antecedents by rule: each baseline on small examples by hand."""

import pytest

from headscope.data_modules.readers.mentions import BASELINES, Mention, candidates, nearest, rules, same_head_word


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
