"""Importance of attention by the class of the token attended to (Clark, Figure 3); the maps are those of gradients."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.base import InputMeans, flat_maps
from headscope.contracts import Facts, Findings, Quantity, Row, Section
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.segments import TOKEN_CLASSES

SECTION = Section("gradients", "gradient importance of attention")
CLASSES = ("sep", "punctuation", "other")
LATE = 5  # the layer from which on the paper finds them small
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
        means = self.means()
        rows = [{**row, "n": int(self.inputs.max())} for row in published_sentences(means)]
        metrics = {name: float(mean.mean()) for name, mean in means.items()}
        return Findings(metrics, {"gradient_checks": rows}, self.head_values())


def published_sentences(grids: Mapping[str, Float[Tensor, "layer head"]]) -> list[Row]:
    """What the paper says of gradients in words: from layer 5 on, those of attention to [SEP] are very small."""
    sep, other = (grids[f"importance_of_{name}"].mean(1) for name in ("sep", "other"))
    if len(sep) < LATE:
        return []
    before, late = float(sep[: LATE - 1].mean()), float(sep[LATE - 1 :].mean())
    rows = {
        f"gradient at [SEP] from layer {LATE} on, of the layers before": late / before if before else float("nan"),
        f"gradient at [SEP] from layer {LATE} on, of that at other tokens": float(late / other[LATE - 1 :].mean()),
    }
    return [{"check": check, "ours": ours} for check, ours in rows.items()]


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
