"""The base of all datamodules: text on the host, attention on the trainer's device."""

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler
from transformers import PreTrainedTokenizerBase

from headscope.contracts import Facts, Source
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.batches.examples import (
    BucketSampler,
    Budget,
    BudgetSampler,
    Example,
    Row,
    Split,
    collate,
    collate_idle,
    collate_part,
    encode,
)
from headscope.data_modules.batches.finite import RequireFinite
from headscope.data_modules.batches.map_store import missing_shards, open_stores, store_folder, write_shards
from headscope.data_modules.batches.word_vectors import VectorTable, WordVectors
from headscope.data_modules.batches.words import ENCODER_INPUTS, Autocast, WordEncoder, from_store
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.layout import visible_from_pieces
from headscope.errors import ConfigError, InputError, given, require_choice, require_limit
from headscope.files import files_sha256, once

log = logging.getLogger(__name__)
SPLITS_OF_STAGE = {"fit": ("train", "val"), "validate": ("val",), "test": ("test",)}
HostBatch = dict[str, Any]  # tensors by name, those of gold one level below, and a number where a batch is shared


class AttentionDataModule(pl.LightningDataModule):
    """Runs the frozen encoder on each batch once it is on the device; a subclass says what the examples are."""

    units = "words"
    kind: str  # what the gold annotation is about, for those who ask for a kind of data

    def __init__(
        self,
        encoder: FrozenEncoder,
        tuned: FrozenEncoder | None = None,
        vectors: WordVectors | None = None,
        maps: bool = True,
        hidden_layer: int | None = None,
        from_word: str = "mean",
        max_pieces: int = 128,
        batch_size: int = 16,
        batch_tokens: int = 1024,
        batch_cells: int = 2**26,
        cache: bool = False,
        cache_dir: str = "~/.cache/headscope",
        workers: int = 0,
        pin_memory: bool = False,
        seed: int = 0,
        sample: int | None = None,
    ) -> None:
        super().__init__()
        require_limit(sample, "data.sample")
        budget = Budget(batch_tokens, batch_cells, encoder.layers * encoder.heads)
        self.words = WordEncoder(encoder, maps, hidden_layer, from_word, budget, self.units)
        self.encoder, self.vectors, self.tuned = encoder, vectors, tuned
        self.wanted: set[str] | None = None  # splits; all, until stages are required
        self.tuned_words = WordEncoder(tuned, maps, None, from_word, budget, self.units) if tuned else None
        self.finite = RequireFinite([words.finite for words in (self.words, self.tuned_words) if words])
        if tuned:
            encoder.require_same_shape(tuned)
        self.max_pieces, self.batch_size = max_pieces, batch_size
        self.cache, self.cache_dir = cache, cache_dir
        self.workers, self.pin_memory, self.seed, self.sample = workers, pin_memory, seed, sample
        self.first_epoch = 0

    @abstractmethod
    def read(self) -> dict[str, list[Example]]:
        """The examples of every split that there is: train, val, test."""

    @abstractmethod
    def files(self) -> list[Path]:
        """The files that `read` reads."""

    @once
    def read_examples(self) -> dict[str, list[Example]]:
        """The examples of every split, read once; of those of the test a sample, where one is asked for."""
        splits = self.read()
        return splits | ({"test": drawn_sample(splits["test"], self.sample, self.seed)} if "test" in splits else {})

    @once
    def read_vectors(self) -> VectorTable | None:
        """The vectors of all words that occur; None where no vectors are asked for."""
        if not self.vectors:
            return None
        return self.vectors.table({word for examples in self.read_examples().values() for e in examples for word in e.words})

    @once
    def read_splits(self) -> dict[str, Split]:
        """The examples of the wanted splits as the encoder sees them."""
        tokenizer = self.encoder.tokenizer()
        positions = min(getattr(self.encoder.config, "max_position_embeddings", math.inf), tokenizer.model_max_length)
        least = tokenizer.num_special_tokens_to_add(pair=self.units == "tokens") + 1
        if self.max_pieces < least:
            raise ConfigError(f"data.max_pieces={self.max_pieces}: expected at least {least}.")
        if self.max_pieces > positions:
            raise ConfigError(f"data.max_pieces={self.max_pieces}: the encoder has {positions} positions.")
        # Where two splits are the same examples, they are encoded once.
        encoded: dict[int, Split] = {}
        wanted = {
            name: examples for name, examples in self.read_examples().items() if self.wanted is None or name in self.wanted
        }
        for examples in wanted.values():
            if id(examples) not in encoded:
                encoded[id(examples)] = self.tokenise(examples, tokenizer)
        splits = {name: encoded[id(examples)] for name, examples in wanted.items()}
        for name, split in splits.items():
            if not len(split):
                raise InputError(f"no {name} example is left: {split.skipped} exceed data.max_pieces={self.max_pieces}.")
            if split.skipped:
                log.warning("%s: skipped %d examples of more than %d pieces.", name, split.skipped, self.max_pieces)
            if split.dropped_words:
                log.warning("%s: %d words have no piece in the vocabulary and get no attention.", name, split.dropped_words)
        return splits

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        """The examples of a split as the encoder sees them."""
        return encode(examples, tokenizer, self.max_pieces, self.read_vectors(), self.encoder.layout())

    def facts(self) -> Facts:
        """What a module must know of the data to take its shape."""
        vectors = self.read_vectors()
        return Facts(
            kind=self.kind,
            layers=self.encoder.layers,
            heads=self.encoder.heads,
            hidden_size=self.encoder.config.hidden_size,
            hidden_layer=self.words.hidden_layer,
            vector_size=vectors.table.shape[1] if vectors else 0,
            maps=self.encoder.gives if self.words.maps else None,
            tuned=self.tuned is not None,
            layout=self.encoder.layout(),
            encoder=self.encoder.spec,
            encoder_sha256=self.encoder.checksum(),
            token_names=self.token_names if self.units == "tokens" else None,
        )

    def token_names(self, ids: Sequence[int]) -> list[str]:
        """The tokens that ids stand for, as the tokenizer writes them."""
        return list(self.encoder.tokenizer().convert_ids_to_tokens(list(ids)))

    def source(self) -> Source:
        """Where the numbers come from."""
        splits = self.read_splits()
        return Source(
            encoder=self.encoder.identity(),
            tuned_encoder=self.tuned.identity() if self.tuned else None,
            data={str(file): files_sha256([file]) for file in self.files()},
            vectors=self._vector_source(),
            examples={name: len(split) for name, split in splits.items()},
            left_out=self.left_out,
            layout=self.encoder.layout().to_json(),
            skipped={name: split.skipped for name, split in splits.items()},
            words_without_pieces={name: split.dropped_words for name, split in splits.items()},
            inputs=self.inputs(),
        )

    def inputs(self) -> dict[str, str]:
        """The checksums of the files besides the data that decide the numbers: of models and vectors."""
        vectors = {str(file): files_sha256([file]) for file in self.vectors.files} if self.vectors else {}
        return {**self.encoder.inputs(), **(self.tuned.inputs() if self.tuned else {}), **vectors}

    @property
    def left_out(self) -> dict[str, int]:
        """How many of what the reader left out, besides inputs that are too long; known once the examples are read."""
        return {}

    def _vector_source(self) -> dict[str, Any] | None:
        table = self.read_vectors()
        if not self.vectors or not table:
            return None
        words = [word for examples in self.read_examples().values() for example in examples for word in example.words]
        known = sum(row != 0 for row in table.rows(words))
        return {
            "files": {str(file): files_sha256([file]) for file in self.vectors.files},
            "size": table.table.shape[1],
            "coverage": known / len(words),
        }

    def setup(self, stage: str) -> None:
        """Place the encoder and the vectors on the device; fill the map store where one is asked for."""
        trainer = given(self.trainer, "a trainer")
        device = trainer.strategy.root_device
        self.finite.join(cast(Any, trainer).callbacks)
        if self.tuned:
            self.tuned.load().to(device)
        if vectors := self.read_vectors():
            self._vectors_on_device = vectors.table.to(device)
        if self.words.outputs and self.cache:
            for name in SPLITS_OF_STAGE[stage]:
                self._store(name, device)
            trainer.strategy.barrier("map store")
        elif self.words.outputs:
            self.encoder.load().to(device)

    def _store(self, name: str, device: torch.device) -> None:
        split = self._split(name)
        if split.stores:
            return
        precision = str(given(self.trainer, "a trainer").precision)
        stores = open_stores(split, self.words, store_folder(self.cache_dir), precision)
        missing = missing_shards(stores, *self._rank())
        if missing:
            self.encoder.load().to(device)
        write_shards(stores, missing, split, self.words, device, self._autocast, f"storing {name}")
        split.stores = stores

    def on_after_batch_transfer(self, batch: HostBatch, dataloader_idx: int) -> AttentionBatch:
        """From token ids on the device to maps on the device."""
        stored = {name: from_store(name, batch[name]) for name in self.words.outputs if name in batch}
        vectors = self._vectors_on_device[batch["vector_ids"]] if "vector_ids" in batch else None
        outputs = stored or self.encode(batch)
        inputs = {name: batch[name] for name in ENCODER_INPUTS if name in batch}
        if self.tuned_words and self.words.maps:
            outputs["tuned_maps"] = self.tuned_words(batch, self._autocast)["maps"]
        if self.encoder.layout().causal:
            outputs["seen"] = visible_from_pieces(batch["word_ids"], batch["mask"].shape[1], self.words.from_word)
        whole = batch.get("whole")
        made = AttentionBatch(batch["mask"], batch["gold"], batch["index"], inputs, vectors=vectors, whole=whole, **outputs)
        return made.without_inputs() if whole == 0 else made

    def encode(self, batch: HostBatch) -> dict[str, Tensor]:
        """What the encoder says of a batch, under the trainer's precision."""
        return self.words(batch, self._autocast) if self.words.outputs else {}

    @property
    def _autocast(self) -> Autocast:
        """What makes the context for one pass in the trainer's precision."""
        return self.trainer.precision_plugin.forward_context if self.trainer else nullcontext

    def train_dataloader(self) -> DataLoader:
        split = self._split("train")
        rank, processes = self._rank()
        batches = BucketSampler(split.lengths, self.batch_size, self.seed)
        batches.set_epoch(self.first_epoch)
        return self._loader(
            split, batches, partial(collate_part, rank=rank, processes=processes, padding=self.encoder.layout().padding)
        )

    def state_dict(self) -> dict[str, int]:
        """Where a resumed run goes on: its workers read ahead before Lightning says which epoch it is."""
        epochs: Any = given(self.trainer, "a trainer").fit_loop.epoch_progress.current
        return {"epoch": epochs.processed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.first_epoch = state["epoch"]

    def val_dataloader(self) -> DataLoader:
        return self._evaluation_loader("val")

    def test_dataloader(self) -> DataLoader:
        return self._evaluation_loader("test")

    def _evaluation_loader(self, name: str) -> DataLoader:
        split = self._split(name)
        batches = BudgetSampler(split.lengths, self.words.budget, *self._rank())
        padded = partial(collate, padding=self.encoder.layout().padding)
        return self._loader(split, batches, partial(collate_idle, collated=padded) if batches.idle else padded)

    def require(self, stages: Sequence[str]) -> None:
        """Find out before any work whether the data for all stages is there."""
        for stage in stages:
            require_choice("stages", stage, SPLITS_OF_STAGE)
        self.wanted = {split for stage in stages for split in SPLITS_OF_STAGE[stage]}
        self.read_examples()
        # A model whose maps cannot be had says so before texts are parsed and vectors are read.
        if self.words.outputs and self.cache:
            self.encoder.require_maps()  # where they are stored, nobody else reads the weights
        elif self.words.outputs:
            self.encoder.load()
        for split in sorted(self.wanted):
            self._split(split)

    def lacks(self, name: str) -> str:
        """The sentence for a split that is needed and not there."""
        return f"data.{name} is missing: name a file or folder for it."

    def _split(self, name: str) -> Split:
        splits = self.read_splits()
        if name not in splits:
            raise ConfigError(self.lacks(name))
        return splits[name]

    def _rank(self) -> tuple[int, int]:
        """The number of this process, from 0, and how many there are."""
        trainer = given(self.trainer, "a trainer")
        return trainer.global_rank, trainer.world_size

    def _loader(self, split: Split, batches: Sampler, collate_fn: Callable[[list[Row]], HostBatch] = collate) -> DataLoader:
        return DataLoader(
            split,
            batch_sampler=batches,
            collate_fn=collate_fn,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.pin_memory,
        )


def drawn_sample(examples: list[Example], size: int | None, seed: int) -> list[Example]:
    """As many examples, drawn at random by the seed, in their order; the list itself where there are no more."""
    if size is None or size >= len(examples):
        return examples
    chosen = np.random.default_rng(seed).choice(len(examples), size, replace=False)
    return [examples[index] for index in sorted(chosen.tolist())]
