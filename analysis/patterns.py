"""Which pattern each head shows on how many inputs (Kovaleva, section 4.1), as a trained network sees it."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headscope.analysis.analysis import Analysis, Findings, flat_maps
from headscope.analysis.bootstrap import interval, poisson_weights, require_replicates
from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.patterns.labels import CLASSES
from headscope.errors import ConfigError, InputError

ABSTAINED = "abstained"
OUTCOMES = (*CLASSES, ABSTAINED)


class PatternShares(Analysis):
    """The share of inputs on which a head's map has each pattern; where the network is less sure, it abstains.

    The classifier gives the probability of each class for maps, the mask of real tokens and their classes.
    """

    kind = ("glue", "segments", "treebank_tokens")

    def __init__(
        self, facts: Facts, classifier: nn.Module, confidence: float = 0.5, replicates: int = 200, seed: int = 0
    ) -> None:
        super().__init__(facts)
        if not 0 <= confidence <= 1:
            raise ConfigError(f"analyses: confidence={confidence}: expected a probability.")
        self.classifier, self.confidence = classifier.eval().requires_grad_(False), confidence
        self.replicates, self.seed = require_replicates(replicates), seed
        self.models = ("", "tuned_") if facts.tuned else ("",)
        maps = self.layers * self.heads
        self.add_sum("counts", len(self.models), len(OUTCOMES), maps)
        self.add_sum("sure", len(self.models), maps)
        self.add_sum("inputs")
        self.add_sum("no_number")
        self.add_sum("drawn_counts", replicates, len(self.models), len(OUTCOMES), maps, dtype=torch.float32)
        self.add_sum("drawn_inputs", replicates)

    def update(self, batch: AttentionBatch) -> None:
        weights = poisson_weights(batch.index, self.replicates, self.seed)
        compared = [flat_maps(batch), *([] if len(self.models) == 1 else [batch.tuned_maps.flatten(1, 2)])]
        for place, maps in enumerate(compared):
            sure, outcomes = self._outcomes(maps, batch.mask, batch.gold["token_class"])
            self.no_number += (~sure.isfinite()).sum()
            self.counts[place] += outcomes.sum(0, dtype=torch.float64)
            self.sure[place] += sure.sum(0, dtype=torch.float64)
            self.drawn_counts[:, place] += (weights @ outcomes.flatten(1)).unflatten(1, outcomes.shape[1:])
        self.inputs += len(batch.mask)
        self.drawn_inputs += weights.sum(1)

    def _outcomes(
        self,
        maps: Float[Tensor, "batch map query key"],
        real: Bool[Tensor, "batch token"],
        classes: Int[Tensor, "batch token"],
    ) -> tuple[Float[Tensor, "batch map"], Float[Tensor, "batch outcome map"]]:
        """How sure the network is of each map, and its class, or that it abstains, as one of several zeros."""
        sure, found = self.classifier.probabilities(maps, real, classes).max(-1)
        outcome = torch.where(sure >= self.confidence, found, len(CLASSES))
        numbers = torch.arange(len(OUTCOMES), device=outcome.device)
        return sure, (outcome[:, None] == numbers[:, None]).to(sure.dtype)

    def compute(self) -> Findings:
        if self.no_number:
            raise InputError(f"analyses: {int(self.no_number)} attention maps hold NaN, so that they have no pattern.")
        shares = self.counts / self.inputs
        low, high = interval(self.drawn_counts.double(), self.drawn_inputs[:, None, None, None])
        counted = self.grid(self.inputs.expand(shares.shape[-1]))
        heads = {
            f"{model}pattern:{name}": {
                "value": self.grid(shares[m, n]),
                "n": counted,
                "low": self.grid(low[m, n]),
                "high": self.grid(high[m, n]),
            }
            for m, model in enumerate(self.models)
            for n, name in enumerate(OUTCOMES)
        }
        heads |= {
            f"{model}pattern_confidence": {"value": self.grid(self.sure[m] / self.inputs), "n": counted}
            for m, model in enumerate(self.models)
        }
        means = shares.reshape(len(self.models), len(OUTCOMES), self.layers, self.heads).mean(-1)
        return {
            "metrics": {
                f"{model}{name}": 100 * float(means[m, n].mean())
                for m, model in enumerate(self.models)
                for n, name in enumerate(OUTCOMES)
            },
            "tables": {"patterns_by_layer": layer_rows(means, [model.rstrip("_") or "model" for model in self.models])},
            "heads": heads,
        }


def layer_rows(means: Float[Tensor, "model outcome layer"], models: list[str]) -> list[dict[str, object]]:
    """The shares of each layer's maps, in percent; then those of all layers."""
    rows = []
    for model, shares in zip(models, 100 * means, strict=True):
        whole = {str(n): column for n, column in enumerate(shares.unbind(1), start=1)} | {"all": shares.mean(1)}
        rows += [
            {"model": model, "layer": layer, **dict(zip(OUTCOMES, column.tolist(), strict=True))}
            for layer, column in whole.items()
        ]
    return rows
