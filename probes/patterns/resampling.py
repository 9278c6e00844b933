"""Maps of any length as pictures of one size, whatever the padding, as two small products per map.

Every token is an interval as wide as its share of the input (all equally wide, unless augmentation says otherwise). A cell
of the picture is the attention from the tokens in its row, on average, to the tokens in its column, in sum: its rows sum
to 1 as those of the map do, so that neither a thin diagonal nor a single column fades in a long input.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.data_modules.segments import TOKEN_CLASSES

CLS, SEP, PUNCTUATION = (TOKEN_CLASSES.index(name) for name in ("cls", "sep", "punctuation"))
TINY = 1e-9


def overlaps(widths: Float[Tensor, "batch token"], size: int) -> Float[Tensor, "batch cell token"]:
    """How much of each cell each token covers, both as shares of the whole axis."""
    share = widths / widths.sum(1, keepdim=True).clamp(min=TINY)
    ends = share.cumsum(1)
    cells = torch.arange(size + 1, device=widths.device) / size
    upper = torch.minimum(ends[:, None], cells[1:, None])
    return (upper - torch.maximum((ends - share)[:, None], cells[:-1, None])).clamp(min=0)


def resampled(
    maps: Float[Tensor, "batch map query key"],
    widths: Float[Tensor, "batch token"],
    size: int,
    columns: Float[Tensor, "batch kind token"] | None = None,
) -> Float[Tensor, "batch map kind cell cell"]:
    """A picture for each kind of column: the mean over a cell's queries of the sum over its keys of that kind."""
    covered = overlaps(widths, size)
    queries = covered * size
    keys = covered / covered.sum(1, keepdim=True).clamp(min=TINY)
    # A product for every kind with the keys first, which are fewer than the queries' rows of all maps.
    kinds = keys[:, None] if columns is None else keys[:, None] * columns[:, :, None]
    rows = maps.flatten(1, 2) @ kinds.flatten(1, 2).mT  # (batch, map · query, kind · cell)
    rows = rows.unflatten(1, maps.shape[1:3])
    return (queries[:, None] @ rows).unflatten(3, (-1, size)).transpose(2, 3)


def column_kinds(token_class: Int[Tensor, "batch token"]) -> Float[Tensor, "batch kind token"]:
    """Ordinary tokens, and marked ones: special tokens, full stops and commas, whose columns people call vertical."""
    marked = (token_class == CLS) | (token_class == SEP) | (token_class == PUNCTUATION)
    return torch.stack([~marked, marked], 1).float()


def sentence_pictures(
    token_class: Int[Tensor, "batch token"], widths: Float[Tensor, "batch token"], size: int
) -> Float[Tensor, "batch 1 cell cell"]:
    """How much of each cell is ordinary tokens of one sentence, where the input has two; else nothing."""
    separators = token_class == SEP
    sentence = separators.cumsum(1)
    special = separators | (token_class == CLS)
    first = (sentence == 0) & ~special
    second = (sentence > 0) & ~special
    covered = overlaps(widths, size) * size
    one, other = covered @ first.float()[..., None], covered @ second.float()[..., None]
    pair = (second & (widths > 0)).any(1).float()[:, None, None]
    return ((one @ one.mT + other @ other.mT) * pair)[:, None]


def even_widths(real: Bool[Tensor, "batch token"]) -> Float[Tensor, "batch token"]:
    """All tokens equally wide, padding without any width."""
    return real.float()
