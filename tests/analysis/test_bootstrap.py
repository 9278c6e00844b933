import math

import numpy as np
import pytest
import torch

from headscope.analysis.statistics import interval, poisson_weights


def test_weights_are_poisson_with_mean_one():
    weights = poisson_weights(torch.arange(4000), 200, seed=0)
    for count in range(5):
        expected = math.exp(-1) / math.factorial(count)
        assert float((weights == count).float().mean()) == pytest.approx(expected, abs=0.002)
    correlations = np.corrcoef(weights[:30].numpy()) - np.eye(30)
    assert np.abs(correlations).max() < 0.08


def test_weights_depend_on_the_input_and_the_seed_only():
    whole = poisson_weights(torch.arange(50), 20, seed=3)
    assert torch.equal(whole[:, 30:], poisson_weights(torch.arange(30, 50), 20, seed=3))
    assert not torch.equal(whole, poisson_weights(torch.arange(50), 20, seed=4))
    assert torch.equal(whole[:10], poisson_weights(torch.arange(50), 10, seed=3))


def test_the_interval_is_that_of_the_ordinary_bootstrap_over_inputs():
    random = np.random.default_rng(0)
    count = random.integers(1, 20, 400)
    right = random.binomial(count, random.beta(4, 3, 400))
    weights = poisson_weights(torch.arange(400), 2000, seed=1).double()
    low, high = interval(weights @ torch.tensor(right).double(), weights @ torch.tensor(count).double())
    draws = random.integers(0, 400, (4000, 400))
    shares = right[draws].sum(1) / count[draws].sum(1)
    assert (float(low), float(high)) == pytest.approx(tuple(np.percentile(shares, [2.5, 97.5])), abs=0.004)


def test_what_is_never_counted_has_no_interval():
    low, high = interval(torch.zeros(10, 2), torch.tensor([[0.0, 3.0]] * 10))
    assert math.isnan(low[0])
    assert math.isnan(high[0])
    assert (low[1], high[1]) == (0, 0)
