"""Relations by single heads against loops over sentences, words, heads and offsets, to the last digit."""

from dataclasses import replace

import pytest
import torch

from headscope.analysis.relations import DIRECTIONS, OFFSETS, RelationHeads, relation_rows
from headscope.contracts import DrawnInput
from headscope.data_modules.treebank import TreebankDataModule
from headscope.errors import ConfigError
from tests.analysis.conftest import HEADS, LAYERS, merged

RELATIONS = ["det", "nmod:poss", "nsubj", "nsubj:pass", "punct", "root"]
LENGTHS = [7, 6, 3, 2]  # with ROOT
IGNORE = -100
HEAD_OF = [[2, 0, 4, 2, 4, 2], [3, 3, 0, 3, 4], [2, 0], [0]]
RELATION_OF = [[0, 5, 1, 2, 0, 4], [2, 3, 5, 0, 1], [0, 5], [5]]
ASKED = [[1, 2, 4, 4, 5, 6], [1, 2, 3, 4, 5], [1, 2], [1]]
SHOWN = (DrawnInput(10, ("a", "b", "c", "d", "e", "."), tuple(HEAD_OF[0]), tuple(RELATION_OF[0])),)


def padded(rows):
    return torch.tensor([[IGNORE, *row, *[IGNORE] * (max(LENGTHS) - 1 - len(row))] for row in rows])


@pytest.fixture
def tree_facts(facts):
    return replace(facts, kind="treebank", relations=RELATIONS, drawn=SHOWN)


@pytest.fixture
def batch(random_batch):
    gold = {"governors": padded(HEAD_OF), "relations": padded(RELATION_OF), "asked": padded(ASKED)}
    return random_batch(LENGTHS, gold, first=10)


def most_attended(grid, word, length, direction):
    """The other word with most attention from (row) or to (column) a word; the first of equals."""
    best, place = -1.0, None
    for other in range(1, length):
        weight = float(grid[word, other] if direction == "dependent_to_head" else grid[other, word])
        if other != word and weight > best:
            best, place = weight, other
    return place


def looped(maps, heads_of, relations_of, names, relation, direction, layer, head, asked=None):
    """Right and all words of a relation."""
    right = count = 0
    for n, (heads, relations) in enumerate(zip(heads_of, relations_of, strict=True)):
        for word, (gold, number) in enumerate(zip(heads, relations, strict=True), start=1):
            name = names[number]
            if gold == 0 or name.startswith(("punct", "root")) or relation not in ("all", name):
                continue
            source = asked[n][word - 1] if asked and name == "nmod:poss" else word
            count += 1
            right += most_attended(maps[n][layer, head], source, len(heads) + 1, direction) == gold
    return right, count


@pytest.mark.parametrize("possessive", ["text", "released"])
def test_every_head_direction_and_relation_equals_a_plain_loop(batch, tree_facts, possessive):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5, possessive=possessive)
    metric.update(batch)
    heads = metric.compute().heads
    asked = ASKED if possessive == "released" else None
    for relation in ("all", "det", "nmod:poss", "nsubj", "nsubj:pass"):
        for direction in DIRECTIONS:
            for layer in range(LAYERS):
                for head in range(HEADS):
                    right, count = looped(
                        batch.maps, HEAD_OF, RELATION_OF, RELATIONS, relation, direction, layer, head, asked
                    )
                    found = heads[f"relation:{relation}:{direction}"]
                    assert found.value[layer][head] == 100 * right / count
                    assert found.n[layer][head] == count


def test_the_best_offset_by_hand(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5)
    metric.update(batch)
    rows = {row["relation"]: row for row in metric.compute().tables["relation_heads"]}
    # det: 1→2, 5→4, 4→3, 1→2 in the last but one sentence.
    assert (rows["det"]["baseline"], rows["det"]["n"]) == (50, 4)
    assert rows["det"]["offset"] in (-1, 1)
    assert (rows["nsubj"]["offset"], rows["nsubj"]["baseline"]) == (-2, 50)
    assert set(OFFSETS) == {-5, -4, -3, -2, -1, 1, 2, 3, 4, 5}


def test_the_head_is_chosen_on_one_half_and_scored_on_the_other(tree_facts, random_batch):
    """Head 1-1 is right on even places, 1-2 on odd ones, none on both: held out, both choices fail."""
    gold = {"governors": torch.tensor([[IGNORE, 2, 0, 2]] * 4), "relations": torch.tensor([[IGNORE, 0, 5, 4]] * 4)}
    batch = random_batch([4] * 4, gold)
    right, wrong = torch.eye(4)[[0, 2, 3, 1]], torch.eye(4)[[0, 3, 3, 1]]
    batch.maps[:] = wrong
    for place in range(4):
        batch.maps[place, 0, place % 2] = right
    metric = RelationHeads(tree_facts, min_count=1, replicates=50)
    metric.update(batch)
    row = next(row for row in metric.compute().tables["relation_heads"] if row["relation"] == "det")
    assert (row["accuracy"], row["held_out"], row["direction"]) == (50, 0, "dependent_to_head")


def test_two_processes_count_as_one(batch, parts_of, tree_facts):
    whole, first, second = (RelationHeads(tree_facts, min_count=1, replicates=20) for _ in range(3))
    whole.update(batch)
    for metric, part in zip((first, second), parts_of(batch, 1), strict=True):
        metric.update(part)
    assert merged(first, second).compute() == whole.compute()


def test_rare_relations_are_not_ranked_but_in_the_table_of_heads(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=4, replicates=5)
    metric.update(batch)
    found = metric.compute()
    assert [row["relation"] for row in found.tables["relation_heads"]] == ["all", "det"]
    assert "relation:nsubj:head_to_dependent" in found.heads
    assert found.notes == {"relation_heads": ["relations of at least 4 words (analyses.relations.min_count)"]}


def test_sentences_of_one_word_say_nothing(tree_facts, random_batch):
    metric = RelationHeads(tree_facts, replicates=5)
    gold = {"governors": torch.tensor([[IGNORE, 0]]), "relations": torch.tensor([[IGNORE, 5]])}
    metric.update(random_batch([2], gold))
    found = metric.compute()
    assert found.tables["relation_heads"] == []
    assert found.notes == {"relation_heads": ["no relation is of at least 100 words (analyses.relations.min_count)"]}
    assert found.heads == {}


def test_a_drawing_shows_the_best_head_s_attention_between_words(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5, relations=["det"])
    metric.update(batch)
    (drawing,) = metric.compute().drawings["attention_lines"]
    layer, head = map(int, drawing["head"].split("-"))
    expected = batch.maps[0, layer - 1, head - 1, 1:7, 1:7]
    torch.testing.assert_close(torch.tensor(drawing["attention"]), expected, atol=1e-4, rtol=0)
    assert drawing["links"] == [[1, 2], [5, 4]]


def test_subtypes_can_be_joined():
    names, members = relation_rows(RELATIONS, None, subtypes=False)
    assert names == ["det", "nmod", "nsubj", "all"]
    assert members.tolist() == [
        [1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0],
    ]  # fmt: skip


def test_an_unknown_relation_is_refused_with_near_matches():
    with pytest.raises(ConfigError, match="nsub is no relation of the data; did you mean nsubj"):
        relation_rows(RELATIONS, ["nsub"], subtypes=True)


def test_real_figures_of_600_sentences(shared, minilm, ready):
    """The best head in the direction dependent → head, as an independent script found it, and all heads by a loop."""
    file = shared / "data" / "ud_english_ewt" / "dev.conllu"
    data = ready(TreebankDataModule(encoder=minilm, test=str(file), limit=600))
    metric = RelationHeads(data.facts(), replicates=5)
    maps = {}
    for host_batch in data.test_dataloader():
        batch = data.on_after_batch_transfer(host_batch, 0)
        metric.update(batch)
        for place, grid, mask in zip(batch.index.tolist(), batch.maps, batch.mask, strict=True):
            maps[place] = grid[:, :, : mask.sum(), : mask.sum()].clone()
    found = metric.compute()
    best = {}
    for relation in ("all", "obj", "det", "case", "compound"):
        grid = torch.tensor(found.heads[f"relation:{relation}:dependent_to_head"].value)
        place = int(grid.argmax())
        best[relation] = (f"{place // 12 + 1}-{place % 12 + 1}", round(float(grid.max()), 1))
    assert best == {
        "all": ("3-9", 43.3), "obj": ("3-1", 70.7), "det": ("3-9", 79.5), "case": ("3-9", 68.3), "compound": ("2-9", 82.8),
    }  # fmt: skip
    rows = {row["relation"]: row for row in found.tables["relation_heads"]}
    assert (rows["all"]["offset"], round(rows["all"]["baseline"], 1)) == (1, 32.9)
    assert (rows["obj"]["offset"], round(rows["obj"]["baseline"], 1)) == (-2, 34.5)

    items = [item.example.gold for item in data.read_splits()["test"].items]
    heads_of, relations_of = ([gold[name][1:].tolist() for gold in items] for name in ("governors", "relations"))
    ordered, names = [maps[place] for place in range(600)], data.read_relations()
    for direction in DIRECTIONS:
        predictions = [predicted(grid, direction) for grid in ordered]
        for relation in (*sorted({name for name in names if not name.startswith(("punct", "root"))}), "all"):
            right, count = torch.zeros(6, 12, dtype=torch.float64), 0
            for prediction, heads, relations in zip(predictions, heads_of, relations_of, strict=True):
                for word, (gold, number) in enumerate(zip(heads, relations, strict=True), start=1):
                    scored = gold and not names[number].startswith(("punct", "root"))
                    if scored and relation in ("all", names[number]):
                        count += 1
                        right += prediction[:, :, word] == gold
            if count:
                assert found.heads[f"relation:{relation}:{direction}"].value == (100 * right / count).tolist()


def predicted(grid, direction):
    """The most attended other word of each word of one sentence, for all heads."""
    grid = grid.clone() if direction == "dependent_to_head" else grid.transpose(2, 3).clone()
    grid[..., 0] = -1
    for word in range(grid.shape[-1]):
        grid[:, :, word, word] = -1
    return grid.argmax(-1)
