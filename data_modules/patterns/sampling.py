"""Which maps to label: even over layers, encoders, tasks and rough kinds, in groups that share neither head nor input."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int8
from torch import Tensor

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.patterns.labels import MapName
from headscope.data_modules.patterns.maps import PatternMap, pattern_maps

GROUPS = 5
BAND = 1  # tokens to either side that count as the diagonal
STRONG = 0.4  # share of a map's attention that makes a rough kind
BLOCK_CONTRAST = 0.65
KINDS = ("vertical", "diagonal", "both", "block", "other")


def draw_maps(
    encoders: Mapping[str, FrozenEncoder],
    inputs: Mapping[str, int],
    count: int,
    seed: int = 0,
    split: str = "val",
    folder: str | None = None,
) -> list[MapName]:
    """About `count` maps of all encoders on some inputs of each task; `inputs` says how many the task has.

    A head is in one group only, whichever encoder it is of, and so is an input: each group can be held out whole.
    Within a group rough kinds come in turn, so that rare patterns are there: the sample does not tell how often they are.
    """
    random = np.random.default_rng(seed)
    drawn: list[MapName] = []
    for candidates in grouped_candidates(encoders, inputs, random, split):
        chosen = random.permutation(len(candidates))[: 4 * count]
        kinds = {found.name: rough_kind(found) for found in pattern_maps([candidates[n] for n in chosen], encoders, folder)}
        drawn += in_turn(kinds, -(-count // GROUPS), random)
    return drawn


def grouped_candidates(
    encoders: Mapping[str, FrozenEncoder], inputs: Mapping[str, int], random: np.random.Generator, split: str
) -> Iterator[list[MapName]]:
    """All maps of each group's heads on its inputs."""
    first = next(iter(encoders.values()))
    examples = {task: random.permutation(count) for task, count in inputs.items()}
    heads = [random.permutation(first.heads) for _ in range(first.layers)]
    for group in range(GROUPS):
        of_heads = [(layer + 1, int(head) + 1) for layer, order in enumerate(heads) for head in order[group::GROUPS]]
        of_group = [(task, int(number)) for task, order in examples.items() for number in order[group::GROUPS]]
        yield [
            MapName(name, encoder.checksum(), task, split, number, layer, head)
            for (name, encoder), (task, number), (layer, head) in product(encoders.items(), of_group, of_heads)
        ]


def in_turn(kinds: Mapping[MapName, str], count: int, random: np.random.Generator) -> list[MapName]:
    """Some of the maps: kinds in turn, and of each kind layers, encoders and tasks that were taken least so far."""
    names = sorted(kinds)
    left = {kind: [names[n] for n in random.permutation(len(names)) if kinds[names[n]] == kind] for kind in KINDS}
    drawn: list[MapName] = []
    while len(drawn) < min(count, len(names)):
        for kind in KINDS:
            if left[kind] and len(drawn) < count:
                drawn.append(left[kind].pop(_least_taken(left[kind], drawn)))
    return drawn


def _least_taken(names: Sequence[MapName], drawn: Sequence[MapName]) -> int:
    def taken(name: MapName) -> tuple[int, int]:
        same = [(one.layer == name.layer) + (one.encoder == name.encoder) + (one.task == name.task) for one in drawn]
        return sum((one.head_index, one.input) == (name.head_index, name.input) for one in drawn), sum(same)

    return min(range(len(names)), key=lambda index: taken(names[index]))


def rough_kind(found: PatternMap) -> str:
    """What a map is at a first glance; only for drawing, never a label."""
    vertical, diagonal, contrast = rough_measures(found)
    if vertical >= STRONG and diagonal >= STRONG / 2:
        return "both"
    if max(vertical, diagonal) >= STRONG:
        return "vertical" if vertical > diagonal else "diagonal"
    return "block" if contrast >= BLOCK_CONTRAST else "other"


def rough_measures(found: PatternMap) -> tuple[float, float, float]:
    """The shares of attention to special tokens and near tokens, and how much more a token sees of its own sentence."""
    weights, special = found.weights.cpu(), torch.from_numpy(found.special > 0)
    index = torch.arange(len(weights))
    near = (index[:, None] - index).abs() <= BAND
    share = float(weights[:, special].sum() / weights.sum())
    diagonal = float((weights * (near & ~special)).sum() / weights.sum())
    return share, diagonal, block_contrast(weights, torch.from_numpy(found.sentence))


def block_contrast(weights: Float[Tensor, "token token"], sentence: Int8[Tensor, "token"]) -> float:
    """What a token gives to its own sentence, of that and what it gives to the other at the same distance; 0 for none."""
    index = torch.arange(len(sentence))
    mirrored = 2 * index[:, None] - index  # as far from the query, on its other side
    inside = (mirrored >= 0) & (mirrored < len(sentence))
    mirrored = mirrored.clamp(0, len(sentence) - 1)
    across = (sentence[:, None] >= 0) & (sentence >= 0) & (sentence[:, None] != sentence)
    compared = across & inside & (sentence[mirrored] == sentence[:, None])
    own, other = weights.gather(1, mirrored)[compared].sum(), weights[compared].sum()
    return float(own / (own + other)) if bool(compared.any()) else 0.0
