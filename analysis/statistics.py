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
from scipy.stats import binomtest, false_discovery_control
from torch import Tensor

from headscope.errors import ConfigError

LEVEL = 0.95
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


def held_out(correct: Float[Tensor, "fold map"], count: Float[Tensor, "fold"]) -> float | None:
    """The accuracy, in percent, of the head that is best on one half, on the other half; None without two halves."""
    if not count.all():
        return None
    right = sum(float(correct[1 - fold, correct[fold].argmax()]) for fold in range(FOLDS))
    return 100 * right / float(count.sum())


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided exact p-value that two predictors, right on these words each alone, are equally good."""
    differing = only_first + only_second
    return float(binomtest(only_first, differing).pvalue) if differing else 1.0


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
