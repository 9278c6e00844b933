"""What a run left behind, read back; nobody reads it without its checksums."""

import csv
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headscope.contracts import HEAD_COLUMNS, NUMBERS, RunResults
from headscope.errors import DamagedFile
from headscope.files import content_sha256, files_sha256, read_json, shape_error

log = logging.getLogger(__name__)
RESULTS, HEADS = "results.json", "heads.csv"
ITSELF = "sha256"  # of results.json: the checksum of all else that it says
SHAPE = {
    "experiment": str,
    "metrics": {str: (float, type(None))},
    "tables": {str: [dict]},
    "provenance": {
        "encoder": {"name": (str, type(None))},
        "data": {str: str},
        "examples": {str: int},
        "config": dict,
        "command": str,
        "seed": int,
    },
}
MAY_BE_THERE = {"quantities": {str: {"label": str}}, "drawings": {str: [dict]}, "runs": {str: str}, "files": {str: str}}


def finished_results(folder: Path) -> RunResults | None:
    """The results of a run that finished; an error where they, or a file that they have a checksum of, were changed."""
    file = folder / RESULTS
    if (content := read_json(file, SHAPE, way_out(folder))) is None:
        return None
    optional = {name: one for name, one in MAY_BE_THERE.items() if name in content}
    if wrong := shape_error(content, optional):
        raise DamagedFile(f"{file}: {wrong}; {way_out(folder)}.")
    said = content.pop(ITSELF, None)
    if said is None:
        log.warning("%s: was written by a version without checksums, so nobody can tell whether it was changed.", file)
    elif said != content_sha256(content):
        raise DamagedFile(f"{file}: is not as the run wrote it; {way_out(folder)}.")
    try:
        results = RunResults.from_json(content)
    except (TypeError, KeyError, AttributeError) as error:  # what a version without checksums, or a hand, left out
        raise DamagedFile(f"{file}: is not the results of a run ({error}); {way_out(folder)}.") from error
    for name, sha256 in results.files.items():
        require_as_written(folder, name, sha256, results.provenance.command)
    return results


def require_as_written(folder: Path, name: str, sha256: str, command: str) -> None:
    """Refuse a file of a run that is gone or holds something else now."""
    file = folder / name
    if not file.is_file():
        raise DamagedFile(f"{file}: is gone since the run wrote it; {way_out(folder, command)}.")
    if files_sha256([file]) != sha256:
        raise DamagedFile(f"{file}: is not as the run wrote it; {way_out(folder, command)}.")


def way_out(folder: Path, command: str = "") -> str:
    """How to get the results of a run back."""
    return f"run it again with run_dir={folder}" + (f" ({command})" if command else "")


def read_heads(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's heads.csv as they were written; none where the run has no per-head results."""
    file = folder / HEADS
    if not file.is_file():
        return []
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, strict=True))
        for number, row in enumerate(rows, start=2):
            require_head_row(row, f"{file}:{number}")
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamagedFile(f"{file}: damaged, or not CSV ({error}); {way_out(folder)}.") from error
    return rows


def require_head_row(row: Mapping[Any, Any], where: str) -> None:
    """Refuse a row that no run writes."""
    try:
        if tuple(row) != HEAD_COLUMNS or None in row.values() or int(row["layer"]) < 1 or int(row["head"]) < 1:
            raise ValueError
        for column in NUMBERS:
            float(row[column] or 0)
    except (ValueError, TypeError) as error:
        columns = ", ".join(HEAD_COLUMNS)
        raise DamagedFile(f"{where}: expected a head and its numbers ({columns}); run it again.") from error
