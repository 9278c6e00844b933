"""Which word a head predicts as the governor of each word, and which relations and offsets are asked for."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.errors import ConfigError, did_you_mean

OFFSETS = tuple(offset for offset in range(-5, 6) if offset)
ALL = "all"
NOT_SCORED = ("punct", "root")


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
