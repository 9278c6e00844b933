"""Task scores of many predictors under many weightings of the examples, for intervals over examples."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Num

from headscope.data_modules.readers.glue import Task

Scores = Float[np.ndarray, "predictor weighting"]


def resampled(examples: int, replicates: int, seed: int | Sequence[int]) -> Float[np.ndarray, "example weighting"]:
    """How often each example is drawn in each bootstrap sample."""
    draws = np.random.default_rng(seed).multinomial(examples, np.full(examples, 1 / examples), size=replicates)
    return draws.T.astype(np.float64)


def main_score(
    predicted: Num[np.ndarray, "predictor example"],
    labels: Num[np.ndarray, "example"],
    weights: Float[np.ndarray, "example weighting"],
    task: Task,
) -> Scores:
    """The task's main metric in percent."""
    return 100 * SCORES[task.metrics[0]](predicted, labels, weights)


def _accuracy(predicted: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> Scores:
    return (predicted == labels).astype(float) @ weights / weights.sum(0)


def _f1(predicted: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> Scores:
    positive, true = predicted == 1, labels == 1
    hits = (positive & true).astype(float) @ weights
    return _divided(2 * hits, positive.astype(float) @ weights + true.astype(float) @ weights)


def _pearson(predicted: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> Scores:
    total = weights.sum(0)
    x, y = predicted - predicted.mean(1, keepdims=True), labels - labels.mean()
    mean_x, mean_y = x @ weights / total, y @ weights / total
    covariance = (x * y) @ weights / total - mean_x * mean_y
    variances = ((x * x) @ weights / total - mean_x**2) * ((y * y) @ weights / total - mean_y**2)
    return _divided(covariance, np.sqrt(np.maximum(variances, 0)))


def _divided(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    return np.divide(upper, lower, out=np.zeros_like(upper), where=lower > 1e-12)


SCORES = {"f1": _f1, "accuracy": _accuracy, "pearson": _pearson}
