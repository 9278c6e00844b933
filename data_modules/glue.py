"""GLUE: sentences and pairs with a label, from the hub, from official TSV files, or from the packaged sample."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from headscope.contracts import Facts
from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.examples import Encoded, Example, Split, encode_texts
from headscope.data_modules.encoders.layout import TokenClasses
from headscope.data_modules.readers.features import SAME_WORD, special_features
from headscope.data_modules.readers.glue import SAMPLE, TASKS, Task, read_hub, read_tsv, task_folder
from headscope.data_modules.readers.parser import ParsedText, Parser, token_dependencies, token_features
from headscope.data_modules.readers.word_types import WordTypes, same_word_pairs, words_of_encoding
from headscope.errors import ConfigError, given, require_choice, require_limit
from headscope.files import local_path
from headscope.processes import progress

HUB = "hub"


class GlueDataModule(AttentionDataModule):
    """One task; its dev set is both for validation and for the test, since GLUE keeps its test labels.

    Analyses, which need no labels, can be tested on the official test set, or on train, which has more inputs.
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
        **options: Any,
    ) -> None:
        super().__init__(**options)
        require_choice("data.task", task, TASKS)
        require_choice("data.test_on", test_on, ("val", "train", "test"))
        require_limit(limit)
        self.test_on = test_on
        self.name, self.task, self.limit = task, TASKS[task], limit
        self._left_out: Counter[str] = Counter()
        self.from_hub, self.parser = dir == HUB, Parser(parser) if parser else None
        self.names = {"train": "train.tsv", "val": self.task.dev_file, "test": self.task.test_file}
        needed = self.names["test" if test_on == "test" else "val"]
        self.folder = None if self.from_hub else task_folder(local_path(dir) if dir else SAMPLE, self.task, needed)

    def files(self) -> list[Path]:
        return list(self._files().values())

    def _files(self) -> dict[str, Path]:
        """The file of each split that is there and wanted."""
        if self.folder is None:
            return {}
        wanted = {"train", "val", self.test_on}
        if self.wanted is not None:  # what is tested may be the file of another split
            wanted = {self.test_on if split == "test" else split for split in self.wanted}
        files = {split: self.folder / name for split, name in self.names.items() if split in wanted}
        return {split: file for split, file in files.items() if file.is_file()}

    def read(self) -> dict[str, list[Example]]:
        if self.folder:
            splits = {split: self._read_file(split, file) for split, file in self._files().items()}
        else:
            splits = read_hub(given(self.name, "data.task"), self.task, self.limit, self.test_on == "test")
        return splits | ({"test": splits[self.test_on]} if self.test_on in splits else {})

    def _read_file(self, split: str, file: Path) -> list[Example]:
        return read_tsv(file, self.task, self.limit, self._left_out, labels=split != "test")

    def lacks(self, name: str) -> str:
        file = self.names[self.test_on if name == "test" else name]
        return f"{self.folder or HUB}: has no {file}, which is needed here; data.dir= names a folder of official GLUE files."

    @property
    def left_out(self) -> dict[str, int]:
        return dict(self._left_out)

    def facts(self) -> Facts:
        relations = tuple(self.parser.relations()) if self.parser else ()
        labels = self.test_on != "test"
        facts = replace(super().facts(), task=self.name, features=self.parser is not None, relations=relations)
        return replace(facts, labels=labels)

    def inputs(self) -> dict[str, str]:
        return {**super().inputs(), **(self.parser.inputs() if self.parser else {})}

    def tokenise(self, examples: list[Example], tokenizer: PreTrainedTokenizerBase) -> Split:
        classes = TokenClasses(tokenizer, self.encoder.layout())
        parsed = self.parser.parse([text for example in examples for text in example.words]) if self.parser else None
        shown = progress(examples, "parsing" if self.parser else "tokenising")
        types = WordTypes()
        items = [self._encoded(example, classes, tokenizer, parsed, types) for example in shown]
        for item in items if self.words.maps else []:
            item.example.gold["word_count"] = types.count_of_tokens(item.example.gold["word_type"])
        return Split(items)

    def _encoded(
        self,
        example: Example,
        classes: TokenClasses,
        tokenizer: PreTrainedTokenizerBase,
        parsed: Iterator[ParsedText] | None,
        types: WordTypes,
    ) -> Encoded:
        ids, inputs, encoding = encode_texts(example.words, tokenizer, self.max_pieces)
        sentence = np.array([-1 if number is None else number for number in encoding.sequence_ids(0)], dtype=np.int8)
        texts = [next(parsed) for _ in example.words] if parsed else []
        gold = {**example.gold, "token_class": classes(ids), "sentence": sentence}
        gold |= token_dependencies(encoding, texts, self.parser.relations() if self.parser else ())
        words = words_of_encoding(encoding, example.words)
        if self.words.maps:
            gold |= types.of_tokens(*words)
        if parsed:
            gold |= {**token_features(encoding, texts), SAME_WORD: same_word_pairs(words[0], words[2])}
            gold["features"] |= special_features(gold["token_class"])
        of_tokens = Example(example.words, gold)
        return Encoded(of_tokens, ids, np.arange(len(ids), dtype=np.int32), len(ids), model_inputs=inputs)


def require_task(facts: Facts) -> Task:
    """The task of the data; an error where the data is of another kind."""
    if facts.kind != GlueDataModule.kind:
        raise ConfigError(f"module: a classifier needs data=glue, found data of kind {facts.kind}.")
    if not facts.labels:
        raise ConfigError(
            "data.test_on=test: GLUE keeps the labels of its test sets; expected val or train for a classifier."
        )
    return TASKS[given(facts.task, "the name of a task")]


def tasks_without_files(dir: str | None, splits: Sequence[str]) -> dict[str, str]:
    """The tasks that a folder, or the sample, lacks a file of, and which; none of the hub."""
    if dir == HUB:
        return {}
    folder, lacking = local_path(dir) if dir else SAMPLE, {}
    for name, task in TASKS.items():
        files = {"train": "train.tsv", "val": task.dev_file, "test": task.test_file}
        places = (folder / task.folder, folder)
        if not any(all((place / files[split]).is_file() for split in splits) for place in places):
            lacking[name] = f"{folder}: has no {task.folder}/{' and '.join(files[split] for split in splits)}"
    return lacking
