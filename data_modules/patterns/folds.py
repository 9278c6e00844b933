"""Folds of labelled maps: what is tested shares neither a head nor an input with what is learnt from."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from headscope.data_modules.patterns.labels import MapName
from headscope.errors import InputError

FOLDS = 5
LEAST = 0.5  # of an even share of the maps, for a fold of maps that are connected


@dataclass(frozen=True)
class FoldSplit:
    """Indices of the maps of each part; those left out share a head or an input with what is held out."""

    train: list[int]
    val: list[int]
    test: list[int]
    left_out: list[int]

    def of(self, numbers: Sequence[int]) -> "FoldSplit":
        """The same parts, counted in a longer list of which these are the numbers."""
        parts = (self.train, self.val, self.test, self.left_out)
        return FoldSplit(*([numbers[index] for index in part] for part in parts))


def held_out_family(names: Sequence[MapName], family: str, aside: Sequence[str]) -> FoldSplit:
    """All maps of one family of encoders are tested, those of the others learnt from, save those set aside.

    The families read the same inputs; their maps of an input differ, so the inputs are not kept apart.
    """
    families = [name.family for name in names]
    if family not in families:
        raise InputError(f"data.held_out={family}: expected one of {', '.join(dict.fromkeys(families))}.")
    test = [index for index, one in enumerate(families) if one == family]
    train = [index for index, one in enumerate(families) if one not in (family, *aside)]
    left_out = [index for index, one in enumerate(families) if one != family and one in aside]
    return FoldSplit(train, [], test, left_out)


def split_fold(names: Sequence[MapName], fold: int | None, validation: bool, apart: bool = True, seed: int = 0) -> FoldSplit:
    """One fold is tested, on request the next one kept for validation, and learnt from is what shares nothing with either.

    Without a fold all maps are both tested and learnt from. Folds that are not `apart` are drawn from single maps: other
    maps of the same heads and inputs are learnt from.
    """
    indices = list(range(len(names)))
    if fold is None:
        return FoldSplit(indices, [], indices, [])
    folds = fold_of_each(names) if apart else shuffled_folds(len(names), seed)
    test = [index for index in indices if folds[index] == fold]
    val = [index for index in indices if validation and folds[index] == (fold + 1) % FOLDS]
    val = _without_twins(names, val, test) if apart else val
    held_out = {*test, *val}
    rest = [index for index in indices if index not in held_out]
    train = _without_twins(names, rest, [*held_out]) if apart else rest
    return FoldSplit(train, val, test, sorted({*indices} - held_out - {*train}))


def shuffled_folds(count: int, seed: int) -> list[int]:
    """Equally large folds of single maps."""
    return np.random.default_rng(seed).permutation(np.arange(count) % FOLDS).tolist()


def fold_of_each(names: Sequence[MapName]) -> list[int]:
    """The fold of every map: maps that share a head or an input together, or where that is too coarse, maps of one head."""
    units = connected(names)
    folds = packed(units)
    if min(np.bincount(folds, minlength=FOLDS)) < LEAST * len(names) / FOLDS:
        folds = packed([name.head_index for name in names])
    return folds


def packed(units: Sequence[Hashable]) -> list[int]:
    """A fold for each unit, the largest first, always into the fold that has fewest maps."""
    sizes = {unit: units.count(unit) for unit in dict.fromkeys(units)}
    load, fold_of = [0] * FOLDS, {}
    for unit in sorted(sizes, key=lambda unit: -sizes[unit]):
        fold_of[unit] = load.index(min(load))
        load[fold_of[unit]] += sizes[unit]
    return [fold_of[unit] for unit in units]


def connected(names: Sequence[MapName]) -> list[int]:
    """A number for each map, the same for all that are linked by shared heads and inputs."""
    parent = list(range(len(names)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    first_with: dict[Hashable, int] = {}
    for index, name in enumerate(names):
        for key in (name.head_index, name.input):
            parent[root(index)] = root(first_with.setdefault(key, index))
    return [root(index) for index in range(len(names))]


def _without_twins(names: Sequence[MapName], indices: Sequence[int], held_out: Sequence[int]) -> list[int]:
    heads, inputs = {names[index].head_index for index in held_out}, {names[index].input for index in held_out}
    return [index for index in indices if names[index].head_index not in heads and names[index].input not in inputs]
