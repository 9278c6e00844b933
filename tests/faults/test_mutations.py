"""Damaged files: none is a traceback, none hangs, and what is read of one is what a plain count finds."""

import pytest

from tests.faults.mutated_readers import READERS
from tests.faults.mutations import check, mutated, outcome

CASES = 60


@pytest.mark.parametrize("name", READERS)
def test_whole_files_are_read_to_the_right_counts(name, tmp_path):
    reader = READERS[name]
    for seed in reader.seeds:
        assert outcome(reader, tmp_path / reader.file, seed) == ("read", "")


@pytest.mark.parametrize("name", [name for name in READERS if name != "results"])  # whose reader trusts what it wrote
def test_damaged_files_are_refused_in_a_sentence_or_read_to_the_right_counts(name, tmp_path):
    outcomes, failures = check(name, 0, CASES, tmp_path)
    assert failures == []
    assert outcomes["refused"] > 0 < outcomes["read"]


@pytest.mark.parametrize(("name", "case"), [("vectors_npz", 1479), ("vectors_npz", 3849)])
def test_cases_that_once_failed(name, case, tmp_path):
    assert check(name, case, 1, tmp_path)[1] == []


def test_a_case_is_always_the_same_file():
    reader = READERS["conllu"]
    assert mutated(reader, "conllu", 7) == mutated(reader, "conllu", 7) != mutated(reader, "conllu", 8)
