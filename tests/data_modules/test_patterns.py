"""Labelled maps in folds: nothing tested has a twin in training; synthetic maps; what cannot be."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from headscope.data_modules.batches.examples import LabelledLast
from headscope.data_modules.labelled_maps import PatternDataModule
from headscope.data_modules.patterns.folds import (
    FOLDS,
    FoldSplit,
    connected,
    fold_of_each,
    held_out_family,
    split_fold,
)
from headscope.data_modules.patterns.labels import CLASSES, Label, MapName, write_labels
from headscope.data_modules.patterns.maps import pattern_maps
from headscope.data_modules.patterns.sources import MAPS_FILE, PACKAGED
from headscope.data_modules.patterns.stored import read_maps, write_maps
from headscope.data_modules.patterns.synthetic import synthetic_maps
from headscope.data_modules.patterns.votes import VotedMap, read_votes, write_votes
from headscope.errors import ConfigError, InputError


def name(example, layer, head, encoder="tiny", sha256="s", task="mrpc"):
    return MapName(encoder, sha256, task, "val", example, layer, head)


def grouped(groups=FOLDS, size=6):
    """Groups that share neither head nor input, each connected."""
    return [name(3 * group + n % 3, 1 + n % 2, 1 + group) for group in range(groups) for n in range(size)]


def shared(names, one, other):
    heads, inputs = ({getattr(names[place], part) for place in one} for part in ("head_index", "input"))
    return [place for place in other if names[place].head_index in heads or names[place].input in inputs]


@pytest.mark.parametrize("fold", range(FOLDS))
def test_folds_of_separate_groups_share_nothing_and_leave_nothing_out(fold):
    names = grouped()
    split = split_fold(names, fold, validation=True)
    assert Counter(fold_of_each(names)) == dict.fromkeys(range(FOLDS), 6)
    assert sorted([*split.train, *split.val, *split.test]) == list(range(len(names)))
    assert split.left_out == []
    assert (len(split.val), len(split.test)) == (6, 6)
    assert not shared(names, split.test, [*split.train, *split.val])
    assert not shared(names, split.val, split.train)
    assert len(split_fold(names, fold, validation=False).train) == 24


def test_maps_linked_by_chains_are_connected():
    chain = [name(0, 1, 1), name(0, 1, 2), name(7, 1, 2), name(7, 4, 4), name(9, 2, 2)]
    numbers = connected(chain)
    assert numbers[:4] == [numbers[0]] * 4
    assert numbers[4] != numbers[0]


@pytest.mark.parametrize("fold", range(FOLDS))
def test_of_any_other_table_twins_are_left_out_and_counted(fold):
    """Every head on every input is one piece, so that folds are of heads, and all inputs of the fold are in the rest."""
    full = [name(example, 1, head) for example in range(4) for head in range(1, 11)]
    apart = [name(example, 2, example) for example in range(20, 32)]
    names = full + apart
    split = split_fold(names, fold, validation=False)
    assert split.test
    assert not shared(names, split.test, split.train)
    held = {*split.test}
    twins = [place for place in shared(names, split.test, range(len(names))) if place not in held]
    assert split.left_out == twins
    assert len(split.train) + len(split.test) + len(split.left_out) == len(names)


def test_folds_of_single_maps_are_drawn_by_the_seed_and_leave_nothing_out():
    names = grouped()
    splits = [split_fold(names, fold, validation=True, apart=False, seed=3) for fold in range(FOLDS)]
    assert sorted(place for split in splits for place in split.test) == list(range(len(names)))
    assert all((len(s.train), len(s.val), len(s.test), s.left_out) == (18, 6, 6, []) for s in splits)
    assert any(shared(names, split.test, split.train) for split in splits)
    assert splits[0] == split_fold(names, 0, validation=True, apart=False, seed=3)
    assert splits[0] != split_fold(names, 0, validation=True, apart=False, seed=4)


def test_the_two_models_of_one_head_are_twins():
    names = grouped() + [replace(one, encoder="tiny+rte", task="rte") for one in grouped()]
    split = split_fold(names, 0, validation=False)
    assert not {names[place].head_index for place in split.test} & {names[place].head_index for place in split.train}


def test_heads_of_other_families_are_no_twins():
    names = grouped() + [replace(one, encoder="other", task="rte") for one in grouped()]
    assert len(set(connected(names))) == 2 * FOLDS


def test_a_family_held_out_is_tested_whole_and_one_aside_is_never_learnt_from():
    names = [name(n, 1, 1, encoder=("a", "a+mrpc", "b", "c", "causal")[n % 5]) for n in range(20)]
    split = held_out_family(names, "a", ("causal",))
    assert {names[place].encoder for place in split.test} == {"a", "a+mrpc"}
    assert {names[place].encoder for place in split.train} == {"b", "c"}
    assert ([names[place].encoder for place in split.left_out], split.val) == (["causal"] * 4, [])
    causal = held_out_family(names, "causal", ("causal",))
    assert ({names[place].family for place in causal.train}, len(causal.test)) == ({"a", "b", "c"}, 4)
    with pytest.raises(InputError, match="^data.held_out=d: expected one of a, b, c, causal.$"):
        held_out_family(names, "d", ())


def test_parts_of_a_part_are_counted_in_the_whole():
    assert FoldSplit([0], [1], [2, 3], []).of([5, 7, 8, 9]) == FoldSplit([5], [7], [8, 9], [])


@pytest.fixture
def table(random_encoder, tmp_path):
    """A table of a tiny encoder: four heads of two layers on some inputs, groups of one input each."""
    encoder = random_encoder("bert")
    places = [(layer, head) for layer in (1, 2) for head in range(1, 5)]
    names = [name(example, *places[example % 8], sha256=encoder.checksum()) for example in range(24)]
    rows = [Label(one, CLASSES[n % 5]) for n, one in enumerate(names)]
    rows += [Label(one, CLASSES[(n + n % 2) % 5], 2) for n, one in enumerate(names[:8])]
    write_labels(tmp_path / "labels.csv", rows)

    def make(**options):
        return PatternDataModule(str(tmp_path / "labels.csv"), {"tiny": encoder}, **options)

    return make


def test_batches_hold_the_maps_of_the_encoder_and_their_labels(table, ready):
    data = ready(table(fold=1, validation=False))
    tested = [data.on_after_batch_transfer(batch, 0) for batch in data.test_dataloader()]
    rows = [data.read_rows()[place] for place in data.read_folds().test]
    computed = {one.name: one for one in pattern_maps([row.map for row in rows], data.encoders)}
    seen = 0
    for batch in tested:
        for n, place in enumerate(batch.index.tolist()):
            one, length = computed[rows[place].map], int(batch.mask[n].sum())
            assert length == len(one.tokens)
            torch.testing.assert_close(batch.maps[n, 0, 0, :length, :length], one.weights)
            assert not batch.maps[n, 0, 0, length:].any()
            assert batch.gold["token_class"][n, :length].tolist() == one.special.tolist()
            assert CLASSES[int(batch.gold["label"][n])] == rows[place].label
            assert batch.gold["votes"][n].tolist() == [float(label == rows[place].label) for label in CLASSES]
            seen += 1
    assert seen == len(rows) > 0


def test_labels_of_packaged_maps_need_no_encoder(tmp_path):
    packaged = read_votes(PACKAGED)
    maps, chosen = read_maps(PACKAGED.with_name(MAPS_FILE)), [1700, 3, 900, 401, 77, 1234]
    write_labels(tmp_path / "mine.csv", [Label(packaged[n].map, "block") for n in chosen])
    found = PatternDataModule(str(tmp_path / "mine.csv"), {}, fold=None).read_splits()["train"].items
    assert [item.label for item in found] == [CLASSES.index("block")] * 6
    for item, number in zip(found, chosen, strict=True):
        assert item.name == packaged[number].map
        np.testing.assert_array_equal(item.weights, maps[number].weights)


def test_facts_and_source_count_what_is_learnt_from(table):
    data = table(fold=0, validation=False, synthetic=10)
    labels = Counter(data.read_rows()[place].label for place in data.read_folds().train)
    assert data.facts().patterns.class_counts == tuple(labels[label] for label in CLASSES)
    assert len(data.facts().patterns.label_pairs) == 8
    assert len(data.facts().patterns.tested) == len(data.read_folds().test)
    assert data.source().examples == {"train": len(data.read_folds().train) + 10, "test": len(data.read_folds().test)}
    assert sum(data.source().left_out.values()) == len(data.read_folds().left_out)


def test_synthetic_maps_are_learnt_from_and_never_tested(table):
    data = table(fold=0, real=False, synthetic=20)
    assert [len(data.read_splits()[part]) for part in ("train", "val")] == [20, 2]
    np.testing.assert_array_equal(data.read_splits()["train"].items[3].weights, synthetic_maps(4, 0)[3].weights)
    assert not any(
        np.array_equal(one.weights, two.weights)
        for one in data.read_splits()["val"].items
        for two in data.read_splits()["train"].items
    )
    for fold, size in ((0, len(data.read_folds().test)), (None, 24)):
        tested = table(fold=fold, real=False, synthetic=20).read_splits()["test"].items
        assert len(tested) == size
        assert all(item.name is not None for item in tested)


def test_without_a_fold_all_maps_are_learnt_from_and_none_is_left_to_test(table):
    data = table(fold=None, validation=False)
    assert set(data.read_splits()) == {"train"}
    assert len(data.read_splits()["train"]) == 24
    data.require(["fit"])
    with pytest.raises(ConfigError, match="^data.fold=null: all labelled maps are learnt from"):
        data.require(["fit", "test"])


def test_synthetic_maps_come_first_and_the_labelled_alone_at_the_end():
    lengths = np.array([9, 8, 7, 6, 5, *range(10, 30)])
    batches = LabelledLast(lengths, labelled=5, batch_size=4, seed=1, epochs=2)
    seen = []
    for epoch in range(4):
        batches.set_epoch(epoch)
        seen.append(list(batches))
    assert [len(epoch) for epoch in seen] == [len(batches)] * 4 == [7] * 4
    for epoch in seen[:2]:
        assert sorted(place for batch in epoch for place in batch) == list(range(25))
    for epoch in seen[2:]:
        places = Counter(place for batch in epoch for place in batch)
        assert set(places) == set(range(5))
        assert max(places.values()) - min(places.values()) <= 1
    assert seen[2] != seen[3]
    batches.set_epoch(2)
    assert list(batches) == seen[2]


def test_stored_maps_need_no_encoder(tmp_path):
    random = np.random.default_rng(0)
    maps = [random.dirichlet(np.ones(9), size=9).astype(np.float32) for _ in range(20)]
    kinds = [np.array([1, *[0] * 7, 2], dtype=np.int8)] * 20
    sums = write_maps(tmp_path / "maps.safetensors", maps, kinds, kinds)
    names = [name(n, 1 + n % 5, 1, encoder="causal" if n >= 15 else "tiny") for n in range(20)]
    rows = [
        VotedMap(one, "random", ("block", "block", "vertical"), "block", sha) for one, sha in zip(names, sums, strict=True)
    ]
    write_votes(tmp_path / "votes.csv", rows)

    def never():
        raise AssertionError("an encoder was built")

    data = PatternDataModule(str(tmp_path / "votes.csv"), {"tiny": never}, aside=["causal"], validation=False)
    splits = data.read_splits()
    assert len(splits["train"]) + len(splits["test"]) == 15
    assert all(item.name.family == "tiny" for part in splits.values() for item in part.items)
    assert splits["test"].items[0].soft.tolist() == pytest.approx([1 / 3, 0, 0, 2 / 3, 0])
    assert (data.source().encoder["name"], data.facts().patterns.votes[0]) == ("tiny", rows[0].votes)
    assert data.facts().patterns.tested[0]["found"] == "random"
    held = PatternDataModule(str(tmp_path / "votes.csv"), held_out="causal", aside=["causal"])
    assert {part: len(split) for part, split in held.read_splits().items()} == {"train": 15, "test": 5}


@pytest.mark.parametrize(
    "options", [{"fold": 5}, {"fold": -1}, {"synthetic": -1}, {"real": False}, {"synthetic_until": 2.0}]
)
def test_options_that_cannot_be(table, options):
    with pytest.raises(ConfigError, match="^data.(fold|synthetic|synthetic_until)="):
        table(**options)


def test_a_table_without_a_label_is_refused(tmp_path, minilm):
    write_labels(tmp_path / "none.csv", [Label(name(0, 1, 1), "")])
    with pytest.raises(InputError, match="expected labelled maps, found none with a label.$"):
        PatternDataModule(str(tmp_path / "none.csv"), {"tiny": minilm}).read_rows()


def test_a_table_of_one_head_leaves_nothing_to_learn(tmp_path, minilm):
    write_labels(tmp_path / "one.csv", [Label(name(example, 1, 1), "block") for example in range(9)])
    with pytest.raises(InputError, match="every map shares a head or an input with fold 0; none is left to learn.$"):
        PatternDataModule(str(tmp_path / "one.csv"), {"tiny": minilm}, validation=False).require(["fit"])
