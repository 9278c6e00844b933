"""Tests over counts, and corrections for many of them."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import binomtest, false_discovery_control


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
