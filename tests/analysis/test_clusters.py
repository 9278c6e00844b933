"""Distances between heads against their definition in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headscope.analysis.clusters import HeadDistances, js_from_sums, mixture_sums, relation_heads_of
from headscope.contracts import Facts, Findings, Provenance, RunResults
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.segments import SegmentDataModule
from headscope.errors import ConfigError, DamagedFile
from headscope.reports.results import finished_results
from headscope.runs.report import finish
from tests.analysis.conftest import merged

LENGTHS = [40, 33, 5, 1]


@pytest.fixture
def segment_facts(facts):
    return replace(facts, kind="segments")


@pytest.fixture
def batch(random_batch):
    return random_batch(LENGTHS, {})


def entropy(p):
    return -(np.where(p > 0, p, 0) * np.log(np.where(p > 0, p, 1))).sum(-1)


def direct(maps, lengths, smoothing=0.0):
    """Sum over real tokens of H((p + q) / 2) - (H(p) + H(q)) / 2, pair by pair, in float64."""
    maps = maps.flatten(1, 2).double().numpy()
    count = maps.shape[1]
    distances = np.zeros((count, count))
    for grid, length in zip(maps, lengths, strict=True):
        rows = (1 - smoothing) * grid[:, :length, :length] + smoothing / length
        for one in range(count):
            for other in range(count):
                js = entropy((rows[one] + rows[other]) / 2) - (entropy(rows[one]) + entropy(rows[other])) / 2
                distances[one, other] += js.sum()
    return distances


def off_diagonal(matrix):
    return matrix[~np.eye(len(matrix), dtype=bool)]


def relative_error(found, expected):
    return np.abs(off_diagonal(found) / off_diagonal(expected) - 1).max()


@pytest.mark.parametrize(("released", "smoothing"), [(False, 0.0), (True, 0.001)])
def test_distances_equal_the_definition(batch, segment_facts, released, smoothing):
    metric = HeadDistances(segment_facts, released=released)
    metric.update(batch)
    found = js_from_sums(metric.mixed).numpy()
    assert metric.tokens == sum(LENGTHS)
    assert relative_error(found, direct(batch.maps, LENGTHS, smoothing)) < 1e-5
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()


@pytest.mark.slow
def test_distances_of_a_real_encoder_equal_the_definition(minilm, ready):
    data = ready(SegmentDataModule(encoder=minilm, limit=3))
    (batch,) = (data.on_after_batch_transfer(batch, 0) for batch in data.test_dataloader())
    found = js_from_sums(mixture_sums(batch.maps.flatten(1, 2), batch.mask)).numpy()
    assert found.shape == (72, 72)
    assert relative_error(found, direct(batch.maps.cpu(), batch.mask.sum(1).tolist())) < 1e-5


def test_heads_that_attend_alike_have_no_distance_and_those_that_share_nothing_log_2(segment_facts, random_batch):
    batch = random_batch([4], {})
    one, other = torch.eye(4), torch.eye(4).roll(1, 1)
    batch.maps[:, 0, 0], batch.maps[:, 0, 1], batch.maps[:, 1, 0] = one, other, one
    metric = HeadDistances(segment_facts)
    metric.update(batch)
    rows = metric.compute().tables["distances"]
    assert rows[0]["1-2"] == pytest.approx(np.log(2), rel=1e-6)
    assert rows[0]["2-1"] == pytest.approx(0, abs=1e-6)


def test_two_processes_count_as_one(batch, parts_of, segment_facts):
    whole, first, second = (HeadDistances(segment_facts) for _ in range(3))
    whole.update(batch)
    for metric, part in zip((first, second), parts_of(batch, 1), strict=True):
        metric.update(part)
    merged(first, second)
    torch.testing.assert_close(js_from_sums(first.mixed), js_from_sums(whole.mixed))


def test_the_plane_is_the_same_from_run_to_run(batch, segment_facts):
    def places(seed):
        metric = HeadDistances(segment_facts, seed=seed)
        metric.update(batch)
        return metric.compute().heads

    assert places(0) == places(0)
    assert places(0) != places(1)


def test_relation_heads_come_from_a_finished_run(tmp_path, segment_facts):
    with pytest.raises(ConfigError, match="no finished run of clark_relations"):
        HeadDistances(segment_facts, relations_run=str(tmp_path), read_run=finished_results)
    rows = [{"relation": "det", "head": "3-9", "accuracy": 79.5}]
    run = RunResults("clark_relations", {}, {"relation_heads": rows}, Provenance({"name": "other", "sha256": "abc"}, {}, {}))
    finish(tmp_path, run, Findings())
    assert relation_heads_of(tmp_path, finished_results, "abc") == [{"relation": "det", "head": "3-9"}]
    with pytest.raises(ConfigError, match="was run with another encoder, other"):
        relation_heads_of(tmp_path, finished_results, "def")
    file = tmp_path / "results.json"
    file.write_text(file.read_text().replace("3-9", "3-8"))
    with pytest.raises(DamagedFile, match="results.json: is not as the run wrote it; run it again with run_dir="):
        HeadDistances(segment_facts, relations_run=str(tmp_path), read_run=finished_results)


def test_a_single_head_has_a_place():
    metric = HeadDistances(Facts("segments", layers=1, heads=1, maps="attention"))
    metric.update(AttentionBatch(torch.ones(1, 1, dtype=torch.bool), {}, maps=torch.ones(1, 1, 1, 1, 1)))
    found = metric.compute()
    assert found.metrics["mean_js_per_token"] == 0
    assert np.isfinite(found.heads["mds_x"].value).all()
