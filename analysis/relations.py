"""Dependency relations by single heads (Clark, section 4.2, Table 1)."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.base import DrawsMaps, flat_maps
from headscope.analysis.statistics import FOLDS, held_out, holm, interval, mcnemar, poisson_weights, require_replicates
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, Section, by_name, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError, did_you_mean, require_choice

SECTION = Section("relations", "dependency relations")
DIRECTIONS = ("dependent_to_head", "head_to_dependent")
OFFSETS = tuple(offset for offset in range(-5, 6) if offset)
ALL = "all"
NOT_SCORED = ("punct", "root")
POSSESSIVE = ("poss", "nmod:poss")


class RelationHeads(DrawsMaps):
    """How often the word that a head attends to most is the gold head, per relation, head and direction."""

    kind = "treebank"
    members: Tensor
    is_possessive: Tensor
    correct: Tensor
    count: Tensor
    offset_correct: Tensor
    both_correct: Tensor
    resampled_correct: Tensor
    resampled_count: Tensor

    def __init__(
        self,
        facts: Facts,
        relations: Sequence[str] | str | None = None,
        subtypes: bool = True,
        possessive: str = "text",
        min_count: int = 100,
        replicates: int = 500,
        seed: int = 0,
    ) -> None:
        super().__init__(facts)
        require_choice("analyses.relations.possessive", possessive, ("text", "released"))
        self.released_possessive, self.min_count = possessive == "released", min_count
        self.replicates, self.seed = require_replicates(replicates), seed
        self.names, members = relation_rows(facts.relations, relations, subtypes)
        clitic = [name in POSSESSIVE for name in facts.relations]
        self.register_buffer("members", members, persistent=False)
        self.register_buffer("is_possessive", torch.tensor(clitic), persistent=False)
        maps, rows = len(DIRECTIONS) * self.layers * self.heads, len(self.names)
        self.add_sum("correct", FOLDS, maps, rows)
        self.add_sum("count", FOLDS, rows)
        self.add_sum("offset_correct", len(OFFSETS), rows)
        self.add_sum("both_correct", maps, len(OFFSETS), rows)
        self.add_sum("resampled_correct", replicates, maps, rows, dtype=torch.float32)
        self.add_sum("resampled_count", replicates, rows, dtype=torch.float32)
        self.keep_maps_of(facts.drawn, [len(one.tokens) + 1 for one in facts.drawn])

    def update(self, batch: AttentionBatch) -> None:
        governors, relations = batch.gold["governors"], batch.gold["relations"].clamp(min=0)
        predicted = predicted_words(flat_maps(batch), batch.mask)
        if self.released_possessive:
            asked = torch.where(self.is_possessive[relations] & (governors >= 0), batch.gold["asked"].clamp(min=0), 0)
            asked = torch.where(asked > 0, asked, torch.arange(governors.shape[1], device=governors.device))
            predicted = predicted.gather(2, asked[:, None].expand_as(predicted))
        right = (predicted == governors[:, None]).float()
        member = self.members[relations] * (governors > 0)[..., None]  # (batch, word, row)
        by_offset = offset_right(governors)
        fold = (batch.input_index[:, None] % FOLDS == torch.arange(FOLDS, device=governors.device)).float()

        sentence_right, sentence_count = right @ member, member.sum(1)
        self.correct += torch.einsum("bf,bmr->fmr", fold, sentence_right)
        self.count += fold.T @ sentence_count
        at_offset = by_offset.transpose(1, 2)[..., None] * member[:, :, None]  # (batch, word, offset, row)
        self.offset_correct += at_offset.sum((0, 1))
        self.both_correct += (right.transpose(0, 1).flatten(1) @ at_offset.flatten(0, 1).flatten(1)).unflatten(
            1, (len(OFFSETS), -1)
        )
        weights = poisson_weights(batch.input_index, self.replicates, self.seed)
        self.resampled_correct += (weights @ sentence_right.flatten(1)).view_as(self.resampled_correct)
        self.resampled_count += weights @ sentence_count
        self.keep_maps(batch)

    def compute(self) -> Findings:
        correct, count = self.correct.sum(0), self.count.sum(0)
        low, high = (100 * end for end in interval(self.resampled_correct, self.resampled_count[:, None]))
        rows = [self._row(index, low, high) for index in range(len(self.names)) if count[index] >= self._least(index)]
        tested = [row for row in rows if row["relation"] != ALL]
        corrected = holm([row["p"] for row in tested])
        rows = [{**row, "p_holm": row["p"]} for row in rows if row["relation"] == ALL]
        rows += [{**row, "p_holm": p} for row, p in zip(tested, corrected, strict=True)]
        rows.sort(key=lambda row: (row["relation"] != ALL, -row["n"], row["relation"]))
        overall = next((row for row in rows if row["relation"] == ALL), {})
        return Findings(
            metrics={
                "all_best_head": overall.get("accuracy", float("nan")),
                "all_best_offset": overall.get("baseline", float("nan")),
                "relations_above_offset": sum(
                    row["p_holm"] < 0.05 and row["accuracy"] > row["baseline"] for row in rows if row["relation"] != ALL
                ),
            },
            tables={"relation_heads": rows},
            notes={"relation_heads": [self._which_relations(rows)]},
            heads=by_name(
                HeadValues(
                    governor_found(name, direction),
                    value=self.grid(100 * correct[maps, index] / count[index]),
                    n=self.grid(count[index].expand(self.layers * self.heads)),
                    low=self.grid(low[maps, index]),
                    high=self.grid(high[maps, index]),
                )
                for index, name in enumerate(self.names)
                for direction, maps in zip(DIRECTIONS, self.map_slices(len(DIRECTIONS)), strict=True)
                if count[index]
            ),
            drawings={"attention_lines": self._drawings(rows)},
        )

    def _which_relations(self, rows: Sequence[Row]) -> str:
        least = f"of at least {self.min_count} words (analyses.relations.min_count)"
        return f"relations {least}" if any(row["relation"] != ALL for row in rows) else f"no relation is {least}"

    def _least(self, index: int) -> int:
        return 1 if self.names[index] == ALL else max(1, self.min_count)

    def _row(self, index: int, low: np.ndarray, high: np.ndarray) -> Row:
        """The best head of a relation beside the best fixed offset."""
        correct, count = self.correct[:, :, index], self.count[:, index]
        best = int(correct.sum(0).argmax())
        offset = int(self.offset_correct[:, index].argmax())
        words, right = int(count.sum()), int(correct[:, best].sum())
        baseline, both = int(self.offset_correct[offset, index]), int(self.both_correct[best, offset, index])
        direction, map_index = divmod(best, self.layers * self.heads)
        return {
            "relation": self.names[index],
            "head": head_at(map_index, self.heads),
            "direction": DIRECTIONS[direction],
            "accuracy": 100 * right / words,
            "low": float(low[best, index]),
            "high": float(high[best, index]),
            "held_out": held_out(correct, count),
            "offset": OFFSETS[offset],
            "baseline": 100 * baseline / words,
            "p": mcnemar(right - both, baseline - both),
            "n": words,
        }

    def _drawings(self, rows: Sequence[Row]) -> list[Row]:
        """For the best head of each relation, its attention in a sentence that has the relation."""
        drawings = []
        for row in rows:
            member = self.members[:, self.names.index(row["relation"])].tolist()
            links = [[w for w, r in enumerate(s.relations, 1) if member[r] and s.governors[w - 1]] for s in self.drawn]
            if row["relation"] == ALL or not any(links):
                continue
            sentence = max(range(len(links)), key=lambda index: len(links[index]))
            drawn = self.drawn[sentence]
            size = len(drawn.tokens) + 1
            grid = self.drawn_map(sentence, row["head"])[1:size, 1:size]
            pairs = [[word, drawn.governors[word - 1]] for word in links[sentence]]
            drawings.append(
                {key: row[key] for key in ("relation", "head", "direction")}
                | {"words": list(drawn.tokens), "links": pairs, "attention": grid.double().round(decimals=4).tolist()}
            )
        return drawings


def governor_found(relation: str, direction: str) -> Quantity:
    """The accuracy of a relation in one direction."""
    way = "attend most to their gold head" if direction == DIRECTIONS[0] else "get most attention from their gold head"
    return Quantity(
        f"relation:{relation}:{direction}",
        f"{relation} (%), from {direction.replace('_', ' ')}",
        f"Words with the relation {relation} that {way}.",
        unit="%",
        better="high",
        section=SECTION,
        one_of="relation",
        which=f"{relation}:{direction}",
        headline=(relation, direction) == (ALL, DIRECTIONS[0]),
    )


def relation_rows(
    known: Sequence[str], wanted: Sequence[str] | str | None, subtypes: bool
) -> tuple[list[str], Float[Tensor, "relation row"]]:
    """The rows of the table, the last for all words, and which of them a word of each relation belongs to."""
    row_of = [name if subtypes else name.partition(":")[0] for name in known]
    scored = [name.partition(":")[0] not in NOT_SCORED for name in known]
    rows = sorted({row for row, counts in zip(row_of, scored, strict=True) if counts})
    wanted = [wanted] if isinstance(wanted, str) else wanted
    for name in wanted or ():
        if name not in rows:
            raise ConfigError(f"analyses.relations.relations: {name} is no relation of the data{did_you_mean(name, rows)}")
    rows = [row for row in rows if wanted is None or row in wanted]
    member = torch.tensor([[counts and row == of for row in rows] for of, counts in zip(row_of, scored, strict=True)])
    everything = torch.tensor(scored, dtype=torch.float32)[:, None]
    return [*rows, ALL], torch.cat([member.float().reshape(len(known), len(rows)), everything], 1)


def predicted_words(
    maps: Float[Tensor, "batch map word word"], real: Bool[Tensor, "batch word"]
) -> Int[Tensor, "batch direction_map word"]:
    """For every word the other word with most attention, along rows and then along columns; never ROOT or padding."""
    positions = torch.arange(real.shape[1], device=real.device)
    word = real & (positions > 0)
    pair = word[:, :, None] & word[:, None] & (positions[:, None] != positions)
    # A word without pieces gets and gives nothing: nowhere to look is never the gold head.
    others = maps.masked_fill(~pair[:, None] | (maps <= 0), -1)
    return torch.cat([others.argmax(3), others.argmax(2)], 1)


def offset_right(governors: Int[Tensor, "batch word"]) -> Float[Tensor, "batch offset word"]:
    """Whether the gold head stands at each fixed offset."""
    positions = torch.arange(governors.shape[1], device=governors.device)
    offsets = torch.tensor(OFFSETS, device=governors.device)
    return (((governors - positions)[:, None] == offsets[:, None]) & (governors > 0)[:, None]).float()
