"""The base of all datamodules: text on the host, attention on the trainer's device."""

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from data_modules.batch import AttentionBatch
from data_modules.buckets import BucketSampler, Budget, BudgetSampler, budget_batches
from data_modules.encoder import FrozenEncoder
from data_modules.errors import ConfigError, InputError, require_choice
from data_modules.examples import Example, Split, collate, encode
from data_modules.map_store import MapStore
from data_modules.model_files import files_sha256
from data_modules.progress import progress
from data_modules.word_pooling import FROM_WORD, WordPooler, pool_hidden
from data_modules.word_vectors import VectorTable, WordVectors

log = logging.getLogger(__name__)
STORE_FORMAT = 1
SPLITS_OF_STAGE = {"fit": ("train", "val"), "validate": ("val",), "test": ("test",)}
HostBatch = dict[str, Tensor | dict[str, Tensor]]


class AttentionDataModule(pl.LightningDataModule):
    """Runs the frozen encoder on each batch once it is on the device; a subclass says what the examples are."""

    def __init__(
        self,
        encoder: FrozenEncoder,
        vectors: WordVectors | None = None,
        maps: bool = True,
        hidden_layer: int | None = None,
        from_word: str = "mean",
        max_pieces: int = 128,
        batch_size: int = 16,
        batch_tokens: int = 2048,
        batch_cells: int = 2**26,
        cache: bool = False,
        cache_dir: str = "~/.cache/headscope",
        workers: int = 0,
        pin_memory: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if hidden_layer is not None and not 0 <= hidden_layer <= encoder.layers:
            raise ConfigError(f"data.hidden_layer={hidden_layer}: expected 0 (embeddings) to {encoder.layers}.")
        require_choice("data.from_word", from_word, FROM_WORD)
        self.encoder, self.vectors, self.maps, self.hidden_layer = encoder, vectors, maps, hidden_layer
        self.from_word, self.max_pieces, self.batch_size = from_word, max_pieces, batch_size
        self.budget = Budget(batch_tokens, batch_cells, encoder.layers * encoder.heads)
        self.cache, self.cache_dir = cache, Path(cache_dir).expanduser()
        self.workers, self.pin_memory, self.seed = workers, pin_memory, seed

    @abstractmethod
    def read(self) -> dict[str, list[Example]]:
        """The examples of every split that there is: train, val, test."""

    @property
    @abstractmethod
    def files(self) -> list[Path]:
        """The files that `read` reads."""

    @cached_property
    def examples(self) -> dict[str, list[Example]]:
        """The examples as read, once."""
        return self.read()

    @cached_property
    def vector_table(self) -> VectorTable | None:
        """The vectors of all words that occur."""
        words = {word for examples in self.examples.values() for example in examples for word in example.words}
        return self.vectors.table(words) if self.vectors else None

    @cached_property
    def splits(self) -> dict[str, Split]:
        """The examples as the encoder sees them."""
        tokenizer = self.encoder.tokenizer()
        splits = {
            name: encode(examples, tokenizer, self.max_pieces, self.vector_table) for name, examples in self.examples.items()
        }
        for name, split in splits.items():
            if not len(split):
                raise InputError(f"no {name} example is left: {split.skipped} exceed data.max_pieces={self.max_pieces}.")
            if split.skipped:
                log.warning("%s: skipped %d examples of more than %d pieces.", name, split.skipped, self.max_pieces)
            if split.dropped_words:
                log.warning("%s: %d words have no piece in the vocabulary and get no attention.", name, split.dropped_words)
        return splits

    @property
    def facts(self) -> dict[str, object]:
        """What a module must know of the data to take its shape: plain numbers and names."""
        return {
            "layers": self.encoder.layers,
            "heads": self.encoder.heads,
            "hidden_size": self.encoder.config.hidden_size,
            "vector_size": self.vector_table.table.shape[1] if self.vector_table else 0,
        }

    @property
    def provenance(self) -> dict[str, object]:
        """Where the numbers come from."""
        return {
            "encoder": self.encoder.identity,
            "data": {str(file): files_sha256([file]) for file in self.files},
            "vectors": self._vector_provenance(),
            "examples": {name: len(split) for name, split in self.splits.items()},
            "skipped": {name: split.skipped for name, split in self.splits.items()},
            "words_without_pieces": {name: split.dropped_words for name, split in self.splits.items()},
        }

    def _vector_provenance(self) -> dict[str, object] | None:
        if not self.vectors:
            return None
        words = [word for examples in self.examples.values() for example in examples for word in example.words]
        known = sum(row != 0 for row in self.vector_table.rows(words))
        return {
            "files": {str(file): files_sha256([file]) for file in self.vectors.files},
            "size": self.vector_table.table.shape[1],
            "coverage": known / len(words),
        }

    def setup(self, stage: str) -> None:
        """Place the encoder and the vectors on the device; fill the map store where one is asked for."""
        device = self.trainer.strategy.root_device
        if self.vector_table:
            self._vectors_on_device = self.vector_table.table.to(device)
        if not self.outputs:
            return
        missing = {name: self._open_stores(split) for name, split in self.splits.items()} if self.cache else {}
        if not self.cache or any(missing.values()):
            self.encoder.load().to(device)
        for name, shards in missing.items():
            self._fill_stores(name, shards[self.trainer.global_rank :: self.trainer.world_size], device)
        self.trainer.strategy.barrier("map store")

    @property
    def outputs(self) -> list[str]:
        """What the encoder is asked for."""
        return [name for name, asked in (("maps", self.maps), ("hidden", self.hidden_layer is not None)) if asked]

    def _open_stores(self, split: Split) -> list[tuple[str, int]]:
        options = {"format": STORE_FORMAT, "from_word": self.from_word, "hidden_layer": self.hidden_layer}
        maps = (self.encoder.layers, self.encoder.heads)
        shapes = {"maps": lambda size: (*maps, size, size), "hidden": lambda size: (size, self.encoder.config.hidden_size)}
        for name in self.outputs:
            # The name of an encoder does not decide what it computes, its weights do.
            encoder = {key: value for key, value in self.encoder.identity.items() if key != "name"}
            key = MapStore.key([name, encoder, options], ((item.input_ids, item.word_ids) for item in split.items))
            split.stores[name] = MapStore(self.cache_dir / key, [shapes[name](item.size) for item in split.items])
        return [(name, shard) for name, store in split.stores.items() for shard in store.missing()]

    def _fill_stores(self, split_name: str, shards: list[tuple[str, int]], device: torch.device) -> None:
        split = self.splits[split_name]
        for name, shard in progress(shards, f"storing maps of {split_name}"):
            store = split.stores[name]
            store.write(shard, self._encoded_shard(split, name, store.examples(shard), device))

    def _encoded_shard(
        self, split: Split, name: str, places: np.ndarray, device: torch.device
    ) -> Iterator[tuple[int, np.ndarray]]:
        for batch_places in budget_batches(split.lengths[places], self.budget):
            batch = collate([(split.items[place], {}) for place in places[batch_places]])
            moved = pl.utilities.move_data_to_device(batch, device)
            arrays = self.encode(moved)[name].half().cpu().numpy()
            for place, array in zip(places[batch_places], arrays, strict=True):
                size = split.items[place].size
                yield place, array[..., :size, :size] if name == "maps" else array[:size]

    def on_after_batch_transfer(self, batch: HostBatch, dataloader_idx: int) -> AttentionBatch:
        """From token ids on the device to maps on the device."""
        stored = {name: batch[name].float() for name in self.outputs if name in batch}
        arrays = stored or (self.encode(batch) if self.outputs else {})
        vectors = self._vectors_on_device[batch["vector_ids"]] if "vector_ids" in batch else None
        return AttentionBatch(mask=batch["mask"], gold=batch["gold"], vectors=vectors, **arrays)

    def encode(self, batch: HostBatch) -> dict[str, Tensor]:
        """Word maps and hidden states of a batch, in pieces that keep within the encoder's budget."""
        examples, tokens = batch["input_ids"].shape
        words, size = batch["mask"].shape[1], self.budget.examples(tokens)
        parts = [
            self._encode_part(
                *(batch[name][start : start + size] for name in ("input_ids", "attention_mask", "word_ids")), words
            )
            for start in range(0, examples, size)
        ]
        return {name: torch.cat([part[name] for part in parts]) if len(parts) > 1 else parts[0][name] for name in parts[0]}

    def _encode_part(self, input_ids: Tensor, attention_mask: Tensor, word_ids: Tensor, words: int) -> dict[str, Tensor]:
        layers, heads = self.encoder.layers, self.encoder.heads
        # Made outside inference mode, so that a probe may learn from it.
        maps = torch.empty(layers * self.maps, len(input_ids), heads, words, words, device=input_ids.device)
        pooler, layer = WordPooler(word_ids, words, self.from_word), iter(maps)
        with self._autocast():
            hidden = self.encoder(
                input_ids,
                attention_mask,
                sink=(lambda weights: pooler.write(weights, next(layer))) if self.maps else None,
                hidden_states=self.hidden_layer is not None,
            )
        arrays = {"maps": maps.transpose(0, 1)} if self.maps else {}
        if hidden is not None:
            arrays["hidden"] = pool_hidden(hidden[self.hidden_layer].clone().float(), word_ids, words)
        return arrays

    def _autocast(self) -> AbstractContextManager:
        return self.trainer.precision_plugin.forward_context() if self.trainer else nullcontext()

    def train_dataloader(self) -> DataLoader:
        split = self._split("train")
        return self._loader(split, BucketSampler(split.lengths, self.batch_size, self.seed, *self._place()))

    def val_dataloader(self) -> DataLoader:
        return self._evaluation_loader("val")

    def test_dataloader(self) -> DataLoader:
        return self._evaluation_loader("test")

    def _evaluation_loader(self, name: str) -> DataLoader:
        split = self._split(name)
        return self._loader(split, BudgetSampler(split.lengths, self.budget, *self._place()))

    def require(self, stages: Sequence[str]) -> None:
        """Find out before any work whether the data for all stages is there."""
        for stage in stages:
            require_choice("stages", stage, SPLITS_OF_STAGE)
        for split in dict.fromkeys(split for stage in stages for split in SPLITS_OF_STAGE[stage]):
            self._split(split)

    def _split(self, name: str) -> Split:
        if name not in self.splits:
            raise ConfigError(f"data.{name} is missing: name a file or folder for it.")
        return self.splits[name]

    def _place(self) -> tuple[int, int]:
        return self.trainer.global_rank, self.trainer.world_size

    def _loader(self, split: Split, batches: Sampler) -> DataLoader:
        return DataLoader(
            split,
            batch_sampler=batches,
            collate_fn=collate,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.pin_memory,
        )
