"""Maps of words or tokens, and hidden states of a batch, on the device where the batch is."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from headscope.data_modules.batches.buckets import Budget
from headscope.data_modules.batches.examples import MODEL_INPUTS
from headscope.data_modules.batches.word_pooling import FROM_WORD, WordPooler, pool_hidden
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.errors import ConfigError, require_choice

Autocast = Callable[[], AbstractContextManager]
STORED_AXES = {"maps": (0, 3, 4, 1, 2), "hidden": (0, 1, 2)}  # maps: batch, query, key, layer, head
UNITS = ("words", "tokens")
ENCODER_INPUTS = ("input_ids", "attention_mask", *MODEL_INPUTS)


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

    @property
    def outputs(self) -> list[str]:
        """What is asked for."""
        return [name for name, asked in (("maps", self.maps), ("hidden", self.hidden_layer is not None)) if asked]

    def stored_shape(self, output: str, words: int) -> tuple[int, ...]:
        """The shape in which an output of one example is stored: all heads of a pair of words side by side."""
        maps = (words, words, self.encoder.layers, self.encoder.heads)
        return maps if output == "maps" else (words, self.encoder.config.hidden_size)

    def identity(self, output: str) -> list[object]:
        """All that decides an output besides the tokens; the encoder's name does not, its weights do."""
        encoder = {key: value for key, value in self.encoder.identity.items() if key != "name"}
        return [output, self.units, encoder, self.from_word if output == "maps" else self.hidden_layer]

    def __call__(self, batch: dict, autocast: Autocast = nullcontext) -> dict[str, Tensor]:
        """The outputs of a batch, computed in pieces that keep within the budget."""
        examples, tokens = batch["input_ids"].shape
        words, size = batch["mask"].shape[1], self.budget.examples(tokens)
        parts = []
        for start in range(0, examples, size):
            part = slice(start, start + size)
            inputs = {name: batch[name][part] for name in ENCODER_INPUTS if name in batch}
            parts.append(self._piece(inputs, batch["word_ids"][part], words, autocast))
        return {
            name: torch.cat([part[name] for part in parts]) if len(parts) > 1 else parts[0][name] for name in self.outputs
        }

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
