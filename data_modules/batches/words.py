"""Maps of words or tokens, and hidden states of a batch, on the device where the batch is.

Maps of tokens become maps of words as in Clark, section 4.1.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headscope.data_modules.batches.examples import MODEL_INPUTS, Budget
from headscope.data_modules.batches.finite import FiniteCheck
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.errors import ConfigError, require_choice

Autocast = Callable[[], AbstractContextManager]
FROM_WORD = ("mean", "first")
UNITS = ("words", "tokens")
ENCODER_INPUTS = ("input_ids", "attention_mask", *MODEL_INPUTS)
# Of an identity: the weights decide, and neither their name nor what they were trained for.
NOT_COMPUTED_FROM = ("name", "revision", "change", "parameters", "fine_tuned", "trained_from")
# Stored as (batch, query, key, layer, head): a scorer reads all heads of a pair of words at once, and the words of a
# sentence, which are what is padded, lie outermost.
STORED_AXES = {"maps": (0, 3, 4, 1, 2), "hidden": (0, 1, 2)}


class WordEncoder:
    """Asks a frozen encoder for maps, for one layer's states, for both or for nothing."""

    def __init__(
        self,
        encoder: FrozenEncoder,
        maps: bool,
        hidden_layer: int | None,
        from_word: str,
        budget: Budget,
        units: str = "words",
    ) -> None:
        if hidden_layer is not None and not 0 <= hidden_layer <= encoder.layers:
            raise ConfigError(f"data.hidden_layer={hidden_layer}: expected 0 (embeddings) to {encoder.layers}.")
        require_choice("data.from_word", from_word, FROM_WORD)
        self.encoder, self.maps, self.hidden_layer, self.from_word = encoder, maps, hidden_layer, from_word
        self.budget, self.units = budget, units
        self.finite = FiniteCheck(encoder.name, encoder.layers, encoder.heads, hidden_layer)

    @property
    def outputs(self) -> list[str]:
        """What is asked for."""
        return [name for name, asked in (("maps", self.maps), ("hidden", self.hidden_layer is not None)) if asked]

    def stored_shape(self, output: str, words: int) -> tuple[int, ...]:
        """The shape in which an output of one example is stored: all heads of a pair of words side by side."""
        maps = (words, words, self.encoder.layers, self.encoder.heads)
        return maps if output == "maps" else (words, self.encoder.config.hidden_size)

    def identity(self, output: str) -> list[Any]:
        """All that decides an output besides the tokens."""
        encoder = {key: value for key, value in self.encoder.identity().items() if key not in NOT_COMPUTED_FROM}
        return [output, self.units, encoder, self.from_word if output == "maps" else self.hidden_layer]

    def __call__(
        self, batch: Mapping[str, Any], autocast: Autocast = nullcontext, dtype: torch.dtype = torch.float32
    ) -> dict[str, Tensor]:
        """The outputs of a batch, computed in pieces that keep within the budget; `finite` counts those that are broken."""
        examples, tokens = batch["input_ids"].shape
        words, size = batch["mask"].shape[1], self.budget.examples(tokens)
        parts = []
        for start in range(0, examples, size):
            part = slice(start, start + size)
            inputs = {name: batch[name][part] for name in ENCODER_INPUTS if name in batch}
            parts.append(self._piece(inputs, batch["word_ids"][part], words, autocast))
        joined = {
            name: torch.cat([part[name] for part in parts]) if len(parts) > 1 else parts[0][name] for name in self.outputs
        }
        outputs = {name: output.to(dtype) for name, output in joined.items()}
        self.finite.count(outputs, batch["mask"])
        return outputs

    def _piece(self, inputs: dict[str, Tensor], word_ids: Tensor, words: int, autocast: Autocast) -> dict[str, Tensor]:
        layers = self.encoder.layers if self.maps else 0
        # Made outside inference mode, so that a probe may learn from it.
        maps = self._empty_maps(layers, len(word_ids), words, word_ids.device)
        write, layer = self._writer(word_ids, words), iter(maps.unbind(1))
        sink = (lambda weights: write(weights, next(layer))) if self.maps else None
        with autocast():
            hidden = self.encoder(**inputs, sink=sink, hidden_states=self.hidden_layer is not None)
        outputs = {"maps": maps} if self.maps else {}
        if hidden is not None:
            outputs["hidden"] = pool_hidden(hidden[self.hidden_layer].clone().float(), word_ids, words)
        return outputs

    def _empty_maps(self, layers: int, examples: int, words: int, device: torch.device) -> Tensor:
        """Room for (example, layer, head, query, key); the pooler wants each layer in one piece, tokens each example."""
        heads = self.encoder.heads
        if self.units == "tokens":
            return torch.empty(examples, layers, heads, words, words, device=device)
        return torch.empty(layers, examples, heads, words, words, device=device).transpose(0, 1)

    def _writer(self, word_ids: Tensor, words: int) -> Callable[[Tensor, Tensor], Tensor]:
        """What puts the token maps of a layer in their place."""
        if self.units == "tokens":
            return lambda weights, out: out.copy_(weights)
        return WordPooler(word_ids, words, self.from_word).write


def from_store(output: str, stored: Tensor) -> Tensor:
    """A batch of stored arrays as an output; maps lie in memory as the scorers read them: query, batch, key, layer, head."""
    if output == "hidden":
        return stored.float()
    return stored.transpose(0, 1).to(torch.float32, memory_format=torch.contiguous_format, copy=True).permute(1, 3, 4, 0, 2)


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
        # Columns are most of the work: adding them by index reads each cell once, which a CPU does best; a GPU does a
        # product with the 0/1 membership faster than scattered additions.
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
