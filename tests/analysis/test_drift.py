"""Drift of heads between two models: cosines against loops over cells, intervals, and the second model's maps."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModel

from headscope.analysis.drift import HeadDrift, map_cosines
from headscope.analysis.statistics import poisson_weights
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.glue import GlueDataModule
from headscope.errors import ConfigError
from tests.analysis.conftest import HEADS, LAYERS, merged

LENGTHS = [7, 4, 5, 1, 2]


@pytest.fixture
def glue_facts(facts):
    return replace(facts, kind="glue", tuned=True, features=False)


@pytest.fixture
def compared(random_batch):
    """Inputs with the maps of two models; what stands beyond the length must not matter."""

    def make(lengths=LENGTHS, seed=0, first=0):
        batch = random_batch(lengths, {}, first=first, seed=seed)
        batch.tuned_maps = random_batch(lengths, {}, seed=seed + 100).maps
        return batch

    return make


@pytest.fixture
def two_encoders(random_encoder):
    return random_encoder("bert", seed=1, name="one"), random_encoder("bert", seed=2, name="two")


def part_of(batch, part):
    gold = {name: values[part] for name, values in batch.gold.items()}
    return AttentionBatch(
        batch.mask[part], gold, batch.index[part], maps=batch.maps[part], tuned_maps=batch.tuned_maps[part]
    )


def looped_cosine(one, other, length):
    product = one_square = other_square = 0.0
    for query in range(length):
        for key in range(length):
            a, b = float(one[query, key]), float(other[query, key])
            product, one_square, other_square = product + a * b, one_square + a * a, other_square + b * b
    return product / math.sqrt(one_square * other_square)


def looped(batch, lengths=LENGTHS):
    """The cosine of each input, layer and head."""
    return np.array(
        [
            [
                [
                    looped_cosine(batch.maps[n, layer, head], batch.tuned_maps[n, layer, head], length)
                    for head in range(HEADS)
                ]
                for layer in range(LAYERS)
            ]
            for n, length in enumerate(lengths)
        ]
    )


def found(facts, *batches, **options):
    metric = HeadDrift(facts, **options)
    for batch in batches:
        metric.update(batch)
    return metric.compute()


def test_the_cosine_of_every_head_equals_a_plain_loop_without_padding(compared, glue_facts):
    batch = compared()
    assert batch.maps[1, 0, 0, 4:].any()  # rows of padding are filled
    grid = found(glue_facts, batch).heads["cosine"]
    assert np.array(grid.value) == pytest.approx(looped(batch).mean(0), abs=1e-6)
    assert grid.n == [[len(LENGTHS)] * HEADS] * LAYERS


def test_released_counts_the_padding_as_the_authors_code_does(compared, glue_facts):
    batch = compared()
    grid = found(glue_facts, batch, released=True).heads["cosine"]
    assert np.array(grid.value) == pytest.approx(looped(batch, [max(LENGTHS)] * len(LENGTHS)).mean(0), abs=1e-6)
    assert np.abs(np.array(grid.value) - looped(batch).mean(0)).max() > 1e-3


def test_the_layers_that_changed_most_are_told(compared, glue_facts):
    metric = HeadDrift(replace(glue_facts, layers=4, heads=1), replicates=5)
    metric.inputs += 1
    metric.resampled_inputs += 1
    metric.total += torch.tensor([0.9, 0.5, 0.8, 0.4])
    assert metric.compute().notes["drift_by_layer"] == ["layers that changed most: 2 and 4 of 4"]
    metric.total += torch.tensor([0.0, 9.0, 0.0, 0.0])
    assert metric.compute().notes["drift_by_layer"] == ["layers that changed most: 3 and 4 of 4"]


def test_what_stands_in_the_padding_does_not_matter(compared, glue_facts):
    batch, changed = compared(), compared()
    padding = ~(batch.mask[:, :, None] & batch.mask[:, None])[:, None, None]
    changed.maps, changed.tuned_maps = changed.maps.masked_fill(padding, 7.0), changed.tuned_maps.masked_fill(padding, 3.0)
    assert found(glue_facts, batch) == found(glue_facts, changed)


def test_several_batches_are_averaged_over_inputs(compared, glue_facts):
    first, second = compared([3, 6]), compared([4], seed=5, first=2)
    expected = np.concatenate([looped(first, [3, 6]), looped(second, [4])]).mean(0)
    assert np.array(found(glue_facts, first, second).heads["cosine"].value) == pytest.approx(expected, abs=1e-6)


def test_cosines_by_hand():
    one = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]]])
    other = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]])
    both, only_first = torch.tensor([[True, True]]), torch.tensor([[True, False]])
    assert map_cosines(one, other, both)[0].tolist() == pytest.approx([0, math.sqrt(0.5)])
    assert map_cosines(one, other, only_first)[0].tolist() == pytest.approx([0, 1])


def test_equal_maps_have_cosine_one(compared, glue_facts):
    batch = compared()
    batch.tuned_maps = batch.maps.clone()
    findings = found(glue_facts, batch)
    assert np.array(findings.heads["cosine"].value) == pytest.approx(np.ones((LAYERS, HEADS)), abs=1e-6)
    assert findings.metrics == pytest.approx({"mean_cosine": 1, "least_cosine": 1}, abs=1e-6)


def test_means_by_layer_and_over_all_heads(compared, glue_facts):
    batch = compared()
    means, findings = looped(batch).mean(0), found(glue_facts, batch)
    assert findings.metrics == pytest.approx({"mean_cosine": means.mean(), "least_cosine": means.min()}, abs=1e-6)
    rows = findings.tables["drift_by_layer"]
    assert [row["layer"] for row in rows] == [1, 2]
    assert {row["n"] for row in rows} == {len(batch.mask)}
    assert [row["mean_cosine"] for row in rows] == pytest.approx(means.mean(1).tolist(), abs=1e-6)


def test_the_interval_is_that_of_inputs_drawn_again(compared, glue_facts):
    batch = compared(first=3)
    cosines, weights = looped(batch), poisson_weights(batch.index, 40, 9).double().numpy()
    drawn = [np.tensordot(row, cosines, 1) / row.sum() for row in weights if row.sum()]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    grid = found(glue_facts, batch, replicates=40, seed=9).heads["cosine"]
    assert np.array(grid.low) == pytest.approx(low, abs=1e-6)
    assert np.array(grid.high) == pytest.approx(high, abs=1e-6)
    assert (np.array(grid.low) < np.array(grid.value)).all()
    assert (np.array(grid.value) < np.array(grid.high)).all()


@pytest.mark.parametrize("at", [1, 3])
def test_two_processes_count_as_one(at, compared, glue_facts):
    batch = compared()
    first, second = HeadDrift(glue_facts), HeadDrift(glue_facts)
    first.update(part_of(batch, slice(0, at)))
    second.update(part_of(batch, slice(at, None)))
    expected, together = found(glue_facts, batch), merged(first, second).compute()
    assert together.metrics == pytest.approx(expected.metrics)
    for name in ("value", "n", "low", "high"):
        grids = (getattr(findings.heads["cosine"], name) for findings in (together, expected))
        torch.testing.assert_close(*map(torch.tensor, grids))


def test_one_model_alone_is_refused(glue_facts):
    with pytest.raises(ConfigError, match="^needs a second model; name its folder with tuned.name=.$"):
        HeadDrift(replace(glue_facts, tuned=False))


def test_other_data_is_refused(glue_facts):
    with pytest.raises(ConfigError, match="^needs data=glue, found data of kind segments.$"):
        HeadDrift(replace(glue_facts, kind="segments"))


def batches_of(data):
    return [data.on_after_batch_transfer(batch, 0) for batch in data.test_dataloader()]


@pytest.mark.parametrize("cache", [False, True])
def test_the_second_model_s_maps_come_with_the_first_s(cache, two_encoders, ready, tmp_path):
    options = {"limit": 6, "cache": cache, "cache_dir": str(tmp_path / "cache")}
    data = ready(GlueDataModule("rte", encoder=two_encoders[0], tuned=two_encoders[1], **options))
    assert data.facts().tuned is True
    models = [AutoModel.from_pretrained(one.folder, attn_implementation="eager").eval() for one in two_encoders]
    for batch in batches_of(data):
        for row, length in enumerate(batch.mask.sum(1).tolist()):
            inputs = {name: values[row : row + 1, :length] for name, values in batch.inputs.items()}
            for maps, model in zip((batch.maps, batch.tuned_maps), models, strict=True):
                with torch.no_grad():
                    expected = torch.cat(model(**inputs, output_attentions=True).attentions)
                torch.testing.assert_close(maps[row, :, :, :length, :length], expected, atol=1e-3 if cache else 1e-5, rtol=0)
        assert (batch.maps - batch.tuned_maps).abs().max() > 0.05


def test_the_drift_of_a_model_from_itself_is_none(two_encoders, ready, random_encoder):
    same = random_encoder("bert", seed=1, name="again")
    values = []
    for other in (same, two_encoders[1]):
        data = ready(GlueDataModule("sst2", encoder=two_encoders[0], tuned=other, limit=6))
        values.append(found(data.facts(), *batches_of(data)).metrics)
    assert values[0] == pytest.approx({"mean_cosine": 1, "least_cosine": 1}, abs=1e-5)
    assert values[1]["least_cosine"] < 0.99


def test_a_single_model_gives_no_tuned_maps(two_encoders, ready):
    data = ready(GlueDataModule("sst2", encoder=two_encoders[0], limit=2))
    assert data.facts().tuned is False
    assert all(batch.tuned_maps is None for batch in batches_of(data))


def test_without_maps_the_second_model_gives_none_either(two_encoders, ready):
    data = ready(GlueDataModule("sst2", encoder=two_encoders[0], tuned=two_encoders[1], limit=2, maps=False))
    assert all(batch.maps is None and batch.tuned_maps is None for batch in batches_of(data))


def test_both_models_are_in_the_provenance(two_encoders):
    data = GlueDataModule("sst2", encoder=two_encoders[0], tuned=two_encoders[1], limit=2)
    assert data.source().encoder == two_encoders[0].identity()
    assert data.source().tuned_encoder == two_encoders[1].identity()


def test_models_with_other_numbers_of_heads_are_refused(minilm, two_encoders):
    with pytest.raises(ConfigError, match="have 6 × 12 and 3 × 4 heads, so they cannot be compared head by head.$"):
        GlueDataModule("sst2", encoder=minilm, tuned=two_encoders[0])


def test_models_with_other_tokenizers_are_refused(two_encoders):
    file = two_encoders[1].folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["film"], vocabulary["hello"] = vocabulary["hello"], vocabulary["film"]
    file.write_text(json.dumps(tokenizer))
    with pytest.raises(ConfigError, match="one and .*two: have different tokenizers, so they cannot be compared.$"):
        GlueDataModule("sst2", encoder=two_encoders[0], tuned=two_encoders[1])
