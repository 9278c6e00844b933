"""How much a head's attention changed between two models on the same inputs (Kovaleva, section 4.3, Figure 5)."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.analysis.base import Analysis, Unsuitable, flat_maps
from headscope.analysis.statistics import interval, poisson_weights, require_replicates
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Section, by_name
from headscope.data_modules.batches.batch import AttentionBatch

COSINE = Quantity(
    "cosine",
    "cosine with the fine-tuned model",
    "Cosine between the head's maps before and after fine-tuning; 1 is no change.",
    better="low",
    section=Section("drift", "change after fine-tuning"),
    headline=True,
)


class HeadDrift(Analysis):
    """The cosine between the two maps of each head over the real tokens of an input, averaged over inputs.

    `released` takes the padding in, as the authors' code does: the rows of padded queries, up to the batch's longest input.
    """

    kind = "glue"
    total: Tensor
    inputs: Tensor
    resampled_total: Tensor
    resampled_inputs: Tensor

    def __init__(self, facts: Facts, replicates: int = 500, seed: int = 0, released: bool = False) -> None:
        super().__init__(facts)
        if not facts.tuned:
            raise Unsuitable("needs a second model; name its folder with tuned.name=.")
        self.replicates, self.seed, self.released = require_replicates(replicates), seed, released
        maps = self.layers * self.heads
        self.add_sum("total", maps)
        self.add_sum("inputs")
        self.add_sum("resampled_total", replicates, maps)
        self.add_sum("resampled_inputs", replicates)

    def update(self, batch: AttentionBatch) -> None:
        counted = torch.ones_like(batch.mask) if self.released else batch.mask
        cosines = map_cosines(flat_maps(batch), batch.flat_tuned_maps(), counted).double()
        weights = poisson_weights(batch.input_index, self.replicates, self.seed).double()
        self.total += cosines.sum(0)
        self.inputs += len(cosines)
        self.resampled_total += weights @ cosines
        self.resampled_inputs += weights.sum(1)

    def compute(self) -> Findings:
        means = self.total / self.inputs
        low, high = interval(self.resampled_total, self.resampled_inputs[:, None])
        by_layer = means.reshape(self.layers, self.heads).mean(1).tolist()
        rows = [
            {"layer": layer, "mean_cosine": value, "n": int(self.inputs)} for layer, value in enumerate(by_layer, start=1)
        ]
        values = HeadValues(
            COSINE,
            value=self.grid(means),
            n=self.grid(self.inputs.expand(len(means))),
            low=self.grid(low),
            high=self.grid(high),
        )
        return Findings(
            metrics={"mean_cosine": float(means.mean()), "least_cosine": float(means.min())},
            tables={"drift_by_layer": rows},
            heads=by_name([values]),
            notes={"drift_by_layer": self._notes(by_layer)},
        )

    def _notes(self, by_layer: Sequence[float]) -> list[str]:
        """The two layers that changed most, beside which the paper's stand where they may; and what was counted."""
        least = sorted(sorted(range(1, len(by_layer) + 1), key=lambda layer: by_layer[layer - 1])[:2])
        counted = ["padding is counted too, as in the released code"] if self.released else []
        return [f"layers that changed most: {' and '.join(map(str, least))} of {len(by_layer)}", *counted]


def map_cosines(
    one: Float[Tensor, "batch map token token"],
    other: Float[Tensor, "batch map token token"],
    real: Bool[Tensor, "batch token"],
) -> Float[Tensor, "batch map"]:
    """The cosine of the two maps as long vectors; padding has no part in them."""
    cells = (real[:, :, None] & real[:, None]).flatten(1)[:, None].float()
    one, other = one.flatten(2) * cells, other.flatten(2) * cells
    products = ((one * other).sum(2), (one * one).sum(2), (other * other).sum(2))
    return products[0] / (products[1] * products[2]).sqrt().clamp(min=torch.finfo(one.dtype).tiny)
