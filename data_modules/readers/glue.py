"""GLUE in: what the tasks are, and their examples from official TSV files or from the hub."""

import logging
import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headscope.data_modules.batches.examples import Example
from headscope.data_modules.readers.text import lines, quoted
from headscope.errors import DataError, InputError, first_line

SAMPLE = Path(__file__).parents[1] / "samples" / "glue"
HUB_NAME = "nyu-mll/glue"
HIGHEST_SCORE = 5.0
NUMBER = re.compile(r"[-+.0-9eE]+")
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
    test_file: str = "test.tsv"
    hub_texts: tuple[str, ...] | None = None
    hub_dev: str = "validation"
    hub_test: str = "test"
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
        dev_file="dev_matched.tsv", test_file="test_matched.tsv", hub_texts=("premise", "hypothesis"),
        hub_dev="validation_matched", hub_test="test_matched",
    ),
}  # fmt: skip


def task_folder(folder: Path, task: Task, file: str | None = None) -> Path:
    """The folder of the task's files, which has the file (dev's unless given): this, or the one of the task's name in it."""
    file = file or task.dev_file
    for candidate in (folder / task.folder, folder):
        if (candidate / file).is_file():
            return candidate
    raise DataError(f"{folder}: expected {task.folder}/{file} there, found none.")


def read_tsv(
    file: Path, task: Task, limit: int | None, left_out: Counter[str] | None = None, labels: bool = True
) -> list[Example]:
    """The first examples of an official file: a header, then one example a line, without quoting.

    Lines without a text are left out, said once and counted by reason. Test sets have no labels.
    """
    rows = lines(file)
    _, first = next(rows, (1, ""))
    if not first:
        raise DataError(f"{file}: expected a header and examples, found an empty file.")
    header = first.split("\t")
    for column in (*task.texts, *([task.label] if labels else [])):
        if header.count(column) != 1:
            raise DataError(f"{file}:1: expected a column {column!r}, found {quoted(', '.join(header))}.")
    filled = ((number, line.split("\t")) for number, line in rows if line.strip(" "))
    broken: dict[str, list[int]] = {}
    usable = (row for row in filled if not _left_out(row, header, task, broken))
    examples = [_example(file, number, values, header, task, labels) for number, values in islice(usable, limit)]
    for reason, numbers in broken.items():
        log.warning("%s: skipped %d lines %s, the first is %d.", file, len(numbers), reason, numbers[0])
        if left_out is not None:
            left_out[f"lines {reason}"] += len(numbers)
    if not examples:
        raise DataError(f"{file}: expected at least one example, found none.")
    return examples


def _left_out(row: Row, header: list[str], task: Task, broken: dict[str, list[int]]) -> bool:
    """Whether a line has nothing to ask; noted by reason."""
    number, values = row
    reason = None
    if task.broken_rows and len(values) < len(header):
        reason = "of too few columns"
    elif len(values) == len(header) and not all(values[header.index(column)].strip() for column in task.texts):
        reason = "with an empty text"
    if reason:
        broken.setdefault(reason, []).append(number)
    return reason is not None


def _example(file: Path, number: int, values: list[str], header: list[str], task: Task, labels: bool) -> Example:
    if len(values) != len(header):
        raise DataError(f"{file}:{number}: expected {len(header)} tab-separated columns, found {len(values)}.")
    row = dict(zip(header, values, strict=True))
    texts = tuple(row[column] for column in task.texts)
    return labelled(texts, f"{file}:{number}", row[task.label], task) if labels else Example(texts, {})


def labelled(texts: tuple[str, ...], where: str, label: str, task: Task) -> Example:
    """An example with its label as a number, or its score."""
    if task.labels is None:
        score = _number(label)
        if not 0 <= score <= HIGHEST_SCORE:
            raise DataError(f"{where}: expected a score from 0 to {HIGHEST_SCORE:g}, found {quoted(label)}.")
        return Example(texts, {"label": np.array([score], dtype=np.float32)})
    if label not in task.labels:
        raise DataError(f"{where}: expected a label {' or '.join(task.labels)}, found {quoted(label)}.")
    return Example(texts, {"label": np.array([task.labels.index(label)])})


def _number(text: str) -> float:
    """The number that is written in ASCII; nan for anything else."""
    try:
        return float(text) if NUMBER.fullmatch(text) else math.nan
    except ValueError:
        return math.nan


def read_hub(name: str, task: Task, limit: int | None, test: bool = False) -> dict[str, list[Example]]:
    """Train and dev from the hub, where labels are numbers already; on request the test set, which has none."""
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
        rows = islice(enumerate(dataset[hub_split]), limit)
        splits[split] = [_hub_example(row, columns, f"{HUB_NAME} {name} {hub_split} {index}", task) for index, row in rows]
    if test:
        rows = islice(dataset[task.hub_test], limit)
        splits["test"] = [Example(tuple(row[column] for column in columns), {}) for row in rows]
    return splits


def _hub_example(row: dict[str, Any], columns: tuple[str, ...], where: str, task: Task) -> Example:
    known = dict(enumerate(task.labels or ()))
    label = known.get(row["label"], str(row["label"]))  # a test set has -1, which would be the last label
    return labelled(tuple(row[column] for column in columns), where, label, task)
