"""How far two people, or two passes of one, agree on the same maps."""

from collections import Counter
from collections.abc import Sequence


def agreement(pairs: Sequence[tuple[str, str]]) -> dict[str, float | int | None]:
    """How many maps have both labels, the percentage that is equal, and Cohen's kappa; None where it is not defined."""
    count = len(pairs)
    if not count:
        return {"maps": 0, "percent": None, "kappa": None}
    observed = sum(first == second for first, second in pairs) / count
    first, second = (Counter(pair[index] for pair in pairs) for index in (0, 1))
    expected = sum(first[name] * second[name] for name in first) / count**2
    kappa = (observed - expected) / (1 - expected) if expected < 1 else None
    return {"maps": count, "percent": 100 * observed, "kappa": kappa}
