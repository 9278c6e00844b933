"""One map of each class from each family of encoders, to be drawn (Kovaleva, Figure 1)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from headscope.contracts import Row, head_name
from headscope.data_modules.patterns.labels import CLASSES
from headscope.data_modules.patterns.sources import MapExample
from headscope.data_modules.patterns.stored import quantised

LENGTHS = (14, 40)  # tokens of a map that can be seen on a small picture


def example_rows(items: Sequence[MapExample], logits: Float[Tensor, "map class"], labels: Int[Tensor, "map"]) -> list[Row]:
    """Of each family and class the map that the network is surest of and right about, where all who looked agree."""
    sure, found = (one.tolist() for one in logits.softmax(1).max(1))
    best: dict[tuple[str, str], tuple[float, int]] = {}
    for index, (item, label) in enumerate(zip(items, labels.tolist(), strict=True)):
        fits = LENGTHS[0] <= len(item.weights) <= LENGTHS[1] and item.soft.max() == 1 and found[index] == label
        if item.name is not None and fits:
            key = item.name.family, CLASSES[label]
            best[key] = max(best.get(key, (0.0, -1)), (sure[index], index))
    return [_row(items[index], family, name, certainty) for (family, name), (certainty, index) in sorted(best.items())]


def _row(item: MapExample, family: str, name: str, certainty: float) -> Row:
    special = np.isin(item.token_class, (1, 2))
    return {
        "family": family,
        "class": name,
        "confidence": certainty,
        "encoder": item.name.encoder if item.name else family,
        "head": head_name(item.name.layer, item.name.head) if item.name else "",
        "special": np.flatnonzero(special).tolist(),
        "levels": quantised(item.weights).tolist(),
    }


def surest(rows: Sequence[Row]) -> list[Row]:
    """Of several runs' examples one for each family and class."""
    best: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: row["confidence"]):
        best[row["family"], row["class"]] = row
    return [best[key] for key in sorted(best)]
