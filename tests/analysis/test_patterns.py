"""Shares of patterns per head against a loop over maps one at a time; two models, abstention, several processes, NaN."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from headscope.analysis.pattern_examples import surest_of_tasks
from headscope.analysis.patterns import BOUND, OUTCOMES, PatternShares, joined_tasks, pattern_share
from headscope.analysis.statistics import poisson_weights
from headscope.contracts import ChildRun, Provenance, RunResults
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.patterns.labels import CLASSES
from headscope.data_modules.segments import TOKEN_CLASSES
from headscope.errors import ConfigError, InputError
from tests.analysis.conftest import HEADS, LAYERS, merged
from tests.runs.conftest import composed

LENGTHS = [12, 9, 5, 16, 7]


class ByColumns(torch.nn.Module):
    """Sure of the class whose fifth of the real columns gets most, as sure as its share: a loop can follow it."""

    def probabilities(self, maps, real, token_class):
        received = (maps * real[:, None, :, None]).sum(2) / real.sum(1)[:, None, None]
        place = torch.arange(real.shape[1]).to(real.device) * 5 // real.sum(1, keepdim=True)
        fifths = torch.nn.functional.one_hot(place.clamp(max=4), 5).float() * real[..., None]
        return received @ fifths


@pytest.fixture
def pattern_facts(facts):
    return replace(facts, kind="glue")


@pytest.fixture
def shown(random_batch):
    def make(lengths=LENGTHS, seed=0, first=0, compared=False):
        batch = random_batch(lengths, {}, first=first, seed=seed)
        batch.gold = {"token_class": torch.where(batch.mask, 0, -100)}
        batch.tuned_maps = random_batch(lengths, {}, seed=seed + 100).maps if compared else None
        return batch

    return make


def looped(maps, lengths, confidence):
    """The class of each input, layer and head, whether the classifier would abstain, and how sure it is."""
    outcomes, sure = np.zeros((len(lengths), LAYERS, HEADS), dtype=int), np.zeros((len(lengths), LAYERS, HEADS))
    for n, length in enumerate(lengths):
        for layer in range(LAYERS):
            for head in range(HEADS):
                fifths = [0.0] * 5
                for key in range(length):
                    fifths[key * 5 // length] += float(maps[n, layer, head, :length, key].mean())
                best = max(range(5), key=fifths.__getitem__)
                sure[n, layer, head] = fifths[best]
                outcomes[n, layer, head] = best
    return outcomes, sure < confidence, sure


def found(facts, *batches, **options):
    metric = PatternShares(facts, ByColumns(), **options)
    for batch in batches:
        metric.update(batch)
    return metric.compute()


def test_shares_equal_a_loop_over_maps_one_at_a_time(shown, pattern_facts):
    batch = shown()
    outcomes, unsure, sure = looped(batch.maps, LENGTHS, 0.3)
    findings = found(pattern_facts, batch, confidence=0.3)
    expected = {**{name: outcomes == number for number, name in enumerate(CLASSES)}, "abstained": unsure}
    assert tuple(expected) == OUTCOMES
    for name, those in expected.items():
        grid = findings.heads[f"pattern:{name}"]
        assert np.array(grid.value) == pytest.approx(those.mean(0))
        assert grid.n == [[len(LENGTHS)] * HEADS] * LAYERS
        assert findings.metrics[name] == pytest.approx(100 * those.mean())
    assert sum(findings.metrics[name] for name in CLASSES) == pytest.approx(100)  # every map has a class
    assert np.array(findings.heads["pattern_confidence"].value) == pytest.approx(sure.mean(0), abs=1e-6)
    assert unsure.any()
    rows = {row["layer"]: row for row in findings.tables["patterns_by_layer"]}
    assert list(rows) == ["1", "2", "all"]
    assert rows["2"]["abstained"] == pytest.approx(100 * unsure[:, 1].mean())


class AlwaysBlock(torch.nn.Module):
    """Sure of one class, whatever the map."""

    def probabilities(self, maps, real, token_class):
        return torch.eye(5)[3].expand(*maps.shape[:2], 5)


def test_a_classifier_that_calls_every_map_the_same_is_named(shown, pattern_facts):
    metric = PatternShares(replace(pattern_facts, tuned=True), AlwaysBlock())
    metric.update(shown(compared=True))
    assert metric.compute().notes == {
        "patterns_by_layer": [
            "the classifier calls 100.0 % of the maps block: it does not tell these maps apart",
            "the classifier calls 100.0 % of the fine-tuned model's maps block: it does not tell these maps apart",
        ]
    }
    plain = found(pattern_facts, shown(), confidence=0.3)
    assert plain.notes == {"patterns_by_layer": []}
    assert {row["n"] for row in plain.tables["patterns_by_layer"]} == {len(LENGTHS)}


def test_the_second_model_has_shares_of_its_own(shown, pattern_facts):
    batch = shown(compared=True)
    outcomes, unsure, _ = looped(batch.tuned_maps, LENGTHS, 0.5)
    findings = found(replace(pattern_facts, tuned=True), batch)
    for number, name in enumerate(CLASSES):
        grid = findings.heads[f"tuned_pattern:{name}"].value
        assert np.array(grid) == pytest.approx((outcomes == number).mean(0))
    assert findings.metrics["tuned_abstained"] == pytest.approx(100 * unsure.mean())
    assert {row["model"] for row in findings.tables["patterns_by_layer"]} == {"model", "tuned"}


def test_the_published_bound_is_beside_the_fine_tuned_model_alone(shown, pattern_facts):
    published = composed("experiment=kovaleva_patterns_task").published
    assert {key: value for key, value in published.items() if key.startswith("test/")} == {BOUND: 32}
    assert BOUND.removeprefix("test/") in found(replace(pattern_facts, tuned=True), shown(compared=True)).metrics


def test_intervals_are_those_of_inputs_drawn_again(shown, pattern_facts):
    batch = shown(first=3)
    outcomes, _, _ = looped(batch.maps, LENGTHS, 0.0)
    weights = poisson_weights(batch.index, 40, 9).double().numpy()
    findings = found(pattern_facts, batch, confidence=0.0, replicates=40, seed=9)
    for number, name in enumerate(CLASSES):
        drawn = [np.tensordot(row, outcomes == number, 1) / row.sum() for row in weights if row.sum()]
        low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
        grid = findings.heads[f"pattern:{name}"]
        assert np.array(grid.low) == pytest.approx(low, abs=1e-6)
        assert np.array(grid.high) == pytest.approx(high, abs=1e-6)


def test_two_processes_count_as_one(shown, pattern_facts, parts_of):
    batch = shown()
    halves = [PatternShares(pattern_facts, ByColumns()) for _ in range(2)]
    for half, part in zip(halves, parts_of(batch, 2), strict=True):
        half.update(part)
    together, expected = merged(*halves).compute(), found(pattern_facts, batch)
    assert together.metrics == pytest.approx(expected.metrics)
    for quantity, columns in expected.heads.items():
        for name in ("value", "n", "low", "high"):
            one, two = getattr(together.heads[quantity], name), getattr(columns, name)
            assert (one is None) == (two is None)
            assert one is None or np.array(one) == pytest.approx(np.array(two))


def by_hand(maps, ids, lengths, longest):
    """Of each class, how sure the classifier is at most, among inputs that are short enough, and the first such map."""
    outcomes, _, sure = looped(maps, lengths, 0.0)
    found = {}
    for n, length in enumerate(lengths):
        for layer in range(LAYERS):
            for head in range(HEADS):
                name = CLASSES[outcomes[n, layer, head]]
                if length <= longest and sure[n, layer, head] > found.get(name, (0.0,))[0] + 1e-7:
                    cells = maps[n, layer, head, :length, :length]
                    found[name] = (sure[n, layer, head], f"{layer + 1}-{head + 1}", n + 1, ids[n, :length].tolist(), cells)
    return found


@pytest.mark.parametrize("longest", [16, 9])
def test_the_example_of_a_class_is_the_map_that_the_classifier_is_surest_of(longest, shown, pattern_facts):
    batch = shown(compared=True)
    batch.inputs = {"input_ids": torch.arange(batch.mask.numel()).view(batch.mask.shape)}
    batch.gold["token_class"][:, 0] = TOKEN_CLASSES.index("cls")
    facts = replace(pattern_facts, tuned=True, token_names=lambda ids: [f"t{one}" for one in ids])
    rows = found(facts, batch, example_tokens=longest).drawings["pattern_examples"]
    for model, maps in (("model", batch.maps), ("tuned", batch.tuned_maps)):
        expected = by_hand(maps, batch.inputs["input_ids"], LENGTHS, longest)
        own = {row["class"]: row for row in rows if row["model"] == model}
        assert own.keys() == expected.keys()
        for name, (sure, head, number, ids, cells) in expected.items():
            row = own[name]
            assert (row["head"], row["input"], row["special"]) == (head, number, [0])
            assert row["confidence"] == pytest.approx(sure, abs=1e-6)
            assert row["tokens"] == [f"t{one}" for one in ids]
            torch.testing.assert_close(torch.tensor(row["attention"]), cells, atol=6e-5, rtol=0)


@pytest.mark.parametrize("first", [0, 2])  # a process may have no input of its own
def test_examples_are_the_same_in_several_processes_and_batches(first, shown, pattern_facts, parts_of):
    batch = shown()
    whole = found(pattern_facts, batch).drawings
    parts = parts_of(batch, first)
    halves = [PatternShares(pattern_facts, ByColumns()) for _ in range(2)]
    for half, part in zip(halves, parts, strict=True):
        half.update(part)
    assert merged(*halves).compute().drawings == whole
    assert found(pattern_facts, *reversed(parts)).drawings == whole
    assert [row["tokens"] for row in whole["pattern_examples"]] == [[]] * len(whole["pattern_examples"])  # nobody names them


def test_of_equally_sure_maps_the_first_is_the_example(shown, pattern_facts, parts_of):
    batch = shown()
    for order in (parts_of(batch, 3), parts_of(batch, 3)[::-1]):
        metric = PatternShares(pattern_facts, AlwaysBlock())
        for part in order:
            metric.update(part)
        (row,) = metric.compute().drawings["pattern_examples"]
        assert (row["class"], row["head"], row["input"], row["confidence"]) == ("block", "1-1", 1, 1.0)


def test_the_example_of_several_tasks_is_the_surest_of_all():
    rows = {"mrpc": [("block", 0.7), ("vertical", 0.9)], "rte": [("block", 0.8), ("vertical", 0.9)]}
    made = {task: [{"model": "tuned", "class": name, "confidence": p} for name, p in some] for task, some in rows.items()}
    assert [(row["task"], row["class"]) for row in surest_of_tasks(made)] == [("rte", "block"), ("mrpc", "vertical")]


def test_a_map_with_nan_ends_the_analysis(shown, pattern_facts):
    batch = shown()
    batch.maps[1, 0, 2, 3] = math.nan
    with pytest.raises(InputError, match="^analyses: 1 attention maps hold NaN, so that they have no pattern.$"):
        found(pattern_facts, batch)


@pytest.mark.parametrize(("options", "sentence"), [({"confidence": 1.5}, "confidence"), ({"replicates": 0}, "replicates")])
def test_options_that_cannot_be(pattern_facts, options, sentence):
    with pytest.raises(ConfigError, match=f"^analyses: {sentence}="):
        PatternShares(pattern_facts, ByColumns(), **options)


def test_data_of_another_kind_is_refused(pattern_facts):
    with pytest.raises(ConfigError, match="needs data=glue or data=segments or data=treebank_tokens, found data of kind"):
        PatternShares(replace(pattern_facts, kind="documents"), ByColumns())


def test_tasks_are_joined_by_their_inputs():
    def part(task, inputs, share, model="model"):
        row = {
            "model": model,
            **dict.fromkeys(OUTCOMES, 0.0),
            "heterogeneous": share,
            "vertical": 100 - share,
            "n": inputs,
        }
        source = {"encoder": {}, "data": {}, "examples": {"test": inputs}}
        provenance = Provenance(**source, config={"published": {BOUND: 32}})
        tables = {"patterns_by_layer": [{**row, "layer": layer} for layer in ("1", "all")]}
        quantity = pattern_share("", "heterogeneous")
        results = RunResults("patterns", {}, tables, provenance, {quantity.name: quantity})
        head = {"layer": "1", "head": "1", "quantity": "pattern:heterogeneous", "value": str(share / 100), "n": str(inputs)}
        return ChildRun("patterns", task, results, [head])

    joined = joined_tasks([part("mrpc", 30, 20.0), part("rte", 10, 60.0)])
    shares = joined.heads["pattern:heterogeneous"]
    assert (shares.value, shares.n) == ([[pytest.approx(0.3)]], [[40.0]])
    assert shares.quantity.label == "share of heterogeneous maps"
    assert joined.metrics == {"mrpc heterogeneous": 20.0, "rte heterogeneous": 60.0}
    assert [(row["task"], row["vertical"], row["n"]) for row in joined.tables["summary"]] == [
        ("mrpc", 80.0, 30),
        ("rte", 40.0, 10),
    ]
    assert [row["heterogeneous, published bound"] for row in joined.tables["summary"]] == [None, None]
    tuned = joined_tasks([part("mrpc", 30, 20.0, model="tuned")])
    assert [row["heterogeneous, published bound"] for row in tuned.tables["summary"]] == [32]
    assert [row["layer"] for row in joined.tables["patterns_by_layer"]] == ["1", "all"] * 2
    assert joined.notes == {"summary": [], "patterns_by_layer": []}
    alike = joined_tasks([part("mrpc", 30, 20.0), part("rte", 10, 98.0)])
    says = "the classifier calls 98.0 % of the maps of rte heterogeneous: it does not tell these maps apart"
    assert alike.notes == {"summary": [says], "patterns_by_layer": [says]}


def test_batches_may_come_in_any_size(shown, pattern_facts):
    whole = shown()
    parts = [
        AttentionBatch(whole.mask[n : n + 1], {"token_class": whole.gold["token_class"][n : n + 1]}, whole.index[n : n + 1],
                       maps=whole.maps[n : n + 1])
        for n in range(len(LENGTHS))
    ]  # fmt: skip
    assert found(pattern_facts, *parts).metrics == pytest.approx(found(pattern_facts, whole).metrics)
