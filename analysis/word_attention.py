"""What a head makes of the words of a treebank: the governor that it predicts, and what it gives to [SEP] as a no-op."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.base import DrawsMaps, flat_maps
from headscope.analysis.statistics import FOLDS, differs, holm, interval, of_choices
from headscope.contracts import HeadValues, Quantity, Row, Section, by_name
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch
from headscope.data_modules.treebank import UPOS
from headscope.errors import ConfigError, did_you_mean

OFFSETS = tuple(offset for offset in range(-5, 6) if offset)
ALL = "all"
NOT_SCORED = ("punct", "root")
SECTION = Section("relations", "dependency relations")
TAGS = (*UPOS, "other")
NOUNS = ("NOUN", "PROPN")
SIDES = ("nouns", "others")
QUANTITIES = {
    side: Quantity(
        f"no_op_{side}_to_sep",
        f"attention to [SEP] from {what}",
        f"Mean attention to [SEP] of the words of a treebank that are {what}.",
        section=SECTION,
        one_of="no_op",
        which=side,
    )
    for side, what in zip(SIDES, ("nouns", "no nouns"), strict=True)
}


class GivesToSeparator(DrawsMaps):
    """Counts the attention of words to [SEP] for every head and part of speech, where the data keep [SEP]."""

    sep_total: Tensor
    sep_words: Tensor
    sep_resampled: Tensor
    sep_resampled_words: Tensor

    def count_separators(self, replicates: int) -> None:
        """Make room for the sums: of each half, and of each replicate for nouns and all other words."""
        maps = self.layers * self.heads
        self.add_sum("sep_total", FOLDS, maps, len(TAGS))
        self.add_sum("sep_words", FOLDS, len(TAGS))
        self.add_sum("sep_resampled", FOLDS, replicates, maps, len(SIDES))
        self.add_sum("sep_resampled_words", FOLDS, replicates, len(SIDES))

    def add_separators(self, batch: AttentionBatch, fold: Tensor, weights: Tensor) -> None:
        """Count a batch, given the half of each input and its weight in each replicate."""
        separator = batch.mask & (batch.gold["governors"] == IGNORE)
        separator[:, 0] = False  # ROOT
        tags = batch.gold["upos"]
        # In float64: nouns and others differ by little, so that float32 would leave few digits of their difference.
        member = (tags[..., None] == torch.arange(len(TAGS), device=tags.device)).double()  # (batch, word, tag)
        given = attention_to(flat_maps(batch), separator).double() @ member  # (batch, map, tag)
        words, fold, weights = member.sum(1), fold.double(), weights.double()
        self.sep_total += torch.einsum("bf,bmt->fmt", fold, given)
        self.sep_words += fold.T @ words
        sides = in_sides(given), in_sides(words)
        for half in range(FOLDS):
            own = weights * fold[:, half]
            self.sep_resampled[half] += (own @ sides[0].flatten(1)).view_as(self.sep_resampled[half])
            self.sep_resampled_words[half] += own @ sides[1]

    def no_op_tables(self, ranked: Sequence[tuple[Row, Sequence[int]]]) -> dict[str, list[Row]]:
        """For the best head of each relation, nouns against all other words, then each part of speech.

        What a head gives is measured on the half that did not choose it; `ranked` has the map that each half chose.
        """
        rows: list[Row] = []
        by_tag: list[Row] = []
        for relation, chosen in ranked:
            total = of_choices(self.sep_total.transpose(1, 2), chosen)  # (tag)
            words = self.sep_words.sum(0)
            resampled = of_choices(self.sep_resampled.transpose(2, 3), chosen)  # (replicate, side)
            nouns, others = (100 * in_sides(total) / in_sides(words)).tolist()
            drawn = 100 * resampled / self.sep_resampled_words.sum(0)
            difference = drawn[:, 1] - drawn[:, 0]
            low, high = interval(difference, torch.ones_like(difference))
            counts = {f"n_{side}": int(n) for side, n in zip(SIDES, in_sides(words).tolist(), strict=True)}
            which = {key: relation[key] for key in ("relation", "head", "direction")}
            found = {"nouns": nouns, "others": others, "difference": others - nouns, "low": float(low), "high": float(high)}
            p = float(differs(others - nouns, difference))
            rows.append({**which, **found, "p": p, **counts})
            by_tag += [
                {**which, "upos": tag, "to_sep": float(100 * total[at] / words[at]), "n": int(words[at])}
                for at, tag in enumerate(TAGS)
                if words[at]
            ]
        defined = [row for row in rows if row["p"] == row["p"]]
        corrected = iter(holm([row["p"] for row in defined]))
        tested: list[Row] = [{**row, "p_holm": next(corrected) if row["p"] == row["p"] else None} for row in rows]
        return {"no_op": tested, "no_op_by_part_of_speech": by_tag}

    def no_op_heads(self) -> dict[str, HeadValues]:
        """What nouns and all other words give to [SEP], for every head."""
        total, words = in_sides(self.sep_total.sum(0)), in_sides(self.sep_words.sum(0))
        low, high = interval(self.sep_resampled.sum(0), self.sep_resampled_words.sum(0)[:, None])
        return by_name(
            HeadValues(
                quantity,
                value=self.grid(total[:, side] / words[side]),
                n=self.grid(words[side].expand(self.layers * self.heads)),
                low=self.grid(low[:, side]),
                high=self.grid(high[:, side]),
            )
            for side, quantity in enumerate(QUANTITIES.values())
            if words[side]
        )


def attention_to(
    maps: Float[Tensor, "batch map query key"], keys: Bool[Tensor, "batch key"]
) -> Float[Tensor, "batch map query"]:
    """What each query gives to some keys together."""
    return torch.einsum("bmqk,bk->bmq", maps, keys.to(maps.dtype))


def in_sides(by_tag: Float[Tensor, "*shape tag"]) -> Float[Tensor, "*shape side"]:
    """The sums over nouns and over all other words."""
    sides = [[tag in NOUNS, tag not in NOUNS] for tag in TAGS]
    return by_tag @ torch.tensor(sides, dtype=by_tag.dtype, device=by_tag.device)


def require_offsets(offsets: Sequence[Any]) -> tuple[int, ...]:
    """The fixed offsets that are tried; an error for none, for 0 and for one that is there twice."""
    wrong = [one for one in offsets if not isinstance(one, int) or isinstance(one, bool) or not one]
    if wrong or not offsets or len(set(offsets)) < len(offsets):
        raise ConfigError(f"analyses.relations.offsets={list(offsets)}: expected whole numbers without 0, each once.")
    return tuple(offsets)


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
    maps: Float[Tensor, "batch map unit unit"], words: Bool[Tensor, "batch unit"], candidates: Bool[Tensor, "batch unit"]
) -> Int[Tensor, "batch direction_map unit"]:
    """For every word the other candidate with most attention, along rows and then along columns."""
    positions = torch.arange(words.shape[1], device=words.device)
    pair = words[:, :, None] & candidates[:, None] & (positions[:, None] != positions)
    # A word without pieces gets and gives nothing: nowhere to look is ROOT, which is never the gold head.
    found = [
        maps.masked_fill(~pair[:, None] | (maps <= 0), -1).argmax(3),
        maps.masked_fill(~pair.mT[:, None] | (maps <= 0), -1).argmax(2),
    ]
    return torch.cat(found, 1)


def pairs_seen(
    visible: Bool[Tensor, "batch unit unit"], asked: Int[Tensor, "batch word"], governors: Int[Tensor, "batch word"]
) -> Bool[Tensor, "batch direction word"]:
    """Whether the word that is asked may see the gold governor of a word, and whether the governor may see the word."""
    batch = torch.arange(len(visible), device=visible.device)[:, None]
    above = governors.clamp(min=0)
    return torch.stack([visible[batch, asked, above], visible[batch, above, asked]], 1) & (governors > 0)[:, None]


def asked_words(asked: Int[Tensor, "batch word"], possessive: Bool[Tensor, "batch word"]) -> Int[Tensor, "batch word"]:
    """The word whose prediction is scored for each word: the clitic behind a possessor, else the word itself."""
    own = torch.arange(asked.shape[1], device=asked.device)
    return torch.where(possessive & (asked > 0), asked, own)


def offset_right(governors: Int[Tensor, "batch word"], offsets: Sequence[int]) -> Float[Tensor, "batch offset word"]:
    """Whether the gold head stands at each fixed offset."""
    positions = torch.arange(governors.shape[1], device=governors.device)
    tried = torch.tensor(offsets, device=governors.device)
    return (((governors - positions)[:, None] == tried[:, None]) & (governors > 0)[:, None]).float()
