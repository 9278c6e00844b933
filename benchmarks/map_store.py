"""A training epoch from the map store, against one that streams from the encoder."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.testing import assert_close

from benchmarks.samples import ready
from benchmarks.timing import Comparison, Work, interleaved
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.treebank import SAMPLE, TreebankDataModule
from headscope.probes.parser.graph_parser import GraphParser
from headscope.probes.parser.scorers import AttentionScorer

SENTENCES = 500
FLOAT16 = {"atol": 5e-4, "rtol": 1e-3}


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """One epoch of the attention-only parser on the same batches, the store being filled already."""
    train, encoder = treebank(), FrozenEncoder(encoder_name)
    with tempfile.TemporaryDirectory() as folder:
        options = {"encoder": encoder, "train": train, "val": SAMPLE / "val.conllu", "limit": SENTENCES}
        stored = ready(TreebankDataModule(**options, cache=True, cache_dir=folder))
        streamed = ready(TreebankDataModule(**options))
        require_same_batches(stored, streamed)
        times = interleaved(training(stored), training(streamed), repeats)
        sentences = len(stored.read_splits()["train"])
    what = f"epoch, map store / streaming, {sentences} sentences of {train.parent.name}"
    yield Comparison(what, *times, 8, "times faster")


def treebank() -> Path:
    """English EWT where there is a copy, else the packaged sample."""
    if data := os.environ.get("HEADSCOPE_DATA"):
        return Path(data) / "data" / "ud_english_ewt" / "train.conllu"
    return SAMPLE / "train.conllu"


def require_same_batches(stored: TreebankDataModule, streamed: TreebankDataModule) -> None:
    """Both sides learn from the same maps, but for the rounding of the store."""
    for left, right in zip(stored.train_dataloader(), streamed.train_dataloader(), strict=True):
        ours, reference = stored.on_after_batch_transfer(left, 0), streamed.on_after_batch_transfer(right, 0)
        assert_close(ours.gold["governors"], reference.gold["governors"])
        real = ours.mask[:, None, None, :, None] & ours.mask[:, None, None, None, :]
        assert_close(ours.maps * real, reference.maps * real, **FLOAT16)


def training(data: TreebankDataModule) -> Work:
    """One epoch over a datamodule; calling it again goes on with the same parser."""
    parser = GraphParser(scorer=AttentionScorer, facts=data.facts(), lr=0.1)
    optimizer = torch.optim.Adam(parser.parameters(), lr=parser.lr)

    def epoch() -> None:
        for batch in data.train_dataloader():
            loss = parser.loss(data.on_after_batch_transfer(batch, 0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch
