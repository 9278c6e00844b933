"""Surface patterns (Clark, section 3): near tokens, special tokens and punctuation, and how broadly a head attends."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.analysis.base import InputMeans, flat_maps
from headscope.analysis.entropy import row_entropy
from headscope.contracts import Facts, Findings, Quantity, Section
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.segments import TOKEN_CLASSES

SECTION = Section("surface", "surface patterns")
OFFSETS = {"attention_to_previous": -1, "attention_to_current": 0, "attention_to_next": 1}
CLASSES = {"attention_to_cls": "cls", "attention_to_sep": "sep", "attention_to_punctuation": "punctuation"}
MEANINGS = {
    "attention_to_previous": ("attention to the previous token", "Mean attention to the token before."),
    "attention_to_current": ("attention to the same token", "Mean attention of a token to itself."),
    "attention_to_next": ("attention to the next token", "Mean attention to the token after."),
    "attention_to_cls": ("attention to [CLS]", "Mean attention to [CLS] from all tokens of a segment."),
    "attention_to_sep": ("attention to [SEP]", "Mean attention to both [SEP] from all tokens of a segment."),
    "attention_to_punctuation": (
        "attention to periods and commas",
        "Mean attention to all periods and commas of a segment.",
    ),
    "sep_to_sep": ("attention from [SEP] to [SEP]", "Mean attention of the [SEP] tokens to [SEP]."),
}
QUANTITIES = (
    *(Quantity(name, *meaning, better="high", section=SECTION) for name, meaning in MEANINGS.items()),
    Quantity(
        "entropy",
        "entropy (nats)",
        "How broadly the head attends; the mean entropy of its rows.",
        unit="nats",
        section=SECTION,
        headline=True,
    ),
    Quantity(
        "cls_entropy",
        "entropy of [CLS] (nats)",
        "How broadly [CLS] attends; the entropy of its row.",
        unit="nats",
        section=SECTION,
        headline=True,
    ),
)
RELEASED_SMOOTHING = 0.0001


class SurfacePatterns(InputMeans):
    """Each quantity averaged over the tokens of a segment, then over the segments that have it."""

    kind = "segments"

    def __init__(self, facts: Facts, released: bool = False) -> None:
        super().__init__(facts, QUANTITIES)
        self.smoothing = RELEASED_SMOOTHING if released else 0.0

    def update(self, batch: AttentionBatch) -> None:
        self.count(*surface_values(flat_maps(batch), batch.mask, batch.gold["token_class"], self.smoothing))

    def compute(self) -> Findings:
        means = self.means()
        return Findings(
            metrics={
                "heads_mostly_previous": int((means["attention_to_previous"] > 0.5).sum()),
                "heads_mostly_next": int((means["attention_to_next"] > 0.5).sum()),
                "cls_entropy_last_layer": float(means["cls_entropy"][-1].mean()),
            },
            tables={"checks": [{**row, "n": int(self.inputs.max())} for row in published_sentences(means)]},
            heads=self.head_values(),
        )


def surface_values(
    maps: Float[Tensor, "batch map token token"], real: Bool[Tensor, "batch token"], classes: Tensor, smoothing: float = 0.0
) -> tuple[Float[Tensor, "batch quantity map"], Bool[Tensor, "batch quantity"]]:
    """Every quantity of each segment and head, in the order of QUANTITIES, and whether the segment has it."""
    of_class = {name: classes == number for number, name in enumerate(TOKEN_CLASSES)}
    near = [near_attention(maps, real, offset) for offset in OFFSETS.values()]
    columns = mean_rows(maps, torch.stack([real, of_class["sep"]], 1))  # from all tokens, and from [SEP]
    received = [columns[:, :, 0] @ of_class[name][:, :, None].float() for name in CLASSES.values()]
    sep_to_sep = columns[:, :, 1] @ of_class["sep"][:, :, None].float()
    entropies = row_entropy(maps, real, smoothing)
    rows = torch.stack([real, of_class["cls"]], 1).float()
    entropy, cls_entropy = (entropies @ (rows / rows.sum(-1, keepdim=True).clamp(min=1)).mT).unbind(-1)
    values = torch.stack([*near, *(value.squeeze(-1) for value in (*received, sep_to_sep)), entropy, cls_entropy], 1)
    always, tokens = real.any(1), real.sum(1)
    has = {"sep_to_sep": of_class["sep"].any(1), "cls_entropy": of_class["cls"].any(1)}
    has |= {name: tokens > abs(offset) for name, offset in OFFSETS.items()}
    has |= {"attention_to_cls": has["cls_entropy"], "attention_to_sep": has["sep_to_sep"]}
    return values, torch.stack([has.get(quantity.name, always) for quantity in QUANTITIES], 1)


def near_attention(
    maps: Float[Tensor, "batch map token token"], real: Bool[Tensor, "batch token"], offset: int
) -> Float[Tensor, "batch map"]:
    """Mean attention to the token at an offset, over the tokens that have one there."""
    reach = maps.shape[-1] - abs(offset)
    both = (real[:, :reach] & real[:, abs(offset) :])[:, None]
    return (maps.diagonal(offset, -2, -1) * both).sum(-1) / both.sum(-1).clamp(min=1)


def mean_rows(
    maps: Float[Tensor, "batch map token token"], rows: Bool[Tensor, "batch selection token"]
) -> Float[Tensor, "batch map selection token"]:
    """The mean row over each selection of rows."""
    weights = rows.float() / rows.sum(-1, keepdim=True).clamp(min=1)
    return weights[:, None] @ maps


def published_sentences(grids: Mapping[str, Float[Tensor, "layer head"]]) -> list[dict[str, str]]:
    """What the paper says of BERT in words, for this encoder."""
    over_half = (grids["attention_to_sep"].mean(1) > 0.5).nonzero().flatten()
    from_sep = grids["sep_to_sep"][over_half].mean() if len(over_half) else None
    rows = {
        "heads over 50 % on the previous token": heads_by_layer(grids["attention_to_previous"] > 0.5),
        "heads over 50 % on the next token": heads_by_layer(grids["attention_to_next"] > 0.5),
        "layers whose heads give [SEP] over 50 %": ", ".join(str(layer + 1) for layer in over_half.tolist()) or "none",
        "attention from [SEP] to [SEP] in these layers": "–" if from_sep is None else f"{100 * from_sep:.1f} %",
        "entropy of [CLS] in the last layer (nats)": f"{grids['cls_entropy'][-1].mean():.2f}",
    }
    return [{"check": check, "ours": ours} for check, ours in rows.items()]


def heads_by_layer(chosen: Bool[Tensor, "layer head"]) -> str:
    """How many heads, and the layer of each."""
    layers = [str(layer + 1) for layer, count in enumerate(chosen.sum(1).tolist()) for _ in range(count)]
    return f"{len(layers)} (layers {', '.join(layers)})" if layers else "0"
