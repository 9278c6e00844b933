"""Changes of a map that keep its pattern what it is: noise, strength, and the axis stretched, with tokens left out.

A map is never transposed or shifted: a row of attention from one token is no column, and a diagonal has its place.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.data_modules.patterns.labels import CLASSES
from headscope.probes.patterns.resampling import CLS, SEP, even_widths

TINY = 1e-9
DIAGONAL, VERTICAL_DIAGONAL = CLASSES.index("diagonal"), CLASSES.index("vertical_diagonal")


def augmented(
    maps: Float[Tensor, "batch map query key"],
    real: Bool[Tensor, "batch token"],
    token_class: Int[Tensor, "batch token"],
    noise: float = 0.3,
    strength: float = 0.2,
    stretch: float = 0.3,
    drop: float = 0.2,
) -> tuple[Float[Tensor, "batch map query key"], Float[Tensor, "batch token"]]:
    """Changed maps, whose rows sum to 1, and the widths of their tokens, 0 for those that are left out.

    Every input gets its own amount of each change, up to the one given. Special tokens stay, so that their columns do;
    both axes change alike, so that the diagonal and the blocks stay where they belong.
    """
    special = (token_class == CLS) | (token_class == SEP)
    left_out = (torch.rand_like(real, dtype=maps.dtype) < drop * _amount(maps)[:, :, 0, 0]) & ~special
    widths = even_widths(real & ~left_out) * torch.exp(
        stretch * _amount(maps)[:, 0, 0] * torch.randn_like(real, dtype=maps.dtype)
    )
    exponent = torch.exp(strength * (2 * _amount(maps) - 1))
    changed = maps.clamp(min=TINY) ** exponent
    if noise:
        changed = changed * torch.exp(noise * _amount(maps) * torch.randn_like(maps))
    changed = changed * (widths > 0)[:, None, None]
    return changed / changed.sum(-1, keepdim=True).clamp(min=TINY), widths


def without_gaps(
    maps: Float[Tensor, "batch map query key"], token_class: Int[Tensor, "batch token"], widths: Float[Tensor, "batch token"]
) -> tuple[Float[Tensor, "batch map query key"], Int[Tensor, "batch token"], Float[Tensor, "batch token"]]:
    """The same with tokens that are left out behind all others, as padding is, so that neighbours are neighbours."""
    order = (widths == 0).int().argsort(dim=1, stable=True)
    rows = maps.gather(2, order[:, None, :, None].expand_as(maps))
    return rows.gather(3, order[:, None, None].expand_as(maps)), token_class.gather(1, order), widths.gather(1, order)


def relabelled(
    maps: Float[Tensor, "batch map query key"],
    token_class: Int[Tensor, "batch token"],
    votes: Float[Tensor, "batch class"],
    share: float = 0.3,
) -> tuple[Float[Tensor, "batch map query key"], Float[Tensor, "batch class"]]:
    """Some maps made into those of another class: a diagonal with columns taken away is a diagonal, one with columns
    added is both. `votes` are shares; those for the one class go to the other."""
    special = (((token_class == CLS) | (token_class == SEP)).to(maps.dtype))[:, None, None]
    chosen, labels = torch.rand(len(maps), device=maps.device) < share, votes.argmax(1)
    bare, both = chosen & (labels == VERTICAL_DIAGONAL), chosen & (labels == DIAGONAL)
    faint = torch.where(bare[:, None, None, None], 0.1 * _amount(maps), 1.0)
    fewer = maps * (1 - special + special * faint)
    fewer = fewer / fewer.sum(-1, keepdim=True).clamp(min=TINY)
    liked = special * torch.rand_like(special)
    added = torch.where(both[:, None, None, None], 0.2 + 0.4 * _amount(maps), 0.0)
    changed = (1 - added) * fewer + added * liked / liked.sum(-1, keepdim=True).clamp(min=TINY)
    swapped = votes.clone()
    swapped[:, DIAGONAL], swapped[:, VERTICAL_DIAGONAL] = votes[:, VERTICAL_DIAGONAL], votes[:, DIAGONAL]
    return changed, torch.where((bare | both)[:, None], swapped, votes)


def _amount(maps: Tensor) -> Float[Tensor, "batch 1 1 1"]:
    """A number between 0 and 1 for every input."""
    return torch.rand(len(maps), 1, 1, 1, device=maps.device)
