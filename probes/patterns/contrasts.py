"""What an eye sees as a line, a square or a column: not how bright it is, but how far it stands out from what is beside it.

A thin diagonal on a busy background is a line since it goes on at one offset and is brighter than its neighbours there; a
band that gets dimmer where the other sentence begins is a square; a column is one by what the other columns are like.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.probes.patterns.axes import Axes, above
from headscope.probes.patterns.resampling import CLS, SEP

REACH = 16  # offsets from that many before a token to one less behind it
LINE = 2  # tokens to either side at which a line may run
BESIDE = 4  # tokens from a line that are still beside it; its direct neighbours are not, since a line may be three wide
SHADES = (0.15, 0.25, 0.4, 0.6)
STANDS_OUT = (0.05, 0.15, 0.3)  # by how much a line is brighter than the brighter side; the second also for the dimmer one
DIM = 0.02  # a shade that ratios are not taken of
SPREAD = 0.03  # of columns, beside their deviation
CONTRASTS = 26


def contrasts(
    shade: Float[Tensor, "batch map query key"], band: Float[Tensor, "batch map query offset"], axes: Axes
) -> list[Float[Tensor, "batch map"]]:
    """How lines, sentences and columns stand out; `band` is sheared, of the rows of tokens that are not special."""
    middle = band.shape[-1] // 2
    near = slice(middle - REACH, middle + REACH)
    own = axes.offsets(axes.rows[:, :, None] & axes.rows[:, None], REACH)
    band = band[..., near] * own[:, None]
    return [*_lines(band, own, axes), *_profile(band, own), *_boundary(band, axes), *_standing_columns(shade, axes)]


def _lines(
    band: Float[Tensor, "batch map query offset"], own: Float[Tensor, "batch query offset"], axes: Axes
) -> list[Float[Tensor, "batch map"]]:
    """Of the offset at which it is highest: the shade, how many rows have which, and how far it is above its sides."""
    line = band[..., REACH - LINE : REACH + LINE + 1]
    before, behind = (_beside(band, own, side) for side in (-1, 1))
    brighter, dimmer = line - torch.maximum(before, behind), line - torch.minimum(before, behind)
    rows = [above(line - level) for level in SHADES] + [line, brighter, dimmer]
    rows += [above(brighter - level) for level in STANDS_OUT] + [above(dimmer - STANDS_OUT[1])]
    means = (torch.stack(rows) * axes.rows[:, None, :, None]).sum(3) / axes.count[..., None]
    return [*means.amax(-1)]


def _beside(
    band: Float[Tensor, "batch map query offset"], own: Float[Tensor, "batch query offset"], side: int
) -> Float[Tensor, "batch map query line"]:
    """The mean shade of the ordinary tokens to one side of each line."""
    places = [slice(REACH - LINE + side * away, REACH + LINE + 1 + side * away) for away in range(2, BESIDE + 1)]
    count = torch.stack([own[..., place] for place in places]).sum(0)[:, None]
    return torch.stack([band[..., place] for place in places]).sum(0) / count.clamp(min=1)


def _profile(
    band: Float[Tensor, "batch map query offset"], own: Float[Tensor, "batch query offset"]
) -> list[Float[Tensor, "batch map"]]:
    """How steeply the mean shade falls from one offset to the next, and from both neighbours; then of the brightest."""
    mean = band.sum(2) / own.sum(1)[:, None].clamp(min=1)
    wide = mean[..., REACH - 2 * LINE : REACH + 2 * LINE + 1]
    step = wide.diff(dim=-1).abs().amax(-1)
    bend = -wide.diff(n=2, dim=-1).amin(-1)
    brightest = wide[..., LINE:-LINE].amax(-1).clamp(min=DIM)
    return [step, bend, step / brightest, bend / brightest]


def _boundary(band: Float[Tensor, "batch map query offset"], axes: Axes) -> list[Float[Tensor, "batch map"]]:
    """Shade inside the sentences of a pair less that across, at the same distance, and the share of inside in both; then
    only before or only behind the tokens, where it is more."""
    inside, across = (axes.offsets(cells, REACH) for cells in (axes.inside, axes.across))
    counts = [cells.sum(1)[:, None] for cells in (inside, across)]
    sums = [torch.einsum("bmqo,bqo->bmo", band, cells) for cells in (inside, across)]
    means = [one / count.clamp(min=1) for one, count in zip(sums, counts, strict=True)]
    weight = torch.minimum(*counts)  # what a distance says: cells at it both inside and across

    def compared(place: slice) -> tuple[Tensor, Tensor]:
        total = weight[..., place].sum(-1).clamp(min=1)
        own, other = ((mean * weight)[..., place].sum(-1) / total for mean in means)
        return own - other, own / (own + other).clamp(min=DIM)

    before, behind = compared(slice(0, REACH)), compared(slice(REACH, None))
    more = before[0] > behind[0]
    return [*compared(slice(None)), *(torch.where(more, a, b) for a, b in zip(before, behind, strict=True))]


def _standing_columns(shade: Float[Tensor, "batch map query key"], axes: Axes) -> list[Float[Tensor, "batch map"]]:
    """The brightest marked column, the mean of the words' columns, their deviation, and the first beside these; then the
    brightest of [CLS] and of separators."""
    means = (axes.rows[:, None, None].to(shade.dtype) @ shade).squeeze(2) / axes.count[..., None]
    marked = (means * (axes.special | axes.punctuation)[:, None]).amax(-1)
    words = axes.words[:, None]
    many = words.sum(-1).clamp(min=1)
    mean = (means * words).sum(-1) / many
    deviation = (((means - mean[..., None]) ** 2 * words).sum(-1) / many).sqrt()
    each = [(means * (axes.token_class == kind)[:, None]).amax(-1) for kind in (CLS, SEP)]
    return [marked, mean, deviation, marked - mean - deviation, (marked - mean) / (deviation + SPREAD) / 5, *each]
