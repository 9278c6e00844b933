"""Where data lies, what its checksum is, and the one reader and writer of JSON."""

import csv
import hashlib
import importlib.util
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from headscope.drafts import appears_whole as appears_whole
from headscope.drafts import write_atomically
from headscope.errors import DamagedFile, InputError, first_line

PACKAGE = "package:"
NAMES: dict[Any, str] = {
    dict: "an object", list: "a list", str: "a text", float: "a number", int: "a whole number", bool: "true or false",
    type(None): "null",
}  # fmt: skip
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


def checksums_below(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The checksums of the files of a folder, by their path inside; a name may be a folder of them, or not there."""
    found = [folder / name for name in names]
    files = sorted(file for path in found for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    return {file.relative_to(folder).as_posix(): files_sha256([file]) for file in files}


@lru_cache(maxsize=64)
def _kept_sha256(file: Path, _changed: int) -> str:
    return file_sha256(file)


def file_sha256(file: Path) -> str:
    """The checksum of a file as it is now."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_csv(file: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write tidy CSV; what a row does not know stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(file, text.getvalue().encode(), durable=True)


# JSON


def write_json(file: Path, content: Any) -> None:
    """Write indented JSON; numbers that are not defined are refused."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(file, text.encode(), durable=True)


def content_sha256(content: Any) -> str:
    """The checksum of what JSON says, however it is indented."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_json(file: Path, shape: Any, way_out: str) -> Any | None:
    """What a JSON file holds; None where there is no such file, and a sentence where it is not what it should be.

    `shape` is that of `shape_error`; `way_out` ends the sentence.
    """
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        value = parse_json(content)
    except ValueError as error:
        raise DamagedFile(f"{file}: damaged, or not JSON ({first_line(error)}); {way_out}.") from error
    if wrong := shape_error(value, shape):
        raise DamagedFile(f"{file}: {wrong}; {way_out}.")
    return value


def parse_json(content: bytes | str) -> Any:
    """JSON as the standard has it: no NaN, no key twice, no number without end; all else is a ValueError."""
    try:
        text = content.decode() if isinstance(content, bytes) else content
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is there twice")
    return content


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no number")
    return value


def shape_error(value: Any, shape: Any, where: str = "") -> str | None:
    """How a value of JSON differs from a shape, in words; None where it does not.

    A shape is a type, a tuple of shapes of which one must fit, [shape] for a list, {"key": shape} for what must be there,
    {str: shape} for any keys.
    """
    if isinstance(shape, tuple):
        wrong = [shape_error(value, one, where) for one in cast(tuple[Any, ...], shape)]
        return None if None in wrong else wrong[0]
    kind: Any = dict if isinstance(shape, dict) else list if isinstance(shape, list) else shape
    fits: Any = (int, float) if kind is float else kind
    if not isinstance(value, fits) or (isinstance(value, bool) and kind is not bool):
        return f"expected {NAMES[kind]}{where and f' in {where}'}, found {NAMES[type(value)]}"
    content: Any = value
    parts: list[tuple[Any, Any, str]] = []
    if kind is list and isinstance(shape, list):
        parts = [(one, cast(list[Any], shape)[0], f"{where}[{index}]") for index, one in enumerate(content)]
    elif isinstance(shape, dict):
        inside = cast(dict[Any, Any], shape)
        if missing := [key for key in inside if key is not str and key not in content]:
            return f"expected {missing[0]}{where and f' in {where}'}, found none"
        keys = content if str in inside else inside
        parts = [(content[key], inside.get(str, inside.get(key)), f"{where}.{key}".lstrip(".")) for key in keys]
    return next((wrong for part in parts if (wrong := shape_error(*part))), None)
