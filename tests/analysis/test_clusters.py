"""Distances between heads against their definition in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headscope.analysis.clusters import (
    HeadDistances,
    coreference_head_of,
    js_from_sums,
    mixture_sums,
    relation_heads_of,
    within_and_between,
)
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


def test_distances_within_and_between_layers_by_a_loop(batch, segment_facts):
    metric = HeadDistances(segment_facts, permutations=50)
    metric.update(batch)
    found = metric.compute()
    rows = {row["head"]: row for row in found.tables["distances"]}
    names = list(rows)
    within, between = [], []
    for one in names:
        for other in names:
            if one < other:
                (within if one.split("-")[0] == other.split("-")[0] else between).append(rows[one][other])
    inside, across = found.tables["layer_distances"]
    assert (inside["n"], across["n"]) == (len(within), len(between))
    assert inside["mean_js"] == pytest.approx(sum(within) / len(within))
    assert across["mean_js"] == pytest.approx(sum(between) / len(between))
    assert 1 / 51 <= inside["p"] <= 1


def test_the_permutation_test_knows_layers_that_are_alike_from_those_that_are_not():
    layer = torch.arange(12) // 3
    alike = (layer[:, None] != layer).double() + 0.01
    assert within_and_between(alike.fill_diagonal_(0), 4, 199, 0)[0]["p"] == 1 / 200
    assert within_and_between(torch.ones(12, 12).fill_diagonal_(0), 4, 199, 0)[0]["p"] == 1
    assert within_and_between(torch.zeros(1, 1), 1, 9, 0) == []


def test_the_coreference_head_comes_from_a_finished_run(tmp_path, segment_facts):
    with pytest.raises(ConfigError, match="coreference_run=.*: no finished run of clark_coreference"):
        HeadDistances(segment_facts, coreference_run=str(tmp_path), read_run=finished_results)
    rows = [{"row": "rules", "head": None}, {"row": "best head, among mentions", "head": "2-3"}]
    run = RunResults("clark_coreference", {}, {"coreference": rows}, Provenance({"name": "one", "sha256": "abc"}, {}, {}))
    finish(tmp_path, run, Findings())
    assert coreference_head_of(tmp_path, finished_results, "abc") == [{"relation": "coreference", "head": "2-3"}]
