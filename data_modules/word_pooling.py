"""From maps of tokens to maps of words (Clark, section 4.1)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

FROM_WORD = ("mean", "first")


class WordPooler:
    """Pools the maps of one batch: to a word the sum over its pieces, from a word their mean.

    `word_ids` names the word of each token, -1 for none; `first` takes the row of a word's first piece, as the
    code released with the paper does. Rows are summed by index. So are columns on the CPU; elsewhere, where adding by
    index has no fixed order, one product with the membership matrix sums them.
    """

    def __init__(self, word_ids: Int[Tensor, "batch token"], words: int, from_word: str = "mean") -> None:
        self.words = words
        members = (word_ids[:, :, None] == torch.arange(words, device=word_ids.device)).float()
        self.key_members: Float[Tensor, "batch token word"] = members
        rows = members * (members.cumsum(1) == 1) if from_word == "first" else members
        self.row_share: Float[Tensor, "batch 1 word 1"] = 1 / rows.sum(1).clamp(min=1)[:, None, :, None]
        self.query_word: Int[Tensor, "batch token"] = torch.where(rows.any(2), word_ids, -1)
        # Tokens of no word fall into one column behind the last.
        self.key_word: Int[Tensor, "batch 1 1 token"] = torch.where(word_ids < 0, words, word_ids)[:, None, None]

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
            columns = maps.new_zeros(batch, heads, self.words, self.words + 1)
            columns.scatter_add_(3, self.key_word.expand_as(from_words), from_words)
            return torch.mul(columns[..., :-1], self.row_share, out=out)
        torch.bmm(from_words.flatten(1, 2), self.key_members, out=out.view(batch, -1, self.words))
        return out.mul_(self.row_share)


def pool_hidden(
    states: Float[Tensor, "batch token size"], word_ids: Int[Tensor, "batch token"], words: int
) -> Float[Tensor, "batch word size"]:
    """The mean state of each word's pieces; zero for a word without any."""
    members = (word_ids[:, None, :] == torch.arange(words, device=word_ids.device)[:, None]).to(states.dtype)
    return (members @ states) / members.sum(-1, keepdim=True).clamp(min=1)
