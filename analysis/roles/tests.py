"""Is a head's score for a role above what is expected? Over inputs, per role and head."""

import numpy as np
from scipy.stats import norm, t

from headscope.analysis.statistics import CORRECTIONS

ROUNDING = 1e-6  # of a mean: scores are computed in float32, and what is equal by definition may differ by less than this


def moments(scores: np.ndarray, defined: np.ndarray, ddof: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and deviation per role and head over the inputs that have the role, and how many these are.

    A deviation that is no more than rounding is none: effect sizes and p-values would be made of it.
    """
    counts = defined.sum(0)  # (role,)
    kept = np.where(defined[:, None], scores, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (kept.sum(0) / counts).T
        squares = np.where(defined[:, None], (scores - means.T) ** 2, 0).sum(0)
        deviations = np.sqrt(squares / (counts - ddof)).T
    return means, np.where(deviations <= ROUNDING * np.abs(means), 0.0, deviations), counts


def role_p_values(
    means: np.ndarray, deviations: np.ndarray, counts: np.ndarray, tau: float, distribution: str
) -> np.ndarray:
    """One-tailed, for H0: mean at most tau. Without deviation p is 0 or 1; with fewer than two inputs it is undefined."""
    with np.errstate(invalid="ignore", divide="ignore"):
        statistic = (means - tau) / (deviations / np.sqrt(counts))
        p = norm.sf(statistic) if distribution == "normal" else t.sf(statistic, counts - 1)
    constant = np.where(means > tau, 0.0, 1.0)
    return np.where(counts < 2, np.nan, np.where(deviations == 0, constant, p))


def corrected_p(p_values: np.ndarray, counts: np.ndarray, correction: str) -> np.ndarray:
    """Corrected over all heads and roles that could be tested."""
    tested = counts > 1
    out = p_values.copy()
    if tested.any():
        out[tested] = np.array(CORRECTIONS[correction](p_values[tested].ravel().tolist())).reshape(out[tested].shape)
    return out


def permutation_p(means: np.ndarray, shuffled: np.ndarray) -> np.ndarray:
    """The share of shuffles, the true order among them, whose mean score is as high as that of the true sieve.

    A shuffle that gives the same score counts as high, whichever way the two are rounded.
    """
    as_high = (shuffled >= means - ROUNDING * np.abs(means)).sum(0)
    return np.where(np.isfinite(means), (1 + as_high) / (len(shuffled) + 1), np.nan)
