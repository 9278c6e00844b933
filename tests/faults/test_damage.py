"""Damaged files are noticed or make no difference; a few of the many of `python -m tests.faults.damage`."""

import random

import pytest

from tests.faults import damage
from tests.faults.damage import DAMAGES, GOOD, SUBJECTS, Trial, draw_trials, judge


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_changes_what_it_says(how):
    content = b"uas 61.25 of 40 sentences\n" * 40
    changed = how(content, random.Random(0))
    assert changed != content
    different = sum(one != other for one, other in zip(content, changed, strict=False))
    if how in (damage.bit_flipped, damage.digit_changed):
        assert (len(changed), different) == (len(content), 1)
    elif how in (damage.truncated, damage.emptied):
        assert content.startswith(changed)
    elif how is damage.appended:
        assert changed.startswith(content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subject", "how", "action"),
    [
        ("results.json", damage.digit_changed, "compare"),
        ("heads.csv", damage.digit_changed, "compare"),
        ("last checkpoint", damage.truncated, "resume"),
        ("stored maps", damage.bit_flipped, "resume"),
        ("weights", damage.bit_flipped, "resume"),
    ],
)
def test_a_damaged_file_is_noticed(world, subject, how, action):
    (found,) = (one for one in SUBJECTS if one.name == subject)
    (reads,) = (one for one in found.actions if one.name == action)
    verdict, said, file = judge(Trial(found, how, reads, seed=0), world)
    assert verdict in GOOD, f"{file}: {verdict} {said}"


@pytest.mark.slow
def test_a_damage_of_every_kind_of_file(world):
    verdicts = [(trial, *judge(trial, world)) for trial in draw_trials(len(SUBJECTS), 0, world)]
    failed = [f"{file}: {trial.how.__name__}: {verdict} {said}" for trial, verdict, said, file in verdicts]
    failed = [line for line, (_, verdict, *_) in zip(failed, verdicts, strict=True) if verdict not in GOOD]
    assert not failed, "\n".join(failed)
