"""Coreference by single heads (Clark, section 4.3, Table 2)."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.base import DrawsMaps, flat_maps
from headscope.analysis.statistics import (
    FOLDS,
    choices,
    differs,
    holm,
    holm_of_defined,
    interval,
    of_choices,
    poisson_weights,
    require_replicates,
)
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, Section, by_name, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.readers.mentions import BASELINES, KINDS

SECTION = Section("coreference", "coreference")
COUNTINGS = {"coreference": "among mentions", "coreference_any_word": "among all words"}
COLUMNS = ("all", *KINDS)
BASELINE = "same head word"  # what heads are tested against
QUOTED = "neural coreference"
NOT_CHOSEN: Row = dict.fromkeys(("held_out", "held_out_low", "held_out_high", "p"))
HELD_OUT = f"held out: head chosen on half of the documents, scored on the other; p: against {BASELINE}, bootstrap, Holm"


class CoreferenceHeads(DrawsMaps):
    """How often the head word of a mention attends most to the head word of an antecedent, per head and kind.

    Heads are compared with the baseline of the same head word, by bootstrap over documents; the head of a table's row is
    tested on the documents that did not choose it.
    """

    kind = "documents"
    correct: Tensor
    count: Tensor
    resampled_correct: Tensor
    resampled_count: Tensor

    def __init__(self, facts: Facts, replicates: int = 500, seed: int = 0) -> None:
        super().__init__(facts)
        self.replicates, self.seed, self.notes = require_replicates(replicates), seed, facts.notes
        # Rows: every head among the mentions, every head among all words, then the baselines.
        self.maps = self.layers * self.heads
        rows = len(COUNTINGS) * self.maps + len(BASELINES)
        self.baseline = len(COUNTINGS) * self.maps + list(BASELINES).index(BASELINE)
        self.add_sum("correct", FOLDS, rows, len(COLUMNS))
        self.add_sum("count", FOLDS, len(COLUMNS))
        self.add_sum("resampled_correct", FOLDS, replicates, rows, len(COLUMNS), dtype=torch.float32)
        self.add_sum("resampled_count", replicates, len(COLUMNS), dtype=torch.float32)
        self.keep_maps_of(facts.drawn, [len(one.tokens) + 1 for one in facts.drawn])

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
        for half in range(FOLDS):
            resampled = (weights * fold[:, half]) @ document_right.flatten(1)
            self.resampled_correct[half] += resampled.view_as(self.resampled_correct[half])
        self.resampled_count += weights @ document_count
        self.keep_maps(batch)

    def compute(self) -> Findings:
        low, high = (100 * end for end in interval(self.resampled_correct.sum(0), self.resampled_count[:, None]))
        shares, count = 100 * self.correct.sum(0) / self.count.sum(0), self.count.sum(0)
        chosen = {name: self._best(index) for index, name in enumerate(COUNTINGS)}
        rows = {name: len(COUNTINGS) * self.maps + index for index, name in enumerate(BASELINES)}
        rows |= {f"best head, {COUNTINGS[name]}": row for name, row in chosen.items()}
        table: list[Row] = [
            {
                "row": name,
                "head": head_at(row % self.maps, self.heads) if row in chosen.values() else None,
                **dict(zip(COLUMNS, shares[row].tolist(), strict=True)),
                "low": float(low[row, 0]),
                "high": float(high[row, 0]),
                **(self._held_out(row) if row in chosen.values() else NOT_CHOSEN),
                "n": int(count[0]),
            }
            for name, row in rows.items()
        ]
        intervals = [
            {"row": name, "kind": column, "accuracy": float(shares[row, index])}
            | {"low": float(low[row, index]), "high": float(high[row, index]), "n": int(count[index])}
            for name, row in rows.items()
            for index, column in enumerate(COLUMNS)
            if count[index]
        ]
        metrics = {row["row"].replace(", ", "_").replace(" ", "_"): row["all"] for row in table}
        mentions = ", ".join(f"{int(number):,} {column}" for column, number in zip(COLUMNS, count, strict=True))
        return Findings(
            metrics,
            {"coreference": with_quoted(by_holm(table)), "coreference_intervals": intervals},
            self._head_values(shares, low, high),
            drawings={"coreference_lines": self._drawings(head_at(chosen["coreference"], self.heads))},
            notes={"coreference": [f"mentions (n): {mentions}", *self.notes, HELD_OUT]},
        )

    def _best(self, counting: int) -> int:
        """The row of the best head over all mentions."""
        start = counting * self.maps
        return start + int(self.correct.sum(0)[start : start + self.maps, 0].argmax())

    def _held_out(self, row: int) -> Row:
        """What the heads that half of the documents chose find in the other half, tested against the baseline."""
        start = row // self.maps * self.maps
        part = slice(start, start + self.maps)
        if not self.count[:, 0].all():
            return NOT_CHOSEN
        best = choices(self.correct[:, part, 0])
        right, all_right = (of_choices(one[..., part, 0], best) for one in (self.correct, self.resampled_correct))
        low, high = interval(all_right, self.resampled_count[:, 0])
        difference = (right - self.correct[:, self.baseline, 0].sum()) / self.count[:, 0].sum()
        resampled = (all_right - self.resampled_correct[..., self.baseline, 0].sum(0)) / self.resampled_count[:, 0]
        return {
            "held_out": 100 * float(right / self.count[:, 0].sum()),
            "held_out_low": 100 * float(low),
            "held_out_high": 100 * float(high),
            "p": float(differs(float(difference), resampled)),
        }

    def _head_values(self, shares: Tensor, low: np.ndarray, high: np.ndarray) -> dict[str, HeadValues]:
        """Every head in both countings, with p-values against the baseline, Holm over heads."""
        count, found = self.count.sum(0), []
        resampled = self.resampled_correct.sum(0) / self.resampled_count[:, None]
        for name, part in zip(COUNTINGS, self.map_slices(len(COUNTINGS)), strict=True):
            for index, column in enumerate(COLUMNS):
                if not count[index]:
                    continue
                difference = (shares[part, index] - shares[self.baseline, index]).cpu().numpy() / 100
                drawn = resampled[:, part, index] - resampled[:, self.baseline, index, None]
                found.append(
                    HeadValues(
                        antecedents_found(name, column),
                        value=self.grid(shares[part, index]),
                        n=self.grid(count[index].expand(self.maps)),
                        low=self.grid(low[part, index]),
                        high=self.grid(high[part, index]),
                        p=self.grid(holm_of_defined(differs(difference, drawn))),
                    )
                )
        return by_name(found)

    def _drawings(self, head: str) -> list[Row]:
        """What the head attends to from mention to mention, by their head words; links are indices."""
        drawings: list[Row] = []
        for number, one in enumerate(self.drawn):
            heads, groups = one.marked["heads"], one.marked["groups"]
            at = sorted(set(heads))
            pairs = [(i, j) for i, a in enumerate(heads) for j, b in enumerate(heads) if b < a and groups[i] == groups[j]]
            links = sorted({(at.index(heads[i]), at.index(heads[j])) for i, j in pairs})
            grid = self.drawn_map(number, head)[at][:, at].double().round(decimals=4)
            shown = {"words": [one.tokens[position - 1] for position in at], "attention": grid.tolist()}
            drawings.append({"head": head, **shown, "links": [list(link) for link in links]})
        return drawings


def by_holm(table: Sequence[Row]) -> list[Row]:
    """With p-values corrected over the rows that have one."""
    corrected = iter(holm([row["p"] for row in table if row["p"] is not None]))
    return [{**row, "p_holm": None if row["p"] is None else next(corrected)} for row in table]


def with_quoted(table: Sequence[Row]) -> list[Row]:
    """With a row for the system that the paper quotes and that is not ours to run: all but its published figure is empty."""
    return [*table[: len(BASELINES)], dict.fromkeys(table[0]) | {"row": QUOTED}, *table[len(BASELINES) :]]


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
