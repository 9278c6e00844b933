"""Made-up maps: what each class promises, measured by plain loops."""

import numpy as np
import pytest

from headscope.data_modules.patterns.labels import CLASSES
from headscope.data_modules.patterns.synthetic import CLS, LENGTHS, SEP, synthetic_map, synthetic_maps

COUNT = 200


@pytest.fixture(scope="module")
def made():
    return synthetic_maps(COUNT, seed=3)


def looped_shares(one):
    """The mean share of attention to special tokens, and to tokens at most two away, over all rows."""
    special = near = 0.0
    for query, row in enumerate(one.weights):
        for key, weight in enumerate(row):
            if one.token_class[key] in (CLS, SEP):
                special += weight
            elif abs(query - key) <= 2:
                near += weight
    return special / len(one.weights), near / len(one.weights)


def looped_contrast(one):
    """Mean attention inside sentences over that plus the mean across them."""
    sentence, number = [], 0
    for kind in one.token_class:
        sentence.append(None if kind in (CLS, SEP) else number)
        number += kind == SEP
    inside, across = [], []
    for query, row in enumerate(one.weights):
        for key, weight in enumerate(row):
            if sentence[query] is not None and sentence[key] is not None:
                (inside if sentence[query] == sentence[key] else across).append(weight)
    return np.mean(inside) / (np.mean(inside) + np.mean(across))


def test_rows_are_distributions_and_special_tokens_stand_where_they_do_in_bert(made):
    for one in made:
        assert one.weights.dtype == np.float32
        assert (one.weights >= 0).all()
        assert one.weights.sum(1) == pytest.approx(np.ones(len(one.weights)), abs=1e-5)
        assert LENGTHS[0] <= len(one.weights) <= LENGTHS[1]
        assert one.token_class[0] == CLS
        assert one.token_class[-1] == SEP
        assert list(one.token_class).count(CLS) == 1
        assert list(one.token_class).count(SEP) in (1, 2)


def test_classes_come_in_turn_and_lengths_vary(made):
    assert [one.label for one in made[:7]] == [*CLASSES, *CLASSES[:2]]
    lengths = np.array([len(one.weights) for one in made])
    assert lengths.min() < 12
    assert lengths.max() > 100
    assert 0.3 < np.mean([(one.token_class == SEP).sum() == 2 for one in made]) < 1


def test_each_class_has_its_pattern_and_not_the_others(made):
    shares = {label: np.array([looped_shares(one) for one in made if one.label == label]) for label in CLASSES}
    assert np.quantile(shares["vertical"][:, 0], 0.05) > 0.35
    assert np.quantile(shares["diagonal"][:, 1], 0.05) > 0.3
    assert np.quantile(shares["vertical_diagonal"], 0.05, axis=0).min() > 0.15
    assert np.median(shares["diagonal"][:, 0]) < 0.2
    assert np.median(shares["heterogeneous"][:, 0]) < 0.25
    longer = [one for one in made if len(one.weights) >= 24]
    for label, most in (("vertical", 0.3), ("block", 0.4), ("heterogeneous", 0.4)):
        assert np.mean([looped_shares(one)[1] for one in longer if one.label == label]) < most


def test_a_block_is_a_pair_whose_sentences_look_at_themselves(made):
    blocks = [one for one in made if one.label == "block"]
    assert all((one.token_class == SEP).sum() == 2 for one in blocks)
    assert min(looped_contrast(one) for one in blocks) > 0.7
    others = [one for one in made if one.label == "heterogeneous" and (one.token_class == SEP).sum() == 2]
    assert np.median([looped_contrast(one) for one in others]) == pytest.approx(0.5, abs=0.1)


def test_the_seed_decides_and_the_count_does_not(made):
    again, other = synthetic_maps(5, seed=3), synthetic_maps(5, seed=4)
    for first, second in zip(made, again, strict=False):
        np.testing.assert_array_equal(first.weights, second.weights)
    assert any(len(one.weights) != len(two.weights) for one, two in zip(again, other, strict=True))
    np.testing.assert_array_equal(synthetic_map("vertical", np.random.default_rng([3, 0])).weights, made[0].weights)
