"""How far those who labelled the same maps agree: each pair, each class, and one against the others (the ceiling)."""

from collections.abc import Sequence
from itertools import combinations

import torch
from jaxtyping import Int
from torch import Tensor
from torchmetrics.functional import cohen_kappa, f1_score

from headscope.contracts import Row

LABELLERS = 3  # a fourth looks only where these all differ


def vote_rows(votes: Sequence[Sequence[str]], classes: Sequence[str]) -> list[Row]:
    """Kappa of every pair of labellers, of all classes and of each against the rest; then a labeller as a classifier.

    A labeller is held against the other two where these agree: what no network can be expected to exceed by much.
    """
    whole = [one[:LABELLERS] for one in votes if len(one) >= LABELLERS]
    if not whole:
        return []
    numbers = torch.tensor([[classes.index(name) for name in one] for one in whole])
    rows: list[Row] = [
        {"what": f"kappa of labellers {a + 1} and {b + 1}", "value": kappa(numbers[:, a], numbers[:, b], len(classes))}
        for a, b in combinations(range(LABELLERS), 2)
    ]
    rows += [
        {"what": f"kappa of {name.replace('_', ' ')}", "value": class_kappa(numbers, n)} for n, name in enumerate(classes)
    ]
    rows += [{"what": "macro F1 of a labeller against the other two", "value": ceiling(numbers, len(classes))}]
    unanimous = (numbers == numbers[:, :1]).all(1).float().mean()
    split = torch.tensor([len(set(one)) == LABELLERS for one in whole]).float().mean()
    return [
        *rows,
        {"what": "all three labels equal", "value": float(unanimous)},
        {"what": "all three labels different", "value": float(split)},
        {"what": "maps labelled three times", "value": len(whole)},
    ]


def kappa_rows(votes: Sequence[Sequence[str]], classes: Sequence[str]) -> list[Row]:
    """Kappa of every pair of labellers, of all classes together and of each against the rest."""
    whole = [one[:LABELLERS] for one in votes if len(one) >= LABELLERS]
    if not whole:
        return []
    numbers = torch.tensor([[classes.index(name) for name in one] for one in whole])
    return [
        {
            "labellers": f"{a + 1} and {b + 1}",
            "all": kappa(numbers[:, a], numbers[:, b], len(classes)),
            **{name: class_kappa(numbers[:, [a, b]], n) for n, name in enumerate(classes)},
        }
        for a, b in combinations(range(LABELLERS), 2)
    ]


def kappa(first: Int[Tensor, "map"], second: Int[Tensor, "map"], classes: int) -> float | None:
    """Cohen's kappa; None where both gave one and the same class to all."""
    value = float(cohen_kappa(first, second, task="multiclass", num_classes=classes))
    return value if value == value else None


def class_kappa(numbers: Int[Tensor, "map labeller"], name: int) -> float | None:
    """The mean kappa of all pairs for one class against the rest."""
    is_it = (numbers == name).long()
    values = [kappa(is_it[:, a], is_it[:, b], 2) for a, b in combinations(range(numbers.shape[1]), 2)]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def ceiling(numbers: Int[Tensor, "map labeller"], classes: int) -> float:
    """The mean macro F1 of each labeller against what the other two agree on."""
    scores = []
    for one in range(LABELLERS):
        first, second = (numbers[:, other] for other in range(LABELLERS) if other != one)
        agreed = first == second
        options = {"task": "multiclass", "num_classes": classes, "average": "macro"}
        scores.append(float(f1_score(numbers[agreed, one], first[agreed], **options)))
    return sum(scores) / len(scores)
