"""Arrays of a split kept on disk: float16, memory-mapped, checksummed, safe to share between runs."""

import hashlib
import json
import logging
import uuid
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

log = logging.getLogger(__name__)
SHARD_NUMBERS = 2**26  # 128 MiB of float16


class MapStore:
    """One float16 array per example, in shards; a shard counts only once its checksum file is in place."""

    def __init__(self, folder: Path, shapes: list[tuple[int, ...]]) -> None:
        self.folder, self.shapes = folder, shapes
        self.sizes = np.array([int(np.prod(shape)) for shape in shapes], dtype=np.int64)
        self.shard_of = (np.cumsum(self.sizes) - self.sizes) // SHARD_NUMBERS
        shard_start = {int(shard): int(np.argmax(self.shard_of == shard)) for shard in np.unique(self.shard_of)}
        before = np.cumsum(self.sizes) - self.sizes
        self.offset = before - np.array([before[shard_start[int(shard)]] for shard in self.shard_of], dtype=np.int64)
        self.shards = list(shard_start)

    @staticmethod
    def key(description: object, examples: Iterable[Iterable[np.ndarray]]) -> str:
        """The name of a store: a digest of all that decides its content."""
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        for arrays in examples:
            for array in arrays:
                digest.update(len(array).to_bytes(8, "little") + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:32]

    def __getitem__(self, place: int) -> np.ndarray:
        start = self.offset[place]
        return self._open[int(self.shard_of[place])][start : start + self.sizes[place]].reshape(self.shapes[place])

    @cached_property
    def _open(self) -> dict[int, np.ndarray]:
        return {shard: np.load(self._file(shard), mmap_mode="r") for shard in self.shards}

    def examples(self, shard: int) -> np.ndarray:
        """The places of the examples that a shard holds."""
        return np.flatnonzero(self.shard_of == shard)

    def missing(self, among: Iterable[int] | None = None) -> list[int]:
        """The shards that are not there, or not as they were written."""
        return [shard for shard in (self.shards if among is None else among) if not self._intact(shard)]

    def _intact(self, shard: int) -> bool:
        file, note = self._file(shard), self._note(shard)
        if not note.is_file():
            return False
        try:
            expected = json.loads(note.read_text())["sha256"]
            intact = len(np.load(file, mmap_mode="r")) == self._numbers(shard) and sha256(file) == expected
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            intact = False
        if not intact:
            log.warning("%s: damaged map store, writing this part again.", file)
        return intact

    def write(self, shard: int, arrays: Iterator[tuple[int, np.ndarray]]) -> None:
        """Write a shard from (place, array) pairs in any order; it appears only when whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self._file(shard).with_suffix(f".{uuid.uuid4().hex}.tmp")
        try:
            out = np.lib.format.open_memmap(draft, mode="w+", dtype=np.float16, shape=(self._numbers(shard),))
            for place, array in arrays:
                out[self.offset[place] : self.offset[place] + self.sizes[place]] = array.ravel()
            out.flush()
            draft.replace(self._file(shard))
            draft.write_text(json.dumps({"sha256": sha256(self._file(shard))}))
            draft.replace(self._note(shard))
        finally:
            draft.unlink(missing_ok=True)

    def _numbers(self, shard: int) -> int:
        return int(self.sizes[self.shard_of == shard].sum())

    def _file(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.npy"

    def _note(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.json"


def sha256(file: Path) -> str:
    """The checksum of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
