"""Is a head's score for a role above what is expected? Over inputs, per role and head."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.stats import norm, t

from headscope.analysis.statistics import CORRECTIONS, holm

ROUNDING = 1e-6  # of a mean: scores are computed in float32, and what is equal by definition may differ by less than this
# The paper's four roles, and the nine of its Figure 5. No count mixes the two.
COARSE = ("local", "delimiter", "block", "syntactic")
FINE = ("prev", "next", "block", "cls", "sep", "nsubj", "dobj", "amod", "advmod")


def coarse_roles(names: list[str]) -> list[str]:
    """The paper's four roles, as far as they are there; all names where none is."""
    return [name for name in COARSE if name in names] or names


def fine_roles(names: list[str]) -> list[str]:
    """The nine roles of Figure 5, as far as they are there."""
    return [name for name in FINE if name in names]


def families(names: list[str]) -> list[list[int]]:
    """The indices of the roles that are corrected together: the coarse ones, the other fine ones, and the rest."""
    coarse = coarse_roles(names)
    fine = [name for name in fine_roles(names) if name not in coarse]
    rest = [name for name in names if name not in (*coarse, *fine)]
    return [[names.index(name) for name in family] for family in (coarse, fine, rest) if family]


@dataclass(frozen=True)
class RoleTest:
    """What is asked of the scores: a threshold, a level, a distribution, a correction and how the deviation is divided."""

    tau: float
    level: float
    distribution: str
    correction: str
    ddof: int


@dataclass(frozen=True)
class Tested:
    """The scores of one model and what the tests say of them; arrays are (role, map) unless they say otherwise."""

    names: list[str]
    heads: int  # of a layer
    test: RoleTest
    scores: np.ndarray  # (input, map, role)
    defined: np.ndarray  # (input, role)
    shuffled: np.ndarray  # (permutation, role, map)
    means: np.ndarray
    deviations: np.ndarray
    counts: np.ndarray  # (role,)
    p_values: np.ndarray
    corrected: np.ndarray
    assigned: np.ndarray
    permuted: np.ndarray

    @classmethod
    def of(
        cls, names: list[str], heads: int, test: RoleTest, scores: np.ndarray, defined: np.ndarray, shuffled: np.ndarray
    ) -> "Tested":
        """All of it from the scores of every input, and the sums of those of shuffled sieves (permutation, map, role)."""
        means, deviations, counts = moments(scores, defined, test.ddof)
        p_values = role_p_values(means, deviations, counts[:, None], test.tau, test.distribution)
        corrected = corrected_p(p_values, counts, test.correction, families(names))
        with np.errstate(invalid="ignore", divide="ignore"):
            shuffled = (shuffled / counts).transpose(0, 2, 1)
        return cls(
            names, heads, test, scores, defined, shuffled, means, deviations, counts, p_values, corrected,
            assigned=np.nan_to_num(corrected, nan=1.0) < test.level,
            permuted=permutation_p(means, shuffled),
        )  # fmt: skip

    def rows_of(self, names: list[str]) -> list[int]:
        """Where roles stand."""
        return [self.names.index(name) for name in names]

    def has(self, name: str) -> np.ndarray:
        """Which heads have a role."""
        return self.assigned[self.names.index(name)]

    @property
    def coarse(self) -> list[int]:
        """Where the coarse roles stand."""
        return self.rows_of(coarse_roles(self.names))

    @property
    def fine(self) -> list[int]:
        """Where the fine roles stand."""
        return self.rows_of(fine_roles(self.names))

    def fails_above(self, roles: list[int]) -> np.ndarray:
        """Which (role, map) have a mean above the threshold, but a test that fails."""
        with np.errstate(invalid="ignore"):
            found = (self.means > self.test.tau) & ~self.assigned & np.isfinite(self.p_values)
        keep = np.zeros(len(self.names), dtype=bool)
        keep[roles] = True
        return found & keep[:, None]

    def everything(self) -> np.ndarray:
        """The scores of all inputs, heads and coarse roles."""
        return self.scores[:, :, self.coarse].transpose(0, 2, 1)[self.defined[:, self.coarse]].ravel()

    def shares_at(self, tau: float) -> dict[str, float]:
        """The share of heads that would get each role by another threshold, in percent."""
        p_values = role_p_values(self.means, self.deviations, self.counts[:, None], tau, self.test.distribution)
        corrected = corrected_p(p_values, self.counts, self.test.correction, families(self.names))
        chosen = np.nan_to_num(corrected, nan=1.0) < self.test.level
        return {name: float(100 * chosen[n].mean()) for n, name in enumerate(self.names) if self.counts[n] > 1}


@dataclass(frozen=True)
class Change:
    """How the scores of one model differ from those of another on the same inputs; arrays are (role, map)."""

    means: np.ndarray
    half: np.ndarray  # of the interval
    p: np.ndarray  # two-sided, Holm over heads and the roles of a family
    counts: np.ndarray

    @classmethod
    def between(cls, before: Tested, after: Tested) -> "Change":
        """After less before, paired by input."""
        means, deviations, counts = moments(after.scores - before.scores, before.defined)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = deviations / np.sqrt(counts)[:, None]
            p = 2 * norm.sf(np.abs(means) / error)
        p = np.where(counts[:, None] < 2, np.nan, np.where(error == 0, np.where(means == 0, 1.0, 0.0), p))
        corrected = corrected_p(p, counts, "holm", families(before.names))
        return cls(means, norm.isf(0.025) * error, corrected, counts)


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


def corrected_p(p_values: np.ndarray, counts: np.ndarray, correction: str, together: list[list[int]]) -> np.ndarray:
    """Corrected over all heads and the roles of a family that could be tested."""
    out = p_values.copy()
    for family in together:
        tested = [role for role in family if counts[role] > 1]
        if tested:
            corrected = CORRECTIONS[correction](p_values[tested].ravel().tolist())
            out[tested] = np.array(corrected).reshape(len(tested), -1)
    return out


def permutation_p(means: np.ndarray, shuffled: np.ndarray) -> np.ndarray:
    """The share of shuffles, the true order among them, whose mean score is as high as that of the true sieve.

    A shuffle that gives the same score counts as high, whichever way the two are rounded.
    """
    as_high = (shuffled >= means - ROUNDING * np.abs(means)).sum(0)
    return np.where(np.isfinite(means), (1 + as_high) / (len(shuffled) + 1), np.nan)


def fisher_holm(tables: list[list[list[int]]]) -> list[float]:
    """One-sided p of Fisher's exact test that two roles go together, for each 2 × 2 table; Holm over the tables."""
    from scipy.stats import fisher_exact

    return holm([float(cast(Any, fisher_exact(table, alternative="greater")).pvalue) for table in tables])
