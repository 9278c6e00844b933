"""A run without room ends in a sentence and goes on once there is; a few of the cases of `python -m tests.faults.disk`."""

import pytest

from tests.faults.disk import CASES, FOLDERS, Full, judge_file_for_folder, judge_full

FEW = (Full("probe", "run", 0.4), Full("probe", "cache", 0.5))


@pytest.mark.parametrize("case", FEW, ids=str)
def test_a_full_disk_is_told_and_costs_nothing(workshop, case):
    assert judge_full(case, workshop) == []


def test_a_file_where_a_folder_should_be_is_told(workshop):
    assert judge_file_for_folder("run", workshop) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_other_full_disks(workshop, case):
    assert judge_full(case, workshop) == []


@pytest.mark.slow
@pytest.mark.parametrize(("judge", "root"), FOLDERS)
def test_every_folder_that_cannot_be(workshop, judge, root):
    assert judge(root, workshop) == []
