"""Coreference by single heads (Clark, section 4.3, Table 2)."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.base import Analysis, flat_maps
from headscope.analysis.statistics import FOLDS, held_out, interval, poisson_weights, require_replicates
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Section, by_name, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.readers.mentions import BASELINES, KINDS

SECTION = Section("coreference", "coreference")
COUNTINGS = {"coreference": "among mentions", "coreference_any_word": "among all words"}
COLUMNS = ("all", *KINDS)


class CoreferenceHeads(Analysis):
    """How often the head word of a mention attends most to the head word of an antecedent, per head and kind."""

    kind = "documents"
    correct: Tensor
    count: Tensor
    resampled_correct: Tensor
    resampled_count: Tensor

    def __init__(self, facts: Facts, replicates: int = 500, seed: int = 0) -> None:
        super().__init__(facts)
        self.replicates, self.seed = require_replicates(replicates), seed
        # Rows: every head among the mentions, every head among all words, then the baselines.
        self.maps = self.layers * self.heads
        rows = len(COUNTINGS) * self.maps + len(BASELINES)
        self.add_sum("correct", FOLDS, rows, len(COLUMNS))
        self.add_sum("count", FOLDS, len(COLUMNS))
        self.add_sum("resampled_correct", replicates, rows, len(COLUMNS), dtype=torch.float32)
        self.add_sum("resampled_count", replicates, len(COLUMNS), dtype=torch.float32)

    def update(self, batch: AttentionBatch) -> None:
        heads, scored = batch.gold["mention_heads"], batch.gold["antecedents"] > 0
        among_mentions, among_words = antecedent_found(flat_maps(batch), batch.mask, heads, batch.gold["groups"])
        baselines = torch.stack([batch.gold[name] == 1 for name in BASELINES], 1)
        right = torch.cat([among_mentions, among_words, baselines], 1).float()  # (batch, row, mention)
        kinds = batch.gold["kinds"][..., None] == torch.arange(len(KINDS), device=heads.device)
        member = torch.cat([scored[..., None], kinds & scored[..., None]], 2).float()  # (batch, mention, column)
        document_right, document_count = right @ member, member.sum(1)
        # Windows of one document belong together.
        document = batch.gold["document"].squeeze(1)
        fold = (document[:, None] % FOLDS == torch.arange(FOLDS, device=heads.device)).float()
        self.correct += torch.einsum("bf,brc->frc", fold, document_right)
        self.count += fold.T @ document_count
        weights = poisson_weights(document, self.replicates, self.seed)
        self.resampled_correct += (weights @ document_right.flatten(1)).view_as(self.resampled_correct)
        self.resampled_count += weights @ document_count

    def compute(self) -> Findings:
        low, high = (100 * end for end in interval(self.resampled_correct, self.resampled_count[:, None]))
        shares, count = 100 * self.correct.sum(0) / self.count.sum(0), self.count.sum(0)
        chosen = {name: self._best(index) for index, name in enumerate(COUNTINGS)}
        rows = {name: len(COUNTINGS) * self.maps + index for index, name in enumerate(BASELINES)}
        rows |= {f"best head, {COUNTINGS[name]}": row for name, row in chosen.items()}
        table: list[dict[str, Any]] = [
            {"row": name, "head": head_at(row % self.maps, self.heads) if row in chosen.values() else None}
            | dict(zip(COLUMNS, shares[row].tolist(), strict=True))
            | {"low": float(low[row, 0]), "high": float(high[row, 0])}
            | {"held_out": self._held_out(row) if row in chosen.values() else None, "n": int(count[0])}
            for name, row in rows.items()
        ]
        intervals = [
            {"row": name, "kind": column, "accuracy": float(shares[row, index])}
            | {"low": float(low[row, index]), "high": float(high[row, index]), "n": int(count[index])}
            for name, row in rows.items()
            for index, column in enumerate(COLUMNS)
            if count[index]
        ]
        heads = by_name(
            HeadValues(
                antecedents_found(name, column),
                value=self.grid(shares[part, index]),
                n=self.grid(count[index].expand(self.maps)),
                low=self.grid(low[part, index]),
                high=self.grid(high[part, index]),
            )
            for name, part in zip(COUNTINGS, self.map_slices(len(COUNTINGS)), strict=True)
            for index, column in enumerate(COLUMNS)
            if count[index]
        )
        metrics = {row["row"].replace(", ", "_").replace(" ", "_"): row["all"] for row in table}
        mentions = ", ".join(f"{int(number):,} {column}" for column, number in zip(COLUMNS, count, strict=True))
        tables = {"coreference": table, "coreference_intervals": intervals}
        return Findings(metrics, tables, heads, notes={"coreference": [f"mentions (n): {mentions}"]})

    def _best(self, counting: int) -> int:
        """The row of the best head over all mentions."""
        start = counting * self.maps
        return start + int(self.correct.sum(0)[start : start + self.maps, 0].argmax())

    def _held_out(self, row: int) -> float | None:
        start = row // self.maps * self.maps
        return held_out(self.correct[:, start : start + self.maps, 0], self.count[:, 0])


def antecedents_found(counting: str, column: str) -> Quantity:
    """The accuracy over the mentions of a kind, in one of the two countings."""
    among = {"coreference": "earlier mentions", "coreference_any_word": "all other words"}[counting]
    label = "antecedents (%)" if counting == "coreference" else "antecedents among all words (%)"
    return Quantity(
        f"{counting}:{column}",
        f"{label}, {column}",
        f"Mentions ({column}) that attend most, among {among}, to one of their antecedents.",
        unit="%",
        better="high",
        section=SECTION,
        one_of=counting,
        which=column,
        headline=(counting, column) == ("coreference", COLUMNS[0]),
    )


def antecedent_found(
    maps: Float[Tensor, "batch map word word"],
    real: Bool[Tensor, "batch word"],
    heads: Int[Tensor, "batch mention"],
    groups: Int[Tensor, "batch mention"],
) -> tuple[Bool[Tensor, "batch map mention"], Bool[Tensor, "batch map mention"]]:
    """Whether a mention's head word attends most to that of an antecedent: among earlier mentions, and all other words."""
    positions = torch.arange(real.shape[1], device=real.device)
    is_mention = heads >= 0
    head = heads.clamp(min=0)
    rows = maps.gather(2, head[:, None, :, None].expand(-1, maps.shape[1], -1, maps.shape[3]))
    earlier = is_mention[:, None] & (heads[:, None] < heads[:, :, None])  # (batch, mention, other)
    at_head = (head[..., None] == positions).float()  # (batch, other, word)
    candidate = (earlier.float() @ at_head) > 0  # (batch, mention, word)
    same = earlier & (groups[:, None] == groups[:, :, None])
    antecedent = (same.float() @ at_head) > 0
    other_word = (real & (positions > 0))[:, None] & (positions != head[..., None])
    found = []
    for allowed in (candidate, other_word):
        most = rows.masked_fill(~allowed[:, None] | (rows <= 0), -1).argmax(3)  # ROOT where there is nothing
        hit = antecedent[:, None].expand(-1, maps.shape[1], -1, -1).gather(3, most[..., None]).squeeze(3)
        found.append(hit)
    return found[0], found[1]
