"""Attention to linguistic features and along linguistic links (Kovaleva, sections 4.4 and 4.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from scipy.stats import spearmanr
from torch import Tensor

from headscope.analysis.base import Analysis, Unsuitable, flat_maps
from headscope.analysis.links import largest, link_attention, link_ends, seen_links
from headscope.analysis.statistics import (
    FOLDS,
    choices,
    differs,
    holm_of_defined,
    interval,
    of_choices,
    poisson_weights,
    require_replicates,
)
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, Section, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.readers.features import FEATURES, LINKS, SAME_WORD
from headscope.errors import require_least
from headscope.layout import Layout

SECTION = Section("features", "linguistic features", prefix="features:")  # surface patterns have attention_to_cls too
TO_FEATURE = [f"attention_to_{name}" for name in FEATURES]
FROM_CLS = [f"cls_to_{name}" for name in FEATURES]
ALONG = [f"{name}_{direction}" for name in (*LINKS, SAME_WORD) for direction in ("forward", "backward")]
DIAGONAL = "near_diagonal"
QUANTITIES = (*TO_FEATURE, *FROM_CLS, *ALONG, DIAGONAL)
LINK_LABELS = {
    "verb_subject_forward": ("verb to subject", "Attention from a verb to its subject."),
    "verb_subject_backward": ("subject to verb", "Attention from a subject to its verb."),
    "noun_pronoun_forward": ("noun to pronoun", "Attention from a noun to a pronoun."),
    "noun_pronoun_backward": ("pronoun to noun", "Attention from a pronoun to a noun."),
    "same_word_forward": ("word to the same in the second sentence", "From the first sentence of a pair to the second."),
    "same_word_backward": ("word to the same in the first sentence", "From the second sentence of a pair to the first."),
}
COREFERRING = "pairs of a sentence that corefer, as annotated"
EVERY = "every noun with every pronoun of a text, since no coreference is annotated here"
TUNED, CHANGE = "tuned_", "change_"
CHANGED = "The value in the fine-tuned model minus that in this one; p by Holm over all heads and quantities."
SPECIAL = {"cls": "[CLS]", "sep": "[SEP]"}
NOT_NAMED: Row = dict.fromkeys(("highest_head", "highest", "highest_held_out"))


class FeatureAttention(Analysis):
    """Per input the attention that a feature's token gets, the largest where there are several; averaged over the inputs
    that have the feature. With a second model, its values and the differences too, which are tested.

    The table names the highest head of a quantity, and a change has a p-value, where at least `min_count` inputs have it.
    Beside the head stands what the highest of one half of the inputs has on the other half, which did not choose it."""

    kind = ("glue", "treebank_tokens")
    total: Tensor
    inputs: Tensor
    resampled_total: Tensor
    resampled_inputs: Tensor

    def __init__(self, facts: Facts, min_count: int = 30, replicates: int = 200, seed: int = 0) -> None:
        super().__init__(facts)
        if not facts.features:
            raise Unsuitable("needs features; name a spaCy pipeline with parser=.")
        self.min_count = require_least("analyses.features.min_count", min_count)
        self.layout, self.coreference = facts.layout, facts.coreference
        self.models = ("", TUNED) if facts.tuned else ("",)
        self.replicates, self.seed = require_replicates(replicates), seed
        shape = (len(self.models), len(QUANTITIES), self.layers * self.heads)
        self.add_sum("resampled_total", replicates, *shape)
        self.add_sum("resampled_inputs", replicates, len(QUANTITIES))
        self.add_sum("total", len(self.models), FOLDS, len(QUANTITIES), self.layers * self.heads)
        self.add_sum("inputs", FOLDS, len(QUANTITIES))

    def update(self, batch: AttentionBatch) -> None:
        weights = poisson_weights(batch.input_index, self.replicates, self.seed)
        fold = (batch.input_index % FOLDS == torch.arange(FOLDS, device=weights.device)[:, None]).double()
        compared = [flat_maps(batch), *([] if len(self.models) == 1 else [batch.flat_tuned_maps()])]
        for index, maps in enumerate(compared):
            values, defined = feature_values(maps, batch.mask, batch.gold, batch.visible(), self.layout)
            counted = values * defined[..., None]
            self.total[index] += torch.einsum("fb,bqm->fqm", fold, counted.double())
            self.resampled_total[:, index] += (weights @ counted.float().flatten(1)).unflatten(1, counted.shape[1:])
            if index == 0:
                self.inputs += fold @ defined.double()
                self.resampled_inputs += weights.double() @ defined.double()

    def compute(self) -> Findings:
        inputs = self.inputs.sum(0)
        means = self.total.sum(1) / inputs[:, None]
        counts = inputs.long().tolist()
        drawn, drawn_counts = self.resampled_total, self.resampled_inputs[..., None]
        grids = {  # the means, the same of each replicate, and of how many inputs
            f"{model}{name}": (means[m, q], drawn[:, m, q], q)
            for m, model in enumerate(self.models)
            for q, name in enumerate(QUANTITIES)
        }
        if len(self.models) > 1:
            grids |= {
                f"{CHANGE}{name}": (means[1, q] - means[0, q], drawn[:, 1, q] - drawn[:, 0, q], q)
                for q, name in enumerate(QUANTITIES)
            }
        rows = [self._row(name, q, means, counts[q]) for q, name in enumerate(QUANTITIES) if counts[q]]
        heads, changed = {}, self._p_of_changes(means, counts)
        for name, (mean, replicates, q) in grids.items():
            if counts[q]:
                low, high = map(self.grid, interval(replicates, drawn_counts[:, q]))
                n = self.grid(torch.full_like(mean, counts[q]))
                p = self.grid(changed[q]) if name.startswith(CHANGE) and q in changed else None
                heads[name] = HeadValues(meaning(name, self.layout), self.grid(mean), n, low, high, p)
        named = (
            f"highest head: of at least {self.min_count} inputs (analyses.features.min_count); held out: what the highest "
            "head of one half of the inputs has on the other"
        )
        none = "" if any(row["highest_head"] for row in rows) else "; nothing was in so many"
        notes = [named + none, *cls_notes(rows, self.layout)]
        if any(row["quantity"].startswith("noun_pronoun") for row in rows):
            notes.append(f"noun and pronoun: {COREFERRING if self.coreference else EVERY}")
        return Findings(tables={"features": rows}, heads=heads, notes={"features": notes})

    def _p_of_changes(self, means: Tensor, counts: Sequence[int]) -> dict[int, Tensor]:
        """The p-values of heads by quantity, of those that enough inputs have; Holm over all heads and these quantities."""
        enough = [q for q, count in enumerate(counts) if count >= self.min_count] if len(self.models) > 1 else []
        if not enough:
            return {}
        drawn = (self.resampled_total[:, 1, enough] - self.resampled_total[:, 0, enough]).double()
        p = differs((means[1] - means[0])[enough].cpu().numpy(), drawn / self.resampled_inputs[:, enough, None])
        return dict(zip(enough, torch.from_numpy(holm_of_defined(p)), strict=True))

    def _row(self, name: str, quantity: int, means: Tensor, count: int) -> Row:
        """The mean over the heads that the paper looks at: all, or those of the last layer for the row that is read."""
        first = means.shape[2] - self.heads if name in FROM_CLS else 0
        values = means[:, quantity, first:].mean(1).tolist()
        layer = f"{self.layers}, the last" if first else "all"
        row = {"quantity": name, "layer": layer, "mean": values[0]}
        row |= {"tuned_mean": values[1], "change": values[1] - values[0]} if len(values) > 1 else {}
        if name in ALONG and not name.startswith(SAME_WORD):
            # Do the heads with the strongest links have diagonal maps? Of the fine-tuned model, if there is one.
            link, diagonal = (means[-1, q].cpu().numpy() for q in (quantity, QUANTITIES.index(DIAGONAL)))
            ranks: Any = spearmanr(link, diagonal)
            row |= {"diagonal_correlation": float(ranks.statistic)}
        highest = self._highest(quantity, first) if count >= self.min_count else NOT_NAMED
        return {**row, **highest, "n": count}

    def _highest(self, quantity: int, first: int) -> Row:
        """The head with the highest mean, from the first on; held out: chosen on one half of inputs, read on the other."""
        total, inputs = self.total[0, :, quantity, first:], self.inputs[:, quantity]
        best = int(total.sum(0).argmax())
        other = float(of_choices(total, choices(total)) / inputs.sum()) if inputs.all() else None
        highest = float(total.sum(0)[best] / inputs.sum())
        return {"highest_head": head_at(first + best, self.heads), "highest": highest, "highest_held_out": other}


def meaning(name: str, layout: Layout) -> Quantity:
    """What a quantity of this analysis is called and means."""
    if name.startswith(TUNED):
        one = meaning(name.removeprefix(TUNED), layout)
        return replace(one, name=name, label=f"{one.label}, fine-tuned", description="The same in the fine-tuned model.")
    if name.startswith(CHANGE):
        one, text = meaning(name.removeprefix(CHANGE), layout), CHANGED
        return replace(one, name=name, label=f"change of {one.label}", description=text)
    if name in TO_FEATURE:
        feature = feature_label(name.removeprefix("attention_to_"))
        label = f"attention to {feature}"
        text = f"Attention that a {feature} token gets from all tokens, the largest where there are several."
    elif name in FROM_CLS:
        feature = feature_label(name.removeprefix("cls_to_"))
        label = f"{layout.read_name} to {feature}"
        text = f"Attention from {layout.read_name} to a {feature} token, the largest where there are several."
    elif name == DIAGONAL:
        label, text = "attention near the diagonal", "Attention to the token itself, the previous and the next, on average."
    else:
        label, text = LINK_LABELS[name]
    return Quantity(name, label, text, better="high", section=SECTION)


def feature_label(feature: str) -> str:
    """A feature as people call it; special tokens as BERT does, for which the layout has the model's own."""
    return SPECIAL.get(feature, feature.replace("_", " "))


def feature_values(
    maps: Float[Tensor, "batch map token token"],
    real: Bool[Tensor, "batch token"],
    gold: Mapping[str, Tensor],
    visible: Bool[Tensor, "batch token token"],
    layout: Layout,
) -> tuple[Float[Tensor, "batch quantity map"], Bool[Tensor, "batch quantity"]]:
    """Every quantity of each input and head, in the order of QUANTITIES, and whether the input has it.

    What a token gets is the mean over the tokens that may see it; of links, those count that their start may see.
    """
    bits = torch.arange(len(FEATURES), device=maps.device)
    has = (gold["features"].clamp(min=0)[..., None] >> bits & 1).bool() & real[..., None]  # (batch, token, feature)
    received = (real[:, None, None].float() @ maps).squeeze(2) / visible.sum(1).clamp(min=1)[:, None]
    first = has[..., FEATURES.index("cls")]  # which some models set behind the texts
    read = real.sum(1) - 1 if layout.causal else first.int().argmax(1)  # the last token has seen all
    from_read = maps.gather(2, read[:, None, None, None].expand(-1, maps.shape[1], -1, maps.shape[3])).squeeze(2)
    is_read = (real if layout.causal else first).any(1)[:, None]
    values = [largest(columns, has[..., n]) for columns in (received, from_read) for n in range(len(FEATURES))]
    there = has.any(1)  # (batch, feature)
    defined = [*there.unbind(1), *(there & is_read).unbind(1)]
    for name in (*LINKS, SAME_WORD):
        one, other, linked = link_ends(gold[name])
        for start, end in ((one, other), (other, one)):
            seen = linked & seen_links(visible, start, end)
            values.append(largest(link_attention(maps, start, end), seen))
            defined.append(seen.any(1))
    values.append(near_diagonal(maps, real))
    defined.append(real.any(1))
    return torch.stack(values, 1), torch.stack(defined, 1)


def near_diagonal(
    maps: Float[Tensor, "batch map token token"], real: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch map"]:
    """What the tokens of an input give to themselves and their neighbours, on average: 1 for a diagonal map."""
    index = torch.arange(maps.shape[-1], device=maps.device)
    near = (index[:, None] - index).abs() <= 1
    rows = (maps * (near & real[:, None, None])).sum(-1)
    return (rows * real[:, None]).sum(-1) / real.sum(1).clamp(min=1)[:, None]


def cls_notes(rows: Sequence[Row], layout: Layout) -> list[str]:
    """What the token that is read attends to most in the last layer, itself aside but in a causal model."""
    column = "tuned_mean" if rows and "tuned_mean" in rows[0] else "mean"
    of_cls = {row["quantity"].removeprefix("cls_to_"): row[column] for row in rows if row["quantity"] in FROM_CLS}
    others = {name: value for name, value in of_cls.items() if layout.causal or name != "cls"}
    if not others:
        return []
    state = "the fine-tuned model" if column == "tuned_mean" else "this model"
    best = feature_label(max(others, key=others.__getitem__))
    told = f"{layout.read_name} of {state} attends in the last layer most to: {best}"
    return [told if layout.causal else f"{told}, itself aside"]
