"""What the encoder says of a split, kept on disk so that later epochs and runs need no encoder.

Float16, checksummed, safe to share between runs. Written without a memory map, since a full disk ends a process that
writes through one without a word. Read through one: a shard is checked when it is opened, and rewriting it makes a new
file, so what remains is a shard that somebody else shortens in place while a run reads it; that ends the run (SIGBUS).
"""

import errno
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from pytorch_lightning.utilities import move_data_to_device

from headscope.data_modules.batches.examples import Split, budget_batches, collate
from headscope.data_modules.batches.words import STORED_AXES, Autocast, WordEncoder
from headscope.drafts import remove_stale_drafts
from headscope.errors import InputError
from headscope.files import appears_whole, file_sha256, once, write_atomically
from headscope.processes import progress

log = logging.getLogger(__name__)
FORMAT = 3  # since then only finite numbers are stored
SHARD_NUMBERS = 2**26  # 128 MiB of float16
GIB = 2**30
NOT_OFFERED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)  # by a file system that cannot take room


class MapStore(Sequence):
    """One float16 array per example, in shards; a shard counts only once its checksum file is in index."""

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

    def __getitem__(self, index: int) -> np.ndarray:
        start = self.offset[index]
        return self._open_shards()[int(self.shard_of[index])][start : start + self.sizes[index]].reshape(self.shapes[index])

    def __len__(self) -> int:
        return len(self.shapes)

    @once
    def _open_shards(self) -> dict[int, np.ndarray]:
        return {shard: self._open(self._file(shard)) for shard in self.shards}

    @staticmethod
    def _open(file: Path) -> np.ndarray:
        try:
            return np.load(file, mmap_mode="r")
        except (OSError, EOFError, ValueError) as error:
            raise InputError(
                f"{file}: was removed or damaged since this run checked it; run it again, and this part is written anew."
            ) from error

    def examples(self, shard: int) -> np.ndarray:
        """The indices of the examples that a shard holds."""
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
            intact = len(np.load(file, mmap_mode="r")) == self._numbers(shard) and file_sha256(file) == expected
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            intact = False
        if not intact:
            log.warning("%s: damaged map store, writing this part again.", file)
        return intact

    def write(self, shard: int, arrays: Iterator[tuple[int, np.ndarray]]) -> None:
        """Write a shard from (index, array) pairs in any order; it appears only when whole."""
        head = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float16)), "fortran_order": False}
        size = 2 * self._numbers(shard)
        with self._explained(), appears_whole(self._file(shard), durable=True) as draft, draft.open("wb") as out:
            take_room(out.fileno(), size)
            np.lib.format.write_array_header_1_0(out, head | {"shape": (self._numbers(shard),)})
            first = out.tell()
            for index, array in arrays:
                out.seek(first + 2 * int(self.offset[index]))
                out.write(np.ascontiguousarray(array, dtype=np.float16).tobytes())
        with self._explained():
            write_atomically(self._note(shard), json.dumps({"sha256": file_sha256(self._file(shard))}).encode())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A disk that is full, or that cannot be written, in a sentence."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.folder}: the map store cannot be written ({error.strerror or error}); it takes "
                f"{2 * self.sizes.sum() / GIB:.2f} GiB; give data.cache=false, or HEADSCOPE_CACHE=<another folder>."
            ) from error

    def _numbers(self, shard: int) -> int:
        return int(self.sizes[self.shard_of == shard].sum())

    def _file(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.npy"

    def _note(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.json"


def store_folder(cache_dir: str) -> Path:
    """The folder of all stores."""
    try:
        return Path(cache_dir).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"data.cache_dir={cache_dir}: no home folder is known; give data.cache=false, or HEADSCOPE_CACHE=<a folder>."
        ) from error


def open_stores(split: Split, words: WordEncoder, folder: Path, precision: str) -> dict[str, MapStore]:
    """A store for each output of a split, named by all that decides its content."""
    stores = {}
    for output in words.outputs:
        examples = ((item.input_ids, item.word_ids, *item.model_inputs.values()) for item in split.items)
        key = MapStore.key([FORMAT, precision, *words.identity(output)], examples)
        stores[output] = MapStore(folder / key, [words.stored_shape(output, item.size) for item in split.items])
    return stores


def take_room(descriptor: int, size: int) -> None:
    """Take the room of a file before it is written, so that a full disk is an error here; not all disks can do that."""
    if not hasattr(os, "posix_fallocate") or not size:
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in NOT_OFFERED:
            raise


def missing_shards(stores: Mapping[str, MapStore], rank: int, processes: int) -> list[tuple[str, int]]:
    """The shards that this process has to write; each process answers for every n-th."""
    for store in stores.values():
        if store.folder.is_dir():
            remove_stale_drafts(store.folder)
    return [
        (output, shard)
        for output, store in stores.items()
        for shard in store.missing(progress(store.shards[rank::processes], "checking stored maps"))
    ]


def write_shards(
    stores: Mapping[str, MapStore],
    shards: Sequence[tuple[str, int]],
    split: Split,
    words: WordEncoder,
    device: torch.device,
    autocast: Autocast,
    description: str,
) -> None:
    """Encode the examples of the shards and write them."""
    for output, shard in progress(shards, description):
        store = stores[output]
        store.write(shard, _outputs(split, output, store.examples(shard), words, device, autocast))


def _outputs(
    split: Split,
    output: str,
    indices: np.ndarray,
    words: WordEncoder,
    device: torch.device,
    autocast: Autocast,
) -> Iterator[tuple[int, np.ndarray]]:
    for batch in budget_batches(split.lengths[indices], words.budget):
        tokens = move_data_to_device(collate([(index, split.items[index], {}) for index in indices[batch].tolist()]), device)
        halves = words(tokens, autocast, torch.float16)[output]
        arrays = halves.permute(STORED_AXES[output]).contiguous().cpu().numpy()
        for index, array in zip(indices[batch], arrays, strict=True):
            yield index, array[tuple(map(slice, words.stored_shape(output, split.items[index].size)))]
    words.finite.require_none(device)  # before the shard takes its name
