"""Drafts of large files: their room is taken before they are written, and those of writers that were killed are removed.

A writer holds a lock on its draft, which the system gives up with the process, on whatever machine it ran. Where a file
system knows no locks, drafts stay.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

NOT_OFFERED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)  # by the file system: room is then taken while writing


@contextmanager
def locked_draft(draft: Path, size: int) -> Iterator[BinaryIO]:
    """The draft, open to be written, with room for so many bytes; on the disk when the block is through.

    A disk without room is an OSError here, and not one of a page that is written much later.
    """
    with _open_locked(draft) as out:
        _take_room(out.fileno(), size)
        yield out
        out.flush()
        os.fsync(out.fileno())


def _open_locked(draft: Path) -> BinaryIO:
    """Whoever clears up between the opening and the lock removes the file, so that it is made anew."""
    while True:
        out = draft.open("wb")
        if not _lock(out, wait=True) or os.fstat(out.fileno()).st_nlink:
            return out
        out.close()


def _lock(file: BinaryIO, wait: bool) -> bool:
    """Whether this process holds the file now; False where another does, or where there are no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _take_room(descriptor: int, size: int) -> None:
    if not hasattr(os, "posix_fallocate") or not size:
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in NOT_OFFERED:
            raise


def remove_dead_drafts(folder: Path, pattern: str) -> None:
    """Remove the drafts of files of some name that no living process writes; drafts start with a dot."""
    for draft in folder.glob(f".{pattern}") if folder.is_dir() else ():
        try:
            with draft.open("rb") as file:
                if _lock(file, wait=False):
                    draft.unlink(missing_ok=True)
        except OSError:  # somebody else's, or gone
            continue
