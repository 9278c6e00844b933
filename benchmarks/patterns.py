"""Classifying the pattern of every map against the forward pass that the maps come from."""

from collections.abc import Iterator

from benchmarks.analyses import bare_pass, one_pass
from benchmarks.samples import ready
from benchmarks.timing import Comparison, interleaved
from benchmarks.word_maps import plain_model
from headscope.analysis.patterns import PatternShares
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.glue import GlueDataModule
from headscope.probes.patterns.files import PACKAGED, load_pattern_cnn

TASK, PAIRS = "mrpc", 36
REQUIRED = 3  # the pass itself, and at most twice as much for the classifier


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """A pass over some pairs of sentences that gives the pattern of every head on every pair."""
    encoder = FrozenEncoder(encoder_name)
    data = ready(GlueDataModule(TASK, encoder=encoder, limit=PAIRS))
    batches = list(data.test_dataloader())
    shares = PatternShares(data.facts(), load_pattern_cnn(PACKAGED))
    times = interleaved(one_pass(data, batches, [shares]), bare_pass(plain_model(encoder, "sdpa"), batches), repeats)
    what = f"pass that classifies all {encoder.layers * encoder.heads} maps / sdpa pass, {PAIRS} pairs of {TASK}"
    yield Comparison(what, *times, REQUIRED, "at most")
