"""The maps of a few inputs, kept for pictures, whichever process sees them."""

from collections.abc import Sequence

import torch

from headscope.analysis.analysis import Analysis, flat_maps
from headscope.contracts import DrawnInput
from headscope.data_modules.batches.batch import AttentionBatch


class ShowsMaps(Analysis):
    """An analysis that keeps the maps of the inputs that its data wants to show."""

    def keep_maps_of(self, shown: Sequence[DrawnInput], sizes: Sequence[int]) -> None:
        """Make room for the inputs, each given with the size of its maps."""
        index = torch.tensor([one.index for one in shown], dtype=torch.long)
        self.register_buffer("shown_index", index, persistent=False)
        largest = max(sizes, default=0)
        self.add_sum("shown_maps", len(shown), self.layers * self.heads, largest, largest, dtype=torch.float32)

    def keep_maps(self, batch: AttentionBatch) -> None:
        """Put aside those that are in the batch."""
        size = min(self.shown_maps.shape[-1], batch.mask.shape[1])
        here = (self.shown_index[:, None] == batch.index).float()
        maps = flat_maps(batch)[:, :, :size, :size]
        self.shown_maps[:, :, :size, :size] += (here @ maps.flatten(1)).unflatten(1, maps.shape[1:])
