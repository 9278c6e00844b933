"""What a datamodule hands to probes and analyses."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, distributed

from headscope.errors import given

IGNORE = -100  # gold value of ROOT and of padding


@dataclass
class AttentionBatch:
    """Maps and gold annotation of some inputs, on the device.

    The unit of a map is a word, where index 0 of every word axis is ROOT, or a token. `index` is that of an
    input in its split. Gold is padded with IGNORE and has one value per unit, or per whatever it is about.
    """

    mask: Bool[Tensor, "batch word"]
    gold: dict[str, Shaped[Tensor, "batch _"]]
    index: Int[Tensor, "batch"] | None = None
    inputs: dict[str, Int[Tensor, "batch _"]] | None = None  # what the encoder gets, for those who run their own
    maps: Float[Tensor, "batch layer head query key"] | None = None
    tuned_maps: Float[Tensor, "batch layer head query key"] | None = None  # of a second model on the same inputs
    vectors: Float[Tensor, "batch word vector"] | None = None
    hidden: Float[Tensor, "batch word hidden"] | None = None
    seen: Bool[Tensor, "batch query key"] | None = None  # the keys that a query may see, where not all real ones
    whole: int | None = None  # inputs of the batch in all processes together, where it is shared; 0 where this one is idle

    @property
    def size(self) -> int:
        """How many inputs a step learns from, in all processes together."""
        return len(self.mask) if self.whole is None else self.whole

    @property
    def input_index(self) -> Int[Tensor, "batch"]:
        """`index`, for those who cannot do without it."""
        return given(self.index, "the index of every input")

    @property
    def encoder_inputs(self) -> dict[str, Int[Tensor, "batch _"]]:
        """`inputs`, for those who cannot do without them."""
        return given(self.inputs, "what the encoder gets")

    def visible(self) -> Bool[Tensor, "batch query key"]:
        """Which keys each query may see: the real ones, and in a causal model none behind it; padding sees nothing."""
        return self.mask[:, :, None] & self.mask[:, None] if self.seen is None else self.seen

    def flat_maps(self) -> Float[Tensor, "batch map query key"]:
        """The maps of all layers and heads on one axis."""
        return given(self.maps, "data with maps").flatten(1, 2)

    def flat_tuned_maps(self) -> Float[Tensor, "batch map query key"]:
        """The same of the second model."""
        return given(self.tuned_maps, "data with maps of a second model").flatten(1, 2)

    def without_inputs(self) -> "AttentionBatch":
        """The same with no input in it: who counts it counts nothing, and keeps rows of the right shape and type."""
        return AttentionBatch(**{one.name: _first_none(getattr(self, one.name)) for one in fields(self)})


def _first_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _first_none(one) for name, one in value.items()}
    return value[:0] if isinstance(value, Tensor) else value


def mean_of_all(total: Tensor, count: Tensor) -> Tensor:
    """The total over the count of the whole batch, from the total and the count of this process's part.

    The gradients of what the processes return, averaged as DDP does, are those of the mean over the whole batch. The
    counts are added up on the device.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return total / count.clamp(min=1)
    everywhere = count.detach().to(torch.float32, copy=True)
    distributed.all_reduce(everywhere)
    return total * distributed.get_world_size() / everywhere.clamp(min=1)


def seed_epoch(seed: int, epoch: int) -> None:
    """Let what an epoch draws depend on the seed and the epoch only; called with its first batch.

    Not when the epoch starts: whether the loader draws a number after that depends on its workers, and on whether the
    epoch is the first since a run was resumed.
    """
    torch.manual_seed(seed + 1000 * (epoch + 1))
    if epoch:
        torch.empty((), dtype=torch.int64).random_()  # the number that the loader of one process draws there
