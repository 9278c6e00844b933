"""Runs that are killed at a file event or a moment, and go on to the numbers of a run that nothing disturbed.

`python -m tests.faults.kills --count 60 --seed 0` draws signals, events and moments over all scenarios.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.inject import Fault, signal_names
from tests.faults.scenarios import SCENARIOS, Ended, Place, Scenario, Undisturbed, Workshop, differences, outcome, run

KILL, TERM = (signal.SIGKILL,), (signal.SIGTERM,)
TWICE = (signal.SIGTERM, signal.SIGTERM)
SIGNALS = (KILL, KILL, KILL, TERM, TERM, TERM, TWICE)
DELAYS = (0.0, 0.0, 0.002, 0.03)  # seconds after an event: before a file is opened, and while it is written
STATUSES = (128 + signal.SIGTERM, 128 + signal.SIGINT)


@dataclass(frozen=True)
class Trial:
    """What is done to a command: a fault in its first run and perhaps in those that go on, and whether its folder moves."""

    scenario: Scenario
    faults: tuple[Fault, ...]
    moved: bool = False


@dataclass
class Verdict:
    """What came of a trial; none of the problems should be there."""

    statuses: list[int | None] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def judge(trial: Trial, workshop: Workshop) -> Verdict:
    """Run, kill, go on, compare."""
    scenario, verdict = trial.scenario, Verdict()
    expected, words = workshop.undisturbed(scenario), workshop.words(scenario)
    place = workshop.place(scenario.elsewhere)
    for number, fault in enumerate([*trial.faults, None]):
        # Killed before there was a folder, it is begun once more: there is nothing to resume.
        begun = number > 0 and (place.run.exists() or "resume=true" not in scenario.again)
        ended = run([*words, *(scenario.again.split() if begun else ())], place, fault)
        verdict.statuses.append(ended.status)
        if fault and ended.status != 0:
            verdict.problems += after_signal(fault, ended, place, expected)
        elif ended.status != 0:
            verdict.problems.append(f"going on ended with {ended.status}: {last_line(ended)}")
        if trial.moved and number == 0:
            place = place.moved()
    if verdict.statuses[-1] == 0:
        verdict.problems += [f"differs: {name}" for name in list(differences(expected.outcome, outcome(place.run)))[:3]]
        verdict.problems += [f"left: {name}" for name in place.drafts()[:3]]
    if not verdict.problems:
        for folder in {place.run.parent, place.temp.parent}:
            shutil.rmtree(folder)
    return verdict


def after_signal(fault: Fault, ended: Ended, place: Place, expected: Undisturbed) -> list[str]:
    """What is wrong with a run that a signal ended."""
    problems = []
    if ended.status is None:
        return ["does not end"]
    if (place.run / "results.json").exists():  # the signal came when all was done, or this file is not what it says
        return [f"results.json differs: {name}" for name in list(differences(expected.outcome, outcome(place.run)))[:3]]
    if fault.signals == KILL:
        return problems + ([] if ended.status == -signal.SIGKILL else [f"status {ended.status}: {last_line(ended)}"])
    if len(fault.signals) > 1 and ended.status == -signal.SIGTERM:  # the second one ends it at once, whatever it was at
        return [f"traceback: {last_line(ended)}"] if "Traceback" in ended.err else []
    begun = place.run.exists() and any(place.run.iterdir())
    said = [line for line in ended.lines if line not in expected.lines]
    if begun and ended.status not in STATUSES:
        problems.append(f"status {ended.status} after SIGTERM")
    if "Traceback" in ended.err:
        problems.append(f"traceback: {last_line(ended)}")
    elif begun and len(said) != 1:
        problems.append(f"{len(said)} lines: {' | '.join(said[:3])}")
    if left := list(place.temp.iterdir()):
        problems.append(f"left in TMPDIR: {left[0].name}")
    return problems


def last_line(ended: Ended) -> str:
    """What a run said last."""
    return ended.lines[-1][:200] if ended.lines else "(silent)"


def draw_fault(undisturbed: Undisturbed, draw: random.Random, among: tuple[tuple[int, ...], ...] = SIGNALS) -> Fault:
    """A signal at an event, each name as likely as any other, or one time in four at any moment."""
    signals = draw.choice(among)
    if draw.random() < 0.25:
        return Fault(None, delay=round(draw.uniform(0.02, 0.98) * undisturbed.seconds, 3), signals=signals)
    event = draw.choice(sorted(undisturbed.events))
    occurrence = draw.randint(1, undisturbed.events[event])
    return Fault(event, occurrence=occurrence, delay=draw.choice(DELAYS), signals=signals)


def draw_trials(
    count: int,
    seed: int,
    workshop: Workshop,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
    signals: tuple[tuple[int, ...], ...] = SIGNALS,
) -> Iterator[Trial]:
    """Trials over all scenarios in turn; some are killed again while they go on, some have their folder moved."""
    draw = random.Random(seed)
    for number in range(count):
        scenario = scenarios[number % len(scenarios)]
        undisturbed = workshop.undisturbed(scenario)
        faults = tuple(draw_fault(undisturbed, draw, signals) for _ in range(draw.choice((1, 1, 1, 2, 3))))
        yield Trial(scenario, faults, moved=draw.random() < 0.2)


def row(trial: Trial, verdict: Verdict) -> str:
    """A line of the table."""
    signals = ", ".join(signal_names(fault.signals) for fault in trial.faults)
    events = ", ".join(map(str, trial.faults)) + (", moved" if trial.moved else "")
    statuses = " ".join(map(str, verdict.statuses))
    equal = "no: " + "; ".join(verdict.problems) if verdict.problems else "yes"
    return " | ".join((trial.scenario.name, signals, events, statuses, equal))


def main() -> int:
    """Print a table of trials; the status is 1 where one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenario", help="of that name only", choices=[one.name for one in SCENARIOS])
    parser.add_argument("--signal", help="that one only", choices=[signal_names(one) for one in dict.fromkeys(SIGNALS)])
    options = parser.parse_args()
    signals = tuple(one for one in SIGNALS if options.signal in (None, signal_names(one)))
    chosen = tuple(one for one in SCENARIOS if options.scenario in (None, one.name))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kills-") as base:
        workshop = Workshop(Path(base))
        print("scenario | signal | event | statuses | resumed equal")
        try:
            for trial in draw_trials(options.count, options.seed, workshop, chosen, signals):
                verdict = judge(trial, workshop)
                failed += bool(verdict.problems)
                print(row(trial, verdict), flush=True)
        finally:
            workshop.close()
    print(f"{options.count} kills, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
