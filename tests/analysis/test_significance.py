import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from headscope.analysis.statistics import above, choices, differs, error_of_mean, holm, holm_of_defined, mcnemar, of_choices


def test_mcnemar_by_hand():
    # 1 of 6 differing words: 2 * (1 + 6) / 2**6
    assert mcnemar(1, 5) == pytest.approx(2 * 7 / 64)
    assert mcnemar(5, 1) == mcnemar(1, 5)
    assert mcnemar(3, 3) == 1
    assert mcnemar(0, 0) == 1


def test_holm_by_hand():
    # In order 0.01, 0.02, 0.03, 0.5 times 4, 3, 2, 1; never less than the one before.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


def test_mcnemar_of_many_equals_the_exact_test_of_each():
    first, second = np.arange(40) % 7, np.arange(40) % 11
    each = [binomtest(int(a), int(a + b)).pvalue if a + b else 1.0 for a, b in zip(first, second, strict=True)]
    assert mcnemar(first, second) == pytest.approx(each)


def test_the_error_of_a_mean_and_its_test_by_hand():
    values = torch.tensor([1.0, 2.0, 4.0])
    error = error_of_mean(values.sum(), values.square().sum(), torch.tensor(3.0))
    assert float(error) == pytest.approx(float(values.std() / 3**0.5))
    assert error_of_mean(values[0], values[0], torch.tensor(1.0)).isnan()
    assert above(0.5 + 1.6448536 * 0.1, 0.1, 0.5) == pytest.approx(0.05)
    assert above(np.array([0.6, 0.4]), np.zeros(2), 0.5).tolist() == [0, 1]  # no spread


def test_a_difference_is_judged_by_the_deviation_of_its_replicates():
    replicates = torch.tensor([1.0, 3.0, 2.0, 2.0])
    deviation = float(replicates.std())
    assert differs(1.959964 * deviation, replicates) == pytest.approx(0.05)
    assert differs(0.0, torch.zeros(3)) == 1
    assert differs(1.0, torch.zeros(3)) == 0


def test_holm_leaves_what_is_not_defined_in_its_place():
    found = holm_of_defined(np.array([[0.01, np.nan], [0.5, 0.02]]))
    assert found[0].tolist() == pytest.approx([0.03, np.nan], nan_ok=True)
    assert found[1].tolist() == pytest.approx([0.5, 0.04])


def test_what_one_half_chooses_is_counted_on_the_other():
    correct = torch.tensor([[3.0, 5.0], [4.0, 1.0]])
    assert choices(correct) == [0, 1]  # the second half prefers the first, and the first half the second
    assert float(of_choices(correct, choices(correct))) == 3 + 1
    replicates = torch.stack([correct, 2 * correct], 1)  # (fold, replicate, map)
    assert of_choices(replicates, [0, 1]).tolist() == [4, 8]
