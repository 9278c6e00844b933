"""Functional roles of heads (Pande et al. 2021): sieve bias scores, and a test for each head and role."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from scipy.stats import norm, spearmanr
from torch import Tensor

from headscope.analysis.base import Analysis, flat_maps
from headscope.analysis.roles.scores import bias_scores, entropy_scores, shuffled_columns, sieve_weights
from headscope.analysis.roles.tables import broad_roles, head_histogram, histogram_rows, overlap_rows, quantile_rows
from headscope.analysis.roles.tests import corrected_p, moments, permutation_p, role_p_values
from headscope.analysis.statistics import CORRECTIONS
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, Section, by_name, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError, require_choice, require_least

SieveFunction = Callable[[Mapping[str, Tensor], Tensor, list[str]], Tensor]
# The released code divides by the whole window also at the edges, and multiplies block by the row's entropy.
RELEASED_WINDOWS = {"local": 5, "prev": 2, "next": 2}
RELEASED_ENTROPY = ("block",)
THIRDS = ("first", "middle", "last")
SECTION = Section("roles", "functional roles")
TAUS = tuple(np.arange(1, 6.01, 0.25).tolist())


class HeadRoles(Analysis):
    """The score of each input, head and role is kept, so that tests, corrections and curves need no second pass."""

    kind = ("glue", "treebank_tokens")
    windows: Tensor
    index: list[Tensor]
    scores: list[Tensor]
    defined: list[Tensor]
    tuned: list[Tensor]
    shuffled: Tensor

    def __init__(
        self,
        facts: Facts,
        sieves: Mapping[str, SieveFunction],
        tau: float | int | str = 3,
        level: float = 0.05,
        distribution: str = "normal",
        correction: str = "none",
        permutations: int = 19,
        min_count: int = 30,
        released: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(facts)
        require_choice("analyses.roles.distribution", distribution, ("normal", "student"))
        require_choice("analyses.roles.correction", correction, CORRECTIONS)
        if not isinstance(tau, (int, float)) and tau != "auto":
            raise ConfigError(f"analyses.roles.tau={tau}: expected a number or auto.")
        if not 0 < level < 1:
            raise ConfigError(f"analyses.roles.level={level}: expected a number between 0 and 1.")
        if permutations < 0:
            raise ConfigError(f"analyses.roles.permutations={permutations}: expected 0 or more.")
        self.min_count = require_least("analyses.roles.min_count", min_count)
        self.sieves, self.relations = dict(sieves), list(facts.relations)
        self.tau, self.level, self.correction = tau, level, correction
        self.permutations, self.seed = permutations, seed
        self.ddof = 0 if released else 1
        self.distribution = "student" if released else distribution
        windows = [RELEASED_WINDOWS.get(name, 0) if released else 0 for name in self.sieves]
        self.register_buffer("windows", torch.tensor(windows, dtype=torch.long), persistent=False)
        self.times_entropy = [index for index, name in enumerate(self.sieves) if released and name in RELEASED_ENTROPY]
        self.compared = facts.tuned
        for name in ("index", "scores", "defined", "tuned"):
            self.add_state(name, [], dist_reduce_fx="cat")
        self.add_sum("shuffled", permutations, self.layers * self.heads, len(self.sieves))

    def update(self, batch: AttentionBatch) -> None:
        sieves = [sieve(batch.gold, batch.mask, self.relations) for sieve in self.sieves.values()]
        weights, defined = sieve_weights(torch.stack(sieves, 1), batch.visible(), self.windows)
        maps = flat_maps(batch)
        self.index.append(batch.input_index)
        self.scores.append(self._scores(maps, weights, batch.mask))
        self.defined.append(defined)
        shuffled = batch.mask if batch.seen is None else batch.seen
        for number in range(self.permutations):
            order = shuffled_columns(shuffled, batch.input_index, number, self.seed)
            columns = weights.gather(3, (order[:, None, None] if order.dim() == 2 else order[:, None]).expand_as(weights))
            self.shuffled[number] += (self._scores(maps, columns, batch.mask) * defined[:, None]).sum(0, dtype=torch.float64)
        if self.compared:
            self.tuned.append(self._scores(batch.flat_tuned_maps(), weights, batch.mask))

    def _scores(self, maps: Tensor, weights: Tensor, real: Tensor) -> Tensor:
        scores = bias_scores(maps, weights)
        for role in self.times_entropy:
            scores[:, :, role] = entropy_scores(maps, weights[:, role], real)
        return scores

    def compute(self) -> Findings:
        # In the order of the data, so that sums round alike however many processes brought them.
        order = joined(self.index).argsort()
        scores, defined = (joined(state)[order].numpy(force=True) for state in (self.scores, self.defined))
        scores = scores.astype(np.float64)
        means, deviations, counts = moments(scores, defined, self.ddof)
        tau = self._tau(scores, defined)
        p_values = role_p_values(means, deviations, counts[:, None], tau, self.distribution)
        corrected = corrected_p(p_values, counts, self.correction)
        assigned = np.nan_to_num(corrected, nan=1.0) < self.level
        with np.errstate(invalid="ignore", divide="ignore"):
            shuffled = (self.shuffled.numpy(force=True) / counts).transpose(0, 2, 1)  # (permutation, role, map)
        permuted = permutation_p(means, shuffled)
        return Findings(
            metrics=self._metrics(assigned, means, p_values, tau),
            tables={
                "roles": self._role_rows(assigned, means, counts, permuted),
                "overlap": overlap_rows(assigned, list(self.sieves)),
                "tau_curve": self._tau_rows(means, deviations, counts),
                "score_quantiles": quantile_rows(scores, defined),
                "p_histogram": histogram_rows(p_values),
                "head_histogram": head_histogram(scores, defined, means, list(self.sieves), self.heads),
                "assigned": self._assigned_rows(assigned),
                "change_by_third": self._change_rows(scores, defined, order),
            },
            notes={"roles": [f"highest head: of at least {self.min_count} inputs (analyses.roles.min_count)"]},
            heads=self._head_values(means, deviations, counts, corrected, permuted, shuffled, assigned, tau),
        )

    def _tau(self, scores: np.ndarray, defined: np.ndarray) -> float:
        """As given, or the smallest whole number above the mean of all scores."""
        if self.tau != "auto":
            return float(self.tau)
        everything = scores.transpose(0, 2, 1)[defined]
        return float(np.floor(everything.mean()) + 1) if everything.size else 1.0

    def _metrics(self, assigned: np.ndarray, means: np.ndarray, p_values: np.ndarray, tau: float) -> dict[str, float]:
        tested = np.isfinite(p_values).any(1)
        shares = np.where(tested, 100 * assigned.mean(1), np.nan)
        metrics = {f"share_{name}": float(share) for name, share in zip(self.sieves, shares, strict=True)}
        broad = [list(self.sieves).index(name) for name in broad_roles(list(self.sieves))]
        metrics["share_none"] = float(100 * (~assigned[broad].any(0)).mean())
        found = p_values[np.isfinite(p_values)]
        metrics["p_between"] = float(100 * ((found > 0.05) & (found < 0.95)).mean()) if found.size else float("nan")
        if {"local", "syntactic"} <= set(self.sieves):
            local, syntactic = (list(self.sieves).index(name) for name in ("local", "syntactic"))
            both = assigned[local] & assigned[syntactic]
            metrics["syntactic_that_are_local"] = (
                float(100 * both.sum() / assigned[syntactic].sum()) if assigned[syntactic].any() else float("nan")
            )
            metrics["local_syntactic_spearman"] = float(cast(Any, spearmanr(means[local], means[syntactic])).statistic)
        return metrics | {"tau": tau}

    def _role_rows(self, assigned: np.ndarray, means: np.ndarray, counts: np.ndarray, permuted: np.ndarray) -> list[Row]:
        rows = []
        for index, name in enumerate(self.sieves):
            tested, enough = counts[index] > 1, counts[index] >= self.min_count
            rows.append(
                {
                    "role": name,
                    "heads": int(assigned[index].sum()) if tested else None,
                    "share": float(100 * assigned[index].mean()) if tested else None,
                    "mean_score": float(means[index].mean()) if tested else None,
                    "highest": float(means[index].max()) if enough else None,
                    "highest_head": head_at(int(means[index].argmax()), self.heads) if enough else None,
                    "above_permuted": int((permuted[index] <= self.level).sum()) if tested else None,
                    "n": int(counts[index]),
                }
            )
        return rows

    def _tau_rows(self, means: np.ndarray, deviations: np.ndarray, counts: np.ndarray) -> list[Row]:
        rows = []
        for tau in TAUS:
            p_values = corrected_p(
                role_p_values(means, deviations, counts[:, None], tau, self.distribution), counts, self.correction
            )
            chosen = np.nan_to_num(p_values, nan=1.0) < self.level
            shares = {name: float(100 * chosen[n].mean()) for n, name in enumerate(self.sieves) if counts[n] > 1}
            rows.append({"tau": tau} | shares)
        return rows

    def _assigned_rows(self, assigned: np.ndarray) -> list[Row]:
        names = np.array(list(self.sieves))
        return [
            {"head": head_at(index, self.heads), "roles": names[assigned[:, index]].tolist()}
            for index in range(assigned.shape[1])
        ]

    def _change_rows(self, scores: np.ndarray, defined: np.ndarray, order: Tensor) -> list[Row]:
        """The mean change of each role's score in the first, middle and last third of the layers."""
        if not self.compared:
            return []
        tuned_means, _, _ = moments(joined(self.tuned)[order].double().numpy(force=True), defined)
        means, _, counts = moments(scores, defined)
        change = (tuned_means - means).reshape(len(self.sieves), self.layers, self.heads)
        parts = np.array_split(np.arange(self.layers), 3)
        return [
            {"role": name}
            | {
                third: float(change[n][part].mean()) if len(part) else None
                for third, part in zip(THIRDS, parts, strict=True)
            }
            | {"n": int(counts[n])}
            for n, name in enumerate(self.sieves)
        ]

    def _head_values(
        self,
        means: np.ndarray,
        deviations: np.ndarray,
        counts: np.ndarray,
        p: np.ndarray,
        permuted: np.ndarray,
        shuffled: np.ndarray,
        assigned: np.ndarray,
        tau: float,
    ) -> dict[str, HeadValues]:
        """All per-head quantities; arrays are (role, map), those of shuffles (permutation, role, map)."""
        values = []
        for index, name in enumerate(self.sieves):
            if counts[index] < 2:
                continue
            half = norm.isf(0.025) * deviations[index] / np.sqrt(counts[index])
            score, effect, chance, has_role = role_quantities(name)
            values.append(
                HeadValues(
                    score,
                    value=self.grid(means[index]),
                    n=self.grid(np.full_like(means[index], counts[index])),
                    low=self.grid(means[index] - half),
                    high=self.grid(means[index] + half),
                    p=self.grid(p[index]),
                )
            )
            with np.errstate(invalid="ignore", divide="ignore"):
                values.append(HeadValues(effect, self.grid((means[index] - tau) / deviations[index])))
            values.append(HeadValues(chance, self.grid(shuffled[:, index].mean(0)), p=self.grid(permuted[index])))
            values.append(HeadValues(has_role, self.grid(assigned[index].astype(float))))
        values.append(HeadValues(NUMBER_OF_ROLES, self.grid(assigned.sum(0).astype(float))))
        return by_name(values)


NUMBER_OF_ROLES = Quantity(
    "roles",
    "number of roles",
    "How many roles the tests give the head.",
    better="high",
    section=SECTION,
    headline=True,
)


def role_quantities(name: str) -> tuple[Quantity, Quantity, Quantity, Quantity]:
    """The score of a role with its test, its effect size, the score that shuffled tokens get, and whether a head has it."""
    text = name.replace("_", " ")
    score = f"Mean attention inside the {text} sieve over mean attention; p is for a score above the threshold."
    effect = f"How far the {text} score lies above the threshold, in deviations over inputs."
    chance = f"The {text} score when the sieve's tokens are drawn at random; p is for the true score."
    return (
        Quantity(f"sieve:{name}", f"sieve score, {text}", score, "", "high", SECTION, "role_score", name),
        Quantity(f"sieve_effect:{name}", f"sieve effect, {text}", effect, "", "high", SECTION, "role_effect", name),
        Quantity(
            f"sieve_shuffled:{name}", f"sieve score of shuffled tokens, {text}", chance, "", None, SECTION,
            "role_chance", name,
        ),
        Quantity(
            f"role:{name}", f"has the role {text}", f"1 where the test gives the head the role {text}.", "", "high",
            SECTION, "role", name,
        ),
    )  # fmt: skip


def joined(state: list[Tensor] | Tensor) -> Tensor:
    """A state of parts as one."""
    return torch.cat(state) if isinstance(state, list) else state
