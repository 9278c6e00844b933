"""Attention to features and along links against loops over inputs, tokens and links."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from headscope.analysis.features import FeatureAttention
from headscope.analysis.statistics import poisson_weights
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.readers.conllu import conllu_files, read_conllu
from headscope.data_modules.readers.features import FEATURES as BITS
from headscope.data_modules.treebank_tokens import TreebankTokenDataModule
from headscope.errors import ConfigError
from tests.analysis.conftest import HEADS, LAYERS, merged

NOUN, VERB, PRONOUN, SUBJECT, OBJECT, NEGATION, CLS, SEP = (1 << place for place in range(8))
NAMES = ["noun", "verb", "pronoun", "subject", "object", "negation", "cls", "sep"]
LINKS = ["verb_subject", "noun_pronoun", "same_word"]
LENGTHS = [9, 6, 3, 7]
# Nouns several times, a token of many features, an input of none but [CLS] and [SEP], no negation but in the last.
FEATURES = [
    [CLS, NOUN + SUBJECT, NOUN + SUBJECT, VERB, 0, SEP, PRONOUN + OBJECT, NOUN, SEP],
    [CLS, PRONOUN + SUBJECT, VERB, NOUN + OBJECT, 0, SEP],
    [CLS, 0, SEP],
    [CLS, NEGATION + PRONOUN + SUBJECT, VERB, 0, VERB, NEGATION, SEP],
]
OF_LINKS = {
    "verb_subject": [[(3, 1), (3, 2)], [(2, 1)], [], [(2, 1)]],
    "noun_pronoun": [[(1, 6), (2, 6), (7, 6)], [(3, 1)], [], []],
    "same_word": [[(1, 6), (2, 7), (2, 6)], [], [], [(1, 5)]],
}


def padded(rows):
    size = max(map(len, rows))
    return torch.tensor([[*row, *[-100] * (size - len(row))] for row in rows], dtype=torch.long).reshape(len(rows), size)


def gold_of(features, links):
    flat = {name: padded([[place for pair in pairs for place in pair] for pairs in rows]) for name, rows in links.items()}
    return {"features": padded(features), **flat}


@pytest.fixture
def batch(random_batch):
    made = random_batch(LENGTHS, gold_of(FEATURES, OF_LINKS))
    made.tuned_maps = random_batch(LENGTHS, {}, seed=7).maps
    return made


@pytest.fixture
def glue_facts(facts):
    return replace(facts, kind="glue", tuned=False, features=True)


def part_of(batch, part):
    gold = {name: values[part] for name, values in batch.gold.items()}
    return AttentionBatch(
        batch.mask[part], gold, batch.index[part], maps=batch.maps[part], tuned_maps=batch.tuned_maps[part]
    )


def looped(maps, features, links):
    """All quantities of one input and head that are defined for it."""
    length, values = len(features), {}
    rows = maps.double().tolist()
    near = [sum(rows[q][k] for k in (q - 1, q, q + 1) if 0 <= k < length) for q in range(length)]
    values["near_diagonal"] = sum(near) / length
    for place, name in enumerate(NAMES):
        tokens = [token for token in range(length) if features[token] & (1 << place)]
        if tokens:
            received = [sum(rows[source][token] for source in range(length)) / length for token in tokens]
            values[f"attention_to_{name}"] = max(received)
            values[f"cls_to_{name}"] = max(rows[0][token] for token in tokens)
    for name in LINKS:
        if links[name]:
            values[f"{name}_forward"] = max(rows[start][end] for start, end in links[name])
            values[f"{name}_backward"] = max(rows[end][start] for start, end in links[name])
    return values


def expected_means(maps, inputs=range(4)):
    """The mean over the inputs that have it, and their number, of each quantity, layer and head."""
    means = {}
    for layer in range(LAYERS):
        for head in range(HEADS):
            of_inputs = [
                looped(
                    maps[n, layer, head, : LENGTHS[n], : LENGTHS[n]],
                    FEATURES[n],
                    {name: OF_LINKS[name][n] for name in LINKS},
                )
                for n in inputs
            ]
            for name in {name for values in of_inputs for name in values}:
                defined = [values[name] for values in of_inputs if name in values]
                means[name, layer, head] = sum(defined) / len(defined), len(defined)
    return means


def found(facts, *batches, **options):
    metric = FeatureAttention(facts, **options)
    for batch in batches:
        metric.update(batch)
    return metric.compute()


def assert_equal(heads, expected):
    assert set(heads) == {name for name, _, _ in expected}
    for (name, layer, head), (value, count) in expected.items():
        assert heads[name].value[layer][head] == pytest.approx(value, abs=1e-6), name
        assert heads[name].n[layer][head] == count, name


def test_every_quantity_of_every_head_equals_a_plain_loop(batch, glue_facts):
    assert batch.maps[2, 0, 0, 3:].any()  # rows of padding are filled
    heads = found(glue_facts, batch).heads
    assert len(heads) == 23
    assert_equal(heads, expected_means(batch.maps))
    counts = {name: heads[name].n[0][0] for name in heads}
    assert counts["attention_to_noun"] == counts["cls_to_noun"] == 2
    assert counts["attention_to_negation"] == 1
    assert counts["attention_to_cls"] == counts["attention_to_sep"] == 4
    assert counts["verb_subject_forward"] == counts["verb_subject_backward"] == 3
    assert counts["noun_pronoun_forward"] == counts["same_word_forward"] == counts["same_word_backward"] == 2


def test_a_model_that_sets_its_first_token_behind_the_text_is_read_there(batch, glue_facts):
    """As XLNet does: the rows of [CLS] are then the last real ones, whatever stands in front."""
    features = [[SEP if token == 0 else bits for token, bits in enumerate(row)] for row in FEATURES]
    for row in features:
        row[-1] = CLS
    gold = {**batch.gold, "features": padded(features)}
    moved = AttentionBatch(batch.mask, gold, batch.index, maps=batch.maps)
    values = found(glue_facts, moved).heads["cls_to_sep"].value
    for layer in range(LAYERS):
        for head in range(HEADS):
            maps = [batch.maps[index, layer, head].tolist() for index in range(len(LENGTHS))]
            rows = [one[length - 1] for one, length in zip(maps, LENGTHS, strict=True)]
            largest = [
                max(row[token] for token, bits in enumerate(of) if bits & SEP)
                for row, of in zip(rows, features, strict=True)
            ]
            assert values[layer][head] == pytest.approx(sum(largest) / len(largest), abs=1e-6)


def test_the_values_of_a_second_model_and_the_change(batch, glue_facts):
    heads = found(replace(glue_facts, tuned=True), batch).heads
    first, second = expected_means(batch.maps), expected_means(batch.tuned_maps)
    tuned = {(f"tuned_{name}", layer, head): value for (name, layer, head), value in second.items()}
    change = {
        (f"change_{name}", layer, head): (second[name, layer, head][0] - value, count)
        for (name, layer, head), (value, count) in first.items()
    }
    assert len(heads) == 69
    assert_equal(heads, first | tuned | change)


def test_one_token_by_hand(glue_facts):
    maps = torch.zeros(1, LAYERS, HEADS, 4, 4)
    maps[..., 0] = 1.0
    # The last row is of padding; what it gives to the noun must not count.
    maps[0, 1, 2] = torch.tensor([[0.1, 0.6, 0.3, 0.0], [0.2, 0.5, 0.3, 0.0], [0.4, 0.1, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False]])
    gold = {"features": torch.tensor([[CLS, NOUN, PRONOUN, -100]]), "verb_subject": torch.zeros(1, 0, dtype=torch.long)}
    gold |= {"noun_pronoun": torch.tensor([[1, 2]]), "same_word": gold["verb_subject"]}
    batch = AttentionBatch(mask, gold, torch.tensor([0]), maps=maps)
    heads = found(glue_facts, batch).heads
    values = {name: heads[name].value[1][2] for name in heads}
    assert values == pytest.approx(
        {
            "attention_to_noun": 1.2 / 3,
            "attention_to_pronoun": 1.1 / 3,
            "attention_to_cls": 0.7 / 3,
            "cls_to_noun": 0.6,
            "cls_to_pronoun": 0.3,
            "cls_to_cls": 0.1,
            "noun_pronoun_forward": 0.3,
            "noun_pronoun_backward": 0.1,
            "near_diagonal": (0.7 + 1.0 + 0.6) / 3,
        }
    )
    assert heads["attention_to_noun"].value[0][0] == 0


def test_what_stands_in_the_padding_does_not_matter(batch, glue_facts):
    before = found(glue_facts, batch)
    padding = ~(batch.mask[:, :, None] & batch.mask[:, None])[:, None, None]
    batch.maps = batch.maps.masked_fill(padding, 5.0)
    batch.gold["features"] = batch.gold["features"].masked_fill(~batch.mask, NOUN + NEGATION)
    assert found(glue_facts, batch) == before


def test_inputs_without_a_link_in_the_whole_batch(batch, random_batch, glue_facts):
    """A batch without links has gold of no width."""
    alone = random_batch([3, 3], gold_of([FEATURES[2]] * 2, {name: [[], []] for name in LINKS}), first=4, seed=3)
    assert alone.gold["verb_subject"].shape == (2, 0)
    only = found(glue_facts, alone)
    assert set(only.heads) == {"attention_to_cls", "attention_to_sep", "cls_to_cls", "cls_to_sep", "near_diagonal"}
    assert [row["quantity"] for row in only.tables["features"]] == [
        "attention_to_cls", "attention_to_sep", "cls_to_cls", "cls_to_sep", "near_diagonal",
    ]  # fmt: skip
    both, before = found(glue_facts, alone, batch).heads, found(glue_facts, batch).heads
    for name in before:
        if name not in only.heads:
            assert (both[name].value, both[name].n) == (before[name].value, before[name].n)
        else:
            value = (4 * before[name].value[1][1] + 2 * only.heads[name].value[1][1]) / 6
            assert both[name].value[1][1] == pytest.approx(value)
            assert both[name].n[1][1] == 6


def test_the_table_takes_all_heads_or_for_cls_those_of_the_last_layer(batch, glue_facts):
    rows = found(replace(glue_facts, tuned=True), batch).tables["features"]
    first, second = expected_means(batch.maps), expected_means(batch.tuned_maps)
    expected = [f"{start}_to_{name}" for start in ("attention", "cls") for name in NAMES]
    expected += [f"{name}_{direction}" for name in LINKS for direction in ("forward", "backward")] + ["near_diagonal"]
    assert [row["quantity"] for row in rows] == expected
    for row in rows:
        name = row["quantity"]
        layers = [LAYERS - 1] if name.startswith("cls_to_") else range(LAYERS)
        places = [(layer, head) for layer in layers for head in range(HEADS)]
        means = [sum(values[name, *place][0] for place in places) / len(places) for values in (first, second)]
        assert row["mean"] == pytest.approx(means[0], abs=1e-6)
        assert row["tuned_mean"] == pytest.approx(means[1], abs=1e-6)
        assert row["change"] == pytest.approx(means[1] - means[0], abs=1e-6)
        assert row["n"] == first[name, 0, 0][1]
        assert not math.isnan(row["mean"])
    single = found(glue_facts, batch).tables["features"]
    assert [row["mean"] for row in single] == [row["mean"] for row in rows]
    assert all("tuned_mean" not in row for row in single)


def test_the_highest_head_of_a_quantity_over_all_heads(batch, glue_facts):
    expected, index = expected_means(batch.maps), batch.input_index.tolist()
    halves = [expected_means(batch.maps, [n for n in range(4) if index[n] % 2 == half]) for half in range(2)]
    alone = 0
    for row in found(glue_facts, batch, min_count=1).tables["features"]:
        name, layers = row["quantity"], [LAYERS - 1] if row["quantity"].startswith("cls_to_") else range(LAYERS)
        places = [(layer, head) for layer in layers for head in range(HEADS)]
        layer, head = max(places, key=lambda place: expected[name, *place][0])
        assert row["highest_head"] == f"{layer + 1}-{head + 1}"
        assert row["highest"] == pytest.approx(expected[name, layer, head][0], abs=1e-6)
        if not all((name, *places[0]) in half for half in halves):  # all inputs that have it are in one half
            assert row["highest_held_out"] is None
            alone += 1
            continue
        total = 0.0
        for half, other in (halves, halves[::-1]):
            best = max(places, key=lambda place: other[name, *place][0])
            mean, count = half[name, *best]
            total += mean * count / expected[name, *best][1]
        assert row["highest_held_out"] == pytest.approx(total, abs=1e-6)
    assert alone


def test_a_row_says_of_which_layers_it_is_and_names_no_head_of_few_inputs(batch, glue_facts):
    findings = found(glue_facts, batch, min_count=3)
    rows = findings.tables["features"]
    assert {row["quantity"].startswith("cls_to_"): row["layer"] for row in rows} == {False: "all", True: "2, the last"}
    assert {row["n"] >= 3: row["highest_head"] is not None for row in rows} == {True: True, False: False}
    assert findings.notes["features"][0].startswith(
        "highest head: of at least 3 inputs (analyses.features.min_count); held out:"
    )
    assert findings.notes["features"][-1].startswith("noun and pronoun: every noun with every pronoun of a text")
    nothing = found(glue_facts, batch, min_count=100)
    unnamed = [(row["highest_head"], row["highest"], row["highest_held_out"]) for row in nothing.tables["features"]]
    assert set(unnamed) == {(None, None, None)}
    assert nothing.notes["features"][0].endswith("; nothing was in so many")
    assert nothing.heads == findings.heads
    with pytest.raises(ConfigError, match="^analyses.features.min_count=0: expected at least 1.$"):
        FeatureAttention(glue_facts, min_count=0)


def test_intervals_are_those_of_inputs_drawn_again(batch, glue_facts):
    heads = found(replace(glue_facts, tuned=True), batch, replicates=30, seed=5).heads
    weights = poisson_weights(batch.index, 30, 5).double().numpy()
    for name in ("attention_to_noun", "verb_subject_backward"):
        having = [n for n in range(4) if name in looped_of(batch.maps, n, 1, 2)]
        values = {
            model: np.array([looped_of(maps, n, 1, 2)[name] for n in having])
            for model, maps in (("", batch.maps), ("tuned_", batch.tuned_maps))
        }
        values["change_"] = values["tuned_"] - values[""]
        for model, some in values.items():
            drawn = [row[having] @ some / row[having].sum() for row in weights if row[having].sum()]
            low, high = np.percentile(drawn, [2.5, 97.5])
            grid = heads[f"{model}{name}"]
            assert (grid.low[1][2], grid.high[1][2]) == pytest.approx((low, high), abs=1e-6)


def test_changes_are_tested_where_enough_inputs_have_them_and_corrected_over_all(batch, glue_facts):
    heads = found(replace(glue_facts, tuned=True), batch, replicates=30, seed=5, min_count=3).heads
    weights = poisson_weights(batch.index, 30, 5).double().numpy()
    alone = {}
    for name in {one.removeprefix("change_") for one in heads if one.startswith("change_")}:
        for place in [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]:
            having = [n for n in range(4) if name in looped_of(batch.maps, n, *place)]
            models = [
                np.array([looped_of(maps, n, *place)[name] for n in having]) for maps in (batch.maps, batch.tuned_maps)
            ]
            change = models[1] - models[0]
            drawn = [row[having] @ change / row[having].sum() for row in weights if row[having].sum()]
            if len(having) >= 3:
                alone[name, *place] = 2 * norm.sf(abs(change.mean()) / np.std(drawn, ddof=1))
    largest, order = 0.0, sorted(alone, key=alone.__getitem__)
    for rank, (name, layer, head) in enumerate(order):
        largest = max(largest, min(1, alone[name, layer, head] * (len(order) - rank)))
        assert heads[f"change_{name}"].p[layer][head] == pytest.approx(largest, abs=1e-5)
    tested = {name for name, _, _ in alone}
    assert "verb_subject_forward" in tested and "attention_to_negation" not in tested
    assert {name.removeprefix("change_") for name, values in heads.items() if values.p is not None} == tested


def looped_of(maps, n, layer, head):
    links = {name: OF_LINKS[name][n] for name in LINKS}
    return looped(maps[n, layer, head, : LENGTHS[n], : LENGTHS[n]], FEATURES[n], links)


def test_links_are_ranked_against_the_diagonal(batch, glue_facts):
    findings = found(glue_facts, batch)
    for row in findings.tables["features"]:
        if row["quantity"].startswith(("verb_subject", "noun_pronoun")):
            grids = [np.array(findings.heads[name].value).ravel() for name in (row["quantity"], "near_diagonal")]
            ranks = [np.argsort(np.argsort(grid)) for grid in grids]
            assert row["diagonal_correlation"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
        else:
            assert "diagonal_correlation" not in row


def test_what_cls_attends_to_most_in_the_last_layer(batch, glue_facts):
    findings = found(replace(glue_facts, tuned=True), batch)
    (line,) = [line for line in findings.notes["features"] if line.startswith("[CLS]")]
    means = {r["quantity"][7:]: r["tuned_mean"] for r in findings.tables["features"] if r["quantity"].startswith("cls_to_")}
    best = max((name for name in means if name != "cls"), key=means.get)
    best = {"sep": "[SEP]"}.get(best, best)
    assert line == f"[CLS] of the fine-tuned model attends in the last layer most to: {best}, itself aside"


def test_what_links_nouns_and_pronouns_is_told(batch, glue_facts):
    notes = [found(replace(glue_facts, coreference=known), batch).notes["features"][-1] for known in (False, True)]
    assert notes[0].startswith("noun and pronoun: every noun with every pronoun of a text, since no coreference")
    assert notes[1] == "noun and pronoun: pairs of a sentence that corefer, as annotated"


@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize("at", [1, 3])
def test_two_processes_count_as_one(at, compared, batch, glue_facts):
    facts = replace(glue_facts, tuned=compared)
    first, second = FeatureAttention(facts), FeatureAttention(facts)
    first.update(part_of(batch, slice(0, at)))
    second.update(part_of(batch, slice(at, None)))
    expected, together = found(facts, batch).heads, merged(first, second).compute().heads
    assert set(together) == set(expected)
    for name in expected:
        torch.testing.assert_close(torch.tensor(together[name].value), torch.tensor(expected[name].value))
        assert together[name].n == expected[name].n


def test_data_without_features_is_refused(glue_facts):
    with pytest.raises(ConfigError, match="^needs features; name a spaCy pipeline with parser=.$"):
        FeatureAttention(replace(glue_facts, features=False))


def test_other_data_is_refused(glue_facts):
    with pytest.raises(ConfigError, match="^needs data=glue or data=treebank_tokens, found data of kind dependencies.$"):
        FeatureAttention(replace(glue_facts, kind="dependencies"))


def test_features_of_a_treebank_come_from_its_gold_annotation(minilm):
    """Pieces have the features of their word; links join all pieces of both words."""
    data = TreebankTokenDataModule(encoder=minilm, test="package:headscope.data_modules/samples/treebank", limit=30)
    sentences = read_conllu(conllu_files("package:headscope.data_modules/samples/treebank"), 30)
    tokenizer = minilm.tokenizer()
    for item, sentence in zip(data.read_splits()["test"].items, sentences, strict=True):
        of_token = tokenizer(list(sentence.words), is_split_into_words=True).word_ids()
        gold = item.example.gold
        for token, word in enumerate(of_token):
            found = {name for n, name in enumerate(BITS) if gold["features"][token] >> n & 1}
            kinds = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "PRON": "pronoun"}
            if word is None:
                assert found == {"cls" if token == 0 else "sep"}
                continue
            base = sentence.relations[word].partition(":")[0]
            assert ("subject" in found) == (base in ("nsubj", "csubj"))
            assert ("object" in found) == (base in ("obj", "iobj"))
            assert found & {"noun", "verb", "pronoun"} == (
                {kinds[sentence.upos[word]]} if sentence.upos[word] in kinds else set()
            )
        expected = {
            (a, b)
            for word, (head, relation) in enumerate(zip(sentence.governors, sentence.relations, strict=True))
            if relation.partition(":")[0] in ("nsubj", "csubj") and head and sentence.upos[head - 1] == "VERB"
            for a, one in enumerate(of_token)
            for b, other in enumerate(of_token)
            if one == head - 1 and other == word
        }
        assert set(map(tuple, gold["verb_subject"].reshape(-1, 2).tolist())) == expected


def test_nouns_and_pronouns_of_annotated_documents_corefer(minilm):
    """By hand, of the first two packaged sentences: baker and his; Marek and his, and he; not shop, key or pockets."""
    data = TreebankTokenDataModule(encoder=minilm, test="package:headscope.data_modules/samples/coreference", limit=2)
    items = data.read_splits()["test"].items
    assert data.facts().coreference
    found = []
    for item in items:
        of_token = minilm.tokenizer()(list(item.example.words), is_split_into_words=True).word_ids()
        pairs = item.example.gold["noun_pronoun"].reshape(-1, 2).tolist()
        found.append({tuple(item.example.words[of_token[token]] for token in pair) for pair in pairs})
    assert found == [{("baker", "his")}, {("Marek", "his"), ("Marek", "he")}]
    plain = TreebankTokenDataModule(encoder=minilm, test="package:headscope.data_modules/samples/treebank", limit=2)
    assert not plain.facts().coreference
