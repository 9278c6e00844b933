"""Which jobs a sweep runs: every combination of the values, or what Optuna suggests from the results so far."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from headscope.contracts import RunResults
from headscope.errors import ConfigError, given, require_choice
from headscope.runs.sweeps.jobs import SweepJobs
from headscope.runs.sweeps.launch import Job

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

DIRECTIONS: dict[str, Literal["maximize", "minimize"]] = {"max": "maximize", "min": "minimize"}
DIGITS = 4  # of a suggested number: enough to tell jobs apart, short enough to read and to type
MOST_DIGITS = 12  # of a number on a raster: what is left of it is rounding
ATTEMPTS = 50  # suggestions in a row that bring nothing new, after which a search has tried everything


class GridSearch:
    """Every combination of the values on the command line."""

    def __init__(self, metric: str, direction: str, batch: int | None = None) -> None:
        require_choice("search.direction", direction, DIRECTIONS)
        if batch is not None and (not isinstance(batch, int) or batch == 0):
            raise ConfigError(f"search.batch={batch}: expected a whole number from 1, or null for all.")
        self.metric, self.direction = metric, direction
        self.batch = batch if batch is None or batch > 0 else len(os.sched_getaffinity(0))  # joblib's -1: all cores

    def ranges(self, given: Sequence[str]) -> list[str]:
        """Overrides that this search adds to those of the command line, whose keys are given."""
        return []

    def batches(self, jobs: SweepJobs, swept: Sequence[Override]) -> Iterator[list[Job]]:
        """The jobs still to be run, as they are to be handed to the launcher."""
        for override in swept:
            if not override.is_discrete_sweep():
                raise ConfigError(f"{override.input_line}: an interval needs search=optuna; a grid needs values: a,b,c.")
        keys = [override.get_key_element() for override in swept]
        values = [list(override.sweep_string_iterator()) for override in swept]
        planned = [jobs.claim(dict(zip(keys, chosen, strict=True))) for chosen in itertools.product(*values)]
        different = {job.number: job for job in planned}
        yield from self.chunks([job for job in different.values() if jobs.results(job) is None])

    def chunks(self, jobs: list[Job]) -> Iterator[list[Job]]:
        """The jobs in lists of the batch's size."""
        size = self.batch or len(jobs) or 1
        yield from (jobs[start : start + size] for start in range(0, len(jobs), size))

    def value(self, results: RunResults) -> float | None:
        """The figure by which jobs are compared."""
        return results.metrics.get(self.metric)

    def best(self, found: Mapping[int, float | None]) -> int | None:
        """The number of the best job."""
        known = {number: value for number, value in found.items() if value is not None}
        return {"max": max, "min": min}[self.direction](known, key=known.get) if known else None


class OptunaSearch(GridSearch):
    """Values suggested by an Optuna sampler from the finished jobs alone: a killed search goes on alike."""

    def __init__(
        self,
        metric: str,
        direction: str,
        sampler: "Callable[..., BaseSampler]",
        trials: int,
        seed: int,
        batch: int = 1,
        space: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(metric, direction, batch)
        if not isinstance(trials, int) or trials < 1:
            raise ConfigError(f"search.trials={trials}: expected a whole number from 1.")
        self.sampler, self.trials, self.seed, self.space = sampler, trials, seed, dict(space or {})

    def ranges(self, given: Sequence[str]) -> list[str]:
        """The ranges of the space whose keys the command line leaves free."""
        return [f"{key}={values}" for key, values in self.space.items() if key not in given]

    def batches(self, jobs: SweepJobs, swept: Sequence[Override]) -> Iterator[list[Job]]:
        """First the jobs that were begun, then new suggestions, each batch from all that is known by then."""
        if not swept:
            raise ConfigError("search=optuna: no range to search; give one, such as module.lr=interval(0.001,0.1).")
        space = {override.get_key_element(): distribution(override) for override in swept}
        search = sorted([*jobs.fixed, *(f"{key}={values}" for key, values in space.items())])
        mine = [jobs.claim(values, search) for values in jobs.earlier(search)]
        yield from self.chunks([job for job in mine if jobs.results(job) is None])
        while len(mine) < self.trials and (values := self.suggest(jobs, mine, space)):
            batch = [jobs.claim(chosen, search) for chosen in values]
            mine += batch
            yield [job for job in batch if jobs.results(job) is None]

    def suggest(self, jobs: SweepJobs, mine: Sequence[Job], space: "Mapping[str, BaseDistribution]") -> list[dict[str, str]]:
        """Values for the next batch, none of which has been tried."""
        study = self.study(jobs, mine, space)
        tried = [dict(job.values) for job in mine]
        for number in range(len(mine), min(len(mine) + (self.batch or self.trials), self.trials)):
            for attempt in range(ATTEMPTS):
                # A seed of its own for each job: the sampler's state need not survive the end of the process.
                seed = np.random.SeedSequence([self.seed, number, attempt]).generate_state(1)[0]
                study.sampler = self.sampler(seed=int(seed))
                params = study.ask(dict(space)).params
                values = {key: as_text(params[key], space[key]) for key in space}
                if values not in tried:
                    tried.append(values)
                    break
            else:
                break
        return tried[len(mine) :]

    def study(self, jobs: SweepJobs, mine: Sequence[Job], space: "Mapping[str, BaseDistribution]") -> "Study":
        """A study that knows the finished jobs."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(direction=DIRECTIONS[self.direction])
        for results, job in ((jobs.results(job), job) for job in mine):
            if results and self.metric not in results.metrics:
                found = ", ".join(results.metrics)
                raise ConfigError(f"search.metric={self.metric}: no such metric; the jobs have {found}.")
            if results and (value := self.value(results)) is not None:
                params = {key: from_text(job.values[key], space[key]) for key in space}
                study.add_trial(optuna.create_trial(params=params, distributions=dict(space), value=value))
        return study


def distribution(override: Override) -> "BaseDistribution":
    """What a range of Hydra's grammar means to Optuna: intervals, also of whole numbers; ranges; choices."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    values = override.value()
    tags = set(getattr(values, "tags", ()))
    if tags - {"log"} or (tags and override.is_choice_sweep()):
        raise ConfigError(f"{override.input_line}: expected no tag but log, and that of an interval or range.")
    kind: Any  # of distribution; the ends that Hydra knows as numbers of any sort decide
    try:
        if isinstance(values, IntervalSweep):
            kind = IntDistribution if isinstance(values.start, int) and isinstance(values.end, int) else FloatDistribution
            return kind(values.start, values.end, log=bool(tags))
        if isinstance(values, RangeSweep):
            numbers = sorted(cast(Iterable[float], override.sweep_iterator()))
            kind = IntDistribution if all(isinstance(number, int) for number in numbers) else FloatDistribution
            return kind(numbers[0], numbers[-1], step=None if tags else abs(given(values.step, "a step")), log=bool(tags))
        return CategoricalDistribution(list(override.sweep_string_iterator()))
    except (ValueError, IndexError) as error:
        raise ConfigError(f"{override.input_line}: not a range that can be searched ({error}).") from error


def as_text(value: Any, kind: Any) -> str:
    """A suggested value as an override says it; a number of an interval in few digits, but inside."""
    if isinstance(value, float):
        digits = DIGITS if kind.step is None else MOST_DIGITS
        return repr(min(max(float(f"{value:.{digits}g}"), kind.low), kind.high))
    return str(value)


def from_text(text: str, kind: Any) -> Any:
    """The value that `as_text` wrote."""
    return text if hasattr(kind, "choices") else type(kind.low)(text)
