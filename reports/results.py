"""What a run leaves behind: results.json, heads.csv and figures, none of them ever half-written."""

import csv
import io
import json
import math
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

HEAD_COLUMNS = ("layer", "head", "quantity", "value", "n", "low", "high", "p")
Figure = Callable[[Mapping, list[dict], Path], None]


def write_report(
    folder: Path,
    results: Mapping,
    heads: Mapping[str, Mapping],
    figures: Iterable[Figure],
    files: Mapping[str, Sequence[Mapping]] | None = None,
) -> None:
    """Write all files of a run; results.json comes last, so that its presence means the run finished.

    What an earlier run left in the folder goes: heads or figures that this one lacks would pass for its own.
    """
    rows = list(head_rows(heads))
    for name, content in {"heads.csv": rows, **(files or {})}.items():
        if content:
            columns = HEAD_COLUMNS if name == "heads.csv" else tuple(content[0])
            write_atomically(folder / name, tidy_csv(content, columns).encode())
        else:
            (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "figures", ignore_errors=True)
    for figure in figures:
        figure(results, rows, folder / "figures")
    write_json(folder / "results.json", results)


def head_rows(heads: Mapping[str, Mapping]) -> Iterator[dict[str, object]]:
    """One row per head and quantity, 1-based; each column of a quantity is a (layer, head) grid."""
    for quantity, columns in heads.items():
        for layer, values in enumerate(columns["value"]):
            for head in range(len(values)):
                cells = {column: number(grid[layer][head]) for column, grid in columns.items()}
                if "n" in cells:
                    cells["n"] = int(cells["n"])
                yield {"layer": layer + 1, "head": head + 1, "quantity": quantity, **cells}


def read_heads(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's heads.csv as they were written; none where the run has no per-head results."""
    if not (folder / "heads.csv").is_file():
        return []
    with (folder / "heads.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def tidy_csv(rows: Sequence[Mapping], columns: Sequence[str]) -> str:
    """The rows as tidy CSV; what is not known stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def number(value: object) -> float | None:
    """A plain number, or None for what is not defined."""
    value = float(value)
    return value if math.isfinite(value) else None


def finished_results(folder: Path) -> dict[str, object] | None:
    """The results of a run that finished."""
    return read_json(folder / "results.json")


def read_json(file: Path) -> dict[str, object] | None:
    """The content of a JSON file, if it is there."""
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def write_json(file: Path, content: object) -> None:
    """Write JSON that any reader takes: no NaN, readable, in UTF-8."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(file, text.encode())


def write_atomically(file: Path, content: bytes) -> None:
    """Write beside the file and rename, so that a reader sees the old or the new content."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        draft.write_bytes(content)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
