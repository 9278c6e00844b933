"""Which maps to label: drawn evenly over layers, heads, encoders and tasks, in groups that share neither head nor input."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

import numpy as np

from data_modules.encoder import FrozenEncoder
from data_modules.pattern_labels import MapName

GROUPS = 5


def draw_maps(
    encoders: Mapping[str, FrozenEncoder], inputs: Mapping[str, int], per_layer: int, seed: int, split: str = "val"
) -> list[MapName]:
    """In each group `per_layer` maps of every layer; `inputs` counts the examples of each task.

    A head is in one group only, whichever encoder it is of, and so is an input: each group can be held out whole.
    """
    random = np.random.default_rng(seed)
    first = next(iter(encoders.values()))
    of_group = {task: random.permutation(count) for task, count in inputs.items()}
    heads = [random.permutation(first.heads) for _ in range(first.layers)]
    drawn = []
    for group in range(GROUPS):
        examples = _turns({task: order[group::GROUPS] for task, order in of_group.items()}, random)
        names = cycle(random.permutation(list(encoders)).tolist())
        for layer in range(first.layers):
            places = cycle(heads[layer][group::GROUPS].tolist())
            for _ in range(per_layer):
                task, example = next(examples)
                name = next(names)
                drawn.append(MapName(name, encoders[name].sha256, task, split, example, layer + 1, next(places) + 1))
    return list(dict.fromkeys(drawn))


def _turns(examples: Mapping[str, Sequence[int]], random: np.random.Generator) -> Iterator[tuple[str, int]]:
    """Tasks in turn, each with its next example, without an end."""
    of_task = {task: cycle(random.permutation(places).tolist()) for task, places in examples.items()}
    for task in cycle(random.permutation(list(examples)).tolist()):
        yield task, next(of_task[task])
