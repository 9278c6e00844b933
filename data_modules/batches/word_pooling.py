"""From maps of tokens to maps of words (Clark, section 4.1)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

FROM_WORD = ("mean", "first")


class WordPooler:
    """Pools the maps of one batch: to a word the sum over its pieces, from a word their mean.

    `word_ids` names the word of each token, -1 for none; `first` takes the row of a word's first piece, as the
    code released with the paper does. Rows are summed by index, columns by whatever is faster on the device.
    """

    def __init__(self, word_ids: Int[Tensor, "batch token"], words: int, from_word: str = "mean") -> None:
        self.words = words
        members = (word_ids[:, :, None] == torch.arange(words, device=word_ids.device)).float()
        self.key_members: Float[Tensor, "batch token word"] = members
        self.key_word: Int[Tensor, "batch token"] = word_ids
        rows = members * (members.cumsum(1) == 1) if from_word == "first" else members
        self.row_share: Float[Tensor, "batch 1 word 1"] = 1 / rows.sum(1).clamp(min=1)[:, None, :, None]
        self.query_word: Int[Tensor, "batch token"] = torch.where(rows.any(2), word_ids, -1)

    def __call__(self, maps: Float[Tensor, "batch head token token"]) -> Float[Tensor, "batch head word word"]:
        return self.write(maps, torch.empty(*maps.shape[:2], self.words, self.words, device=maps.device))

    def write(
        self, maps: Float[Tensor, "batch head token token"], out: Float[Tensor, "batch head word word"]
    ) -> Float[Tensor, "batch head word word"]:
        """Pool into contiguous memory that is already there."""
        maps = maps.float()
        batch, heads, tokens, _ = maps.shape
        rows = batch * heads * self.words
        first_row = torch.arange(batch * heads, device=maps.device).view(batch, heads, 1) * self.words
        # Tokens of no word fall into one row behind the last.
        row = torch.where(self.query_word[:, None] < 0, rows, first_row + self.query_word[:, None])
        summed = maps.new_zeros(rows + 1, tokens).index_add_(0, row.flatten(), maps.reshape(-1, tokens))
        from_words = summed[:-1].view(batch, heads, self.words, tokens)
        if maps.is_cpu:
            columns_by_index(from_words, self.key_word, out)
        else:
            columns_by_product(from_words, self.key_members, out)
        return out.mul_(self.row_share)


def columns_by_index(
    rows: Float[Tensor, "batch head word token"],
    word_ids: Int[Tensor, "batch token"],
    out: Float[Tensor, "batch head word word"],
) -> None:
    """Add each token's column to that of its word; tokens of no word fall into one column behind the last."""
    words = out.shape[-1]
    columns = torch.where(word_ids < 0, words, word_ids)[:, None, None].expand_as(rows)
    out.copy_(rows.new_zeros(*rows.shape[:3], words + 1).scatter_add_(3, columns, rows)[..., :words])


def columns_by_product(
    rows: Float[Tensor, "batch head word token"],
    members: Float[Tensor, "batch token word"],
    out: Float[Tensor, "batch head word word"],
) -> None:
    """The same in one batched product."""
    torch.bmm(rows.flatten(1, 2), members, out=out.view(len(rows), -1, out.shape[-1]))


def pool_hidden(
    states: Float[Tensor, "batch token size"], word_ids: Int[Tensor, "batch token"], words: int
) -> Float[Tensor, "batch word size"]:
    """The mean state of each word's pieces; zero for a word without any."""
    members = (word_ids[:, None, :] == torch.arange(words, device=word_ids.device)[:, None]).to(states.dtype)
    return (members @ states) / members.sum(-1, keepdim=True).clamp(min=1)
