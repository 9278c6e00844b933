"""Batches of similar length, within a budget, in a reproducible order."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
from torch.utils.data import Sampler

from headscope.errors import ConfigError


@dataclass(frozen=True)
class Budget:
    """What one pass of the encoder may hold: tokens with padding, and cells of all its maps."""

    tokens: int
    cells: int
    maps: int

    def examples(self, length: int) -> int:
        """How many inputs of this length fit (at least one)."""
        return max(1, min(self.tokens // length, self.cells // (self.maps * length * length)))


def budget_batches(lengths: np.ndarray, budget: Budget, processes: int = 1) -> list[np.ndarray]:
    """All examples, longest first, in batches as large as the budget allows and enough of them for all processes."""
    if len(lengths) < processes:
        raise ConfigError(
            f"{len(lengths)} examples cannot be shared among {processes} processes; use fewer (trainer.devices)."
        )
    share = len(lengths) // processes
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        size = min(share, budget.examples(int(lengths[order[start]])))
        batches.append(order[start : start + size])
        start += size
    return batches


class BucketSampler(Sampler):
    """Batches of `batch_size` inputs of similar length, drawn anew each epoch from the seed; for training.

    What a step learns from depends on the seed only, never on the encoder's budget or the number of processes: all
    get the same batches, and each takes its part of every batch (`examples.collate_part`).
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = 0
        self.sampler = self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self.seed, self.epoch])
        order = random.permutation(len(self.lengths))
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        for place in random.permutation(len(batches)):
            yield batches[place].tolist()


class BudgetSampler(Sampler):
    """Batches that fill the budget, in a fixed order; for evaluation. Processes share them without overlap."""

    def __init__(self, lengths: np.ndarray, budget: Budget, rank: int = 0, processes: int = 1) -> None:
        self.batches = budget_batches(lengths, budget, processes)[rank::processes]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return (batch.tolist() for batch in self.batches)


class LabelledLast(Sampler):
    """Batches of all maps for some epochs, then of the first ones alone, the labelled, in equally many batches."""

    def __init__(self, lengths: np.ndarray, labelled: int, batch_size: int, seed: int, epochs: int) -> None:
        self.all = BucketSampler(lengths, batch_size, seed)
        self.labelled = BucketSampler(lengths[:labelled], batch_size, seed)
        self.epochs, self.sampler = epochs, self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        self.all.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[list[int]]:
        if self.all.epoch < self.epochs:
            return iter(self.all)
        return islice(self._again_and_again(), len(self))

    def _again_and_again(self) -> Iterator[list[int]]:
        for turn in count(self.all.epoch * len(self)):
            self.labelled.set_epoch(turn)
            yield from self.labelled
