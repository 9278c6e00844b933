"""Examples on the host: words and gold, then token ids aligned to the words, then padded batches of similar length."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler
from transformers import BatchEncoding, PreTrainedTokenizerBase

from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.batches.word_vectors import UNKNOWN, VectorTable
from headscope.data_modules.encoders.layout import layout_of, token_id
from headscope.errors import ConfigError, given
from headscope.layout import Layout
from headscope.processes import progress

NO_WORD = -1
MODEL_INPUTS = {"token_type_ids": 0, "labels": IGNORE}  # what an encoder may get besides ids and mask, and its padding
ROOT = 0
AT_ONCE = 1000  # examples that the tokenizer gets at once; what it says of them takes more memory than they do


@dataclass(frozen=True)
class Example:
    """The words of a sentence, or the one or two texts of an input that is yet to be tokenised, with gold annotation.

    Gold arrays of words start with a value for ROOT. `annotation` is what a reader found and tokenising makes into gold.
    """

    words: tuple[str, ...]
    gold: dict[str, np.ndarray]
    annotation: Any = None


@dataclass(frozen=True)
class Encoded:
    """An example as the encoder sees it; `word_ids` gives each token's word, ROOT (0) for the first special token.

    `size` counts the units of its maps, words with ROOT or tokens; `model_inputs` holds what else the encoder gets.
    """

    example: Example
    input_ids: np.ndarray
    word_ids: np.ndarray
    size: int
    vector_ids: np.ndarray | None = None
    model_inputs: dict[str, np.ndarray] = field(default_factory=dict)


Row = tuple[int, Encoded, dict[str, np.ndarray]]  # the index of an example, the example, its stored arrays


@dataclass
class Split(Dataset):
    """One part of the data, as a dataset of encoded examples and, where cached, their stored arrays."""

    items: list[Encoded]
    skipped: int = 0
    dropped_words: int = 0
    stores: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Row:
        return index, self.items[index], {name: store[index] for name, store in self.stores.items()}

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each example."""
        return np.array([len(item.input_ids) for item in self.items])


def encode(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    max_pieces: int,
    vectors: VectorTable | None = None,
    layout: Layout | None = None,
) -> Split:
    """Tokenise and align; too long ones are skipped and counted, words without a piece are kept and counted."""
    split, layout = Split([]), layout or layout_of(tokenizer, causal=False)
    for start in progress(range(0, len(examples), AT_ONCE), "tokenising", each=AT_ONCE):
        part = examples[start : start + AT_ONCE]
        encoding = tokenizer([list(example.words) for example in part], is_split_into_words=True, verbose=False)
        for index, example in enumerate(part):
            ids = np.array(encoding["input_ids"][index], dtype=np.int32)
            if not 0 < len(ids) <= max_pieces:
                split.skipped += 1
                continue
            word_ids = align(ids, encoding.word_ids(index), token_id(tokenizer, layout.first))
            vector_ids = np.array([UNKNOWN, *vectors.rows(example.words)], dtype=np.int32) if vectors else None
            split.dropped_words += len(example.words) - len(np.unique(word_ids[word_ids > ROOT]))
            split.items.append(Encoded(example, ids, word_ids, len(example.words) + 1, vector_ids))
    return split


def encode_texts(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_pieces: int
) -> tuple[np.ndarray, dict[str, np.ndarray], BatchEncoding]:
    """A text or a pair, cut longest-first to what fits: its ids, what else the model gets, and all that is known of it."""
    encoding = cast(Any, tokenizer)(*texts, truncation="longest_first", max_length=max_pieces)
    types = encoding.get("token_type_ids")
    inputs = {} if types is None else {"token_type_ids": np.array(types, dtype=np.int8)}
    return np.array(encoding["input_ids"], dtype=np.int32), inputs, encoding


def align(ids: np.ndarray, words: Sequence[int | None], first_token_id: int | None) -> np.ndarray:
    """The word of each token: 1 for the first word, ROOT for the first special token, NO_WORD for other special tokens."""
    word_ids = np.array([NO_WORD if word is None else word + 1 for word in words], dtype=np.int32)
    special_cls = (word_ids == NO_WORD) & (ids == first_token_id)
    if special_cls.any():
        word_ids[special_cls.argmax()] = ROOT
    return word_ids


def collate(rows: list[Row], padding: int = 0) -> dict[str, Tensor | dict[str, Tensor]]:
    """Pad to the longest, ids with `padding`; a dict of tensors, which torch and Lightning know how to pin and move."""
    items = [item for _, item, _ in rows]
    gold = {name: pad([item.example.gold[name] for item in items], IGNORE) for name in items[0].example.gold}
    batch = {
        "input_ids": pad([item.input_ids for item in items], padding),
        "attention_mask": pad([np.ones(len(item.input_ids), dtype=np.int64) for item in items], 0),
        "word_ids": pad([item.word_ids for item in items], NO_WORD),
        "mask": pad([np.ones(item.size, dtype=np.int64) for item in items], 0).bool(),
        "gold": gold,
        "index": torch.tensor([index for index, _, _ in rows]),
    }
    for name, padding in MODEL_INPUTS.items():
        if name in items[0].model_inputs:
            batch[name] = pad([item.model_inputs[name] for item in items], padding)
    if items[0].vector_ids is not None:
        batch["vector_ids"] = pad([given(item.vector_ids, "the vector of every word") for item in items], 0)
    for name in rows[0][2]:
        batch[name] = pad_blocks([stored[name] for _, _, stored in rows])
    return batch


def collate_part(
    rows: list[Row], rank: int, processes: int, padding: int = 0
) -> dict[str, Tensor | dict[str, Tensor] | int]:
    """The part of a batch that one of several processes takes, and how many inputs the whole has.

    Where there are too few inputs for all, a process takes one as if nothing were known of it: it learns nothing from it.
    """
    return collate(rows[rank::processes] or [without_gold(rows[0])], padding) | {"whole": len(rows)}


def collate_idle(rows: list, collated: Callable[[list], dict[str, Any]]) -> dict[str, Any]:
    """A batch of which no input counts, for a process that has none of its own (`BudgetSampler.idle`)."""
    return {**collated(rows), "whole": 0}


def without_gold(row: Row) -> Row:
    """The same input with all gold left out, the words behind its masked tokens too."""
    index, item, stored = row
    gold = {name: np.full_like(values, IGNORE) for name, values in item.example.gold.items()}
    inputs = {name: np.full_like(one, IGNORE) if name == "labels" else one for name, one in item.model_inputs.items()}
    return index, replace(item, example=replace(item.example, gold=gold), model_inputs=inputs), stored


def pad(arrays: Sequence[np.ndarray], value: int) -> Tensor:
    """Stack vectors of unequal length, of whole numbers or of any."""
    dtype = np.float32 if np.issubdtype(arrays[0].dtype, np.floating) else np.int64
    out = np.full((len(arrays), max(map(len, arrays))), value, dtype=dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(out)


def pad_blocks(arrays: Sequence[np.ndarray]) -> Tensor:
    """Stack float arrays of unequal size, zeros behind each."""
    shape = np.max([array.shape for array in arrays], axis=0)
    out = np.zeros((len(arrays), *shape), dtype=arrays[0].dtype)
    for block, array in zip(out, arrays, strict=True):
        block[tuple(map(slice, array.shape))] = array
    return torch.from_numpy(out)


@dataclass(frozen=True)
class Budget:
    """What one pass of the encoder may hold: tokens with padding, and cells of all its maps."""

    tokens: int
    cells: int
    maps: int

    def examples(self, length: int) -> int:
        """How many inputs of this length fit (at least one)."""
        return max(1, min(self.tokens // length, self.cells // (self.maps * length * length)))


def budget_batches(lengths: np.ndarray, budget: Budget) -> list[np.ndarray]:
    """All examples, longest first, in batches as large as the budget allows."""
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        size = budget.examples(int(lengths[order[start]]))
        batches.append(order[start : start + size])
        start += size
    return batches


class BucketSampler(Sampler):
    """Batches of `batch_size` inputs of similar length, drawn anew each epoch from the seed; for training.

    What a step learns from depends on the seed only, never on the encoder's budget or the number of processes: all
    get the same batches, and each takes its part of every batch (`collate_part`).
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = 0
        self.sampler = self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng([self.seed, self.epoch])
        order = random.permutation(len(self.lengths))
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        for index in random.permutation(len(batches)):
            yield batches[index].tolist()


class BudgetSampler(Sampler):
    """Batches that fill the budget, in a fixed order; for evaluation. Processes share them without overlap.

    The batches are the same however many processes there are: what an encoder says of an input changes in its last digits
    with the inputs beside it. Where there are fewer batches than processes, some have none (`idle`): they go through one
    input that is then left out (`AttentionBatch.without_inputs`), so that all processes meet at the end.
    """

    def __init__(self, lengths: np.ndarray, budget: Budget, rank: int = 0, processes: int = 1) -> None:
        if len(lengths) < processes:
            raise ConfigError(
                f"{len(lengths)} examples cannot be shared among {processes} processes; use fewer (trainer.devices)."
            )
        own = budget_batches(lengths, budget)[rank::processes]
        self.idle = not own
        self.batches = own or [lengths.argsort(kind="stable")[:1]]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return (batch.tolist() for batch in self.batches)


class LabelledLast(Sampler):
    """Batches of all maps for some epochs, then of the first ones alone, the labelled, in equally many batches."""

    def __init__(self, lengths: np.ndarray, labelled: int, batch_size: int, seed: int, epochs: int) -> None:
        self.all = BucketSampler(lengths, batch_size, seed)
        self.labelled = BucketSampler(lengths[:labelled], batch_size, seed)
        self.epochs, self.sampler = epochs, self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        self.all.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[list[int]]:
        if self.all.epoch < self.epochs:
            return iter(self.all)
        return islice(self._again_and_again(), len(self))

    def _again_and_again(self) -> Iterator[list[int]]:
        for turn in count(self.all.epoch * len(self)):
            self.labelled.set_epoch(turn)
            yield from self.labelled
