"""GLUE in: what the tasks are, and their examples from official TSV files or from the hub."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headscope.data_modules.batches.examples import Example
from headscope.data_modules.readers.text import lines
from headscope.errors import DataError, InputError, first_line

SAMPLE = Path(__file__).parents[1] / "samples" / "glue"
HUB_NAME = "nyu-mll/glue"
HIGHEST_SCORE = 5.0
Row = tuple[int, list[str]]  # a line's number and its columns
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One task; `labels` is None where a score from 0 to 5 is asked for. The first metric is the main one.

    `broken_rows` says that the official files have some lines which end too early.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    dev_file: str = "dev.tsv"
    hub_texts: tuple[str, ...] | None = None
    hub_dev: str = "validation"
    broken_rows: bool = False

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for an input."""
        return len(self.labels) if self.labels else 1


PAIR = ("sentence1", "sentence2")
ENTAILMENT = ("entailment", "not_entailment")
TASKS = {
    "mrpc": Task("MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), ("f1", "accuracy"), hub_texts=PAIR),
    "stsb": Task("STS-B", PAIR, "score", None, ("pearson", "spearman")),
    "sst2": Task("SST-2", ("sentence",), "label", ("0", "1"), ("accuracy",)),
    "qqp": Task(
        "QQP", ("question1", "question2"), "is_duplicate", ("0", "1"), ("f1", "accuracy"), broken_rows=True,
    ),
    "rte": Task("RTE", PAIR, "label", ENTAILMENT, ("accuracy",)),
    "qnli": Task("QNLI", ("question", "sentence"), "label", ENTAILMENT, ("accuracy",)),
    "mnli": Task(
        "MNLI", PAIR, "gold_label", ("entailment", "neutral", "contradiction"), ("accuracy",),
        dev_file="dev_matched.tsv", hub_texts=("premise", "hypothesis"), hub_dev="validation_matched",
    ),
}  # fmt: skip


def task_folder(folder: Path, task: Task) -> Path:
    """The folder of the task's files: the one given, or the one of the task's name inside it."""
    for candidate in (folder / task.folder, folder):
        if (candidate / task.dev_file).is_file():
            return candidate
    raise DataError(f"{folder}: expected {task.folder}/{task.dev_file} there, found none.")


def read_tsv(file: Path, task: Task, limit: int | None) -> list[Example]:
    """The first examples of an official file: a header, then one example a line, without quoting."""
    rows = lines(file)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{file}: expected a header and examples, found an empty file.")
    header = first[1].split("\t")
    for column in (*task.texts, task.label):
        if column not in header:
            raise DataError(f"{file}:1: expected a column {column!r}, found {', '.join(header)}.")
    filled = ((number, line.split("\t")) for number, line in rows if line.strip())
    if task.broken_rows:
        filled = whole_rows(file, filled, len(header))
    examples = [_example(file, number, values, header, task) for number, values in islice(filled, limit)]
    if not examples:
        raise DataError(f"{file}: expected at least one example, found none.")
    return examples


def whole_rows(file: Path, rows: Iterator[Row], columns: int) -> Iterator[Row]:
    """The rows that do not end too early; how many do is said once no more are asked for."""
    broken = []
    try:
        for number, values in rows:
            if len(values) < columns:
                broken.append(number)
            else:
                yield number, values
    finally:
        if broken:
            log.warning("%s: skipped %d lines of too few columns, the first is %d.", file, len(broken), broken[0])


def _example(file: Path, number: int, values: list[str], header: list[str], task: Task) -> Example:
    if len(values) != len(header):
        raise DataError(f"{file}:{number}: expected {len(header)} tab-separated columns, found {len(values)}.")
    row = dict(zip(header, values, strict=True))
    return labelled(tuple(row[column] for column in task.texts), f"{file}:{number}", row[task.label], task)


def labelled(texts: tuple[str, ...], where: str, label: str, task: Task) -> Example:
    """An example with its label as a number, or its score."""
    if task.labels is None:
        try:
            score = float(label)
        except ValueError:
            score = -1.0
        if not 0 <= score <= HIGHEST_SCORE:
            raise DataError(f"{where}: expected a score from 0 to {HIGHEST_SCORE:g}, found {label!r}.")
        return Example(texts, {"label": np.array([score], dtype=np.float32)})
    if label not in task.labels:
        raise DataError(f"{where}: expected a label {' or '.join(task.labels)}, found {label!r}.")
    return Example(texts, {"label": np.array([task.labels.index(label)])})


def read_hub(name: str, task: Task, limit: int | None) -> dict[str, list[Example]]:
    """Train and dev from the hub, where labels are numbers already."""
    from datasets import load_dataset

    try:
        dataset: Any = load_dataset(HUB_NAME, name)
    except Exception as error:  # the hub client raises a dozen unrelated kinds
        raise InputError(
            f"data.dir=hub: {HUB_NAME} cannot be reached ({first_line(error)}); name a folder instead."
        ) from error
    columns = task.hub_texts or task.texts
    splits = {}
    for split, hub_split in (("train", "train"), ("val", task.hub_dev)):
        rows = islice(dataset[hub_split], limit)
        splits[split] = [_hub_example(row, columns, f"{HUB_NAME} {name} {hub_split}", task) for row in rows]
    return splits


def _hub_example(row: dict[str, Any], columns: tuple[str, ...], where: str, task: Task) -> Example:
    label = str(row["label"]) if task.labels is None else task.labels[row["label"]]
    return labelled(tuple(row[column] for column in columns), where, label, task)
