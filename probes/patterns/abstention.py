"""When the network should rather say nothing: the lowest confidence at which what it still says is wrong rarely enough."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.contracts import Row


def confidence_for_risk(sure: Float[Tensor, "map"], right: Bool[Tensor, "map"], risk: float) -> float:
    """The lowest confidence above which at most a share `risk` is wrong; 1 where there is none."""
    order = sure.argsort(descending=True)
    wrong = (~right[order]).double().cumsum(0) / torch.arange(1, len(order) + 1)
    # Maps of equal confidence are kept or left together.
    last_of_equals = torch.cat([sure[order][1:] < sure[order][:-1], torch.ones(1, dtype=torch.bool)])
    fits = ((wrong <= risk) & last_of_equals).nonzero().flatten()
    return float(sure[order][fits[-1]]) if len(fits) else 1.0


def abstention_rows(folds: Sequence[tuple[Tensor, Tensor]], risks: Sequence[float]) -> list[Row]:
    """For each risk: the confidence found on all other folds, what is kept of a fold at it, and how much of that is wrong.

    A fold is how sure the network is of each map, and whether it is right.
    """
    rows: list[Row] = []
    for risk in risks:
        thresholds, kept, wrong, count = [], 0, 0, 0
        for held_out, (sure, right) in enumerate(folds):
            others = [fold for index, fold in enumerate(folds) if index != held_out] or list(folds)
            threshold = confidence_for_risk(*(torch.cat(parts) for parts in zip(*others, strict=True)), risk)
            chosen = sure >= threshold
            thresholds.append(threshold)
            kept, wrong, count = kept + int(chosen.sum()), wrong + int((chosen & ~right).sum()), count + len(sure)
        everything = [torch.cat(parts) for parts in zip(*folds, strict=True)]
        rows.append(
            {
                "risk": risk,
                "confidence": confidence_for_risk(everything[0], everything[1], risk),
                "kept": kept / max(1, count),
                "wrong of those": wrong / max(1, kept),
                "lowest of folds": min(thresholds),
                "highest of folds": max(thresholds),
                "n": count,
            }
        )
    return rows
