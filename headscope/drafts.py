"""Files and folders that appear only when they are whole, and what is left of those that never were."""

import ctypes
import errno
import hashlib
import os
import platform
import re
import shutil
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

ASIDE = ".before"
DRAFT = re.compile(rf"\.(?P<owner>[0-9a-f]{{16}})[0-9a-f]{{16}}\.(?P<name>.+?)(?P<aside>{re.escape(ASIDE)})?")
PATIENCE_WITH_OTHERS = 24 * 3600  # seconds after which a draft of another machine is taken for left behind
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux's renameat2
_looked_through: set[tuple[str, int]] = set()  # folder and process


@contextmanager
def appears_whole(path: Path, durable: bool = False) -> Generator[Path, None, None]:
    """A draft beside the path, a file or folder that the caller makes; it takes the path's name once the block is through.

    A reader sees the old content or the new, and a run that is stopped leaves nothing half-written but a hidden draft,
    which the next one to write in that folder removes. What is `durable` is on the disk when the name is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale_drafts(path.parent)
    draft = path.with_name(f".{_owner()}{uuid.uuid4().hex[:16]}.{path.name}")
    try:
        yield draft
        if durable:
            _flush_to_disk(draft)
        _take_name(draft, path)
        if durable:
            _flush(path.parent)
    except OSError as error:
        if error.filename in (None, str(draft), draft):  # a user knows the file by its own name
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        _remove(draft)


def _take_name(draft: Path, path: Path) -> None:
    """Rename; a folder trades names with one that is there, so that there is one at any time."""
    if not (draft.is_dir() and path.is_dir()):
        draft.replace(path)
    elif not _exchange(draft, path):
        # Elsewhere than on Linux's own disks. Killed in between, the old folder is brought back by `remove_stale_drafts`.
        aside = draft.with_name(f"{draft.name}{ASIDE}")
        path.replace(aside)
        draft.replace(path)
        _remove(aside)


def _exchange(one: Path, other: Path) -> bool:
    """Let two names trade places in one step, where system and disk can do that."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # what led here is told, not this
            path.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    for file in path.rglob("*") if path.is_dir() else ():
        _flush(file)
    _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):  # some disks cannot do it for folders
            raise
    finally:
        os.close(descriptor)


def remove_stale_drafts(folder: Path) -> None:
    """Remove the drafts that processes which are gone left in a folder; looked for once in a process."""
    if (key := (str(folder), os.getpid())) in _looked_through:
        return
    _looked_through.add(key)
    for left in folder.iterdir():
        if (found := DRAFT.fullmatch(left.name)) and _is_stale(left, found["owner"]):
            if found["aside"] and not (folder / found["name"]).exists():
                left.replace(folder / found["name"])
            else:
                _remove(left)


def _is_stale(draft: Path, owner: str) -> bool:
    if owner[:8] != _owner()[:8]:  # of another machine, where nobody here can tell whether its process lives
        try:
            return time.time() - draft.stat().st_mtime > PATIENCE_WITH_OTHERS
        except OSError:
            return False
    try:
        os.kill(int(owner[8:], 16), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _owner() -> str:
    """This process in 16 digits: the machine, or the container that numbers its own processes, and the number."""
    return f"{_machine()}{os.getpid():08x}"


@lru_cache(maxsize=1)
def _machine() -> str:
    try:
        numbering = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        numbering = ""
    return hashlib.sha256(f"{platform.node()} {numbering}".encode()).hexdigest()[:8]


def write_atomically(file: Path, content: bytes, durable: bool = False) -> None:
    """Write a file that a reader sees as it was or as it will be, never in between."""
    with appears_whole(file, durable) as draft:
        draft.write_bytes(content)
