"""Analyses of running text: against the forward pass that they stand on, and distances against a loop in numpy."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from transformers import PreTrainedModel

from benchmarks.samples import ready
from benchmarks.timing import Comparison, interleaved
from benchmarks.word_maps import plain_model
from headscope.analysis.base import Analysis
from headscope.analysis.clusters import HeadDistances, js_from_sums, mixture_sums
from headscope.analysis.surface import SurfacePatterns
from headscope.data_modules.base import AttentionDataModule, HostBatch
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.segments import SegmentDataModule

SEGMENTS = 32
COMPARED = 2
PRECISION = 1e-5


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """A pass over some segments that feeds the analyses; then the distances of all pairs of heads alone."""
    encoder = FrozenEncoder(encoder_name)
    data = ready(SegmentDataModule(encoder=encoder, limit=SEGMENTS))
    batches = list(data.test_dataloader())
    floor = plain_model(encoder, "sdpa")
    for analyses, required in (((SurfacePatterns,), 2), ((SurfacePatterns, HeadDistances), 3)):
        names = " and ".join({SurfacePatterns: "surface", HeadDistances: "clusters"}[kind] for kind in analyses)
        what = f"pass that feeds {names} / sdpa pass, {SEGMENTS} segments of up to 128 tokens"
        metrics = [kind(data.facts()) for kind in analyses]
        times = interleaved(one_pass(data, batches, metrics), bare_pass(floor, batches), repeats)
        yield Comparison(what, *times, required, "at most")
    yield against_numpy(data, batches, repeats)


def one_pass(data: AttentionDataModule, batches: list[HostBatch], metrics: list[Analysis]) -> Callable[[], None]:
    """Every batch through the encoder and every metric."""

    @torch.inference_mode()
    def work() -> None:
        for batch in batches:
            attention = data.on_after_batch_transfer(batch, 0)
            for metric in metrics:
                metric.update(attention)

    return work


def bare_pass(floor: PreTrainedModel, batches: list[HostBatch]) -> Callable[[], None]:
    """Every batch through the same weights, without maps."""
    names = ("input_ids", "attention_mask", "token_type_ids")

    @torch.inference_mode()
    def work() -> None:
        for batch in batches:
            floor(**{name: batch[name] for name in names if name in batch})

    return work


def against_numpy(data: AttentionDataModule, batches: list[HostBatch], repeats: int) -> Comparison:
    """The same distances to the same precision."""
    batch = data.on_after_batch_transfer(batches[0], 0)
    maps, mask = batch.maps.flatten(1, 2)[:COMPARED], batch.mask[:COMPARED]
    expected = numpy_distances(maps.double().numpy(), mask.sum(1).tolist())

    @torch.inference_mode()
    def ours() -> np.ndarray:
        return js_from_sums(mixture_sums(maps, mask)).numpy()

    def looped() -> np.ndarray:
        return numpy_distances(maps.numpy(), mask.sum(1).tolist())

    for found in (ours(), looped()):
        others = ~np.eye(len(found), dtype=bool)
        assert np.abs(found[others] / expected[others] - 1).max() < PRECISION, "not the same distances"
    what = f"Jensen-Shannon distances of {maps.shape[1]} heads / loop over heads in numpy"
    return Comparison(what, *interleaved(ours, looped, repeats), 4, "times faster")


def numpy_distances(maps: np.ndarray, lengths: list[int]) -> np.ndarray:
    """Each head against all others at once."""
    total = np.zeros((maps.shape[1], maps.shape[1]))
    for grid, length in zip(maps, lengths, strict=True):
        rows = np.maximum(grid[:, :length, :length], 1e-30)
        entropies = -(rows * np.log(rows)).sum(-1)
        for head, own in enumerate(rows):
            mean = (rows + own) / 2
            mixed = -(mean * np.log(mean)).sum(-1)
            total[head] += (mixed - (entropies + entropies[head]) / 2).sum(-1, dtype=np.float64)
    return total
