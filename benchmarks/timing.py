"""Two ways of doing the same work, timed in turns in one process."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Work = Callable[[], object]


@dataclass(frozen=True)
class Comparison:
    """What ours and the reference take, and the ratio that is required of them."""

    what: str
    ours: float
    reference: float
    required: float
    kind: Literal["at most", "times faster"]
    unit: str = "ms"

    @property
    def ratio(self) -> float:
        """Ours over the reference, or how many times faster ours is."""
        return self.ours / self.reference if self.kind == "at most" else self.reference / self.ours

    @property
    def ok(self) -> bool:
        """Whether the requirement is met."""
        return self.ratio <= self.required if self.kind == "at most" else self.ratio >= self.required


def interleaved(ours: Work, reference: Work, repeats: int, in_a_row: int = 1) -> tuple[float, float]:
    """The median milliseconds of each, after a warm-up; who goes first changes from turn to turn.

    Work that finds its data in the cache when it is really done is called several times in a row.
    """
    for work in (ours, reference) * 2:
        work()
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(repeats):
        for index in (0, 1) if turn % 2 == 0 else (1, 0):
            times[index].extend(milliseconds((ours, reference)[index]) for _ in range(in_a_row))
    return statistics.median(times[0]), statistics.median(times[1])


def milliseconds(work: Work) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)
