"""What all analyses share: sums over inputs that add up across processes, typed findings at the end, one pass for all."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torchmetrics import Metric

from headscope.analysis.statistics import DEVIATIONS, error_of_mean
from headscope.contracts import DrawnInput, Facts, Findings, HeadValues, Quantity, by_name, joined
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError, given

GridOfLists = list[list[float]]


class Unsuitable(ConfigError):
    """What an analysis lacks, from its verb on: its name is the configuration's, and put before it there."""


class Analysis(Metric):
    """Counts what each batch shows (`update`) and says what was found (`compute`).

    Every state is a sum, or has a row for each input where a test needs them all, so that several processes count as one.
    """

    full_state_update = False
    kind: str | tuple[str, ...]  # of data
    takes = "attention"  # what the maps must hold

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        kinds = (self.kind,) if isinstance(self.kind, str) else self.kind
        if facts.kind not in kinds:
            raise Unsuitable(f"needs data={' or data='.join(kinds)}, found data of kind {facts.kind}.")
        if facts.maps != self.takes:
            raise Unsuitable(f"needs maps of {self.takes}, found {facts.maps or 'no maps'}.")
        self.layers, self.heads = facts.layers, facts.heads

    @abstractmethod
    def compute(self) -> Findings:
        """What was found in all inputs."""

    def _wrap_compute(self, compute: Callable[[], Findings]) -> Callable[[], Findings]:
        # torchmetrics' own wrapper rebuilds what it gets leaf by leaf, which a frozen dataclass forbids.
        def compute_over_processes() -> Findings:
            with self.sync_context(dist_sync_fn=self.dist_sync_fn):
                return compute()

        return compute_over_processes

    def add_sum(self, name: str, *shape: int, dtype: torch.dtype = torch.float64) -> None:
        """A state that starts at zero."""
        self.add_state(name, torch.zeros(shape, dtype=dtype), dist_reduce_fx="sum")

    def grid(self, values: Tensor | np.ndarray) -> GridOfLists:
        """One number per map as rows of layers."""
        return values.reshape(self.layers, self.heads).tolist()

    def map_slices(self, parts: int) -> list[slice]:
        """Where each part lies on an axis that has all maps of one part after the other."""
        maps = self.layers * self.heads
        return [slice(part * maps, (part + 1) * maps) for part in range(parts)]


def flat_maps(batch: AttentionBatch) -> Float[Tensor, "batch map query key"]:
    """The maps of all layers and heads on one axis."""
    return batch.flat_maps()


class InputMeans(Analysis):
    """Means over inputs of quantities that each input has or has not: sums for every head, and how many inputs have each."""

    total: Tensor
    squares: Tensor
    inputs: Tensor

    def __init__(self, facts: Facts, quantities: Sequence[Quantity]) -> None:
        super().__init__(facts)
        self.quantities = tuple(quantities)
        self.add_sum("total", len(quantities), self.layers * self.heads)
        self.add_sum("squares", len(quantities), self.layers * self.heads)
        self.add_sum("inputs", len(quantities))

    def count(self, values: Float[Tensor, "batch quantity map"], defined: Bool[Tensor, "batch quantity"]) -> None:
        """Add the values of some inputs, where they are defined."""
        counted = (values * defined[..., None]).double()
        self.total += counted.sum(0)
        self.squares += counted.square().sum(0)
        self.inputs += defined.sum(0)

    def means(self) -> dict[str, Float[Tensor, "layer head"]]:
        """The mean of each quantity, by name; NaN where no input has it."""
        means = (self.total / self.inputs[:, None]).reshape(-1, self.layers, self.heads)
        return dict(zip((quantity.name for quantity in self.quantities), means, strict=True))

    def errors(self) -> dict[str, Float[Tensor, "layer head"]]:
        """The standard error of each mean, over inputs."""
        errors = error_of_mean(self.total, self.squares, self.inputs[:, None]).reshape(-1, self.layers, self.heads)
        return dict(zip((quantity.name for quantity in self.quantities), errors, strict=True))

    def head_values(self) -> dict[str, HeadValues]:
        """The means as findings, with their intervals by the normal distribution."""
        counts = self.inputs[:, None].expand_as(self.total)
        rows = zip(self.quantities, self.means().values(), self.errors().values(), counts, strict=True)
        return by_name(
            HeadValues(
                one,
                mean.tolist(),
                self.grid(count),
                (mean - DEVIATIONS * error).tolist(),
                (mean + DEVIATIONS * error).tolist(),
            )
            for one, mean, error, count in rows
        )


class DrawsMaps(Analysis):
    """An analysis that keeps the maps of a few inputs for pictures, whichever process sees them."""

    drawn_index: Tensor
    drawn_maps: Tensor

    def keep_maps_of(self, drawn: Sequence[DrawnInput], sizes: Sequence[int]) -> None:
        """Make room for the inputs, given with the size of their maps."""
        self.drawn = tuple(drawn)
        index = torch.tensor([one.index for one in drawn], dtype=torch.long)
        self.register_buffer("drawn_index", index, persistent=False)
        largest = max(sizes, default=0)
        self.add_sum("drawn_maps", len(drawn), self.layers * self.heads, largest, largest, dtype=torch.float32)

    def keep_maps(self, batch: AttentionBatch) -> None:
        """Put aside those that are in the batch."""
        size = min(self.drawn_maps.shape[-1], batch.mask.shape[1])
        here = (self.drawn_index[:, None] == batch.index).float()
        maps = flat_maps(batch)[:, :, :size, :size]
        self.drawn_maps[:, :, :size, :size] += (here @ maps.flatten(1)).unflatten(1, maps.shape[1:])

    def drawn_map(self, drawn: int, head: str) -> Float[Tensor, "query key"]:
        """The map of a head, named as in tables, on one of the inputs; zeros behind its own size."""
        layer, number = map(int, head.split("-"))
        return self.drawn_maps[drawn, (layer - 1) * self.heads + number - 1]


def built(name: str, build: Callable[[Facts], Analysis], facts: Facts) -> Analysis:
    """The analysis of a name in the configuration, by which it is called where it cannot be had."""
    try:
        return build(facts)
    except Unsuitable as error:
        raise ConfigError(f"analyses={name} {error}") from error


class HeadAnalysis(pl.LightningModule):
    """Shows each batch to every analysis, so that one pass feeds them all; learns nothing."""

    def __init__(self, analyses: Mapping[str, Callable[[Facts], Analysis]], facts: Facts) -> None:
        super().__init__()
        if not analyses:
            raise ConfigError("analyses=[]: name at least one.")
        self.analyses = nn.ModuleDict({name: built(name, build, facts) for name, build in analyses.items()})
        self.found = Findings()

    def test_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        # Sums must be exact: the trainer's precision is for the encoder, which has run already.
        with torch.autocast(batch.mask.device.type, enabled=False):
            for analysis in self._each():
                analysis.update(batch)

    def on_test_epoch_end(self) -> None:
        self.found = joined(analysis.compute() for analysis in self._each())
        self.log_dict({f"test/{name}": float(given(value, name)) for name, value in self.found.metrics.items()})

    def _each(self) -> Iterable[Analysis]:
        return cast(Iterable[Analysis], self.analyses.values())  # torch knows them as modules

    def findings(self) -> Findings:
        """Tables, per-head quantities and drawings of all analyses."""
        return self.found
