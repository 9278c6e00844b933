"""Where data lies, what its checksum is, and files that appear only when they are whole."""

import csv
import hashlib
import importlib.util
import io
import json
import shutil
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from headscope.errors import InputError

PACKAGE = "package:"
Owner = TypeVar("Owner")
Result = TypeVar("Result")


def once(method: Callable[[Owner], Result]) -> Callable[[Owner], Result]:
    """A method without arguments that works on its first call; the result is kept with the object."""
    key = f"_once_{method.__qualname__}"

    @wraps(method)
    def kept(self: Owner) -> Result:
        if key not in self.__dict__:
            self.__dict__[key] = method(self)
        return self.__dict__[key]

    return kept


def local_path(name: str | Path) -> Path:
    """The path of data: `package:NAME/sub/folder` inside an installed package, or as given."""
    if str(name).startswith(PACKAGE):
        return packaged_folder(str(name).removeprefix(PACKAGE), "data", "data.test=<file or folder>")
    return Path(name).expanduser()


def packaged_folder(location: str, what: str, instead: str) -> Path:
    """A folder inside an installed package, found without running the package's code."""
    package, _, inside = location.partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # the parent of a dotted name
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"the packaged {what} ({package.replace('_', '-')}) is not installed: run `make setup`, "
            f"or name another with {instead}."
        )
    return Path(spec.submodule_search_locations[0]) / inside


def data_files(path: str | Path, wanted: Callable[[Path], bool], many: str, one: str, below: bool = False) -> list[Path]:
    """The file itself, or the wanted files of a folder, on request also below it; `many` and `one` name them in errors."""
    path = local_path(path)
    if path.is_dir():
        inside = path.rglob("*") if below else path.iterdir()
        files = sorted(file for file in inside if file.is_file() and wanted(file))
        if not files:
            raise InputError(f"{path}: expected {many} in this folder, found none.")
        return files
    if not path.is_file():
        raise InputError(f"{path}: no such file; give {one} or a folder of them.")
    return [path]


def files_sha256(files: Sequence[Path]) -> str:
    """One file: its sha256; several: the sha256 of theirs, in order. Files that did not change are read once."""
    digests = [_kept_sha256(file, file.stat().st_mtime_ns) for file in files]
    return digests[0] if len(digests) == 1 else joined_sha256(digests)


def joined_sha256(digests: Iterable[str]) -> str:
    """One checksum for several, in order."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@lru_cache(maxsize=64)
def _kept_sha256(file: Path, _changed: int) -> str:
    return file_sha256(file)


def file_sha256(file: Path) -> str:
    """The checksum of a file as it is now."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def appears_whole(path: Path) -> Generator[Path, None, None]:
    """A draft beside the path, a file or folder that the caller makes; it takes the path's name once the block is through.

    A reader sees the old content or the new, and a run that is stopped leaves nothing half-written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
    try:
        yield draft
        if draft.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # a folder cannot replace one that has content
        draft.replace(path)
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        draft.unlink(missing_ok=True)


def write_atomically(file: Path, content: bytes) -> None:
    """Write a file that a reader sees as it was or as it will be, never in between."""
    with appears_whole(file) as draft:
        draft.write_bytes(content)


def write_json(file: Path, content: Any) -> None:
    """Write indented JSON; numbers that are not defined are refused."""
    write_atomically(file, (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(file: Path) -> Any | None:
    """What a JSON file holds; None where there is no such file."""
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def write_csv(file: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write tidy CSV; what a row does not know stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(file, text.getvalue().encode())
