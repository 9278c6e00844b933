"""What a person reads at the axes of a map, and the neighbourhood of the diagonal, token by token."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.probes.patterns.resampling import CLS, PUNCTUATION, SEP

BAND = 2  # tokens to either side that count as the diagonal
SOFT = 0.05


@dataclass(frozen=True)
class Axes:
    """Which tokens are which; those without a width are behind all others."""

    token_class: Int[Tensor, "batch token"]
    there: Bool[Tensor, "batch token"]

    @cached_property
    def special(self) -> Bool[Tensor, "batch token"]:
        return ((self.token_class == CLS) | (self.token_class == SEP)) & self.there

    @cached_property
    def punctuation(self) -> Bool[Tensor, "batch token"]:
        return (self.token_class == PUNCTUATION) & self.there

    @cached_property
    def rows(self) -> Bool[Tensor, "batch token"]:
        """Tokens that are not special."""
        return self.there & ~self.special

    @cached_property
    def count(self) -> Int[Tensor, "batch 1"]:
        """How many rows; at least 1."""
        return self.rows.sum(1).clamp(min=1)[:, None]

    @cached_property
    def words(self) -> Bool[Tensor, "batch token"]:
        """Neither special nor punctuation."""
        return self.rows & ~self.punctuation

    @cached_property
    def distance(self) -> Int[Tensor, "token token"]:
        place = torch.arange(self.there.shape[1], device=self.there.device)
        return (place[:, None] - place).abs()

    @cached_property
    def second(self) -> Bool[Tensor, "batch token"]:
        """Tokens of the second sentence."""
        return ((self.token_class == SEP).cumsum(1) > 0) & self.rows

    @cached_property
    def inside(self) -> Bool[Tensor, "batch query key"]:
        """Cells of two tokens of one sentence of a pair that are not next to each other."""
        first, second = self._sentences
        alike = (first[:, :, None] & first[:, None]) | (second[:, :, None] & second[:, None])
        return alike & (self.distance > BAND)

    @cached_property
    def across(self) -> Bool[Tensor, "batch query key"]:
        """Cells of a token of each sentence of a pair."""
        first, second = self._sentences
        return (first[:, :, None] & second[:, None]) | (second[:, :, None] & first[:, None])

    def offsets(self, cells: Bool[Tensor, "batch query key"], reach: int) -> Float[Tensor, "batch query offset"]:
        """1 for some cells, by how far the key is from the query."""
        return sheared(cells[:, None].float(), reach)[:, 0]

    @property
    def _sentences(self) -> tuple[Bool[Tensor, "batch token"], Bool[Tensor, "batch token"]]:
        """Tokens of the first sentence and of the second, where there are both."""
        pair = self.second.any(1, keepdim=True)
        return self.rows & ~self.second & pair, self.second


def sheared(values: Float[Tensor, "batch map query key"], reach: int) -> Float[Tensor, "batch map query offset"]:
    """What each token gives to those from `reach` before it to `reach - 1` after it; the diagonal is a column."""
    padded = torch.nn.functional.pad(values, (reach, reach))
    batch, maps, queries, keys = padded.shape
    strides = (maps * queries * keys, queries * keys, keys + 1, 1)
    return padded.as_strided((batch, maps, queries, 2 * reach), strides)


def above(values: Tensor) -> Tensor:
    """1 where a shade is more than zero, softly."""
    return torch.sigmoid(values / SOFT)
