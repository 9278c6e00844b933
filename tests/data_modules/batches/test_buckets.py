"""Batches: each example once, within the budget, in an order that only seed and epoch decide."""

import numpy as np
import pytest

from headscope.data_modules.batches.examples import BucketSampler, Budget, BudgetSampler, budget_batches

LENGTHS = np.random.default_rng(0).integers(3, 60, size=203)


def epoch_of(epoch, lengths=LENGTHS, batch_size=16, seed=7):
    sampler = BucketSampler(lengths, batch_size, seed)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(sampler) == len(batches)
    return batches


def flat(batches):
    return [place for batch in batches for place in batch]


@pytest.mark.parametrize(("length", "expected"), [(10, 10), (20, 4), (50, 1), (100, 1), (101, 1), (1000, 1)])
def test_examples_of_a_length_by_hand(length, expected):
    """100 tokens; 3 maps of 5000 cells: 1666 cells a map, so 16 of length 10, 4 of 20, none of 50."""
    assert Budget(tokens=100, cells=5000, maps=3).examples(length) == expected


def test_either_part_of_the_budget_can_bind():
    assert Budget(tokens=40, cells=10**9, maps=3).examples(10) == 4
    assert Budget(tokens=10**9, cells=1200, maps=3).examples(10) == 4


@pytest.mark.parametrize("budget", [Budget(200, 10**9, 72), Budget(10**9, 72 * 4000, 72), Budget(300, 72 * 5000, 72)])
def test_budget_is_kept_and_used(budget):
    batches = budget_batches(LENGTHS, budget)
    assert sorted(flat(batches)) == list(range(203))
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        longest = max(int(LENGTHS[place]) for place in batch)
        assert len(batch) * longest <= budget.tokens
        assert len(batch) * longest**2 * budget.maps <= budget.cells
        one_more = len(batch) + 1
        assert following is None or one_more * longest > budget.tokens or one_more * longest**2 * budget.maps > budget.cells


def test_an_over_long_example_stands_alone():
    batches = budget_batches(np.array([5, 100, 5, 5]), Budget(tokens=15, cells=10**9, maps=1))
    assert [batch.tolist() for batch in batches] == [[1], [0, 2, 3]]


def test_evaluation_batches_by_hand():
    lengths = np.array([4, 9, 2, 9, 3, 1])
    batches = list(BudgetSampler(lengths, Budget(tokens=18, cells=10**9, maps=1)))
    assert batches == [[1, 3], [0, 4, 2, 5]]


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_evaluation_batches_are_shared_without_overlap_or_loss(processes):
    budget = Budget(200, 10**9, 1)
    parts = [BudgetSampler(LENGTHS, budget, rank, processes) for rank in range(processes)]
    assert sorted(place for part in parts for place in flat(part)) == list(range(203))
    assert [len(part) for part in parts] == [len(list(part)) for part in parts]


@pytest.mark.parametrize("epoch", [0, 1, 5])
@pytest.mark.parametrize("batch_size", [1, 16, 203, 1000])
def test_every_example_once_an_epoch(epoch, batch_size):
    batches = epoch_of(epoch, batch_size=batch_size)
    assert sorted(flat(batches)) == list(range(203))
    assert sorted(map(len, batches))[1:] == [batch_size] * (len(batches) - 1)


def test_order_depends_on_seed_and_epoch_alone():
    first = epoch_of(2)
    np.random.seed(99)
    assert epoch_of(2) == first
    assert epoch_of(3) != first
    assert epoch_of(2, seed=8) != first


def test_two_epochs_of_one_sampler_without_set_epoch_are_alike():
    sampler = BucketSampler(LENGTHS, 16, 7)
    assert list(sampler) == list(sampler) == epoch_of(0)


def test_batches_hold_similar_lengths():
    """Batches are runs of the sorted lengths: their ranges overlap in no more than an end."""
    ranges = sorted((int(min(LENGTHS[batch])), int(max(LENGTHS[batch]))) for batch in epoch_of(1))
    assert all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False))
    assert [int(LENGTHS[batch[0]]) for batch in epoch_of(1)] != sorted(LENGTHS[batch[0]] for batch in epoch_of(1))
