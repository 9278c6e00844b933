"""What the head or layer that gains most gains on the inputs that did not choose it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Num

from headscope.finetune.significance import p_of_changes
from headscope.finetune.weighted_scores import resampled

FOLDS = 2
Of = Callable[[np.ndarray, np.ndarray, np.ndarray], Float[np.ndarray, "unit weighting"]]
Found = Float[np.ndarray, "model baseline_and_unit example output"]


@dataclass(frozen=True)
class HeldOut:
    """The units that the two halves chose, and the mean change of the score on the half that did not choose them."""

    chosen: tuple[int, ...]
    change: float
    drawn: Float[np.ndarray, "draw"]

    @property
    def p(self) -> float:
        """Two-sided, that the change is none; a single test, which needs no correction."""
        return float(p_of_changes(np.array([self.change]), self.drawn[None])[0])


def held_out_best(
    score: Of, found: Found, labels: Num[np.ndarray, "example"], better: int, replicates: int, seed: int
) -> HeldOut | None:
    """Every other input is one half; each counts by its inputs, and is drawn again by itself. None without two halves."""
    if len(labels) < FOLDS:
        return None
    halves = [(found[:, :, half::FOLDS], labels[half::FOLDS]) for half in range(FOLDS)]
    changes = [changes_of(score, *half, np.ones((len(half[1]), 1)))[:, 0] for half in halves]
    chosen = tuple(int((better * changes[1 - half]).argmax()) for half in range(FOLDS))
    change, drawn = 0.0, np.zeros(replicates)
    for half, (unit, (outputs, gold)) in enumerate(zip(chosen, halves, strict=True)):
        share = len(gold) / len(labels)
        weights = resampled(len(gold), replicates, [seed, half])
        change += share * float(changes[half][unit])
        drawn += share * changes_of(score, outputs[:, [0, 1 + unit]], gold, weights)[0]
    return HeldOut(chosen, change, drawn)


def changes_of(
    score: Of, found: Found, labels: Num[np.ndarray, "example"], weights: Float[np.ndarray, "example weighting"]
) -> Float[np.ndarray, "unit weighting"]:
    """The score with each unit disabled less that of the whole model, averaged over models."""
    scores = np.stack([score(one, labels, weights) for one in found])
    return (scores[:, 1:] - scores[:, :1]).mean(0)
