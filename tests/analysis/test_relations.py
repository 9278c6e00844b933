"""Relations by single heads against loops over sentences, words, heads and offsets, to the last digit."""

from dataclasses import replace

import pytest
import torch

from headscope.analysis.relations import DIRECTIONS, RelationHeads
from headscope.analysis.statistics import holm, mcnemar
from headscope.analysis.word_attention import OFFSETS, TAGS, relation_rows
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
UPOS_OF = [[0, 2, 1, 3, 17, 14], [0, 0, 2, 7, 1], [5, 2], [4]]
PIECES = [[1, 2, 1, 1, 3, 1], [1, 1, 1, 0, 2], [1, 1], [1]]
SHOWN = (DrawnInput(10, ("a", "b", "c", "d", "e", "."), tuple(HEAD_OF[0]), tuple(RELATION_OF[0])),)


def padded(rows):
    return torch.tensor([[IGNORE, *row, *[IGNORE] * (max(LENGTHS) - 1 - len(row))] for row in rows])


@pytest.fixture
def tree_facts(facts):
    return replace(facts, kind="treebank", relations=RELATIONS, drawn=SHOWN)


@pytest.fixture
def batch(random_batch):
    gold = {"governors": HEAD_OF, "relations": RELATION_OF, "asked": ASKED, "upos": UPOS_OF, "pieces": PIECES}
    return random_batch(LENGTHS, {name: padded(rows) for name, rows in gold.items()}, first=10)


@pytest.fixture
def with_separators(random_batch):
    """The same sentences with one more unit behind the last word."""
    gold = {"governors": HEAD_OF, "relations": RELATION_OF, "asked": ASKED, "upos": UPOS_OF, "pieces": PIECES}
    wider = {name: torch.nn.functional.pad(padded(rows), (0, 1), value=IGNORE) for name, rows in gold.items()}
    return random_batch([length + 1 for length in LENGTHS], wider, first=10)


def most_attended(grid, word, candidates, direction):
    """The other candidate with most attention from (row) or to (column) a word; the first of equals."""
    best, place = -1.0, None
    for other in candidates:
        weight = float(grid[word, other] if direction == "dependent_to_head" else grid[other, word])
        if other != word and weight > best:
            best, place = weight, other
    return place


def looped(maps, heads_of, relations_of, names, relation, direction, layer, head, asked=None, special=False):
    """Right and all words of a relation; special tokens may be candidates."""
    right = count = 0
    for n, (heads, relations) in enumerate(zip(heads_of, relations_of, strict=True)):
        for word, (gold, number) in enumerate(zip(heads, relations, strict=True), start=1):
            name = names[number]
            if gold == 0 or name.startswith(("punct", "root")) or relation not in ("all", name):
                continue
            source = asked[n][word - 1] if asked and name == "nmod:poss" else word
            count += 1
            candidates = range(len(heads) + 2) if special else range(1, len(heads) + 1)
            right += most_attended(maps[n][layer, head], source, candidates, direction) == gold
    return right, count


@pytest.mark.parametrize("possessive", ["strict", "clitic"])
def test_every_head_direction_and_relation_equals_a_plain_loop(batch, tree_facts, possessive):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5, possessive=possessive)
    metric.update(batch)
    heads = metric.compute().heads
    asked = ASKED if possessive == "clitic" else None
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
    gold |= {name: torch.tensor([[IGNORE, 1, 2, 3]] * 4) for name in ("asked", "pieces")}
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
    assert found.notes["relation_heads"][0] == "relations of at least 4 words (analyses.relations.min_count)"


def test_sentences_of_one_word_say_nothing(tree_facts, random_batch):
    metric = RelationHeads(tree_facts, replicates=5)
    gold = {"governors": [0], "relations": [5], "asked": [1], "pieces": [1]}
    gold = {name: torch.tensor([[IGNORE, *row]]) for name, row in gold.items()}
    metric.update(random_batch([2], gold))
    found = metric.compute()
    assert found.tables["relation_heads"] == []
    assert found.notes["relation_heads"][0] == "no relation is of at least 100 words (analyses.relations.min_count)"
    assert found.heads == {}


def test_a_drawing_shows_the_best_head_s_attention_between_words(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5, relations=["det"])
    metric.update(batch)
    (drawing,) = metric.compute().drawings["attention_lines"]
    layer, head = map(int, drawing["head"].split("-"))
    expected = batch.maps[0, layer - 1, head - 1, 1:7, 1:7]
    torch.testing.assert_close(torch.tensor(drawing["attention"]), expected, atol=1e-4, rtol=0)
    assert drawing["links"] == [[0, 1], [4, 3]]
    assert drawing["words"] == ["a", "b", "c", "d", "e", "."]


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
    metric = RelationHeads(data.facts(), possessive="strict", replicates=5)
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


@pytest.mark.parametrize(("candidates", "special"), [("words", False), ("all", True)])
def test_special_tokens_are_candidates_on_request_only(with_separators, tree_facts, candidates, special):
    facts = replace(tree_facts, separators=True, drawn=())
    metric = RelationHeads(facts, min_count=1, replicates=5, possessive="strict", candidates=candidates)
    metric.update(with_separators)
    heads = metric.compute().heads
    for direction in DIRECTIONS:
        for layer in range(LAYERS):
            for head in range(HEADS):
                right, count = looped(
                    with_separators.maps, HEAD_OF, RELATION_OF, RELATIONS, "all", direction, layer, head, special=special
                )
                assert heads[f"relation:all:{direction}"].value[layer][head] == 100 * right / count


def test_special_tokens_as_candidates_need_data_that_keep_them(tree_facts):
    with pytest.raises(ConfigError, match="candidates=all: needs data.separators=true"):
        RelationHeads(tree_facts, candidates="all")


def test_what_words_give_to_the_separator_by_part_of_speech(with_separators, tree_facts):
    """Of the head that the other half chose, by a loop over words; nouns are the first two tags."""
    metric = RelationHeads(replace(tree_facts, separators=True, drawn=()), min_count=1, replicates=40)
    metric.update(with_separators)
    found = metric.compute()
    (row,) = [row for row in found.tables["no_op"] if row["relation"] == "det"]
    given, words = [0.0] * len(TAGS), [0] * len(TAGS)
    everywhere = {"nouns": [], "others": []}
    for n, tags in enumerate(UPOS_OF):
        half = (10 + n) % 2
        correct = metric.correct[1 - half, :, metric.names.index("det")]
        chosen = int(correct.argmax()) % (LAYERS * HEADS)
        for word, tag in enumerate(tags, start=1):
            weight = float(with_separators.maps[n, chosen // HEADS, chosen % HEADS, word, len(tags) + 1])
            given[tag] += weight
            words[tag] += 1
            everywhere["nouns" if tag < 2 else "others"].append(float(with_separators.maps[n, 1, 2, word, len(tags) + 1]))
    assert row["nouns"] == pytest.approx(100 * sum(given[:2]) / sum(words[:2]), rel=1e-5)
    assert row["others"] == pytest.approx(100 * sum(given[2:]) / sum(words[2:]), rel=1e-5)
    assert (row["n_nouns"], row["n_others"]) == (sum(words[:2]), sum(words[2:]))
    assert row["low"] <= row["high"] and 0 <= row["p"] <= row["p_holm"] <= 1
    by_tag = {one["upos"]: one for one in found.tables["no_op_by_part_of_speech"] if one["relation"] == "det"}
    assert {tag: one["n"] for tag, one in by_tag.items()} == {TAGS[n]: count for n, count in enumerate(words) if count}
    for tag, one in by_tag.items():
        assert one["to_sep"] == pytest.approx(100 * given[TAGS.index(tag)] / words[TAGS.index(tag)], rel=1e-5)
    for side, values in everywhere.items():
        assert found.heads[f"no_op_{side}_to_sep"].value[1][2] == pytest.approx(sum(values) / len(values), rel=1e-5)
        assert found.heads[f"no_op_{side}_to_sep"].n[1][2] == len(values)


def test_two_processes_count_separators_as_one(with_separators, parts_of, tree_facts):
    facts = replace(tree_facts, separators=True, drawn=())
    whole, first, second = (RelationHeads(facts, min_count=1, replicates=20) for _ in range(3))
    whole.update(with_separators)
    for metric, part in zip((first, second), parts_of(with_separators, 1), strict=True):
        metric.update(part)
    merged(first, second)
    for name in whole._reductions:
        torch.testing.assert_close(getattr(first, name), getattr(whole, name), msg=name)


def test_the_test_is_of_predictions_of_heads_and_offsets_that_the_other_half_chose(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=1, replicates=30, possessive="strict")
    metric.update(batch)
    (row,) = [row for row in metric.compute().tables["relation_heads"] if row["relation"] == "all"]
    right = {half: {} for half in range(2)}  # by (direction, layer, head), the words whose governor is found
    at = {half: {offset: set() for offset in OFFSETS} for half in range(2)}
    for n, (heads, relations) in enumerate(zip(HEAD_OF, RELATION_OF, strict=True)):
        half = (10 + n) % 2
        for word, (gold, number) in enumerate(zip(heads, relations, strict=True), start=1):
            if gold == 0 or RELATIONS[number] in ("punct", "root"):
                continue
            for offset in OFFSETS:
                if word + offset == gold:
                    at[half][offset].add((n, word))
            for place in [(d, a, b) for d in DIRECTIONS for a in range(LAYERS) for b in range(HEADS)]:
                found = right[half].setdefault(place, set())
                grid = batch.maps[n, place[1], place[2]]
                if most_attended(grid, word, range(1, len(heads) + 1), place[0]) == gold:
                    found.add((n, word))
    of_heads, of_offsets = set(), set()
    for half in range(2):
        of_heads |= right[half][max(right[1 - half], key=lambda place: len(right[1 - half][place]))]
        of_offsets |= at[half][max(at[1 - half], key=lambda offset: len(at[1 - half][offset]))]
    words = row["n"]
    assert row["held_out"] == pytest.approx(100 * len(of_heads) / words)
    assert row["held_out_baseline"] == pytest.approx(100 * len(of_offsets) / words)
    assert row["p"] == pytest.approx(float(mcnemar(len(of_heads - of_offsets), len(of_offsets - of_heads))))
    assert row["held_out_low"] <= row["held_out"] <= row["held_out_high"]


def test_every_head_is_tested_against_the_best_offset_corrected_over_all(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5, possessive="strict")
    metric.update(batch)
    found = metric.compute()
    by_offset = {offset: set() for offset in OFFSETS}
    scored = [
        (n, word, gold)
        for n, (heads, relations) in enumerate(zip(HEAD_OF, RELATION_OF, strict=True))
        for word, (gold, number) in enumerate(zip(heads, relations, strict=True), start=1)
        if gold and RELATIONS[number] not in ("punct", "root")
    ]
    for n, word, gold in scored:
        if gold - word in by_offset:
            by_offset[gold - word].add((n, word))
    best = max(by_offset.values(), key=len)
    p = []
    for direction in DIRECTIONS:
        for layer in range(LAYERS):
            for head in range(HEADS):
                grids = batch.maps[:, layer, head]
                right = {
                    (n, w) for n, w, g in scored
                    if most_attended(grids[n], w, range(1, len(HEAD_OF[n]) + 1), direction) == g
                }  # fmt: skip
                p.append(float(mcnemar(len(right - best), len(best - right))))
    expected = holm(p)
    values = [found.heads[f"relation:all:{direction}"].p for direction in DIRECTIONS]
    assert [one for grid in values for row in grid for one in row] == pytest.approx(expected)


def test_offsets_come_from_the_configuration(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5, offsets=[-3, -2, -1, 1, 2])
    metric.update(batch)
    rows = {row["relation"]: row for row in metric.compute().tables["relation_heads"]}
    assert {row["offset"] for row in rows.values()} <= {-3, -2, -1, 1, 2}
    for wrong in ([], [0, 1], [1, 1], [1.5]):
        with pytest.raises(ConfigError, match="expected whole numbers without 0"):
            RelationHeads(tree_facts, offsets=wrong)


def test_the_share_of_split_words(batch, tree_facts):
    metric = RelationHeads(tree_facts, min_count=1, replicates=5)
    metric.update(batch)
    several = [pieces > 1 for row in PIECES for pieces in row]
    assert metric.compute().metrics["split_words"] == pytest.approx(100 * sum(several) / len(several))
