"""What a run left behind, read back."""

import csv
from pathlib import Path

from headscope.contracts import RunResults
from headscope.files import read_json

RESULTS, HEADS = "results.json", "heads.csv"


def finished_results(folder: Path) -> RunResults | None:
    """The results of a run that finished."""
    content = read_json(folder / RESULTS)
    return None if content is None else RunResults.from_json(content)


def read_heads(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's heads.csv as they were written; none where the run has no per-head results."""
    if not (folder / HEADS).is_file():
        return []
    with (folder / HEADS).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
