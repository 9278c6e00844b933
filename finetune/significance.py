"""Whether changes of a score differ from none, when many heads are asked at once."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.stats import norm


def p_of_changes(changes: Float[np.ndarray, "unit"], drawn: Float[np.ndarray, "unit draw"]) -> Float[np.ndarray, "unit"]:
    """Two-sided, by the normal distribution with the deviation over inputs drawn again; 1 where nothing changes.

    Draws alone could not give a p-value that is small enough to be corrected over all heads.
    """
    deviation = drawn.std(1, ddof=1) if drawn.shape[1] > 1 else np.zeros(len(changes))
    far = np.divide(np.abs(changes), deviation, out=np.zeros(len(changes)), where=deviation > 0)
    return np.where((deviation == 0) & (changes != 0), 0.0, 2 * norm.sf(far))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction, in the order of the p-values."""
    order, corrected, largest = np.argsort(p, kind="stable").tolist(), [0.0] * len(p), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * float(p[index])))
        corrected[index] = largest
    return corrected
