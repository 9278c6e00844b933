"""Surface patterns (Clark, section 3): near tokens, special tokens and punctuation, and how broadly a head attends."""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.analysis.base import DrawsMaps, InputMeans, flat_maps
from headscope.analysis.entropy import row_entropy
from headscope.analysis.statistics import above, holm_of_defined
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, Section, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.segments import TOKEN_CLASSES

SECTION = Section("surface", "surface patterns")
OFFSETS = {"attention_to_previous": -1, "attention_to_current": 0, "attention_to_next": 1}
CLASSES = {"attention_to_cls": ("cls",), "attention_to_sep": ("sep",), "attention_to_punctuation": ("punctuation",)}
CLASSES |= {"attention_to_special": ("cls", "sep")}
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
    "attention_to_special": ("attention to special tokens", "Mean attention to [CLS] and both [SEP] together."),
    "sep_to_sep": ("attention from [SEP] to [SEP]", "Mean attention of the [SEP] tokens to [SEP]."),
    "others_to_sep": ("attention to [SEP] from other tokens", "Mean attention to [SEP] of the tokens that are no [SEP]."),
    "largest_weight": ("largest weight", "The largest attention of a token to any one token, averaged over tokens."),
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
MOSTLY = (*OFFSETS, *CLASSES)  # where a head may spend over half of its attention, and is tested for it
HALF = 0.5
RELEASED_SMOOTHING = 0.0001
BROAD_SHARE = 0.1  # the heads of highest entropy that count as broad
# What uniform attention over all that a token may see would give, for the lines of Figures 2 and 4.
UNIFORM: tuple[str, ...] = ("attention_to_sep", "entropy", "cls_entropy")
# Figure 1: the head that is most so, by what it is most of.
EXAMPLES = {
    "broad": "entropy",
    "next token": "attention_to_next",
    "[SEP]": "attention_to_sep",
    "periods and commas": "attention_to_punctuation",
}


class SurfacePatterns(InputMeans, DrawsMaps):
    """Each quantity averaged over the tokens of a segment, then over the segments that have it."""

    kind = "segments"
    uniform: Tensor
    segments: Tensor

    def __init__(self, facts: Facts, released: bool = False) -> None:
        super().__init__(facts, QUANTITIES)
        self.smoothing = RELEASED_SMOOTHING if released else 0.0
        self.add_sum("uniform", len(UNIFORM))
        self.add_sum("segments")
        self.keep_maps_of(facts.drawn, [len(one.tokens) for one in facts.drawn])

    def update(self, batch: AttentionBatch) -> None:
        classes = batch.gold["token_class"]
        self.count(*surface_values(flat_maps(batch), batch.mask, classes, batch.visible(), self.smoothing))
        self.uniform += uniform_values(batch.mask, classes, batch.visible()).sum(0)
        self.segments += len(batch.mask)
        self.keep_maps(batch)

    def compute(self) -> Findings:
        means, heads = self.means(), self.head_values()
        heads |= {name: self._tested(heads[name], means[name], self.errors()[name]) for name in MOSTLY}
        uniform = dict(zip(UNIFORM, (self.uniform / self.segments).tolist(), strict=True))
        certain = {name: torch.tensor(heads[name].p) < 0.05 for name in MOSTLY}
        count = int(self.segments)
        return Findings(
            metrics={
                "heads_mostly_previous": int((means["attention_to_previous"] > HALF).sum()),
                "heads_mostly_next": int((means["attention_to_next"] > HALF).sum()),
                "heads_mostly_special": int((means["attention_to_special"] > HALF).sum()),
                "attention_to_special": float(means["attention_to_special"].mean()),
                "cls_entropy_last_layer": float(means["cls_entropy"][-1].mean()),
            },
            tables={
                "checks": [{**row, "n": count} for row in published_sentences(means, certain, uniform)],
                "uniform": [{"quantity": name, "uniform": value, "n": count} for name, value in uniform.items()],
            },
            heads=heads,
            drawings={"example_heads": self._examples(means)},
            notes={"checks": [f"n: segments; in brackets, heads over {HALF:.0%} with p < 0.05, Holm over all heads"]},
        )

    def _tested(self, values: HeadValues, mean: Tensor, error: Tensor) -> HeadValues:
        """With the p-value that the mean is at most one half, corrected over all heads: no head is chosen beforehand."""
        return replace(values, p=holm_of_defined(above(mean.cpu(), error.cpu(), HALF)).tolist())

    def _examples(self, means: Mapping[str, Tensor]) -> list[Row]:
        """The heads of Figure 1 on the first input that is kept, with its special tokens."""
        drawings: list[Row] = []
        for what, quantity in EXAMPLES.items():
            if self.drawn and not means[quantity].isnan().all():
                head = head_at(int(means[quantity].nan_to_num(-1).argmax()), self.heads)
                grid = self.drawn_map(0, head)[: len(self.drawn[0].tokens), : len(self.drawn[0].tokens)]
                shown = {"words": list(self.drawn[0].tokens), "attention": grid.double().round(decimals=4).tolist()}
                drawings.append({"what": what, "head": head, "value": float(means[quantity].max()), **shown})
        return drawings


def surface_values(
    maps: Float[Tensor, "batch map token token"],
    real: Bool[Tensor, "batch token"],
    classes: Tensor,
    visible: Bool[Tensor, "batch token token"],
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, "batch quantity map"], Bool[Tensor, "batch quantity"]]:
    """Every quantity of each segment and head, in the order of QUANTITIES, and whether the segment has it."""
    of_class = {name: classes == number for number, name in enumerate(TOKEN_CLASSES)}
    sep = of_class["sep"]
    near = [near_attention(maps, visible, offset) for offset in OFFSETS.values()]
    columns = mean_rows(maps, torch.stack([real, sep, real & ~sep], 1))  # from all tokens, from [SEP], from the others
    members = torch.stack([torch.stack([of_class[name] for name in names]).any(0) for names in CLASSES.values()], 2).float()
    received = (columns[:, :, 0] @ members).unbind(-1)
    to_sep = columns[:, :, 1:] @ sep[:, None, :, None].float()  # (batch, map, from, 1)
    largest = (maps.amax(-1) * real[:, None]).sum(-1) / real.sum(1)[:, None]
    entropies = row_entropy(maps, visible, smoothing)
    rows = torch.stack([real, of_class["cls"]], 1).float()
    entropy, cls_entropy = (entropies @ (rows / rows.sum(-1, keepdim=True).clamp(min=1)).mT).unbind(-1)
    values = torch.stack([*near, *received, *to_sep.squeeze(-1).unbind(-1), largest, entropy, cls_entropy], 1)
    always = real.any(1)
    has = {"sep_to_sep": sep.any(1), "cls_entropy": of_class["cls"].any(1)}
    has |= {name: visible.diagonal(offset, -2, -1).any(-1) for name, offset in OFFSETS.items()}
    has |= {"attention_to_cls": has["cls_entropy"], "attention_to_sep": has["sep_to_sep"]}
    has |= {"attention_to_special": has["cls_entropy"] | has["sep_to_sep"]}
    has |= {"others_to_sep": has["sep_to_sep"] & (real & ~sep).any(1)}
    return values, torch.stack([has.get(quantity.name, always) for quantity in QUANTITIES], 1)


def near_attention(
    maps: Float[Tensor, "batch map token token"], visible: Bool[Tensor, "batch token token"], offset: int
) -> Float[Tensor, "batch map"]:
    """Mean attention to the token at an offset, over the tokens that may see one there."""
    there = visible.diagonal(offset, -2, -1)[:, None]
    return (maps.diagonal(offset, -2, -1) * there).sum(-1) / there.sum(-1).clamp(min=1)


def uniform_values(
    real: Bool[Tensor, "batch token"], classes: Tensor, visible: Bool[Tensor, "batch token token"]
) -> Float[Tensor, "batch quantity"]:
    """What a head would give that attends alike to all that a token may see, in the order of UNIFORM; entropies at most."""
    tokens, seen = real.sum(1).double(), visible.sum(2).clamp(min=1).double()
    separator, first = (classes == TOKEN_CLASSES.index(name) for name in ("sep", "cls"))
    to_separators = ((visible & separator[:, None]).sum(2) / seen).sum(1) / tokens
    of_first = (seen.log() * first).sum(1) / first.sum(1).clamp(min=1)
    return torch.stack([to_separators, seen.log().sum(1) / tokens, of_first], 1)


def mean_rows(
    maps: Float[Tensor, "batch map token token"], rows: Bool[Tensor, "batch selection token"]
) -> Float[Tensor, "batch map selection token"]:
    """The mean row over each selection of rows."""
    weights = rows.float() / rows.sum(-1, keepdim=True).clamp(min=1)
    return weights[:, None] @ maps


def published_sentences(
    grids: Mapping[str, Float[Tensor, "layer head"]],
    certain: Mapping[str, Bool[Tensor, "layer head"]],
    uniform: Mapping[str, float],
) -> list[Row]:
    """What the paper says of BERT in words, for this encoder, a row for each sentence."""
    mostly = {name: grids[name] > HALF for name in MOSTLY}
    near = mostly["attention_to_previous"] | mostly["attention_to_next"]
    over_half = (grids["attention_to_sep"].mean(1) > HALF).nonzero().flatten()
    among = over_half if len(over_half) else torch.arange(len(near))
    where = "in these layers" if len(over_half) else "in all layers"
    broad = broadest(grids["entropy"])
    of_cls = (grids["cls_entropy"].mean(1) - grids["entropy"].mean(1)).abs()

    def counted(name: str) -> str:
        if grids[name].isnan().all():
            return "–, no token sees it"
        return f"{heads_by_layer(mostly[name])} [{int((mostly[name] & certain[name]).sum())}]"

    rows = {
        "attention to the current token, median head": percent(grids["attention_to_current"].median()),
        "heads over 50 % on the previous token": counted("attention_to_previous"),
        "heads over 50 % on the next token": counted("attention_to_next"),
        "mean layer of these heads": mean_layer(near),
        "attention to the special tokens, mean head": percent(grids["attention_to_special"].mean()),
        "heads over 50 % on the special tokens": f"{int(mostly['attention_to_special'].sum())} of {near.numel()} "
        f"[{int((mostly['attention_to_special'] & certain['attention_to_special']).sum())}]",
        "layers whose heads give [SEP] over 50 %": ", ".join(str(layer + 1) for layer in over_half.tolist()) or "none",
        "the same under uniform attention": percent(uniform["attention_to_sep"]),
        "attention from [SEP] to [SEP] in these layers": f"{percent(grids['sep_to_sep'][among].mean())} {where}",
        "attention to [SEP] from the others in these layers": f"{percent(grids['others_to_sep'][among].mean())} {where}",
        "largest weight of the broad heads": percent(grids["largest_weight"][broad].mean()),
        "mean layer of the broad heads": mean_layer(broad),
        "entropy of [CLS] in the last layer (nats)": f"{nats(grids['cls_entropy'][-1].mean())} "
        f"(uniform {nats(uniform['cls_entropy'])})",
        "entropy of [CLS] against all tokens, other layers": f"differs by {nats(of_cls[:-1].mean())}"
        if len(of_cls) > 1
        else "no other layer",
    }
    return [{"check": check, "ours": ours} for check, ours in rows.items()]


def broadest(entropy: Float[Tensor, "layer head"]) -> Bool[Tensor, "layer head"]:
    """The tenth of the heads, and at least one, with the highest entropy."""
    count = max(1, round(BROAD_SHARE * entropy.numel()))
    chosen = torch.zeros_like(entropy, dtype=torch.bool).flatten()
    chosen[entropy.flatten().topk(count).indices] = True
    return chosen.view_as(entropy)


def percent(share: Tensor | float) -> str:
    """A share in words; a dash where it is not defined."""
    return "–" if math.isnan(float(share)) else f"{100 * float(share):.1f} %"


def nats(entropy: Tensor | float) -> str:
    """An entropy in words; a dash where it is not defined."""
    return "–" if math.isnan(float(entropy)) else f"{float(entropy):.2f}"


def mean_layer(chosen: Bool[Tensor, "layer head"]) -> str:
    """Where the chosen heads lie, of how many layers."""
    layers = [layer + 1 for layer, count in enumerate(chosen.sum(1).tolist()) for _ in range(count)]
    return f"{sum(layers) / len(layers):.1f} of {len(chosen)}" if layers else "no such head"


def heads_by_layer(chosen: Bool[Tensor, "layer head"]) -> str:
    """How many heads, and the layer of each."""
    layers = [str(layer + 1) for layer, count in enumerate(chosen.sum(1).tolist()) for _ in range(count)]
    return f"{len(layers)} (layers {', '.join(layers)})" if layers else "0"
