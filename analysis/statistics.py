"""Intervals, held-out choices and tests that every analysis uses.

Intervals come from the Poisson bootstrap: each input counts Poisson(1) times in each replicate. The draws depend on the
seed and the input's index only, so that inputs can be counted as they stream by, on any number of processes, and memory
does not grow with the data.
"""

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.stats import binom, false_discovery_control, norm
from torch import Tensor

from headscope.errors import ConfigError

Numbers = int | float | np.ndarray | Tensor
LEVEL = 0.95
DEVIATIONS = float(norm.isf((1 - LEVEL) / 2))  # from the middle of a normal distribution to the end of the interval
FOLDS = 2  # halves of the data: a head is chosen on one and scored on the other
# The chance of at most k, for k = 0, 1, ...
POISSON = tuple(float(sum(math.exp(-1) / math.factorial(n) for n in range(k + 1))) for k in range(9))


def require_replicates(replicates: int) -> int:
    """The number of replicates, from which intervals come; an error for none."""
    if replicates < 1:
        raise ConfigError(f"analyses: replicates={replicates}: expected at least 1.")
    return replicates


def poisson_weights(index: Int[Tensor, "input"], replicates: int, seed: int) -> Float[Tensor, "replicate input"]:
    """How often each input counts in each replicate."""
    replicate = torch.arange(replicates, device=index.device)[:, None]
    uniform = mixed_bits(mixed_bits(index + (seed << 32))[None] ^ mixed_bits(replicate + 1)) / 2.0**31
    return cast(Tensor, sum((uniform > chance).float() for chance in POISSON))  # of several, so never the 0 of none


def mixed_bits(number: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """31 well-mixed bits of a number (the finaliser of SplitMix64, with shifts that bring in zeros)."""
    number = number + 0x1E3779B97F4A7C15
    number = (number ^ _shifted(number, 30)) * -0x40A7B892E31B1A47
    number = (number ^ _shifted(number, 27)) * -0x6B2FB644ECCEEE15
    return _shifted(number ^ _shifted(number, 31), 33)


def _shifted(number: Int[Tensor, "*shape"], positions: int) -> Int[Tensor, "*shape"]:
    return (number >> positions) & ((1 << (64 - positions)) - 1)


def interval(
    right: Float[Tensor, "replicate *shape"], count: Float[Tensor, "replicate *#shape"]
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the percentile interval of right / count; NaN where nothing is counted."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = right.cpu().numpy() / count.cpu().numpy()
    outside = 100 * (1 - LEVEL) / 2
    defined = np.isfinite(shares).any(0)
    low, high = np.full(shares.shape[1:], np.nan), np.full(shares.shape[1:], np.nan)
    if defined.any():
        low[defined], high[defined] = np.nanpercentile(shares[:, defined], [outside, 100 - outside], axis=0)
    return low, high


def choices(correct: Float[Tensor, "fold map"]) -> list[int]:
    """What is best on one half, by the other half: the one on which it is then scored."""
    return [int(correct[1 - fold].argmax()) for fold in range(FOLDS)]


def of_choices(counted: Float[Tensor, "fold *replicate map"], chosen: Sequence[int]) -> Float[Tensor, "*replicate"]:
    """What was counted for the choice of each half on the half that did not choose it, over both."""
    return torch.stack([counted[fold, ..., chosen[fold]] for fold in range(FOLDS)]).sum(0)


def held_out(correct: Float[Tensor, "fold map"], count: Float[Tensor, "fold"]) -> float | None:
    """The accuracy, in percent, of the head that is best on one half, on the other half; None without two halves."""
    return 100 * float(of_choices(correct, choices(correct)) / count.sum()) if count.all() else None


def mcnemar(only_first: Numbers, only_second: Numbers) -> np.ndarray:
    """The two-sided exact p-values that two predictors, right on these words each alone, are equally good."""
    first, second = np.asarray(only_first), np.asarray(only_second)
    return np.asarray(np.minimum(2 * binom.cdf(np.minimum(first, second), first + second, 0.5), 1))


def error_of_mean(
    total: Float[Tensor, "*shape"], squares: Float[Tensor, "*shape"], count: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """The standard error of a mean (ddof 1), from sums over inputs; NaN for fewer than two."""
    variance = (squares - total.square() / count).clamp(min=0) / (count - 1)
    return (variance / count).sqrt().where(count > 1, torch.nan)


def above(mean: Numbers, error: Numbers, value: float) -> np.ndarray:
    """The one-tailed p-values that means are at most a value, by the normal distribution; 0 or 1 without any spread."""
    mean, error = np.asarray(mean, dtype=float), np.asarray(error, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = norm.sf((mean - value) / error)
    return np.where(error == 0, (mean <= value).astype(float), p)


def differs(difference: Numbers, resampled: Float[Tensor, "replicate *shape"]) -> np.ndarray:
    """The two-sided p-values that a difference is none, by the normal distribution with the deviation of its replicates."""
    deviation = np.nanstd(resampled.double().cpu().numpy(), axis=0, ddof=1)  # a replicate without any input has none
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * norm.sf(np.abs(difference) / deviation)
    return np.where(deviation == 0, np.equal(difference, 0).astype(float), p)


def holm_of_defined(p_values: np.ndarray) -> np.ndarray:
    """Holm's correction over all that are defined, in their places."""
    corrected = np.full(p_values.shape, np.nan)
    defined = np.isfinite(p_values)
    corrected[defined] = holm(p_values[defined].tolist())
    return corrected


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction."""
    order = np.argsort(p_values, kind="stable")
    steps = np.array(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected.tolist()


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up correction, which bounds the share of false discoveries."""
    return false_discovery_control(p_values).tolist() if len(p_values) else []


CORRECTIONS: dict[str, Callable[[Sequence[float]], list[float]]] = {"none": list, "holm": holm, "bh": benjamini_hochberg}
