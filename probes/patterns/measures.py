"""What of a map is seen token by token: how bright the diagonal, the marked columns, the sentences and the rest are.

A picture of one size blurs this in long inputs. A shade is the root of a weight over that of the map's brightest cells, as
maps are shown to those who label them. Only the rows of tokens that are not special are looked at.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.probes.patterns.axes import BAND, Axes, above
from headscope.probes.patterns.contrasts import CONTRASTS, contrasts
from headscope.probes.patterns.resampling import TINY

BRIGHTEST = 0.002  # of the cells: those have the shade 1
LEVELS = (0.25, 0.4, 0.6)  # shades: can be found, is seen at a glance, is bright
PROFILE = 6
MEASURES = 69 + CONTRASTS


def shades(
    maps: Float[Tensor, "batch map query key"], there: Bool[Tensor, "batch token"]
) -> tuple[Float[Tensor, "batch map query key"], Float[Tensor, "batch map"]]:
    """Roots of the weights over the map's own scale, at most 1, and that scale: the root that few cells exceed."""
    roots = maps.clamp(min=0).sqrt() * (there[:, None, :, None] & there[:, None, None])
    counts = there.sum(1) ** 2
    rank = BRIGHTEST * (counts - 1).clamp(min=0)  # from the brightest; between two cells, of both
    cells = roots.shape[2] * roots.shape[3]  # with padding, which is not bright
    top = roots.flatten(2).topk(min(cells, int(BRIGHTEST * cells) + 2)).values
    low = rank.floor().long()[:, None, None].expand(-1, maps.shape[1], 1)
    upper, lower = top.gather(2, low), top.gather(2, (low + 1).clamp(max=top.shape[2] - 1))
    scale = torch.lerp(upper, lower, (rank - rank.floor())[:, None, None]).squeeze(2).clamp(min=TINY)
    return (roots / scale[..., None, None]).clamp(max=1), scale


def row_measures(
    shade: Float[Tensor, "batch map query key"],
    scale: Float[Tensor, "batch map"],
    band: Float[Tensor, "batch map query offset"],
    axes: Axes,
) -> Float[Tensor, "batch map measure"]:
    """The measures of each map: of rows, columns and sentences; `band` is sheared, of tokens that are not special."""
    count = axes.count

    def brightest(columns: Bool[Tensor, "batch token"], beyond: int) -> Float[Tensor, "batch map query"]:
        cells = columns[:, None] & (axes.distance > beyond)
        return (shade * cells[:, None]).amax(-1)

    middle = band.shape[-1] // 2
    near, beside = band[..., middle - 1 : middle + 2].amax(-1), _beside(band, middle)
    special, stops, far = brightest(axes.special, -1), brightest(axes.punctuation, 1), brightest(axes.words, BAND)
    vertical = torch.maximum(special, stops)
    pairs = ((vertical, far), (special, far), (near, far), (near, vertical), (near, beside), (vertical, beside))
    differences = torch.stack([one - factor * other for one, other in pairs for factor in (1.0, 0.7)])
    profile = band[..., middle - PROFILE : middle + PROFILE + 1].movedim(-1, 0)
    weights = torch.stack([(band[..., middle - n : middle + n + 1] ** 2).sum(-1) for n in (1, 2, 5)]) * (scale**2)[..., None]
    levels = _levels(torch.stack([near, vertical, special, far, beside]))
    # Means over the rows, all at once: they are many, and each is small.
    means = (torch.cat([levels, above(differences), profile, weights]) * axes.rows[:, None]).sum(-1) / count
    length = axes.there.sum(1)[:, None].expand_as(scale)
    total = axes.there.sum(1).clamp(min=1)[:, None] ** 2
    whole = [scale, shade.sum((-1, -2)) / total, (shade > LEVELS[0]).sum((-1, -2)) / total, length.float().log() / 5]
    standing = contrasts(shade, band, axes)
    return torch.stack([*means, *_columns(shade, axes, count), *_sentences(shade, axes), *whole, *standing], -1)


def _levels(shade: Float[Tensor, "place batch map query"]) -> Float[Tensor, "row batch map query"]:
    """Of each place the shade of every row, and whether it is above each level."""
    passed = [above(shade - level) for level in LEVELS]
    return torch.stack([shade, *passed], 1).flatten(0, 1)


def _beside(band: Float[Tensor, "batch map query offset"], middle: int) -> Float[Tensor, "batch map query"]:
    """The mean just outside of the diagonal: high in a wide band."""
    left, right = band[..., middle - PROFILE : middle - BAND], band[..., middle + BAND + 1 : middle + PROFILE + 1]
    return torch.cat([left, right], -1).mean(-1)


def _columns(
    shade: Float[Tensor, "batch map query key"], axes: Axes, count: Int[Tensor, "batch 1"]
) -> list[Float[Tensor, "batch map"]]:
    """The mean shade of the brightest columns of special tokens, of punctuation and of words."""
    means = (axes.rows[:, None, None].to(shade.dtype) @ shade).squeeze(2) / count[..., None]
    special = (means * axes.special[:, None]).topk(min(2, means.shape[2])).values
    words = (means * axes.words[:, None]).topk(min(2, means.shape[2])).values
    stops = (means * axes.punctuation[:, None]).amax(-1)
    marked = torch.maximum(special[..., 0], stops)
    return [special[..., 0], special[..., -1], stops, words[..., 0], words[..., -1], marked - words[..., 0]]


def _sentences(shade: Float[Tensor, "batch map query key"], axes: Axes) -> list[Float[Tensor, "batch map"]]:
    """The shade inside the sentences of a pair and across, everywhere and near the boundary; zero for a single one."""
    seen = above(shade - LEVELS[0])
    close = (axes.distance <= 2 * PROFILE) & (axes.distance > BAND)
    values = []
    both = (axes.inside, axes.across)
    for picture, cells in ((shade, both), (seen, both), (shade, [each & close for each in both])):
        one, other = (_mean_of(picture, each) for each in cells)
        values += [one, other, one - other]
    pair = axes.second.any(1).to(shade.dtype)[:, None].expand(shade.shape[:2])
    return [*values, values[0] / (values[0] + values[1]).clamp(min=TINY), pair]


def _mean_of(
    shade: Float[Tensor, "batch map query key"], cells: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch map"]:
    wanted = cells.flatten(1).to(shade.dtype)[..., None]
    return (shade.flatten(2) @ wanted).squeeze(2) / wanted.sum(1).clamp(min=1)
