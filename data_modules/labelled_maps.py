"""Labelled attention maps, stored or computed again from their encoders, in folds; on request synthetic ones beside them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from headscope.contracts import Facts, PatternFacts, Source
from headscope.data_modules.base import SPLITS_OF_STAGE
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch
from headscope.data_modules.batches.examples import Budget, BudgetSampler, LabelledLast, collate_idle, pad, pad_blocks
from headscope.data_modules.batches.finite import RequireFinite
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.patterns.folds import FOLDS, FoldSplit, held_out_family, split_fold
from headscope.data_modules.patterns.labels import CLASSES, Label
from headscope.data_modules.patterns.sources import MAPS_FILE, ComputedSource, MapExample, MapSource, StoredSource
from headscope.data_modules.patterns.synthetic import synthetic_maps
from headscope.data_modules.patterns.votes import VotedMap, is_vote_table
from headscope.errors import ConfigError, InputError, given, require_choice
from headscope.files import files_sha256, local_path, once

log = logging.getLogger(__name__)
FOR_VALIDATION = 10  # synthetic maps that are learnt from, for each one that is kept for validation
VALIDATION_SEED = 2**31  # added to the seed for those


Row = tuple[int, MapExample]
HostBatch = dict[str, Any]  # tensors by name, and a number where the process is idle


@dataclass
class MapSplit(Dataset):
    """One part of the maps."""

    items: list[MapExample]
    lengths: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = np.array([len(item.weights) for item in self.items], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Row:
        return index, self.items[index]


class PatternDataModule(pl.LightningDataModule):
    """Maps with one of five labels. `fold` is tested, the rest learnt from; `validation` keeps the next fold for it.

    Folds share neither head nor input, unless `apart` is false. Without a fold all labelled maps are learnt from.
    `held_out` tests all maps of one family of encoders instead, and learns from those of the others; `aside` are families
    that are only ever tested so. `synthetic` counts synthetic maps to learn from besides, until a share of the epochs is
    over; with `real=false` they are all there is to learn from, and any labelled map may be tested. Where `labels`
    is a table of votes its maps are stored in `maps`, by default beside it; else they are computed again by `encoders`.
    """

    kind = "patterns"

    def __init__(
        self,
        labels: str,
        encoders: Mapping[str, FrozenEncoder | Callable[[], FrozenEncoder]] | None = None,
        maps: str | None = None,
        dir: str | None = None,
        fold: int | None = 0,
        held_out: str | None = None,
        aside: Sequence[str] = (),
        validation: bool = True,
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
            raise ConfigError(f"data.synthetic={synthetic}: expected how many synthetic maps to learn from.")
        if not 0 <= synthetic_until <= 1:
            raise ConfigError(f"data.synthetic_until={synthetic_until}: expected a share of the epochs.")
        self.synthetic_until = synthetic_until
        self.file, self.encoders = local_path(labels), dict(encoders or {})
        self.maps_file, self.dir = local_path(maps) if maps else None, dir
        self.held_out, self.aside = held_out, tuple(aside)
        self.fold, self.validation, self.apart, self.real, self.synthetic = fold, validation, apart, real, synthetic
        self.batch_size, self.workers, self.pin_memory, self.seed = batch_size, workers, pin_memory, seed
        self.budget = Budget(batch_tokens, batch_cells, 1)
        self.finite = RequireFinite()  # losses; the maps are checked one by one

    @once
    def open_maps(self) -> MapSource:
        """Stored maps where the table is one of votes; else names, whose encoders are built only then."""
        if self.maps_file or is_vote_table(self.file):
            self.encoders = {}
            return StoredSource(self.maps_file or self.file.with_name(MAPS_FILE), self.file)
        self.encoders = {name: one if isinstance(one, FrozenEncoder) else one() for name, one in self.encoders.items()}
        return ComputedSource(self.file, cast(dict[str, FrozenEncoder], self.encoders), self.dir)

    @once
    def read_rows(self) -> Sequence[Label | VotedMap]:
        """The maps that have a label."""
        return self.open_maps().rows

    @once
    def read_folds(self) -> FoldSplit:
        """Which rows are in which part."""
        names = [row.map for row in self.read_rows()]
        if self.held_out:
            return held_out_family(names, self.held_out, self.aside)
        inside = [index for index, name in enumerate(names) if name.family not in self.aside]
        split = split_fold([names[index] for index in inside], self.fold, self.validation, self.apart, self.seed)
        return split.of(inside)

    @once
    def read_splits(self) -> dict[str, MapSplit]:
        """The maps of every part, those of encoders computed; a part without any is not there."""
        # Synthetic maps are for validation only where nothing else is learnt from.
        of_validation = self.synthetic // FOR_VALIDATION if self.validation and not self.real else 0
        parts = {
            "train": self._real("train") + self._synthetic(self.synthetic, self.seed),
            "val": self._real("val") or self._synthetic(of_validation, self.seed + VALIDATION_SEED),
            "test": self._real("test"),
        }
        return {name: MapSplit(items) for name, items in parts.items() if items}

    def _real(self, part: str) -> list[MapExample]:
        """The labelled maps of a part; without `real` none is learnt from, so that all may be tested."""
        wanted = self.held_out or self.fold is not None or not self.real if part == "test" else self.real
        return [self._compute_maps()[index] for index in getattr(self.read_folds(), part)] if wanted else []

    @staticmethod
    def _synthetic(count: int, seed: int) -> list[MapExample]:
        return [MapExample(one.weights, one.token_class, CLASSES.index(one.label)) for one in synthetic_maps(count, seed)]

    @once
    def _compute_maps(self) -> list[MapExample]:
        """The labelled maps, in the order of the rows."""
        return self.open_maps().examples(self.trainer.strategy.root_device if self.trainer else torch.device("cpu"))

    def facts(self) -> Facts:
        """What a module must know of the data."""
        rows, folds = self.read_rows(), self.read_folds()
        labels = [CLASSES.index(rows[index].label) for index in folds.train] if self.real else []
        counts = (
            np.bincount(labels, minlength=len(CLASSES)) if labels else np.full(len(CLASSES), self.synthetic // len(CLASSES))
        )
        patterns = PatternFacts(
            classes=CLASSES,
            class_counts=tuple(counts.tolist()),
            labels_sha256=files_sha256(self.open_maps().files),
            label_pairs=tuple(self.open_maps().label_pairs),
            tested=tuple(_told(rows[index]) for index in folds.test),
            votes=tuple(row.votes for row in rows if isinstance(row, VotedMap)),
        )
        return Facts(kind=self.kind, patterns=patterns)

    def source(self) -> Source:
        """Where the numbers come from."""
        files, encoders = self.open_maps().files, cast(dict[str, FrozenEncoder], self.encoders)
        identities = {name: encoder.identity() for name, encoder in encoders.items()}
        rows, folds = self.read_rows(), self.read_folds()
        used = {*folds.train, *folds.val, *folds.test}
        names = list(identities) or sorted({rows[index].map.family for index in used})
        left_out = len(folds.left_out)
        return Source(
            encoder={"name": ", ".join(names), "encoders": identities},
            data={str(file): files_sha256([file]) for file in files},
            examples={name: len(split) for name, split in self.read_splits().items()},
            left_out={"maps that share a head or an input with what is held out": left_out},
            inputs={file: sha256 for encoder in encoders.values() for file, sha256 in encoder.inputs().items()},
        )

    def require(self, stages: Sequence[str]) -> None:
        """Find out before any work whether the maps for all stages are there."""
        for stage in stages:
            require_choice("stages", stage, SPLITS_OF_STAGE)
        if "fit" in stages and self.real and not self.read_folds().train:
            raise InputError(
                f"{self.file}: every map shares a head or an input with fold {self.fold}; none is left to learn."
            )
        if "test" in stages and self.real and self.fold is None:
            raise ConfigError("data.fold=null: all labelled maps are learnt from, none is left to test; give stages=[fit].")
        if "test" in stages and not self.read_folds().test:
            raise InputError(f"{self.file}: fold {self.fold} has no map; expected at least {FOLDS} heads.")

    def setup(self, stage: str) -> None:
        """Compute the maps on the device, once."""
        self.finite.join(cast(Any, given(self.trainer, "a trainer")).callbacks)
        self.read_splits()

    def on_after_batch_transfer(self, batch: HostBatch, dataloader_idx: int) -> AttentionBatch:
        """Each map as the one head of an input."""
        gold = {name: batch[name] for name in ("token_class", "label", "votes")}
        maps = batch["maps"][:, None, None]
        made = AttentionBatch(batch["mask"], gold, batch["index"], maps=maps, whole=batch.get("whole"))
        return made.without_inputs() if made.whole == 0 else made

    def train_dataloader(self) -> DataLoader:
        """For every process the whole of each batch: small as it is, its norms and drawn changes are then those of one."""
        split = self.read_splits()["train"]
        labelled_maps = sum(item.name is not None for item in split.items) or len(split)
        epochs = round(self.synthetic_until * (given(self.trainer, "a trainer").max_epochs or 1))
        batches = LabelledLast(split.lengths, labelled_maps, self.batch_size, self.seed, epochs)
        return self._loader(split, batches)

    def val_dataloader(self) -> DataLoader | list:
        return self._evaluation_loader("val") if "val" in self.read_splits() else []

    def test_dataloader(self) -> DataLoader:
        return self._evaluation_loader("test")

    def _evaluation_loader(self, name: str) -> DataLoader:
        split, trainer = self.read_splits()[name], given(self.trainer, "a trainer")
        batches = BudgetSampler(split.lengths, self.budget, trainer.global_rank, trainer.world_size)
        return self._loader(split, batches, idle=batches.idle)

    def _loader(self, split: MapSplit, batches: Sampler, idle: bool = False) -> DataLoader:
        return DataLoader(
            split,
            batch_sampler=batches,
            collate_fn=partial(collate_idle, collated=collate_maps) if idle else collate_maps,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.pin_memory,
        )


def _told(row: Label | VotedMap) -> dict[str, Any]:
    """What tables say of a map: its name, and how it was found where that is known."""
    return asdict(row.map) | ({"found": row.found} if isinstance(row, VotedMap) else {})


def collate_maps(rows: list[Row]) -> HostBatch:
    """Pad to the longest."""
    items = [item for _, item in rows]
    return {
        "maps": pad_blocks([item.weights for item in items]),
        "mask": pad([np.ones(len(item.weights), dtype=np.int64) for item in items], 0).bool(),
        "token_class": pad([item.token_class for item in items], IGNORE),
        "label": torch.tensor([[item.label] for item in items]),
        "votes": torch.from_numpy(np.stack([item.soft for item in items])),
        "index": torch.tensor([index for index, _ in rows]),
    }
