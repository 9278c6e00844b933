"""Data for the benchmarks: the packaged sample, cut to lengths, and datamodules made ready without a fit."""

from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

import pytorch_lightning as pl
from transformers import PreTrainedTokenizerBase

from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.batches.examples import Example
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.readers.conllu import read_conllu
from headscope.data_modules.treebank import SAMPLE

SPECIAL_TOKENS = 2
CPU_ONLY = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}


class RunsOfWords(AttentionDataModule):
    """Words of the sample, in runs of about the given numbers of tokens; all of them are the test split."""

    kind = "words"

    def __init__(self, encoder: FrozenEncoder, lengths: Iterable[int]) -> None:
        super().__init__(encoder)
        self.lengths = list(lengths)

    def read(self) -> dict[str, list[Example]]:
        runs = runs_of_words(self.encoder.tokenizer(), self.lengths)
        return {"test": [Example(words, {}) for words in runs]}

    @property
    def files(self) -> list[Path]:
        return [SAMPLE / "train.conllu"]


def runs_of_words(tokenizer: PreTrainedTokenizerBase, lengths: Iterable[int]) -> list[tuple[str, ...]]:
    """The sample's words in order, again from the start where they end; no run exceeds its length."""
    words = cycle(word for sentence in read_conllu([SAMPLE / "train.conllu"]) for word in sentence.words)
    runs, word = [], next(words)
    for length in lengths:
        run, room = [], length - SPECIAL_TOKENS
        while (pieces := len(tokenizer.tokenize(word))) <= room:
            run.append(word)
            word, room = next(words), room - pieces
        runs.append(tuple(run))
    return runs


def ready(data: AttentionDataModule) -> AttentionDataModule:
    """The datamodule as a trainer on the CPU would have set it up."""
    data.trainer = pl.Trainer(**CPU_ONLY)
    data.setup("fit")
    return data
