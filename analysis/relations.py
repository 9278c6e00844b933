"""Dependency relations by single heads (Clark, section 4.2, Table 1)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headscope.analysis.base import flat_maps
from headscope.analysis.statistics import (
    FOLDS,
    choices,
    holm,
    interval,
    mcnemar,
    of_choices,
    poisson_weights,
    require_replicates,
)
from headscope.analysis.word_attention import (
    ALL,
    OFFSETS,
    SECTION,
    GivesToSeparator,
    asked_words,
    offset_right,
    pairs_seen,
    predicted_words,
    relation_rows,
    require_offsets,
)
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, by_name, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError, require_choice

CAUSAL = "causal model: {:.1f} % of all words cannot see their governor, {:.1f} % are not seen by it; n counts the others"
DIRECTIONS = ("dependent_to_head", "head_to_dependent")
POSSESSIVE = ("poss", "nmod:poss")
NOTES = ("held out: head and offset chosen on one half, scored on the other; p: McNemar of these, Holm over relations",)


class RelationHeads(GivesToSeparator):
    """How often the word that a head attends to most is the gold head, per relation, head and direction.

    `possessive: clitic` scores what the possessive clitic behind a word predicts, as Table 1 does; `candidates: all` lets
    a word attend most to [CLS] and [SEP], and be wrong by it, as the paper's footnote 3 has it. In a causal model a pair
    of words can be seen in one direction only: each direction is scored on the words whose pair it may see.
    """

    kind = "treebank"
    members: Tensor
    is_possessive: Tensor
    correct: Tensor
    count: Tensor
    offset_correct: Tensor
    both_correct: Tensor
    resampled_correct: Tensor
    resampled_count: Tensor
    pieces: Tensor
    all_words: Tensor

    def __init__(
        self,
        facts: Facts,
        relations: Sequence[str] | str | None = None,
        subtypes: bool = True,
        possessive: str = "clitic",
        candidates: str = "words",
        offsets: Sequence[Any] = OFFSETS,
        min_count: int = 100,
        replicates: int = 500,
        seed: int = 0,
    ) -> None:
        super().__init__(facts)
        require_choice("analyses.relations.possessive", possessive, ("clitic", "strict"))
        require_choice("analyses.relations.candidates", candidates, ("words", "all"))
        if candidates == "all" and not facts.separators:
            raise ConfigError("analyses.relations.candidates=all: needs data.separators=true, which keeps [SEP].")
        self.clitics, self.all_units, self.separators = possessive == "clitic", candidates == "all", facts.separators
        self.offsets, self.min_count = require_offsets(offsets), min_count
        self.replicates, self.seed, self.causal = require_replicates(replicates), seed, facts.layout.causal
        self.names, members = relation_rows(facts.relations, relations, subtypes)
        self.register_buffer("members", members, persistent=False)
        self.register_buffer(
            "is_possessive", torch.tensor([name in POSSESSIVE for name in facts.relations]), persistent=False
        )
        maps, rows = len(DIRECTIONS) * self.layers * self.heads, len(self.names)
        self.add_sum("correct", FOLDS, maps, rows)
        # What each direction may see is all that it is asked; without causality it is the same for both.
        self.add_sum("count", FOLDS, len(DIRECTIONS), rows)
        self.add_sum("all_words", rows)
        self.add_sum("offset_correct", FOLDS, len(DIRECTIONS), len(self.offsets), rows)
        self.add_sum("both_correct", FOLDS, maps, len(self.offsets), rows)
        # Whole numbers, which float32 adds exactly up to 16 million words of each half.
        self.add_sum("resampled_correct", FOLDS, replicates, maps, rows, dtype=torch.float32)
        self.add_sum("resampled_count", replicates, len(DIRECTIONS), rows)
        self.add_sum("pieces", 2)  # words of several pieces, and all words
        self.keep_maps_of(facts.drawn, [len(one.tokens) + (not facts.separators) for one in facts.drawn])
        if facts.separators:
            self.count_separators(replicates)

    def update(self, batch: AttentionBatch) -> None:
        governors, relations = batch.gold["governors"], batch.gold["relations"].clamp(min=0)
        words = governors >= 0
        predicted = predicted_words(flat_maps(batch), words, batch.mask if self.all_units else words)
        asked = torch.arange(words.shape[1], device=words.device).expand_as(governors)
        if self.clitics:
            asked = asked_words(batch.gold["asked"], self.is_possessive[relations] & words)
            predicted = predicted.gather(2, asked[:, None].expand_as(predicted))
        scored = pairs_seen(batch.visible(), asked, governors) if self.causal else (governors > 0)[:, None].expand(-1, 2, -1)
        scored = scored.float()  # (batch, direction, word)
        right = (predicted == governors[:, None]) * scored.repeat_interleave(self.layers * self.heads, 1)
        member = self.members[relations] * (governors > 0)[..., None]  # (batch, word, row)
        at_offset = offset_right(governors, self.offsets).transpose(1, 2)[..., None] * member[:, :, None]
        fold = (batch.input_index[:, None] % FOLDS == torch.arange(FOLDS, device=governors.device)).float()

        sentence_right, sentence_count = right @ member, scored @ member
        self.correct += torch.einsum("bf,bmr->fmr", fold, sentence_right)
        self.count += torch.einsum("bf,bdr->fdr", fold, sentence_count)
        self.all_words += member.sum((0, 1))
        self.offset_correct += torch.einsum("bf,bdw,bwor->fdor", fold, scored, at_offset)
        weights = poisson_weights(batch.input_index, self.replicates, self.seed)
        for half in range(FOLDS):
            own = fold[:, half]
            both = torch.einsum("bmw,bwor->mor", right * own[:, None, None], at_offset)
            self.both_correct[half] += both
            resampled = (weights * own) @ sentence_right.flatten(1)
            self.resampled_correct[half] += resampled.view_as(self.resampled_correct[half])
        self.resampled_count += (weights @ sentence_count.flatten(1)).view_as(self.resampled_count)
        self.pieces += torch.stack([(batch.gold["pieces"] > 1).sum(), words.sum()])
        if self.separators:
            self.add_separators(batch, fold, weights)
        self.keep_maps(batch)

    def compute(self) -> Findings:
        ranked = [index for index in range(len(self.names)) if self.count.sum(0)[:, index].max() >= self._least(index)]
        counts = self.resampled_count.repeat_interleave(self.layers * self.heads, 1)
        low, high = (100 * end for end in interval(self.resampled_correct.sum(0), counts))
        rows = [self._row(index, low, high) for index in ranked]
        rows = corrected(rows)
        rows.sort(key=lambda row: (row["relation"] != ALL, -row["n"], row["relation"]))
        overall = next((row for row in rows if row["relation"] == ALL), {})
        no_op: dict[str, list[Row]] = {}
        if self.separators:
            chosen = [(row, self._choices(self.names.index(row["relation"]))) for row in rows if row["relation"] != ALL]
            maps = self.layers * self.heads
            no_op = self.no_op_tables([(row, [one % maps for one in both]) for row, both in chosen])
        return Findings(
            metrics={
                "all_best_head": overall.get("accuracy", float("nan")),
                "all_best_offset": overall.get("baseline", float("nan")),
                "relations_above_offset": sum(
                    (row["p_holm"] or 0) < 0.05 and row["held_out"] > row["held_out_baseline"]
                    for row in rows
                    if row["relation"] != ALL and row["p_holm"] is not None
                ),
                "split_words": float(100 * self.pieces[0] / self.pieces[1]),
            },
            tables={"relation_heads": rows, **no_op, **({"visible_governors": self._visible()} if self.causal else {})},
            notes={"relation_heads": [self._which_relations(rows), *NOTES, *self._unseen()]},
            heads=self._head_values(low, high) | (self.no_op_heads() if self.separators else {}),
            drawings={"attention_lines": self._drawings(rows)},
        )

    def _head_values(self, low: np.ndarray, high: np.ndarray) -> dict[str, HeadValues]:
        """Every head and direction of every relation that occurs."""
        correct, count, found = self.correct.sum(0), self.count.sum(0), []
        for index, name in enumerate(self.names):
            p = self._against_offset(index)
            for at, (direction, maps) in enumerate(zip(DIRECTIONS, self.map_slices(len(DIRECTIONS)), strict=True)):
                if not count[at, index]:
                    continue
                found.append(
                    HeadValues(
                        governor_found(name, direction),
                        value=self.grid(100 * correct[maps, index] / count[at, index]),
                        n=self.grid(count[at, index].expand(self.layers * self.heads)),
                        low=self.grid(low[maps, index]),
                        high=self.grid(high[maps, index]),
                        p=self.grid(p[maps]),
                    )
                )
        return by_name(found)

    def _against_offset(self, index: int) -> np.ndarray:
        """The p-values of all heads and directions against the relation's best offset, corrected over all of them."""
        offsets, p = self.offset_correct.sum(0)[..., index], []
        for direction, maps in enumerate(self.map_slices(len(DIRECTIONS))):
            best = int(offsets[direction].argmax())
            both = self.both_correct.sum(0)[maps, best, index]
            only_head, only_offset = self.correct.sum(0)[maps, index] - both, offsets[direction, best] - both
            p += mcnemar(only_head.cpu(), only_offset.cpu()).tolist()
        return np.array(holm(p))

    def _which_relations(self, rows: Sequence[Row]) -> str:
        least = f"of at least {self.min_count} words (analyses.relations.min_count)"
        return f"relations {least}" if any(row["relation"] != ALL for row in rows) else f"no relation is {least}"

    def _least(self, index: int) -> int:
        return 1 if self.names[index] == ALL else max(1, self.min_count)

    def _choices(self, index: int) -> list[int]:
        """The head and direction that each half's other half finds best for a relation."""
        correct = self.correct[:, :, index]
        if not self.causal:
            return choices(correct)
        among = self.map_slices(len(DIRECTIONS))[self._direction(index)]  # one, since the other is about other words
        return [among.start + one for one in choices(correct[:, among])]

    def _direction(self, index: int) -> int:
        """The direction whose best head finds most governors of a relation, of those that see enough words."""
        correct, enough = self.correct.sum(0)[:, index], self.count.sum(0)[:, index] >= self._least(index)
        best = [float(correct[maps].max()) if one else -1.0 for one, maps in zip(enough, self.map_slices(2), strict=True)]
        return int(np.argmax(best))

    def _row(self, index: int, low: np.ndarray, high: np.ndarray) -> Row:
        """The best head of a relation beside the best fixed offset; both also as one half chose them for the other."""
        direction = self._direction(index)
        correct, count = self.correct[:, :, index], self.count[:, direction, index]
        offsets = self.offset_correct[:, direction, :, index]
        among = self.map_slices(len(DIRECTIONS))[direction]
        map_index, offset = int(correct.sum(0)[among].argmax()), int(offsets.sum(0).argmax())
        best, words = among.start + map_index, int(count.sum())
        unseen = {"unseen": 100 * (1 - words / float(self.all_words[index]))} if self.causal else {}
        return {
            "relation": self.names[index],
            "head": head_at(map_index, self.heads),
            "direction": DIRECTIONS[direction],
            "accuracy": 100 * float(correct.sum(0)[best]) / words,
            "low": float(low[best, index]),
            "high": float(high[best, index]),
            **self._held_out(index),
            "offset": self.offsets[offset],
            "baseline": 100 * float(offsets.sum(0)[offset]) / words,
            **unseen,
            "n": words,
        }

    def _unseen(self) -> list[str]:
        """What a causal model leaves out in either direction, over all relations."""
        shares = [row["unseen"] for row in self._visible() if row["relation"] == ALL]
        return [CAUSAL.format(*shares)] if self.causal and shares else []

    def _visible(self) -> list[Row]:
        """Of how many words of each relation each direction may see the pair, and the share of which it may not."""
        count, words = self.count.sum(0), self.all_words
        return [
            {"relation": name, "direction": direction, "words": int(words[index]), "seen": int(count[at, index])}
            | {"unseen": 100 * (1 - float(count[at, index] / words[index]))}
            for index, name in enumerate(self.names)
            if words[index]
            for at, direction in enumerate(DIRECTIONS)
        ]

    def _held_out(self, index: int) -> Row:
        """The heads that one half chose on the other, against offsets chosen alike; nothing without two halves."""
        direction, chosen = self._direction(index), self._choices(index)
        count, by_offset = self.count[:, direction, index], self.offset_correct[:, direction, :, index]
        if not count.all():
            return dict.fromkeys(("held_out", "held_out_low", "held_out_high", "held_out_baseline", "p"))
        offsets = choices(by_offset)
        right = float(of_choices(self.correct[:, :, index], chosen))
        baseline = float(of_choices(by_offset, offsets))
        both = sum(float(self.both_correct[half, chosen[half], offsets[half], index]) for half in range(FOLDS))
        resampled = of_choices(self.resampled_correct[..., index], chosen)
        low, high = interval(resampled, self.resampled_count[:, direction, index])
        return {
            "held_out": 100 * right / float(count.sum()),
            "held_out_low": 100 * float(low),
            "held_out_high": 100 * float(high),
            "held_out_baseline": 100 * baseline / float(count.sum()),
            "p": float(mcnemar(right - both, baseline - both)),
        }

    def _drawings(self, rows: Sequence[Row]) -> list[Row]:
        """For the best head of each relation, its attention in a sentence that has the relation; links are indices."""
        drawings: list[Row] = []
        first = 0 if self.separators else 1  # ROOT is drawn with [SEP], as the special tokens that they are
        for row in rows:
            member = self.members[:, self.names.index(row["relation"])].tolist()
            links = [[w for w, r in enumerate(s.relations, 1) if member[r] and s.governors[w - 1]] for s in self.drawn]
            if row["relation"] == ALL or not any(links):
                continue
            sentence = max(range(len(links)), key=lambda index: len(links[index]))
            drawn = self.drawn[sentence]
            size = len(drawn.tokens) + first
            grid = self.drawn_map(sentence, row["head"])[first:size, first:size]
            pairs = [[word - first, drawn.governors[word - 1] - first] for word in links[sentence]]
            drawings.append(
                {key: row[key] for key in ("relation", "head", "direction")}
                | {"words": list(drawn.tokens), "links": pairs, "attention": grid.double().round(decimals=4).tolist()}
            )
        return drawings


def corrected(rows: Sequence[Row]) -> list[Row]:
    """With p-values by Holm over the relations; that of all words together is no relation's."""
    tested = [row["p"] for row in rows if row["relation"] != ALL and row["p"] is not None]
    by_holm = iter(holm(tested))
    return [{**row, "p_holm": row["p"] if row["relation"] == ALL or row["p"] is None else next(by_holm)} for row in rows]


def governor_found(relation: str, direction: str) -> Quantity:
    """The accuracy of a relation in one direction."""
    way = "attend most to their gold head" if direction == DIRECTIONS[0] else "get most attention from their gold head"
    return Quantity(
        f"relation:{relation}:{direction}",
        f"{relation} (%), from {direction.replace('_', ' ')}",
        f"Words with the relation {relation} that {way}; p against the best fixed offset, Holm over heads and directions.",
        unit="%",
        better="high",
        section=SECTION,
        one_of="relation",
        which=f"{relation}:{direction}",
        headline=(relation, direction) == (ALL, DIRECTIONS[0]),
    )
