"""p-values of changes against scipy's z-test by a loop, and Holm's correction against the one of the analyses."""

import numpy as np
import pytest
from scipy.stats import norm

from headscope.analysis.statistics import holm as of_analyses
from headscope.finetune.significance import holm, p_of_changes


def test_p_values_equal_a_loop():
    draw = np.random.default_rng(3)
    changes = np.array([0.0, 1.5, -2.0, 0.3])
    drawn = changes[:, None] + draw.normal(0, 1, (4, 60))
    expected = []
    for change, row in zip(changes, drawn, strict=True):
        mean = sum(row) / len(row)
        deviation = (sum((value - mean) ** 2 for value in row) / (len(row) - 1)) ** 0.5
        expected.append(2 * (1 - norm.cdf(abs(change) / deviation)))
    assert p_of_changes(changes, drawn) == pytest.approx(expected)


def test_a_change_of_which_no_input_is_in_doubt_and_none_at_all():
    assert p_of_changes(np.array([0.0, -1.0]), np.array([[0.0, 0.0], [-1.0, -1.0]])).tolist() == [1.0, 0.0]


def test_the_correction_is_that_of_the_analyses():
    p = np.random.default_rng(0).random(40) ** 3
    assert holm(p.tolist()) == pytest.approx(of_analyses(p.tolist()))
    assert holm([]) == []
