"""A model of which one asks the attention of a text, with names on both axes; no trainer, no configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from headscope.contracts import EncoderSpec
from headscope.data_modules.batches.words import WordPooler
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.sentences import Shown, token_maps
from headscope.errors import ConfigError, InputError
from headscope.finetune.head_mask import disabled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

ROOT = "ROOT"


@dataclass(frozen=True)
class Maps:
    """The attention of every head on one input: `values[layer, head, query, key]` from 0, and what each index stands for."""

    values: Float[Tensor, "layer head query key"]
    labels: tuple[str, ...]

    def head(self, layer: int, head: int) -> DataFrame:
        """One head's map, layer and head from 1; a row for each query, a column for each key."""
        from pandas import DataFrame

        names = list(self.labels)
        return DataFrame(self._map(layer, head).numpy(force=True), index=names, columns=names)

    def plot(self, layer: int, head: int) -> Figure:
        """One head's map as a picture."""
        from headscope.notebook.figures import NotebookFigure

        size = 1.2 + 0.22 * len(self.labels)
        figure = NotebookFigure(figsize=(size + 0.9, size), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(self._map(layer, head).numpy(force=True), vmin=0, cmap="viridis")
        figure.colorbar(image, ax=axes, shrink=0.7, label="attention")
        axes.set_xticks(range(len(self.labels)), self.labels, rotation=90, parse_math=False)
        axes.set_yticks(range(len(self.labels)), self.labels, parse_math=False)
        axes.set(title=f"head {layer}-{head}", xlabel="attends to", ylabel="word or token")
        return figure

    def _map(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        layers, heads = self.values.shape[:2]
        if not (1 <= layer <= layers and 1 <= head <= heads):
            raise ConfigError(f"head {layer}-{head}: expected 1-1 to {layers}-{heads}.")
        return self.values[layer - 1, head - 1]


class Model:
    """A frozen model; its weights are read when its maps are first asked for."""

    def __init__(self, encoder: FrozenEncoder) -> None:
        self.encoder = encoder

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return self.encoder.layers

    @property
    def heads(self) -> int:
        """How many heads a layer has."""
        return self.encoder.heads

    def __repr__(self) -> str:
        return f"{self.encoder.name}: {self.layers} layers of {self.heads} heads"

    def maps(self, text: str, second: str | None = None) -> Maps:
        """The maps of the tokens of a text, or of a pair; rows sum to one."""
        texts = (text,) if second is None else (text, second)
        for one in texts:
            require_text(one)
        encoding = self._encoded(Shown(texts))
        tokens = self.encoder.tokenizer().convert_ids_to_tokens(encoding["input_ids"])
        return Maps(token_maps(self.encoder, encoding), tuple(tokens))

    def word_maps(self, words: str | Sequence[str], specials: bool = True, root: bool = False) -> Maps:
        """The maps of words: attention to a word is the sum over its pieces, from a word their mean.

        A text is cut at its spaces. Special tokens stand at their places, so that rows sum to one; without them
        (`specials=False`), only `root=True` keeps the first one, which stands for ROOT as in treebanks.
        """
        split = words_of(words)
        encoding = self._encoded(Shown(split, split=True))
        of_token = encoding.word_ids()
        if lost := sorted(set(range(len(split))) - set(of_token)):
            raise InputError(
                f"word_maps: the tokenizer has no piece for {split[lost[0]]!r}, word {lost[0] + 1}; leave it out."
            )
        named = self.encoder.tokenizer().convert_ids_to_tokens(encoding["input_ids"])
        spoken = [index for index, word in enumerate(of_token) if word is not None]
        start, end = (spoken[0], spoken[-1] + 1) if spoken else (len(of_token), len(of_token))
        # Units: the special tokens before the words, all words, the special tokens behind them.
        unit = [
            start + word if word is not None else index if index < start else len(split) + start + index - end
            for index, word in enumerate(of_token)
        ]
        labels = [*named[:start], *split, *named[end:]]
        pooler = WordPooler(torch.tensor([unit]), len(labels))
        values = torch.stack([pooler(layer[None])[0] for layer in token_maps(self.encoder, encoding)])
        kept = (
            list(range(len(labels))) if specials else [*([0] if root and start else []), *range(start, start + len(split))]
        )
        if root and start:
            labels[0] = ROOT
        return Maps(values[:, :, kept][..., kept], tuple(labels[index] for index in kept))

    @contextmanager
    def disabled(self, heads: Sequence[Sequence[int]], how: str = "uniform") -> Iterator[Model]:
        """While in scope, the heads, given as (layer, head) from 1, attend to all tokens alike (or as `how` says)."""
        with disabled(self.encoder.loaded(), [pair_of(head) for head in heads], how):
            yield self

    def _encoded(self, shown: Shown) -> Any:
        encoding = shown.tokenised(self.encoder.tokenizer())
        length, most = len(encoding["input_ids"]), self.encoder.tokenizer().model_max_length
        if length > min(most, getattr(self.encoder.config, "max_position_embeddings", most)):
            raise InputError(f"{self.encoder.name}: the text has {length} tokens, more than the model reads; shorten it.")
        return encoding


def require_text(text: object) -> None:
    """Refuse what is no text, or says nothing."""
    if not isinstance(text, str):
        raise InputError(f"maps: expected a text, found {text!r}; a list of words goes into word_maps.")
    if not text.strip():
        raise InputError("maps: the text is empty; expected at least one word.")


def words_of(words: object) -> tuple[str, ...]:
    """The words that are given, or those of a text, cut at its spaces."""
    given: list[Any] = words.split() if isinstance(words, str) else list(words) if isinstance(words, Iterable) else [words]
    if wrong := [word for word in given if not isinstance(word, str)]:
        raise InputError(f"word_maps: expected a text or a list of words, found {wrong[0]!r}.")
    if not given:
        raise InputError("word_maps: expected at least one word.")
    return tuple(given)


def pair_of(head: object) -> Sequence[int]:
    """A head as layer and head."""
    if isinstance(head, str) or not isinstance(head, Sequence):
        raise ConfigError(f"disabled: expected heads as [(layer, head), …], such as [(8, 10)], found {head!r}.")
    return head


def load(name: str, **options: Any) -> Model:
    """The model behind a hub id or a folder; options are those of `encoder.*` (revision, init, change, dtype ...)."""
    known = [field.name for field in fields(EncoderSpec) if field.name != "name"]
    if wrong := [option for option in options if option not in known]:
        raise ConfigError(f"load: {wrong[0]}: no such option; there are {', '.join(known)}.")
    if not name:
        raise ConfigError("load: expected a hub id or a folder, found an empty name.")
    return Model(FrozenEncoder(name, **options))
