"""Where data lies: a file, the files of a folder, or either inside an installed package; files written whole."""

import uuid
from collections.abc import Callable
from pathlib import Path

from headscope.data_modules.encoders.model_files import PACKAGE, packaged_folder
from headscope.errors import InputError


def local_path(name: str | Path) -> Path:
    """The path of data: `package:NAME/sub/folder` inside an installed package, or as given."""
    if str(name).startswith(PACKAGE):
        return packaged_folder(str(name).removeprefix(PACKAGE), "data", "data.test=<file or folder>")
    return Path(name).expanduser()


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


def write_whole(file: Path, content: bytes) -> None:
    """Write beside the file and rename, so that a reader sees the old or the new content."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        draft.write_bytes(content)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
