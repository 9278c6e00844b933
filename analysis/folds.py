"""Two halves of the data: a head is chosen on one and scored on the other."""

from jaxtyping import Float
from torch import Tensor

FOLDS = 2


def held_out(correct: Float[Tensor, "fold map"], count: Float[Tensor, "fold"]) -> float | None:
    """The accuracy, in percent, of the head that is best on one half, on the other half; None without two halves."""
    if not count.all():
        return None
    right = sum(float(correct[1 - fold, correct[fold].argmax()]) for fold in range(FOLDS))
    return 100 * right / float(count.sum())
