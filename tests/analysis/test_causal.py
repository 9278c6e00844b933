"""What analyses make of a causal model, against plain loops over the tokens that a token may see; batches are padded."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from headscope.analysis.clusters import js_from_sums, mixture_sums
from headscope.analysis.entropy import row_entropy
from headscope.analysis.features import FEATURES, QUANTITIES, FeatureAttention, meaning
from headscope.analysis.relations import RelationHeads
from headscope.analysis.roles import sieves
from headscope.analysis.roles.heads import HeadRoles
from headscope.analysis.roles.scores import bias_scores, shuffled_columns, sieve_weights
from headscope.analysis.surface import QUANTITIES as SURFACE
from headscope.analysis.surface import surface_values, uniform_values
from headscope.data_modules.batches.batch import IGNORE
from headscope.layout import Layout

LENGTHS = [7, 4, 6]
CAUSAL = Layout("<s>", "<s>", causal=True, padding=2)


def padded(rows, value=IGNORE):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


@pytest.fixture
def gold():
    """Classes (1 first token, 2 separator, 3 punctuation), sentences, features and links of three inputs."""
    bit = {name: 1 << number for number, name in enumerate(FEATURES)}
    features = [
        [bit["cls"], bit["noun"], bit["verb"], bit["pronoun"], bit["sep"], bit["noun"] | bit["subject"], 0],
        [bit["cls"], 0, bit["noun"], 0],
        [bit["cls"], bit["verb"], 0, bit["noun"] | bit["object"], 0, bit["negation"]],
    ]
    return {
        "token_class": padded([[1, 0, 0, 0, 2, 0, 3], [1, 0, 0, 0], [1, 0, 0, 3, 2, 0]]),
        "sentence": padded([[-1, 0, 0, 0, -1, 1, 1], [-1, 0, 0, 0], [-1, 0, 0, 0, -1, 1]]),
        "dependencies": padded([[1, 2, 3, 2, 5, 6], [2, 1], [3, 1]]),
        "dependency_relations": padded([[0, 1, 0], [1], [0]]),
        "features": padded(features, 0),
        "verb_subject": padded([[2, 5, 2, 1], [], [1, 3]]),
        "noun_pronoun": padded([[1, 3, 5, 3], [], []]),
        "same_word": padded([[1, 5, 3, 6], [], [1, 5]]),
    }


def test_sieve_scores_are_over_what_a_token_may_see(causal_batch, gold):
    batch = causal_batch(LENGTHS, gold)
    chosen = {
        "local": sieves.local,
        "prev": partial(sieves.near, first=-2, last=-1),
        "next": partial(sieves.near, first=1, last=2),
        "delimiter": partial(sieves.special, tokens=["cls", "sep"]),
        "block": sieves.block,
        "syntactic": sieves.syntactic,
    }
    stacked = torch.stack([sieve(gold, batch.mask, ["nsubj", "dobj"]) for sieve in chosen.values()], 1)
    weights, defined = sieve_weights(stacked, batch.visible())
    found = bias_scores(batch.flat_maps(), weights)
    for b, length in enumerate(LENGTHS):
        for r, name in enumerate(chosen):
            for m, grid in enumerate(batch.flat_maps()[b].tolist()):
                scores = []
                for t in range(length):
                    seen = range(t + 1)
                    sieve = [s for s in seen if stacked[b, r, t, s]]
                    if sieve:
                        inside = sum(grid[t][s] for s in sieve) / len(sieve)
                        scores.append(inside / (sum(grid[t][s] for s in seen) / len(seen)))
                assert defined[b, r] == bool(scores)
                assert name != "next" or not scores
                if scores:
                    assert found[b, m, r].item() == pytest.approx(sum(scores) / len(scores), rel=1e-5)


def test_a_uniform_causal_head_scores_one_everywhere(causal_batch, gold):
    batch = causal_batch(LENGTHS, gold)
    uniform = (batch.seen / batch.seen.sum(-1, keepdim=True).clamp(min=1))[:, None]
    stacked = torch.stack([sieve(gold, batch.mask, []) for sieve in (sieves.local, sieves.block, sieves.syntactic)], 1)
    weights, defined = sieve_weights(stacked, batch.visible())
    assert bias_scores(uniform, weights)[:, 0][defined].tolist() == pytest.approx([1.0] * int(defined.sum()), abs=1e-5)


def test_shuffles_keep_to_what_each_token_may_see(causal_batch):
    batch = causal_batch(LENGTHS, {})
    order = shuffled_columns(batch.seen, batch.index, 0, seed=0)
    orders = set()
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            assert sorted(order[b, t, : t + 1].tolist()) == list(range(t + 1))
            orders.add(tuple(order[b, t, : t + 1].tolist()) == tuple(range(t + 1)))
    assert orders == {True, False}


def test_roles_of_a_causal_model_have_no_number_that_is_none(causal_batch, gold, facts):
    chosen = {"next": partial(sieves.near, first=1, last=2), "local": sieves.local, "syntactic": sieves.syntactic}
    analysis = HeadRoles(replace(facts, kind="glue", layout=CAUSAL), chosen, permutations=2, min_count=1)
    analysis.update(causal_batch(LENGTHS, gold))
    found = analysis.compute()
    rows = {row["role"]: row for row in found.tables["roles"]}
    assert rows["next"]["n"] == 0
    assert rows["next"]["heads"] is None
    assert rows["local"]["n"] == 3
    assert not any(row["quantity"].endswith(":next") for row in found.head_rows())


def test_features_of_a_causal_model(causal_batch, gold, facts):
    analysis = FeatureAttention(replace(facts, kind="glue", features=True, layout=CAUSAL), min_count=1)
    batch = causal_batch(LENGTHS, gold)
    analysis.update(batch)
    findings = analysis.compute()
    found = findings.heads
    maps = batch.flat_maps().tolist()
    for name in QUANTITIES:
        for m in range(len(maps[0])):
            values = [value for b in range(3) if (value := plain(name, maps[b][m], LENGTHS[b], gold, b)) is not None]
            if not values:
                assert name not in found
                continue
            layer, head = divmod(m, 3)
            assert found[name].n[layer][head] == len(values)
            assert found[name].value[layer][head] == pytest.approx(sum(values) / len(values), rel=1e-5)
    labels = {
        name: meaning(name, CAUSAL).said_by(CAUSAL).label
        for name in ("cls_to_noun", "tuned_cls_to_cls", "change_cls_to_sep")
    }
    assert labels["cls_to_noun"] == "the last token to noun"
    assert labels["tuned_cls_to_cls"] == "the last token to <s>, fine-tuned"
    assert labels["change_cls_to_sep"] == "change of the last token to inner <s>"
    means = {row["quantity"][7:]: row["mean"] for row in findings.tables["features"] if row["quantity"][:7] == "cls_to_"}
    best = {"cls": "[CLS]", "sep": "[SEP]"}.get(name := max(means, key=means.get), name)
    assert f"the last token of this model attends in the last layer most to: {best}" in findings.notes["features"]


def plain(name, grid, length, gold, b):
    """A quantity of one input and head by its definition; None where the input has it not."""
    features = gold["features"][b].tolist()
    if name == "near_diagonal":
        return sum(grid[q][k] for q in range(length) for k in (q - 1, q) if k >= 0) / length
    if name.startswith(("attention_to_", "cls_to_")):
        bit = 1 << FEATURES.index(name.rpartition("to_")[2])
        tokens = [t for t in range(length) if features[t] & bit]
        if name.startswith("cls_to_"):
            return max((grid[length - 1][t] for t in tokens), default=None)
        means = [sum(grid[q][t] for q in range(t, length)) / (length - t) for t in tokens]
        return max(means, default=None)
    link, _, direction = name.rpartition("_")
    ends = [end for end in gold[link][b].tolist() if end >= 0]
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    pairs = pairs if direction == "forward" else [(end, start) for start, end in pairs]
    return max((grid[start][end] for start, end in pairs if end <= start), default=None)


@pytest.mark.parametrize("smoothing", [0.0, 0.001])
def test_entropies_and_distances_are_smoothed_over_what_a_token_may_see(causal_batch, smoothing):
    batch = causal_batch(LENGTHS, {})
    entropies = row_entropy(batch.flat_maps(), batch.visible(), smoothing)
    maps, distances = batch.flat_maps().tolist(), [[0.0] * 6 for _ in range(6)]
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            rows = [[(1 - smoothing) * w + smoothing / (t + 1) for w in maps[b][m][t][: t + 1]] for m in range(6)]
            for m, row in enumerate(rows):
                assert entropies[b, m, t].item() == pytest.approx(entropy(row), abs=1e-5)
                assert entropies[b, m, t] <= math.log(t + 1) + 1e-5
            for m, one in enumerate(rows):
                for n, other in enumerate(rows):
                    middle = [(x + y) / 2 for x, y in zip(one, other, strict=True)]
                    distances[m][n] += entropy(middle) - (entropy(one) + entropy(other)) / 2
    found = js_from_sums(mixture_sums(batch.flat_maps(), batch.mask, smoothing, batch.seen))
    assert torch.allclose(found, torch.tensor(distances, dtype=found.dtype), atol=1e-4)


def entropy(row):
    return -sum(w * math.log(w) for w in row if w > 0)


def test_surface_patterns_count_what_a_token_may_see(causal_batch, gold):
    batch = causal_batch(LENGTHS, gold)
    values, defined = surface_values(batch.flat_maps(), batch.mask, gold["token_class"], batch.visible())
    names = [quantity.name for quantity in SURFACE]
    by_name = {name: values[:, number] for number, name in enumerate(names)}
    has = {name: defined[:, number].tolist() for number, name in enumerate(names)}
    assert has["attention_to_next"] == [False] * 3
    assert has["attention_to_previous"] == has["cls_entropy"] == [True] * 3
    assert has["sep_to_sep"] == [True, False, True]
    uniform = uniform_values(batch.mask, gold["token_class"], batch.visible())
    for b, length in enumerate(LENGTHS):
        separators = [t for t in range(length) if gold["token_class"][b, t] == 2]
        shares = [sum(s <= t for s in separators) / (t + 1) for t in range(length)]
        expected = [sum(shares) / length, sum(math.log(t + 1) for t in range(length)) / length, 0.0]
        assert uniform[b].tolist() == pytest.approx(expected)
        for m, grid in enumerate(batch.flat_maps()[b].tolist()):
            previous = [grid[t][t - 1] for t in range(1, length)]
            assert by_name["attention_to_previous"][b, m].item() == pytest.approx(sum(previous) / len(previous), rel=1e-5)
            rows = [entropy(grid[t][: t + 1]) for t in range(length)]
            assert by_name["entropy"][b, m].item() == pytest.approx(sum(rows) / length, abs=1e-5)
            assert by_name["cls_entropy"][b, m].item() == pytest.approx(0, abs=1e-5)


def test_relations_of_a_causal_model_are_scored_where_a_pair_is_seen(causal_batch, facts):
    """Every direction on its own words; the baseline, the intervals' counts and the share of the others go with it."""
    governors = [[IGNORE, 2, 0, 2, 5, 3, 5], [IGNORE, 0, 1, 2], [IGNORE, 3, 3, 0, 3, 4]]
    relations = [[IGNORE, 0, 2, 1, 0, 1, 0], [IGNORE, 2, 1, 1], [IGNORE, 0, 0, 2, 1, 1]]
    gold = {
        "governors": padded(governors),
        "relations": padded(relations),
        "asked": padded([[IGNORE, *range(1, len(row))] for row in governors]),
        "pieces": padded([[IGNORE, *[1] * (len(row) - 1)] for row in governors]),
    }
    batch = causal_batch(LENGTHS, gold)
    names = ("det", "obj", "root")
    analysis = RelationHeads(replace(facts, kind="treebank", relations=names, layout=CAUSAL), min_count=1, replicates=3)
    analysis.update(batch)
    found = analysis.compute()
    words, right, at_offset = {}, {}, {}
    for b, (heads, kinds) in enumerate(zip(governors, relations, strict=True)):
        for word, (governor, kind) in enumerate(zip(heads, kinds, strict=True)):
            if governor <= 0:
                continue
            direction = "dependent_to_head" if governor < word else "head_to_dependent"
            for name in (names[kind], "all"):
                words[name] = words.get(name, 0) + 1
                at_offset.setdefault((name, direction), []).append(governor - word)
                for m, grid in enumerate(batch.flat_maps()[b].tolist()):
                    earlier, later = range(1, word), range(word + 1, len(heads))
                    best = (
                        max(earlier, key=lambda v: grid[word][v])
                        if direction == "dependent_to_head"
                        else max(later, key=lambda v: grid[v][word])
                    )
                    right.setdefault((name, direction, m), []).append(best == governor)
    for (name, direction, m), hits in right.items():
        values = found.heads[f"relation:{name}:{direction}"]
        assert values.n[m // 3][m % 3] == len(hits)
        assert values.value[m // 3][m % 3] == pytest.approx(100 * sum(hits) / len(hits))
    for row in found.tables["relation_heads"]:
        key = (row["relation"], row["direction"])
        assert row["n"] == len(at_offset[key])
        assert row["unseen"] == pytest.approx(100 * (1 - row["n"] / words[row["relation"]]))
        assert row["baseline"] == pytest.approx(100 * at_offset[key].count(row["offset"]) / row["n"])
        assert row["accuracy"] == pytest.approx(max(100 * sum(right[*key, m]) / row["n"] for m in range(6)))
    assert {row["relation"] for row in found.tables["visible_governors"]} == {"det", "obj", "all"}
