"""What a file of weights or vectors was when it was last used, so that damage which leaves it readable is told.

Size, date, checksum and first bytes stand in `checksums.json` in the cache folder. Afterwards
- other content at the same size and date is an error: nobody writes a file so, but disks and copies damage them so;
- a shorter file that begins as before is an error: it was cut, which a text file does not show;
- other content with another date is a warning, given once: the file was replaced, or damaged by whoever wrote it.
Where nothing can be kept (no home, a read-only disk), nothing is compared, and a damaged record is started anew.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headscope.errors import InputError
from headscope.files import files_sha256, write_atomically

log = logging.getLogger(__name__)
RECORD = "checksums.json"
BEGINS = 64  # bytes
MOST = 1000  # files that are remembered


def require_as_before(file: Path) -> None:
    """Refuse a file that was damaged since it was last used, and remember what it is now."""
    path = str(file.resolve())
    record = _read()
    before, now = record.get(path), _describe(file)
    if before == now:
        return
    if before and before["sha256"] != now["sha256"]:
        _compare(file, before, now)
    _write({name: entry for name, entry in record.items() if name != path and Path(name).exists()} | {path: now})


def _describe(file: Path) -> dict[str, Any]:
    stat = file.stat()
    with file.open("rb") as stream:
        begins = stream.read(BEGINS).hex()
    return {"size": stat.st_size, "date": stat.st_mtime_ns, "sha256": files_sha256([file]), "begins": begins}


def _compare(file: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if (before["size"], before["date"]) == (now["size"], now["date"]):
        raise InputError(
            f"{file}: its content has changed since it was last used, its size and date have not: it is damaged; "
            "get it again, or touch it if it is as it should be."
        )
    if now["size"] < before["size"] and before["begins"].startswith(now["begins"]):
        raise InputError(
            f"{file}: has {now['size']:,} bytes and had {before['size']:,} when it was last used, so it was cut; "
            "get it again, or give it another name if it is as it should be."
        )
    log.warning(
        "%s: has other content than when it was last used (sha256 %s, now %s); if it was not replaced, it is damaged.",
        file,
        before["sha256"][:12],
        now["sha256"][:12],
    )


def cache_file(name: str) -> Path | None:
    """A file in the cache folder; None where there is no home to have one."""
    try:
        return Path(os.environ.get("HEADSCOPE_CACHE") or "~/.cache/headscope").expanduser() / name
    except RuntimeError:
        return None


def _read() -> dict[str, dict[str, Any]]:
    """The entries by path; what is no entry is left out."""
    file = cache_file(RECORD)
    try:
        content = json.loads(file.read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return {path: entry for path, entry in content.items() if _is_entry(entry)} if isinstance(content, dict) else {}


def _is_entry(entry: Any) -> bool:
    kinds = {"size": int, "date": int, "sha256": str, "begins": str}
    return isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in kinds.items())


def _write(record: dict[str, dict[str, Any]]) -> None:
    file = cache_file(RECORD)
    if file is None:
        return
    kept = dict(list(record.items())[-MOST:])
    try:
        write_atomically(file, json.dumps(kept, indent=1).encode())
    except (OSError, InputError):
        log.info("%s: cannot be written, so damage of files is not noticed.", file)
