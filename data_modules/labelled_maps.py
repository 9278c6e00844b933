"""Labelled attention maps, computed again from their encoders, in folds; on request made-up ones beside them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float, Int8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from headscope.data_modules.base import SPLITS_OF_STAGE
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch
from headscope.data_modules.batches.buckets import Budget, BudgetSampler, LabelledLast
from headscope.data_modules.batches.examples import pad, pad_blocks
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.model_files import files_sha256
from headscope.data_modules.patterns.folds import FOLDS, FoldSplit, split_fold
from headscope.data_modules.patterns.labels import CLASSES, Label, MapName, label_pairs, labelled, read_labels
from headscope.data_modules.patterns.maps import pattern_maps
from headscope.data_modules.patterns.synthetic import synthetic_maps
from headscope.errors import ConfigError, InputError, require_choice
from headscope.files import local_path

log = logging.getLogger(__name__)
WATCHED = 10  # made-up maps that are learnt from, for each one that is watched
OTHER_SEED = 2**31  # added to the seed for those that are watched


@dataclass(frozen=True)
class MapExample:
    """A map on the host, the classes of its tokens, its label, and its name unless it is made up."""

    weights: Float[np.ndarray, "token token"]
    token_class: Int8[np.ndarray, "token"]
    label: int
    name: MapName | None = None


Row = tuple[int, MapExample]
HostBatch = dict[str, Tensor]


@dataclass
class MapSplit(Dataset):
    """One part of the maps."""

    items: list[MapExample]
    lengths: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = np.array([len(item.weights) for item in self.items], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Row:
        return place, self.items[place]


class PatternDataModule(pl.LightningDataModule):
    """Maps with one of five labels. `fold` is tested, the rest learnt from; `watched` keeps the next fold for validation.

    Folds share neither head nor input, unless `apart` is false. Without a fold all labelled maps are learnt from.
    `synthetic` counts made-up maps to learn from besides, until a share of the epochs is over; with `real=false` they
    are all there is to learn from, and any labelled map may be tested.
    """

    kind = "patterns"

    def __init__(
        self,
        labels: str,
        encoders: Mapping[str, FrozenEncoder],
        dir: str | None = None,
        fold: int | None = 0,
        watched: bool = True,
        apart: bool = True,
        real: bool = True,
        synthetic: int = 0,
        synthetic_until: float = 0.67,
        batch_size: int = 32,
        batch_tokens: int = 8192,
        batch_cells: int = 2**26,
        workers: int = 0,
        pin_memory: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if fold is not None and fold not in range(FOLDS):
            raise ConfigError(f"data.fold={fold}: expected a fold from 0 to {FOLDS - 1}, or null for none.")
        if synthetic < 0 or not real and not synthetic:
            raise ConfigError(f"data.synthetic={synthetic}: expected how many made-up maps to learn from.")
        if not 0 <= synthetic_until <= 1:
            raise ConfigError(f"data.synthetic_until={synthetic_until}: expected a share of the epochs.")
        self.synthetic_until = synthetic_until
        self.file, self.encoders, self.dir = local_path(labels), dict(encoders), dir
        self.fold, self.watched, self.apart, self.real, self.synthetic = fold, watched, apart, real, synthetic
        self.batch_size, self.workers, self.pin_memory, self.seed = batch_size, workers, pin_memory, seed
        self.budget = Budget(batch_tokens, batch_cells, 1)
        self.maps: list[MapExample] | None = None

    @cached_property
    def labels(self) -> list[Label]:
        """The rows of the table."""
        return read_labels(self.file)

    @cached_property
    def rows(self) -> list[Label]:
        """The rows that are learnt from and tested: those of the first pass."""
        rows = labelled(self.labels)
        if not rows:
            raise InputError(f"{self.file}: expected labelled maps, found none with a label.")
        return rows

    @cached_property
    def places(self) -> FoldSplit:
        """Which rows are in which part."""
        return split_fold([row.map for row in self.rows], self.fold, self.watched, self.apart, self.seed)

    @cached_property
    def splits(self) -> dict[str, MapSplit]:
        """The maps of every part; a part without any is not there."""
        parts = {
            "train": self._real("train") + self._made_up(self.synthetic, self.seed),
            "val": self._real("val") or self._made_up(self._made_up_watched, self.seed + OTHER_SEED),
            "test": self._real("test"),
        }
        return {name: MapSplit(items) for name, items in parts.items() if items}

    @property
    def _made_up_watched(self) -> int:
        """Made-up maps are watched only where nothing else is learnt from."""
        return self.synthetic // WATCHED if self.watched and not self.real else 0

    def _real(self, part: str) -> list[MapExample]:
        """The labelled maps of a part; without `real` none is learnt from, so that all may be tested."""
        wanted = self.fold is not None or not self.real if part == "test" else self.real
        return [self._examples[place] for place in getattr(self.places, part)] if wanted else []

    @staticmethod
    def _made_up(count: int, seed: int) -> list[MapExample]:
        return [MapExample(one.weights, one.token_class, CLASSES.index(one.label)) for one in synthetic_maps(count, seed)]

    @cached_property
    def _examples(self) -> list[MapExample]:
        """The labelled maps, in the order of the rows."""
        device = self.trainer.strategy.root_device if self.trainer else torch.device("cpu")
        names = tuple(row.map for row in self.rows)
        named = {row.map.encoder for row in self.rows}
        encoders = EncoderSet({name: encoder for name, encoder in self.encoders.items() if name in named})
        computed = computed_maps(names, encoders, self.dir, device)
        return [MapExample(*computed[row.map], CLASSES.index(row.label), row.map) for row in self.rows]

    @property
    def facts(self) -> dict[str, object]:
        """What a module must know of the data: plain numbers and names."""
        labels = [CLASSES.index(self.rows[place].label) for place in self.places.train] if self.real else []
        counts = (
            np.bincount(labels, minlength=len(CLASSES)) if labels else np.full(len(CLASSES), self.synthetic // len(CLASSES))
        )
        return {
            "kind": self.kind,
            "classes": list(CLASSES),
            "class_counts": counts.tolist(),
            "labels_sha256": files_sha256([self.file]),
            "label_pairs": label_pairs(self.labels),
            "tested": [asdict(self.rows[place].map) for place in self.places.test],
        }

    @property
    def provenance(self) -> dict[str, object]:
        """Where the numbers come from."""
        identities = {name: encoder.identity for name, encoder in self.encoders.items()}
        return {
            "encoder": {"name": ", ".join(self.encoders), "encoders": identities},
            "data": {str(self.file): files_sha256([self.file])},
            "vectors": None,
            "examples": {name: len(split) for name, split in self.splits.items()},
            "left_out": {"maps that share a head or an input with what is held out": len(self.places.left_out)},
            "skipped": {},
            "words_without_pieces": {},
        }

    def require(self, stages: Sequence[str]) -> None:
        """Find out before any work whether the maps for all stages are there."""
        for stage in stages:
            require_choice("stages", stage, SPLITS_OF_STAGE)
        if "fit" in stages and self.real and not self.places.train:
            raise InputError(
                f"{self.file}: every map shares a head or an input with fold {self.fold}; none is left to learn."
            )
        if "test" in stages and self.real and self.fold is None:
            raise ConfigError("data.fold=null: all labelled maps are learnt from, none is left to test; give stages=[fit].")
        if "test" in stages and not self.places.test:
            raise InputError(f"{self.file}: fold {self.fold} has no map; expected at least {FOLDS} heads.")

    def setup(self, stage: str) -> None:
        """Compute the maps on the device, once."""
        self.splits  # noqa: B018

    def on_after_batch_transfer(self, batch: HostBatch, dataloader_idx: int) -> AttentionBatch:
        """Each map as the one head of an input."""
        gold = {"token_class": batch["token_class"], "label": batch["label"]}
        maps = batch["maps"][:, None, None]
        return AttentionBatch(batch["mask"], gold, batch["index"], maps=maps)

    def train_dataloader(self) -> DataLoader:
        """For every process the whole of each batch: small as it is, its norms and drawn changes are then those of one."""
        split = self.splits["train"]
        labelled_maps = sum(item.name is not None for item in split.items) or len(split)
        epochs = round(self.synthetic_until * (self.trainer.max_epochs or 1))
        batches = LabelledLast(split.lengths, labelled_maps, self.batch_size, self.seed, epochs)
        return self._loader(split, batches)

    def val_dataloader(self) -> DataLoader | list:
        return self._evaluation_loader("val") if "val" in self.splits else []

    def test_dataloader(self) -> DataLoader:
        return self._evaluation_loader("test")

    def _evaluation_loader(self, name: str) -> DataLoader:
        split = self.splits[name]
        return self._loader(split, BudgetSampler(split.lengths, self.budget, *self._place()))

    def _place(self) -> tuple[int, int]:
        return self.trainer.global_rank, self.trainer.world_size

    def _loader(self, split: MapSplit, batches: Sampler) -> DataLoader:
        return DataLoader(
            split,
            batch_sampler=batches,
            collate_fn=collate_maps,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.pin_memory,
        )


class EncoderSet(dict[str, FrozenEncoder]):
    """Encoders by name, equal to others that compute the same."""

    def _key(self) -> tuple:
        return tuple((name, str(encoder.identity)) for name, encoder in self.items())

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncoderSet) and self._key() == other._key()


@lru_cache(maxsize=1)
def computed_maps(
    names: tuple[MapName, ...], encoders: EncoderSet, folder: str | None, device: torch.device
) -> dict[MapName, tuple[np.ndarray, np.ndarray]]:
    """Each map and the classes of its tokens; kept, since the runs of all folds want the same."""
    for encoder in encoders.values():
        encoder.load().to(device)
    return {found.name: (found.weights.cpu().numpy(), found.special) for found in pattern_maps(names, encoders, folder)}


def collate_maps(rows: list[Row]) -> HostBatch:
    """Pad to the longest."""
    items = [item for _, item in rows]
    return {
        "maps": pad_blocks([item.weights for item in items]),
        "mask": pad([np.ones(len(item.weights), dtype=np.int64) for item in items], 0).bool(),
        "token_class": pad([item.token_class for item in items], IGNORE),
        "label": torch.tensor([[item.label] for item in items]),
        "index": torch.tensor([place for place, _ in rows]),
    }
