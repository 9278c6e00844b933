"""Scores under weights: those of repeated examples, of many predictors and weightings at once."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score, f1_score

from headscope.data_modules.readers.glue import TASKS
from headscope.finetune.glue_scores import task_scores
from headscope.finetune.weighted_scores import main_score, resampled

EXAMPLES, PREDICTORS = 60, 4
REFERENCE = {
    "mrpc": f1_score,
    "mnli": accuracy_score,
    "sst2": accuracy_score,
    "stsb": lambda labels, found: pearsonr(labels, found).statistic,
}


def drawn(task, seed=0):
    """Labels and the outputs of several predictors, by scores or as one-hot logits."""
    draw, labels = np.random.default_rng(seed), TASKS[task].outputs
    if task == "stsb":
        gold = draw.uniform(0, 5, EXAMPLES).astype(np.float32)
        return gold, (gold + draw.normal(0, 2, (PREDICTORS, EXAMPLES))).astype(np.float32)
    gold = draw.integers(0, labels, EXAMPLES)
    other = draw.integers(0, labels, (PREDICTORS, EXAMPLES))
    return gold, np.where(draw.uniform(size=(PREDICTORS, EXAMPLES)) < 0.5, gold, other)


def one_weight():
    return np.ones((EXAMPLES, 1))


@pytest.mark.parametrize("task", ["mrpc", "qqp", "stsb", "sst2", "rte", "qnli", "mnli"])
def test_weights_of_one_give_the_task_s_own_score(task):
    gold, found = drawn(task)
    scores = main_score(found, gold, one_weight(), TASKS[task])
    assert scores.shape == (PREDICTORS, 1)
    for score, of_predictor in zip(scores[:, 0], torch.from_numpy(found), strict=True):
        logits = of_predictor[:, None] if task == "stsb" else torch.nn.functional.one_hot(of_predictor, TASKS[task].outputs)
        expected = task_scores(logits.float(), torch.from_numpy(gold), TASKS[task])
        assert score == pytest.approx(expected[TASKS[task].metrics[0]], abs=1e-4)


@pytest.mark.parametrize("task", REFERENCE)
def test_whole_weights_equal_repeating_the_examples(task):
    gold, found = drawn(task, seed=1)
    weights = np.random.default_rng(2).integers(0, 4, (EXAMPLES, 5)).astype(float)
    scores = main_score(found, gold, weights, TASKS[task])
    assert scores.shape == (PREDICTORS, 5)
    for predictor in range(PREDICTORS):
        for weighting in range(5):
            times = weights[:, weighting].astype(int)
            expected = REFERENCE[task](np.repeat(gold, times), np.repeat(found[predictor], times))
            assert scores[predictor, weighting] == pytest.approx(100 * expected, abs=1e-3)


@pytest.mark.parametrize("task", REFERENCE)
def test_the_scale_of_the_weights_does_not_matter(task):
    gold, found = drawn(task, seed=3)
    weights = np.random.default_rng(4).uniform(0.1, 2, (EXAMPLES, 3))
    expected = main_score(found, gold, weights, TASKS[task])
    assert main_score(found, gold, 17 * weights, TASKS[task]) == pytest.approx(expected)


def test_scores_by_hand():
    gold, weights = np.array([1, 1, 0, 0]), np.array([[1.0, 3.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    found = np.array([[1, 0, 1, 0], [1, 1, 0, 0]])
    assert main_score(found, gold, weights, TASKS["sst2"]) == pytest.approx(np.array([[50, 75], [100, 100]]))
    assert main_score(found, gold, weights, TASKS["mrpc"]) == pytest.approx(np.array([[50, 600 / 7], [100, 100]]))


def test_pearson_by_hand():
    gold, found = np.array([0.0, 1.0, 2.0, 5.0]), np.array([[1.0, 3.0, 5.0, -9.0], [4.0, 3.0, 2.0, -1.0]])
    weights = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    scores = main_score(found, gold, weights, TASKS["stsb"])
    assert scores == pytest.approx(np.array([[100, 100 * np.corrcoef(gold, found[0])[0, 1]], [-100, -100]]))


def test_pearson_of_scores_far_from_zero():
    gold, found = drawn("stsb", seed=5)
    weights = resampled(EXAMPLES, 6, seed=0)
    expected = main_score(found.astype(np.float64), gold.astype(np.float64), weights, TASKS["stsb"])
    moved = main_score(found.astype(np.float64) + 1e6, gold.astype(np.float64) - 1e6, weights, TASKS["stsb"])
    assert moved == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("examples", "replicates"), [(1, 3), (7, 1), (36, 50)])
def test_every_resample_has_as_many_examples(examples, replicates):
    weights = resampled(examples, replicates, seed=0)
    assert weights.shape == (examples, replicates)
    assert weights.dtype == np.float64
    assert (weights.sum(0) == examples).all()
    assert (weights == weights.round()).all()
    assert (weights >= 0).all()


def test_resamples_follow_the_seed_and_draw_all_examples_alike():
    assert np.array_equal(resampled(20, 30, seed=3), resampled(20, 30, seed=3))
    assert not np.array_equal(resampled(20, 30, seed=3), resampled(20, 30, seed=4))
    weights = resampled(20, 4000, seed=0)
    assert weights.mean(1) == pytest.approx(np.ones(20), abs=0.08)
    assert weights.var() == pytest.approx(1 - 1 / 20, abs=0.03)


@pytest.mark.parametrize("constant", [0.0, 2.5, 0.1, -3.3333, 1e4 / 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_scores_give_zero(constant, dtype):
    gold = np.random.default_rng(0).uniform(0, 5, EXAMPLES).astype(np.float32)
    found = np.full((2, EXAMPLES), constant, dtype=dtype)
    assert (main_score(found, gold, resampled(EXAMPLES, 20, seed=0), TASKS["stsb"]) == 0).all()


def test_constant_labels_give_zero():
    found = np.random.default_rng(0).normal(size=(2, EXAMPLES))
    scores = main_score(found, np.full(EXAMPLES, 3.3), resampled(EXAMPLES, 20, seed=0), TASKS["stsb"])
    assert (scores == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_are_constant_only_in_a_resample_give_about_zero(dtype):
    gold = np.array([0.3, 1.7, 4.1, 2.2])
    found = np.array([[1.1, 1.1, 1.1, 3.7], [0.7, 0.7, 0.7, -2.9]], dtype=dtype)
    weights = np.array([[1.0, 4.0, 2.0], [1.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    scores = main_score(found, gold, weights, TASKS["stsb"])
    assert np.isfinite(scores).all()
    assert np.abs(scores).max() < 1e-3


def test_f1_where_no_one_is_drawn_is_zero():
    gold, found = np.array([1, 0, 0, 0]), np.array([[0, 0, 0, 0], [1, 1, 0, 0]])
    weights = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 2.0], [1.0, 2.0]])
    assert main_score(found, gold, weights, TASKS["qqp"]) == pytest.approx(np.array([[0, 0], [200 / 3, 0]]))
