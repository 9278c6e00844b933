"""Importance of attention by the class of the token attended to (Clark, Figure 3); the maps are those of gradients."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.base import InputMeans, flat_maps
from headscope.contracts import Facts, Findings, Quantity, Section
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.segments import TOKEN_CLASSES

SECTION = Section("gradients", "gradient importance of attention")
CLASSES = ("sep", "punctuation", "other")
QUANTITIES = tuple(
    Quantity(
        f"importance_of_{name}",
        f"gradient, attention to {name}",
        f"Mean size of the gradient of the masked-LM loss at attention to {name} tokens.",
        better="high",
        section=SECTION,
    )
    for name in CLASSES
)


class TargetImportance(InputMeans):
    """The mean cell of each map over the columns of a class, averaged over the segments that have the class."""

    kind = "segments"
    takes = "gradients"

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts, QUANTITIES)

    def update(self, batch: AttentionBatch) -> None:
        self.count(*mean_by_target(flat_maps(batch), batch.mask, batch.gold["token_class"]))

    def compute(self) -> Findings:
        return Findings({name: float(mean.mean()) for name, mean in self.means().items()}, heads=self.head_values())


def mean_by_target(
    maps: Float[Tensor, "batch map token token"], real: Bool[Tensor, "batch token"], classes: Int[Tensor, "batch token"]
) -> tuple[Float[Tensor, "batch class map"], Bool[Tensor, "batch class"]]:
    """The mean over real rows and the columns of each class; "other" is all that is neither [SEP] nor punctuation."""
    named = [classes == TOKEN_CLASSES.index(name) for name in CLASSES[:-1]]
    columns = torch.stack([*named, real & ~named[0] & ~named[1]], 1).float()
    by_column = real[:, None, None].float() @ maps  # (batch, map, 1, token)
    cells = columns.sum(-1) * real.sum(1)[:, None]
    means = (by_column.squeeze(2) @ columns.mT).mT / cells.clamp(min=1)[..., None]
    return means, cells > 0
