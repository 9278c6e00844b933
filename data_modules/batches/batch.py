"""What a datamodule hands to probes and analyses."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

IGNORE = -100  # gold value of ROOT and of padding


@dataclass
class AttentionBatch:
    """Maps and gold annotation of some inputs, on the device.

    The unit of a map is a word, where index 0 of every word axis is ROOT, or a token. `index` is the place of an
    input in its split. Gold is padded with IGNORE and has one value per unit, or per whatever it is about.
    """

    mask: Bool[Tensor, "batch word"]
    gold: dict[str, Shaped[Tensor, "batch _"]]
    index: Int[Tensor, "batch"] | None = None
    inputs: dict[str, Int[Tensor, "batch _"]] | None = None  # what the encoder gets, for those who run their own
    maps: Float[Tensor, "batch layer head query key"] | None = None
    other_maps: Float[Tensor, "batch layer head query key"] | None = None  # of a second model on the same inputs
    vectors: Float[Tensor, "batch word vector"] | None = None
    hidden: Float[Tensor, "batch word hidden"] | None = None
    whole: int | None = None  # inputs of the batch in all processes together, where it is shared

    @property
    def size(self) -> int:
        """How many inputs a step learns from, in all processes together."""
        return len(self.mask) if self.whole is None else self.whole
