"""Any set of analyses, fed from one pass over the data."""

from collections.abc import Callable, Mapping

import pytorch_lightning as pl
import torch
from torch import nn

from headscope.analysis.analysis import Analysis, Findings
from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError


class HeadAnalysis(pl.LightningModule):
    """Shows each batch to every analysis; learns nothing."""

    def __init__(self, analyses: Mapping[str, Callable[[Facts], Analysis]], facts: Facts) -> None:
        super().__init__()
        if not analyses:
            raise ConfigError("analyses=[]: name at least one.")
        self.analyses = nn.ModuleDict({name: build(facts) for name, build in analyses.items()})
        self.found: dict[str, Findings] = {}

    def test_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        # Sums must be exact: the trainer's precision is for the encoder, which has run already.
        with torch.autocast(batch.mask.device.type, enabled=False):
            for analysis in self.analyses.values():
                analysis.update(batch)

    def on_test_epoch_end(self) -> None:
        self.found = {name: analysis.compute() for name, analysis in self.analyses.items()}
        for found in self.found.values():
            self.log_dict({f"test/{name}": float(value) for name, value in found.get("metrics", {}).items()})

    def findings(self) -> dict[str, object]:
        """Tables and per-head results of all analyses."""
        return {
            part: {name: value for found in self.found.values() for name, value in found.get(part, {}).items()}
            for part in ("tables", "heads")
        }
