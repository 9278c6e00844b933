"""Killed runs go on to the numbers of an undisturbed one; a few of the many of `python -m tests.faults.kills`."""

import json
import signal

import pytest

from tests.commands import new_process
from tests.faults.inject import Fault, environment
from tests.faults.kills import KILL, TERM, TWICE, Trial, draw_trials, judge, row
from tests.faults.scenarios import SCENARIOS, Place, differences, named

WRITES = """
from pathlib import Path
for name in "abc":
    draft = Path(f"{folder}/run/draft_{name}")
    draft.write_text(name)
    draft.replace(f"{folder}/run/{name}")
"""


@pytest.fixture
def script(tmp_path):
    """A program that writes three files, each under another name first, and the place where it does."""
    place = Place.below(tmp_path)
    place.run.mkdir()
    file = tmp_path / "writes.py"
    file.write_text(WRITES.replace("{folder}", str(tmp_path)))
    return file, place


def run_with(script, fault, log=None):
    file, place = script
    return new_process("-m", "tests.faults.inject", str(file), env=environment(place.roots, fault, log)), place.run


def test_a_fault_comes_at_its_event(script):
    ended, folder = run_with(script, Fault("rename run/b", signals=KILL))
    assert ended.returncode == -signal.SIGKILL
    assert {file.name for file in folder.iterdir()} == {"a", "draft_b"}
    assert (folder / "draft_b").read_text() == "b"


def test_an_error_is_that_of_the_operating_system(script):
    ended, folder = run_with(script, Fault("write run/draft_b", error=28))
    assert "OSError: [Errno 28] No space left on device" in ended.stderr
    assert {file.name for file in folder.iterdir()} == {"a"}


def test_events_are_counted_by_name(script, tmp_path):
    _, folder = run_with(script, None, tmp_path / "events.json")
    events = json.loads((tmp_path / "events.json").read_text())
    assert events == {f"write run/draft_{name}": 1 for name in "abc"} | {f"rename run/{name}": 1 for name in "abc"}


def test_what_differs_is_named():
    before = {"a": {"metrics": {"uas": 1.0, "seconds": 3}, "rows": [["x", "0.5"]]}}
    assert not list(differences(before, {"a": {"metrics": {"uas": 1 + 1e-12, "seconds": 4}, "rows": [["x", "0.50"]]}}))
    other = {"a": {"metrics": {"uas": 1.001}, "rows": [["y", "0.5"]]}}
    assert list(differences(before, other)) == ["a/metrics/uas", "a/rows/0/0"]
    assert list(differences(before, {})) == ["a"]


@pytest.mark.parametrize(
    ("scenario", "event", "occurrence", "signals", "moved"),
    [
        ("probe", r"rename run/checkpoints/last.*", 1, KILL, False),
        ("probe-elsewhere", r"rename cache/.*\.json", 2, TERM, False),
        ("fine-tuning", r"write run/logs/metrics\.csv", 3, TWICE, True),
        ("search", r"rename run/jobs\.json", 2, KILL, False),
    ],
)
def test_a_killed_run_goes_on_to_the_same_numbers(workshop, scenario, event, occurrence, signals, moved):
    trial = Trial(named(scenario), (Fault(event, pattern=True, occurrence=occurrence, signals=signals),), moved)
    verdict = judge(trial, workshop)
    assert not verdict.problems, row(trial, verdict)
    assert verdict.statuses[0] != 0


@pytest.mark.slow
def test_a_kill_of_every_scenario(workshop):
    drawn = draw_trials(len(SCENARIOS), 0, workshop)
    failed = [row(trial, verdict) for trial in drawn if (verdict := judge(trial, workshop)).problems]
    assert not failed, "\n".join(failed)
