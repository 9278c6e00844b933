"""GLUE: sentences and pairs with a label, from the hub, from official TSV files, or from the packaged sample."""

import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.examples import Encoded, Example, Split, encode_texts
from headscope.data_modules.readers.conllu import lines
from headscope.data_modules.readers.features import special_features
from headscope.data_modules.readers.glue_tasks import TASKS, Task
from headscope.data_modules.readers.parser import ParsedText, Parser, token_dependencies, token_features
from headscope.data_modules.segments import token_classes
from headscope.errors import ConfigError, InputError, require_choice, require_limit
from headscope.files import local_path
from headscope.progress import progress

SAMPLE = Path(__file__).parent / "samples" / "glue"
HUB, HUB_NAME = "hub", "nyu-mll/glue"
HIGHEST_SCORE = 5.0
Row = tuple[int, list[str]]
log = logging.getLogger(__name__)


class GlueDataModule(AttentionDataModule):
    """One task; its dev set is both what training watches and what is tested, since GLUE keeps its test labels.

    Analyses that want more inputs than the dev set has can be tested on train.
    """

    units = "tokens"
    kind = "glue"

    def __init__(
        self,
        task: str,
        dir: str | None = None,
        limit: int | None = None,
        parser: str | None = None,
        test_on: str = "val",
        **options: object,
    ) -> None:
        super().__init__(**options)
        require_choice("data.task", task, TASKS)
        require_choice("data.test_on", test_on, ("val", "train"))
        require_limit(limit)
        self.test_on = test_on
        self.name, self.task, self.limit = task, TASKS[task], limit
        self.from_hub, self.parser = dir == HUB, Parser(parser) if parser else None
        self.folder = None if self.from_hub else task_folder(local_path(dir) if dir else SAMPLE, self.task)

    @property
    def files(self) -> list[Path]:
        names = () if self.from_hub else ("train.tsv", self.task.dev_file)
        return [self.folder / name for name in names if (self.folder / name).is_file()]

    def read(self) -> dict[str, list[Example]]:
        splits = read_hub(self.name, self.task, self.limit) if self.from_hub else self._read_folder()
        return splits | ({"test": splits[self.test_on]} if self.test_on in splits else {})

    def _read_folder(self) -> dict[str, list[Example]]:
        names = {"train": "train.tsv", "val": self.task.dev_file}
        present = {split: self.folder / name for split, name in names.items() if (self.folder / name).is_file()}
        return {split: read_tsv(file, self.task, self.limit) for split, file in present.items()}

    @property
    def facts(self) -> dict[str, object]:
        own = {"task": self.name, "features": self.parser is not None, "relations": self.relations}
        return {**super().facts, **own, "model": self._model_facts()}

    def _model_facts(self) -> dict[str, object]:
        """What those must know who load the encoder with a head of their own."""
        encoder = self.encoder
        return {
            "folder": str(encoder.folder),
            "init": encoder.init,
            "dtype": str(encoder.dtype).removeprefix("torch."),
            "remote": encoder.trust_remote_code,
        }

    @cached_property
    def relations(self) -> list[str]:
        """The names of the dependencies, where the texts are parsed."""
        return self.parser.relations if self.parser else []

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        classes = token_classes(tokenizer)
        parsed = self.parser.parse([text for example in examples for text in example.words]) if self.parser else None
        shown = progress(examples, "parsing" if self.parser else "tokenising")
        return Split([self._encoded(example, classes, tokenizer, parsed) for example in shown])

    def _encoded(
        self,
        example: Example,
        classes: np.ndarray,
        tokenizer: PreTrainedTokenizerBase,
        parsed: Iterator[ParsedText] | None,
    ) -> Encoded:
        ids, inputs, encoding = encode_texts(example.words, tokenizer, self.max_pieces)
        sentence = np.array([-1 if number is None else number for number in encoding.sequence_ids(0)], dtype=np.int8)
        texts = [next(parsed) for _ in example.words] if parsed else []
        gold = {**example.gold, "token_class": classes[ids], "sentence": sentence}
        gold |= token_dependencies(encoding, texts, self.relations)
        if parsed:
            gold |= token_features(encoding, texts)
            gold["features"] |= special_features(gold["token_class"])
        of_tokens = Example(example.words, gold)
        return Encoded(of_tokens, ids, np.arange(len(ids), dtype=np.int32), len(ids), model_inputs=inputs)


def task_folder(folder: Path, task: Task) -> Path:
    """The folder of the task's files: the one given, or the one of the task's name inside it."""
    for candidate in (folder / task.folder, folder):
        if (candidate / task.dev_file).is_file():
            return candidate
    raise InputError(f"{folder}: expected {task.folder}/{task.dev_file} there, found none.")


def read_tsv(file: Path, task: Task, limit: int | None) -> list[Example]:
    """The first examples of an official file: a header, then one example a line, without quoting."""
    rows = lines(file)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{file}: expected a header and examples, found an empty file.")
    header = first[1].split("\t")
    for column in (*task.texts, task.label):
        if column not in header:
            raise InputError(f"{file}:1: expected a column {column!r}, found {', '.join(header)}.")
    filled = ((number, line.split("\t")) for number, line in rows if line.strip())
    if task.broken_rows:
        filled = whole_rows(file, filled, len(header))
    examples = [_example(file, number, values, header, task) for number, values in islice(filled, limit)]
    if not examples:
        raise InputError(f"{file}: expected at least one example, found none.")
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
        raise InputError(f"{file}:{number}: expected {len(header)} tab-separated columns, found {len(values)}.")
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
            raise InputError(f"{where}: expected a score from 0 to {HIGHEST_SCORE:g}, found {label!r}.")
        return Example(texts, {"label": np.array([score], dtype=np.float32)})
    if label not in task.labels:
        raise InputError(f"{where}: expected a label {' or '.join(task.labels)}, found {label!r}.")
    return Example(texts, {"label": np.array([task.labels.index(label)])})


def read_hub(name: str, task: Task, limit: int | None) -> dict[str, list[Example]]:
    """Train and dev from the hub, where labels are numbers already."""
    from datasets import load_dataset

    try:
        dataset = load_dataset(HUB_NAME, name)
    except Exception as error:  # the hub client raises a dozen unrelated kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"data.dir=hub: {HUB_NAME} cannot be reached ({reason}); name a folder instead.") from error
    columns = task.hub_texts or task.texts
    splits = {}
    for split, hub_split in (("train", "train"), ("val", task.hub_dev)):
        rows = islice(dataset[hub_split], limit)
        splits[split] = [_hub_example(row, columns, f"{HUB_NAME} {name} {hub_split}", task) for row in rows]
    return splits


def _hub_example(row: dict, columns: tuple[str, ...], where: str, task: Task) -> Example:
    label = str(row["label"]) if task.labels is None else task.labels[row["label"]]
    return labelled(tuple(row[column] for column in columns), where, label, task)


def require_task(facts: Mapping) -> Task:
    """The task of the data; an error where the data is of another kind, or the model not in float32."""
    if facts.kind != GlueDataModule.kind:
        raise ConfigError(f"module: a classifier needs data=glue, found data of kind {facts.kind}.")
    if facts.model["dtype"] != "float32":
        raise ConfigError(f"encoder.dtype={facts['model']['dtype']}: a classifier is float32; trainer.precision= lowers it.")
    return TASKS[facts.task]
