"""What a datamodule hands to probes and analyses."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

IGNORE = -100  # gold value of ROOT and of padding


@dataclass
class AttentionBatch:
    """Word maps and gold annotation of some sentences, on the device; index 0 of every word axis is ROOT."""

    mask: Bool[Tensor, "batch word"]
    gold: dict[str, Int[Tensor, "batch word"]]
    maps: Float[Tensor, "batch layer head query key"] | None = None
    vectors: Float[Tensor, "batch word vector"] | None = None
    hidden: Float[Tensor, "batch word hidden"] | None = None
