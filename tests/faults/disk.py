"""Disks that are full, read-only or not there: one sentence, nothing half-written, and the same numbers once there is room.

`python -m tests.faults.disk` tries all cases. As root each folder gets a small file system of its own in memory; elsewhere
the operating system's error is injected where a file is opened.
"""

import argparse
import errno
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.faults.inject import Fault
from tests.faults.scenarios import Ended, Place, Workshop, differences, named, outcome, run

BLOCK = 4096  # bytes: a file system in memory has no smaller size
ROOM = "512m"


@dataclass(frozen=True)
class Full:
    """A folder of a run that has room for a fraction of what the run writes there; 0: for next to nothing."""

    scenario: str
    root: str  # run, cache or temp
    fraction: float

    def __str__(self) -> str:
        return f"{self.scenario}, {self.root} has room for {100 * self.fraction:.0f} %"


CASES = (
    *(Full("probe", "run", fraction) for fraction in (0.0, 0.4, 0.7, 0.95)),
    *(Full("probe", "cache", fraction) for fraction in (0.0, 0.5, 0.9)),
    Full("probe", "temp", 0.0),
    *(Full("fine-tuning", "run", fraction) for fraction in (0.2, 0.5, 0.8, 0.98)),
    Full("fine-tuning", "temp", 0.0),
    *(Full("disabling", "run", fraction) for fraction in (0.3, 0.8)),
    Full("sieves", "run", 0.5),
    *(Full("search", "run", fraction) for fraction in (0.3, 0.8)),
    *(Full("table", "run", fraction) for fraction in (0.3, 0.8)),
    *(Full("atlas", "run", fraction) for fraction in (0.3, 0.8)),
)


@cache
def can_mount() -> bool:
    """Whether this user may mount a file system."""
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
        if tried.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return tried.returncode == 0


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own in a folder, while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    """Change a file system in its place, such as its size."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def judge_full(case: Full, workshop: Workshop) -> list[str]:
    """Run without room, then with; what is wrong."""
    undisturbed = workshop.undisturbed(named(case.scenario))
    place = workshop.place()
    if not can_mount():
        return judge_injected(case, workshop, place)
    size = max(1, int(case.fraction * undisturbed.used[case.root]) // BLOCK) * BLOCK
    folder = place.roots[case.root]
    with mounted(folder, f"size={size}"):
        first = run(workshop.words(named(case.scenario)), place)
        problems = refusal_problems(case, first, place, undisturbed.lines)
        if first.status == 0:  # what it writes for the moment fits in what it keeps
            return problems + list(differences(undisturbed.outcome, outcome(place.run)))[:3]
        remount(folder, f"size={ROOM}")
        return problems + going_on_problems(case, workshop, place)


def judge_injected(case: Full, workshop: Workshop, place: Place) -> list[str]:
    """The same with an injected error, from one of the files that the run writes on."""
    undisturbed = workshop.undisturbed(named(case.scenario))
    writes = [name for name in undisturbed.events if name.startswith(f"write {case.root}/")]
    if not writes:
        return []
    event = writes[min(int(case.fraction * len(writes)), len(writes) - 1)]
    first = run(workshop.words(named(case.scenario)), place, Fault(event, error=errno.ENOSPC))
    problems = refusal_problems(case, first, place, undisturbed.lines)
    return problems + going_on_problems(case, workshop, place)


def refusal_problems(case: Full, ended: Ended, place: Place, usual: list[str]) -> list[str]:
    """What is wrong with how a run without room ended; one that needed none is fine."""
    said = [line for line in ended.lines if line not in usual]
    problems = []
    if ended.status not in (0, 1):
        problems.append(f"status {ended.status}")
    if "Traceback (most recent" in ended.err:
        problems.append(f"traceback: {said[-1][:160]}")
    elif ended.status and len(said) != 1:
        problems.append(f"{len(said)} lines: {' | '.join(said)[:200]}")
    # A sweep reports its jobs also where some of them failed.
    if ended.status and (place.run / "results.json").exists() and case.scenario != "search":
        problems.append("results.json is there")
    return problems + [f"left: {name}" for name in place.drafts()[:2]]


def going_on_problems(case: Full, workshop: Workshop, place: Place) -> list[str]:
    """What is wrong with how it goes on when there is room."""
    scenario = named(case.scenario)
    second = run([*workshop.words(scenario), *scenario.again.split()], place)
    if second.status != 0:
        return [f"going on ended with {second.status}: {' | '.join(second.lines[-1:])[:160]}"]
    found = list(differences(workshop.undisturbed(scenario).outcome, outcome(place.run)))
    return [f"differs: {name}" for name in found[:3]] + [f"left: {name}" for name in place.drafts()[:2]]


# Folders that cannot be


def judge_file_for_folder(root: str, workshop: Workshop) -> list[str]:
    """A file lies where the folder of a run, the cache or the temporary files should be."""
    place = workshop.place()
    folder = place.roots[root]
    if folder.is_dir():
        folder.rmdir()
    folder.write_text("mine\n")
    ended = run(workshop.words(named("probe")), place)
    kept = [] if folder.read_text() == "mine\n" else ["the file is gone"]
    return kept + unusable_problems(ended, folder, workshop)


def judge_read_only(root: str, workshop: Workshop) -> list[str]:
    """The folder cannot be written to."""
    place = workshop.place()
    folder = place.roots[root]
    if can_mount():
        with mounted(folder, "size=1m"):
            remount(folder, "ro")
            return unusable_problems(run(workshop.words(named("probe")), place), folder, workshop)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o555)
    try:
        return unusable_problems(run(workshop.words(named("probe")), place), folder, workshop)
    finally:
        folder.chmod(0o755)


def judge_no_home(_: str, workshop: Workshop) -> list[str]:
    """The home folder cannot be made, and the cache would be there."""
    words = workshop.words(named("probe"))
    home = Path("/proc/nobody")
    place = workshop.place()
    told = unusable_problems(run(words, place, HOME=str(home), HEADSCOPE_CACHE=None), home, workshop)
    streamed = [word for word in words if not word.startswith("data.cache=")]
    place = workshop.place()
    ended = run(streamed, place, HOME=str(home), HEADSCOPE_CACHE=None)
    return told + ([] if ended.status == 0 else [f"without a cache: status {ended.status}: {ended.lines[-1:]}"])


def unusable_problems(ended: Ended, folder: Path, workshop: Workshop) -> list[str]:
    """It may do without the folder, or say in one sentence that names it that it cannot."""
    said = [line for line in ended.lines if line not in workshop.undisturbed(named("probe")).lines]
    if ended.status == 0:
        return []
    if "Traceback (most recent" in ended.err:
        return [f"traceback: {said[-1][:160]}"]
    problems = [] if ended.status in (1, 2) else [f"status {ended.status}"]
    if len(said) != 1 or str(folder) not in said[0]:
        problems.append(f"expected one sentence that names {folder}: {' | '.join(said)[:200]}")
    return problems


FOLDERS = [(judge_file_for_folder, root) for root in ("run", "cache", "temp")]
FOLDERS += [(judge_read_only, root) for root in ("run", "cache", "temp")]
FOLDERS += [(judge_no_home, "home")]


def main() -> int:
    """Print a table of all cases; the status is 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="cases whose name holds this", default="")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="disk-") as base:
        workshop = Workshop(Path(base))
        print("case | fine")
        cases = [(str(case), judge_full, case) for case in CASES]
        cases += [
            (f"{judge.__name__.removeprefix('judge_').replace('_', ' ')}: {root}", judge, root) for judge, root in FOLDERS
        ]
        cases = [case for case in cases if options.only in case[0]]
        try:
            for name, judge, case in cases:
                problems = judge(case, workshop)
                failed += bool(problems)
                print(f"{name} | {'no: ' + '; '.join(problems) if problems else 'yes'}", flush=True)
        finally:
            workshop.close()
    print(f"{len(cases)} cases, {failed} failed{'' if can_mount() else ', with injected errors'}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
