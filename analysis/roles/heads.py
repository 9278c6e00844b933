"""Functional roles of heads (Pande et al. 2021): sieve bias scores, and a test for each head and role."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from headscope.analysis.base import Analysis, flat_maps
from headscope.analysis.entropy import row_entropy
from headscope.analysis.roles import tables
from headscope.analysis.roles.quantities import change_values, role_values
from headscope.analysis.roles.scores import bias_scores, entropy_scores, highest_scores, shuffled_columns, sieve_weights
from headscope.analysis.roles.sieves import SCHEMES
from headscope.analysis.roles.tests import Change, RoleTest, Tested, coarse_roles
from headscope.analysis.statistics import CORRECTIONS
from headscope.contracts import Facts, Findings, Row, by_name
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError, require_choice, require_least

SieveFunction = Callable[[Mapping[str, Tensor], Tensor, list[str]], Tensor]
# What the released code does otherwise: it divides by the whole window also at the edges, multiplies block by the row's
# entropy, and takes Student's distribution with a deviation that divides by n.
RELEASED = ("local_edges", "block_entropy", "student")
WINDOWS = {"local": 5, "prev": 2, "next": 2}
BLOCK, OTHER_BLOCK = "block", "the other block score"
TUNED = "tuned_"


class HeadRoles(Analysis):
    """The score of each input, head and role is kept, so that tests, corrections and curves need no second pass.

    Where there is a second, fine-tuned model, its roles come first, since it is what the paper tests.
    """

    kind = ("glue", "treebank_tokens")
    windows: Tensor
    index: list[Tensor]
    scores: list[Tensor]
    defined: list[Tensor]
    tuned: list[Tensor]
    shuffled: Tensor
    highest: list[Tensor]
    uniform: list[Tensor]

    def __init__(
        self,
        facts: Facts,
        sieves: Mapping[str, SieveFunction],
        further_sieves: Mapping[str, SieveFunction] | None = None,
        further: Sequence[str] = (),
        tau: float | int | str = 3,
        level: float = 0.05,
        distribution: str = "normal",
        correction: str = "none",
        permutations: int = 19,
        min_count: int = 30,
        syntactic: str = "all",
        released: bool | Sequence[str] = False,
        seed: int = 0,
    ) -> None:
        super().__init__(facts)
        require_choice("analyses.roles.distribution", distribution, ("normal", "student"))
        require_choice("analyses.roles.correction", correction, CORRECTIONS)
        require_choice("analyses.roles.syntactic", syntactic, SCHEMES)
        if not isinstance(tau, (int, float)) and tau != "auto":
            raise ConfigError(f"analyses.roles.tau={tau}: expected a number or auto.")
        if not 0 < level < 1:
            raise ConfigError(f"analyses.roles.level={level}: expected a number between 0 and 1.")
        if permutations < 0:
            raise ConfigError(f"analyses.roles.permutations={permutations}: expected 0 or more.")
        self.min_count = require_least("analyses.roles.min_count", min_count)
        self.released = released_variants(released)
        self.sieves = chosen_sieves(sieves, further_sieves or {}, further)
        self.names, self.relations = list(self.sieves), list(facts.relations)
        self.tau, self.level, self.correction, self.syntactic = tau, level, correction, syntactic
        self.permutations, self.seed = permutations, seed
        self.distribution = "student" if "student" in self.released else distribution
        windows = [WINDOWS.get(name, 0) if "local_edges" in self.released else 0 for name in self.names]
        self.register_buffer("windows", torch.tensor(windows, dtype=torch.long), persistent=False)
        self.models = ("", TUNED) if facts.tuned else ("",)
        for name in ("index", "scores", "defined", "tuned", "highest", "uniform"):
            self.add_state(name, [], dist_reduce_fx="cat")
        self.add_sum("shuffled", len(self.models), permutations, self.layers * self.heads, len(self.names))

    def update(self, batch: AttentionBatch) -> None:
        sieves = [sieve(batch.gold, batch.mask, self.relations) for sieve in self.sieves.values()]
        visible = batch.visible()
        weights, defined = sieve_weights(torch.stack(sieves, 1), visible, self.windows)
        self.index.append(batch.input_index)
        self.defined.append(defined)
        self.highest.append(highest_scores(weights))
        # Of the released block score: a uniform head scores 1, times the logarithm of how many tokens each may see.
        seen = visible.sum(2).clamp(min=1)
        block = (
            weights[:, self.names.index(BLOCK)] if BLOCK in self.names else torch.zeros_like(visible, dtype=weights.dtype)
        )
        self.uniform.append((block.sum(2) / seen * seen.log()).sum(1))
        orders = batch.mask if batch.seen is None else batch.seen
        models = [(self.scores, flat_maps(batch))]
        if TUNED in self.models:
            models.append((self.tuned, batch.flat_tuned_maps()))
        for number, (kept, maps) in enumerate(models):
            # Single sentences have no block, so that nobody asks for their entropy.
            pairs = BLOCK in self.names and bool(defined[:, self.names.index(BLOCK)].any())
            entropy = row_entropy(maps, visible) if pairs else None
            kept.append(self._scores(maps, weights, entropy))
            for shuffle in range(self.permutations):
                order = shuffled_columns(orders, batch.input_index, shuffle, self.seed)
                columns = weights.gather(
                    3, (order[:, None, None] if order.dim() == 2 else order[:, None]).expand_as(weights)
                )
                sums = self._scores(maps, columns, entropy, both=False) * defined[:, None]
                self.shuffled[number, shuffle] += sums.sum(0, dtype=torch.float64)

    def _scores(self, maps: Tensor, weights: Tensor, entropy: Tensor | None, both: bool = True) -> Tensor:
        """The scores of all roles; for `both` formulas of block a last column has that which is not used as the role's."""
        scores = bias_scores(maps, weights)
        if BLOCK not in self.names:
            return scores
        role, released = self.names.index(BLOCK), "block_entropy" in self.released
        plain = scores[:, :, role].clone()
        if not both and not released:
            return scores
        times_entropy = entropy_scores(maps, weights[:, role], entropy) if entropy is not None else torch.zeros_like(plain)
        scores[:, :, role] = times_entropy if released else plain
        return torch.cat([scores, (plain if released else times_entropy)[:, :, None]], 2) if both else scores

    def compute(self) -> Findings:
        # In the order of the data, so that sums round alike however many processes brought them.
        order = joined(self.index).argsort()
        defined = joined(self.defined)[order].numpy(force=True)
        kept = {"": self.scores, TUNED: self.tuned}
        scores = {model: joined(kept[model])[order].double().numpy(force=True) for model in self.models}
        first = self.models[-1]  # the fine-tuned model, where there is one
        ddof = 0 if "student" in self.released else 1
        test = RoleTest(self._tau(scores[first], defined), self.level, self.distribution, self.correction, ddof)
        tested = {
            model: Tested.of(
                self.names, self.heads, test, scores[model][:, :, : len(self.names)], defined,
                self.shuffled[self.models.index(model)].numpy(force=True),
            )
            for model in self.models[::-1]
        }  # fmt: skip
        heads = [values for model, one in tested.items() for values in role_values(one, model)]
        change = Change.between(tested[""], tested[TUNED]) if TUNED in tested else None
        if change:
            heads += change_values(change, self.names, self.heads)
        rows, notes = self._tables(tested, change, scores, defined)
        metrics = {f"{model}{name}": value for model, one in tested.items() for name, value in tables.metrics(one).items()}
        return Findings({**metrics, "tau": test.tau}, rows, by_name(heads), notes=notes)

    def _tables(
        self, tested: Mapping[str, Tested], change: Change | None, scores: Mapping[str, np.ndarray], defined: np.ndarray
    ) -> tuple[dict[str, list[Row]], dict[str, list[str]]]:
        """The tables by name, those of both models with the fine-tuned one first, and the lines beneath them."""
        said = {model: model.rstrip("_") or "model" for model in tested}
        first = next(iter(tested.values()))
        order = joined(self.index).argsort()
        highest, uniform = (joined(state)[order].double().numpy(force=True) for state in (self.highest, self.uniform))
        possible = mean_where(highest, defined)
        if "block_entropy" in self.released and BLOCK in self.names:
            possible[self.names.index(BLOCK)] = np.nan  # the entropy has no part in it
        found = {
            "roles": tables.of_models(tables.role_rows, tested, said, self.min_count, possible),
            "by_layer": tables.of_models(tables.layer_rows, tested, said),
            "overlap": tables.of_models(tables.overlap_rows, tested, said),
            "fine_overlap": tables.of_models(tables.fine_overlap_rows, tested, said),
            "failed_pairs": tables.of_models(tables.failed_rows, tested, said),
            "assigned": tables.of_models(tables.assigned_rows, tested, said),
            "tau_curve": tables.tau_rows(first),
            "score_quantiles": tables.quantile_rows(first),
            "p_histogram": tables.histogram_rows(first),
            "head_histogram": tables.head_histogram(first),
            "before_after": tables.before_after_rows(tested[""], tested[TUNED]) if change else [],
            "change_by_third": tables.third_rows(tested[""], tested[TUNED], self.layers) if change else [],
            "block": [],
        }
        notes = {
            "roles": [
                f"syntactic: {SCHEMES[self.syntactic]} (analyses.roles.syntactic={self.syntactic})",
                f"highest head: of at least {self.min_count} inputs (analyses.roles.min_count); held out: what the highest "
                "head of one half of the inputs has on the other",
            ]
        }
        if BLOCK in self.names and first.counts[self.names.index(BLOCK)] > 1:
            role, released = self.names.index(BLOCK), "block_entropy" in self.released
            ends = float(mean_where(highest, defined)[role]), float(uniform[defined[:, role]].mean())
            rows: list[Row] = [
                {"model": said[model], **row}
                for model, one in tested.items()
                for row in tables.block_rows(one, scores[model], released, *ends)
            ]
            found["block"], notes["block"] = rows, [tables.block_note(rows, first.test.tau)]
        return found, notes

    def _tau(self, scores: np.ndarray, defined: np.ndarray) -> float:
        """As given, or the smallest whole number above the mean score of all heads, coarse roles and inputs."""
        if self.tau != "auto":
            return float(self.tau)
        coarse = [self.names.index(name) for name in coarse_roles(self.names)]
        everything = scores[:, :, coarse].transpose(0, 2, 1)[defined[:, coarse]]
        return float(np.floor(everything.mean()) + 1) if everything.size else 1.0


def released_variants(released: bool | Sequence[str]) -> tuple[str, ...]:
    """Which of the released code's ways are asked for: all, none, or some by name."""
    if isinstance(released, bool):
        return RELEASED if released else ()
    for name in released:
        require_choice("analyses.roles.released", name, ("true", "false", *RELEASED))
    return tuple(released)


def chosen_sieves(
    sieves: Mapping[str, SieveFunction], known: Mapping[str, SieveFunction], further: Sequence[str]
) -> dict[str, SieveFunction]:
    """The sieves with those of the further ones that are asked for."""
    for name in further:
        if name not in known:
            raise ConfigError(f"analyses.roles.further={name}: expected some of {', '.join(known)}.")
    return {**sieves, **{name: known[name] for name in further}}


def mean_where(values: np.ndarray, defined: np.ndarray) -> np.ndarray:
    """The mean of each column over the rows in which it is defined; NaN where it is in none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(defined, values, 0).sum(0) / defined.sum(0)


def joined(state: list[Tensor] | Tensor) -> Tensor:
    """A state of parts as one."""
    return torch.cat(state) if isinstance(state, list) else state
