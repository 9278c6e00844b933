"""What all analyses share: sums over inputs that add up across processes, and findings at the end."""

from typing import TypedDict

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError


class Findings(TypedDict, total=False):
    """Named numbers, tables of rows, and (layer, head) grids of `value` and, where known, `n`, `low`, `high`, `p`."""

    metrics: dict[str, float]
    tables: dict[str, list[dict]]
    heads: dict[str, dict[str, list]]


class Analysis(Metric):
    """Counts what each batch shows (`update`) and says what was found (`compute` gives Findings).

    Every state is a sum, or has a row for each input where a test needs them all, so that several processes count as one.
    """

    full_state_update = False
    kind: str | tuple[str, ...]  # of data
    takes = "attention"  # what the maps must hold

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        kinds = (self.kind,) if isinstance(self.kind, str) else self.kind
        if facts.kind not in kinds:
            needed = f"{type(self).__name__} needs data={' or data='.join(kinds)}"
            raise ConfigError(f"analyses: {needed}, found data of kind {facts.kind}.")
        if facts.maps != self.takes:
            raise ConfigError(
                f"analyses: {type(self).__name__} needs maps of {self.takes}, found {facts.maps or 'no maps'}."
            )
        self.layers, self.heads = facts.layers, facts.heads

    def add_sum(self, name: str, *shape: int, dtype: torch.dtype = torch.float64) -> None:
        """A state that starts at zero."""
        self.add_state(name, torch.zeros(shape, dtype=dtype), dist_reduce_fx="sum")

    def grid(self, values: Tensor | np.ndarray) -> list[list[float]]:
        """One number per map as rows of layers."""
        return values.reshape(self.layers, self.heads).tolist()

    def map_slices(self, parts: int) -> list[slice]:
        """Where each part lies on an axis that has all maps of one part after the other."""
        maps = self.layers * self.heads
        return [slice(part * maps, (part + 1) * maps) for part in range(parts)]


def flat_maps(batch: AttentionBatch) -> Float[Tensor, "batch map query key"]:
    """The maps of all layers and heads on one axis."""
    return batch.maps.flatten(1, 2)


def head_name(place: int, heads: int) -> str:
    """A head as the papers write it: layer-head, from 1."""
    return f"{place // heads + 1}-{place % heads + 1}"
