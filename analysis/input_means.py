"""Quantities that each input has or has not, averaged over those that have them."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.analysis.analysis import Analysis
from headscope.contracts import Facts


class InputMeans(Analysis):
    """Sums of some named quantities of every head, and how many inputs have each."""

    def __init__(self, facts: Facts, quantities: Sequence[str]) -> None:
        super().__init__(facts)
        self.quantities = tuple(quantities)
        self.add_sum("total", len(quantities), self.layers * self.heads)
        self.add_sum("inputs", len(quantities))

    def count(self, values: Float[Tensor, "batch quantity map"], defined: Bool[Tensor, "batch quantity"]) -> None:
        """Add the values of some inputs, where they are defined."""
        self.total += (values * defined[..., None]).sum(0, dtype=torch.float64)
        self.inputs += defined.sum(0)

    def means(self) -> dict[str, Float[Tensor, "layer head"]]:
        """The mean of each quantity; NaN where no input has it."""
        means = (self.total / self.inputs[:, None]).reshape(-1, self.layers, self.heads)
        return dict(zip(self.quantities, means, strict=True))

    def mean_grids(self) -> dict[str, dict[str, list]]:
        """The means as findings of heads."""
        counts = self.inputs[:, None].expand_as(self.total)
        return {
            name: {"value": mean.tolist(), "n": self.grid(count)}
            for (name, mean), count in zip(self.means().items(), counts, strict=True)
        }
