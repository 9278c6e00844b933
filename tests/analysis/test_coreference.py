"""Coreference by single heads against loops over documents, mentions and words."""

from dataclasses import replace

import pytest
import torch

from headscope.analysis.coreference import COLUMNS, CoreferenceHeads
from headscope.contracts import DrawnInput
from headscope.data_modules.documents import UNKNOWN
from headscope.data_modules.readers.mentions import BASELINES
from tests.analysis.conftest import HEADS, LAYERS, merged

LENGTHS = [9, 6, 4]  # with ROOT
IGNORE = -100
# Two mentions may share a head word; groups 0 of the first document are words 2, 5, 8.
MENTION_HEADS = [[2, 2, 4, 5, 7, 8], [1, 3, 5], [1, 3]]
GROUPS = [[0, 1, 2, 0, 2, 0], [0, 1, 0], [0, 1]]
KINDS = [[2, 1, 1, 0, 2, 0], [1, 2, 0], [0, 0]]


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[IGNORE] * (width - len(row))] for row in rows])


def antecedents(document):
    """For each mention the head words of earlier mentions of its group."""
    heads, groups = MENTION_HEADS[document], GROUPS[document]
    return [
        {heads[j] for j in range(len(heads)) if groups[j] == groups[i] and heads[j] < heads[i]} for i in range(len(heads))
    ]


@pytest.fixture
def document_facts(facts):
    return replace(facts, kind="documents")


@pytest.fixture
def batch(random_batch):
    gold = {
        "mention_heads": padded(MENTION_HEADS),
        "document": torch.tensor([[0], [1], [2]]),
        "groups": padded(GROUPS),
        "kinds": padded(KINDS),
        "antecedents": padded([[len(found) for found in antecedents(n)] for n in range(3)]),
        **{name: padded([[n % 2 for n in range(len(row))] for row in GROUPS]) for name in BASELINES},
    }
    return random_batch(LENGTHS, gold)


def looped(batch, layer, head, any_word, column):
    right = count = 0
    for document, length in enumerate(LENGTHS):
        heads = MENTION_HEADS[document]
        for i, of_group in enumerate(antecedents(document)):
            if not of_group or column not in ("all", ("pronoun", "proper", "nominal")[KINDS[document][i]]):
                continue
            words = range(1, length) if any_word else sorted({h for h in heads if h < heads[i]})
            row = batch.maps[document, layer, head, heads[i]].tolist()
            best = max((word for word in words if word != heads[i]), key=lambda word: row[word])
            count += 1
            right += best in of_group
    return right, count


@pytest.mark.parametrize(("name", "any_word"), [("coreference", False), ("coreference_any_word", True)])
def test_every_head_and_kind_equals_a_plain_loop(batch, document_facts, name, any_word):
    metric = CoreferenceHeads(document_facts, replicates=5)
    metric.update(batch)
    heads = metric.compute().heads
    for column in ("all", "pronoun", "nominal"):
        for layer in range(LAYERS):
            for head in range(HEADS):
                right, count = looped(batch, layer, head, any_word, column)
                assert heads[f"{name}:{column}"].value[layer][head] == pytest.approx(100 * right / count, abs=1e-12)
                assert heads[f"{name}:{column}"].n[layer][head] == count
    assert f"{name}:proper" not in heads  # no proper name here has an antecedent


def test_a_mention_of_unknown_kind_counts_over_all_and_in_no_kind(batch, document_facts):
    """The fourth mention of the first document is no longer a pronoun; it has an antecedent."""
    kinds = batch.gold["kinds"].clone()
    kinds[0, 3] = UNKNOWN
    counts = []
    for gold in (batch.gold, batch.gold | {"kinds": kinds}):
        metric = CoreferenceHeads(document_facts, replicates=5)
        metric.update(replace(batch, gold=gold))
        counts.append({name.partition(":")[2]: int(one.n[0][0]) for name, one in metric.compute().heads.items()})
    assert counts == [{"all": 4, "pronoun": 3, "nominal": 1}, {"all": 4, "pronoun": 2, "nominal": 1}]


def test_the_table_has_the_baselines_and_the_best_head_of_each_counting(batch, document_facts):
    metric = CoreferenceHeads(document_facts, replicates=5)
    metric.update(batch)
    found = metric.compute()
    rows = {row["row"]: row for row in found.tables["coreference"]}
    assert list(rows) == [*BASELINES, "neural coreference", "best head, among mentions", "best head, among all words"]
    assert {key for key, value in rows.pop("neural coreference").items() if value is not None} == {"row"}
    # Of the mentions with an antecedent (fourth, fifth and sixth; third of the second document) two have odd places.
    assert rows["nearest mention"]["all"] == 50
    best = max(max(row) for row in found.heads["coreference:all"].value)
    assert rows["best head, among mentions"]["all"] == best
    layer, head = map(int, rows["best head, among mentions"]["head"].split("-"))
    assert found.heads["coreference:all"].value[layer - 1][head - 1] == best
    assert set(COLUMNS) <= set(rows["rules"])
    grids = {column: found.heads.get(f"coreference:{column}") for column in COLUMNS}
    counts = {column: int(grid.n[0][0]) if grid else 0 for column, grid in grids.items()}
    assert counts["all"] == 4
    assert {row["n"] for row in rows.values()} == {4}
    assert found.notes["coreference"][0] == f"mentions (n): {', '.join(f'{n} {column}' for column, n in counts.items())}"


def test_two_processes_count_as_one(batch, parts_of, document_facts):
    whole, first, second = (CoreferenceHeads(document_facts, replicates=20) for _ in range(3))
    whole.update(batch)
    for metric, part in zip((first, second), parts_of(batch, 1), strict=True):
        metric.update(part)
    expected, found = whole.compute(), merged(first, second).compute()
    assert str(found) == str(expected)  # NaN included


def test_the_head_of_a_row_is_tested_on_documents_that_did_not_choose_it(batch, document_facts):
    """By a loop: each half's best head on the other half, against the baseline of the same head word, by bootstrap."""
    metric = CoreferenceHeads(document_facts, replicates=60)
    metric.update(batch)
    row = next(row for row in metric.compute().tables["coreference"] if row["row"] == "best head, among mentions")
    found = {half: {} for half in range(2)}  # by head, right and all mentions
    for layer in range(LAYERS):
        for head in range(HEADS):
            for half in range(2):
                right = count = 0
                for document in range(len(LENGTHS)):
                    if document % 2 != half:
                        continue
                    heads = MENTION_HEADS[document]
                    for i, of_group in enumerate(antecedents(document)):
                        if of_group:
                            weights = batch.maps[document, layer, head, heads[i]].tolist()
                            words = sorted({h for h in heads if h < heads[i]})
                            count += 1
                            right += max(words, key=lambda word: weights[word]) in of_group
                found[half][layer, head] = (right, count)
    chosen = {half: max(found[1 - half], key=lambda one: found[1 - half][one][0]) for half in range(2)}
    right = sum(found[half][chosen[half]][0] for half in range(2))
    assert row["held_out"] == pytest.approx(100 * right / 4)
    assert row["held_out_low"] <= row["held_out_high"]
    assert 0 <= row["p"] <= row["p_holm"] <= 1


def test_the_drawing_has_attention_between_the_head_words_of_mentions(batch, document_facts):
    words = tuple("abcdefgh")
    marked = {"heads": tuple(MENTION_HEADS[0]), "groups": tuple(GROUPS[0])}
    facts = replace(document_facts, drawn=(DrawnInput(0, words, marked=marked),), notes=("singletons: none",))
    metric = CoreferenceHeads(facts, replicates=5)
    metric.update(batch)
    found = metric.compute()
    (drawing,) = found.drawings["coreference_lines"]
    assert drawing["words"] == ["b", "d", "e", "g", "h"]
    assert drawing["links"] == [[2, 0], [3, 1], [4, 0], [4, 2]]
    layer, head = map(int, drawing["head"].split("-"))
    at = [2, 4, 5, 7, 8]
    expected = batch.maps[0, layer - 1, head - 1][at][:, at]
    torch.testing.assert_close(torch.tensor(drawing["attention"]), expected, atol=1e-4, rtol=0)
    assert "singletons: none" in found.notes["coreference"]
