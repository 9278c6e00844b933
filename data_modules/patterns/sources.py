"""Where labelled maps come from: a file of stored maps with a table of votes, or a table of names and their encoders."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int8

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.patterns.labels import CLASSES, Label, MapName, label_pairs, labelled, read_labels
from headscope.data_modules.patterns.maps import pattern_maps
from headscope.data_modules.patterns.stored import StoredMap, read_maps
from headscope.data_modules.patterns.votes import VotedMap, read_votes
from headscope.errors import InputError

MAPS_FILE = "maps.safetensors"
PACKAGED = Path(__file__).parents[1] / "samples" / "patterns" / "votes.csv"


@dataclass(frozen=True)
class MapExample:
    """A map on the host, the classes of its tokens, its label and the votes for each class, and its name unless it is
    synthetic."""

    weights: Float[np.ndarray, "token token"]
    token_class: Int8[np.ndarray, "token"]
    label: int
    name: MapName | None = None
    votes: Float[np.ndarray, "class"] | None = None  # shares; all for the label where nobody else looked

    @property
    def soft(self) -> Float[np.ndarray, "class"]:
        """The share of the votes that each class got."""
        return np.eye(len(CLASSES), dtype=np.float32)[self.label] if self.votes is None else self.votes


class MapSource(ABC):
    """Labelled maps in the order of their table."""

    files: list[Path]

    @property
    @abstractmethod
    def rows(self) -> Sequence[Label | VotedMap]:
        """The maps that have a label."""

    @property
    @abstractmethod
    def label_pairs(self) -> list[tuple[str, str]]:
        """Both labels of every map, of any two who looked at it."""

    @abstractmethod
    def examples(self, device: torch.device) -> list[MapExample]:
        """The maps themselves."""


class StoredSource(MapSource):
    """A file of stored maps; no encoder is needed."""

    def __init__(self, maps: Path, table: Path) -> None:
        self.maps, self.table, self.files = maps, table, [table, maps]

    @cached_property
    def rows(self) -> Sequence[VotedMap]:
        return read_votes(self.table)

    @property
    def label_pairs(self) -> list[tuple[str, str]]:
        return [pair for row in self.rows for pair in combinations(row.votes[:3], 2)]

    def examples(self, device: torch.device) -> list[MapExample]:
        rows, maps = self.rows, stored_maps(self.maps)
        require_same(rows, maps, self.table, self.maps)
        pairs = zip(rows, maps, strict=True)
        return [MapExample(one.weights, one.token_class, CLASSES.index(row.label), row.map, row.soft) for row, one in pairs]


def require_same(rows: Sequence[VotedMap], maps: Sequence[StoredMap], table: Path, file: Path) -> None:
    """Refuse a file whose maps are not those that the table names."""
    if len(rows) != len(maps):
        raise InputError(f"{file}: holds {len(maps)} maps, {table} names {len(rows)}.")
    for number, (row, one) in enumerate(zip(rows, maps, strict=True)):
        if row.map_sha256 != one.sha256:
            raise InputError(
                f"{file}: map {number} has the sha256 {one.sha256}, not {row.map_sha256} as {table}:{number + 2} says."
            )


@lru_cache(maxsize=2)
def _kept_maps(file: Path, _changed: int) -> list[StoredMap]:
    return read_maps(file)


def stored_maps(file: Path) -> list[StoredMap]:
    """The maps of a file; kept, since the runs of all folds want the same."""
    return _kept_maps(file, file.stat().st_mtime_ns if file.is_file() else 0)


class ComputedSource(MapSource):
    """A table of names, whose maps are computed again from their encoders and inputs, or are those of the packaged set."""

    def __init__(self, table: Path, encoders: Mapping[str, FrozenEncoder], folder: str | None) -> None:
        self.table, self.encoders, self.folder, self.files = table, encoders, folder, [table]

    @cached_property
    def all_rows(self) -> list[Label]:
        """Those of a second pass and those without a label among them."""
        return read_labels(self.table)

    @cached_property
    def rows(self) -> Sequence[Label]:
        rows = labelled(self.all_rows)
        if not rows:
            raise InputError(f"{self.table}: expected labelled maps, found none with a label.")
        return rows

    @property
    def label_pairs(self) -> list[tuple[str, str]]:
        return label_pairs(self.all_rows)

    def examples(self, device: torch.device) -> list[MapExample]:
        if stored := packaged_maps({row.map for row in self.rows}):
            maps = [(stored[row.map], row) for row in self.rows]
            return [MapExample(one.weights, one.token_class, CLASSES.index(row.label), row.map) for one, row in maps]
        named = {row.map.encoder for row in self.rows}
        encoders = EncoderSet({name: encoder for name, encoder in self.encoders.items() if name in named})
        names = tuple(row.map for row in self.rows)
        computed = computed_maps(names, encoders, self.folder, device, str(self.table))
        return [MapExample(*computed[row.map], CLASSES.index(row.label), row.map) for row in self.rows]


@cache
def _packaged_rows() -> list[VotedMap]:
    return read_votes(PACKAGED)


def packaged_maps(names: set[MapName]) -> dict[MapName, StoredMap]:
    """The maps of the packaged set where all of these are of it, as the labelling page shows them; else none."""
    rows = _packaged_rows()
    if not names <= {row.map for row in rows}:
        return {}
    return {row.map: one for row, one in zip(rows, stored_maps(PACKAGED.with_name(MAPS_FILE)), strict=True)}


class EncoderSet(dict[str, FrozenEncoder]):
    """Encoders by name, equal to others that compute the same."""

    def _key(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, str(encoder.identity())) for name, encoder in self.items())

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncoderSet) and self._key() == other._key()


@lru_cache(maxsize=1)
def computed_maps(
    names: tuple[MapName, ...], encoders: EncoderSet, folder: str | None, device: torch.device, table: str
) -> dict[MapName, tuple[np.ndarray, np.ndarray]]:
    """Each map and the classes of its tokens; kept, since the runs of all folds want the same."""
    for encoder in encoders.values():
        encoder.load().to(device)
    maps = pattern_maps(names, encoders, folder, table)
    return {found.name: (found.weights.cpu().numpy(), found.special) for found in maps}
