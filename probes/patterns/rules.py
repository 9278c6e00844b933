"""Attention patterns by three measures and three thresholds, which a network must beat."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.contracts import Facts, Findings
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.patterns.labels import CLASSES
from headscope.errors import ConfigError
from headscope.probes.patterns.classifier import PatternClassifier
from headscope.probes.patterns.resampling import CLS, SEP
from headscope.probes.patterns.scores import Predictions
from headscope.processes import progress

VERTICAL, DIAGONAL, VERTICAL_DIAGONAL, BLOCK, HETEROGENEOUS = range(len(CLASSES))
MEASURES = ("special", "near", "inside")
GRIDS = {
    "special": [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7],
    "near": [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7],
    "inside": [0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.01],
}


class PatternRules(PatternClassifier):
    """Thresholds are those of a small grid that do best on the maps of the training part, found before a test."""

    thresholds: Tensor

    def __init__(self, facts: Facts, thresholds: Mapping[str, float] | None = None) -> None:
        super().__init__(facts)
        given = {name: grid[len(grid) // 2] for name, grid in GRIDS.items()} | dict(thresholds or {})
        self.register_buffer("thresholds", torch.tensor([given[name] for name in MEASURES]))
        self.learnt_from = Predictions()

    def logits(self, batch: AttentionBatch) -> Float[Tensor, "batch class"]:
        classes = ruled_classes(self._measures(batch), self.thresholds)
        return (classes[:, None] == torch.arange(len(self.classes), device=classes.device)).float()

    @staticmethod
    def _measures(batch: AttentionBatch) -> Float[Tensor, "batch measure"]:
        return map_measures(batch.flat_maps(), batch.mask, batch.gold["token_class"]).squeeze(1)

    def loss(self, batch: AttentionBatch) -> Tensor:
        raise ConfigError("module=pattern_rules: rules are not trained; give stages=[test].")

    def on_test_start(self) -> None:
        """Find the thresholds in what may be learnt from."""
        for on_host in progress(cast(Any, self.trainer).datamodule.train_dataloader(), "thresholds"):
            self.learn(self.trainer.strategy.batch_to_device(on_host))
        _, labels, measures = self.learnt_from.compute()
        self.learnt_from.reset()
        self.thresholds.copy_(best_thresholds(measures, labels, len(self.classes)))

    def learn(self, batch: AttentionBatch) -> None:
        """Keep what is measured of some labelled maps."""
        self.learnt_from.update(batch.input_index, batch.gold["label"].squeeze(1), self._measures(batch))

    def findings(self) -> Findings:
        rows = [
            {"measure": name, "threshold": value} for name, value in zip(MEASURES, self.thresholds.tolist(), strict=True)
        ]
        return Findings(tables={**self.tables, "thresholds": rows})


def map_measures(
    maps: Float[Tensor, "batch map query key"], real: Bool[Tensor, "batch token"], token_class: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch map measure"]:
    """In the order of MEASURES: the share of attention that goes to special tokens; that of ordinary tokens to the
    previous, same and next one; and of the attention among ordinary tokens, the mean inside a sentence over the sum of
    that and the mean across sentences (0 for a single sentence)."""
    special = ((token_class == CLS) | (token_class == SEP)) & real
    ordinary = real & ~special
    to_special = maps @ special[:, None, :, None].float()
    share = (to_special.squeeze(-1) * real[:, None]).sum(-1) / real.sum(1)[:, None]
    both = ordinary[:, :, None] & ordinary[:, None]
    position = torch.arange(real.shape[1], device=real.device)
    band = ((position[:, None] - position).abs() <= 1) & both
    near = (maps * band[:, None]).sum((-1, -2)) / ordinary.sum(1).clamp(min=1)[:, None]
    sentence = (token_class == SEP).cumsum(1)
    same = (sentence[:, :, None] == sentence[:, None]) & both
    inside, across = _mean(maps, same), _mean(maps, both & ~same)
    pair = (both & ~same).flatten(1).any(1)[:, None]
    contrast = torch.where(pair, inside / (inside + across).clamp(min=1e-12), 0.0)
    return torch.stack([share, near, contrast], -1)


def _mean(maps: Float[Tensor, "batch map query key"], cells: Bool[Tensor, "batch query key"]) -> Float[Tensor, "batch map"]:
    return (maps * cells[:, None]).sum((-1, -2)) / cells.sum((-1, -2)).clamp(min=1)[:, None]


def ruled_classes(measures: Float[Tensor, "... measure"], thresholds: Float[Tensor, "... measure"]) -> Int[Tensor, "..."]:
    """Columns and diagonals first, then blocks; heterogeneous is what is left. Numbers of CLASSES."""
    special, near, inside = (measures >= thresholds).unbind(-1)
    neither = torch.where(inside, BLOCK, HETEROGENEOUS)
    one = torch.where(special, VERTICAL, torch.where(near, DIAGONAL, neither))
    return torch.where(special & near, VERTICAL_DIAGONAL, one)


def best_thresholds(
    measures: Float[Tensor, "map measure"], labels: Int[Tensor, "map"], classes: int
) -> Float[Tensor, "measure"]:
    """Those of the grid with the best macro F1, the lowest of equally good ones."""
    grid = torch.cartesian_prod(*(torch.tensor(GRIDS[name], device=measures.device) for name in MEASURES))
    found = torch.nn.functional.one_hot(ruled_classes(measures, grid[:, None]), classes)
    gold = torch.nn.functional.one_hot(labels, classes)
    sizes = found.sum(1) + gold.sum(0)  # twice the size of a class that is always right
    f1 = 2 * (found * gold).sum(1) / sizes.clamp(min=1)
    return grid[(f1.sum(1) / (sizes > 0).sum(1)).argmax()]
