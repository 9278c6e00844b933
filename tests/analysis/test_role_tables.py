"""What is said of the roles of all heads, of one model or two, against loops over heads, roles and inputs."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from headscope.analysis.roles import sieves
from headscope.analysis.roles.heads import HeadRoles
from headscope.analysis.roles.tests import COARSE, FINE
from headscope.contracts import number
from headscope.errors import ConfigError
from tests.analysis.conftest import HEADS, LAYERS
from tests.analysis.test_roles import ALL, FURTHER, GOLD, LENGTHS, RELATIONS

TAU, LEVEL, MAPS = 1.15, 0.2, LAYERS * HEADS
NAMES = [name for name in ALL if name != "never"]
SIEVES = {name: ALL[name] for name in NAMES}
MODELS = {"tuned_": "tuned", "": "model"}


@pytest.fixture
def batches(random_batch):
    """Inputs of random maps whose heads differ: each leans to some key of its own, in the second model to another."""

    def lean(maps, mask, shift):
        heads = maps.flatten(1, 2)
        for index in range(MAPS):
            heads[:, index, :, (index + shift) % 5] += 0.15 * index
        heads *= mask[:, None, None]
        return (heads / heads.sum(-1, keepdim=True)).reshape(maps.shape)

    made = []
    for n in range(15):
        batch, other = (random_batch(LENGTHS, GOLD, first=2 * n, seed=n + more) for more in (0, 100))
        batch.tuned_maps = lean(other.maps, batch.mask, 2)
        batch.maps = lean(batch.maps, batch.mask, 0)
        made.append(batch)
    return made


@pytest.fixture
def role_facts(facts):
    return replace(facts, kind="glue", relations=RELATIONS, tuned=True)


@pytest.fixture
def found(batches, role_facts):
    """The metric after all inputs and its findings, with the options given."""

    def run(tuned=True, **options):
        metric = HeadRoles(
            replace(role_facts, tuned=tuned), SIEVES, **{"tau": TAU, "level": LEVEL, "permutations": 2} | options
        )
        for batch in batches:
            metric.update(batch)
        return metric, metric.compute()

    return run


def samples(metric, model, role):
    """The scores of the inputs that have the role, by head."""
    scores = torch.cat(metric.tuned if model else metric.scores).double().numpy()
    has = torch.cat(metric.defined)[:, NAMES.index(role)].numpy()
    return [scores[has, index, NAMES.index(role)] for index in range(MAPS)]


def looped_p(sample):
    return stats.norm.sf((sample.mean() - TAU) / (sample.std(ddof=1) / np.sqrt(len(sample)))) if len(sample) > 1 else 1.0


def looped_roles(metric, model):
    """The roles of each head."""
    given = []
    for index in range(MAPS):
        p = {role: looped_p(samples(metric, model, role)[index]) for role in NAMES}
        given.append({role for role in NAMES if p[role] < LEVEL})
    return given


@pytest.mark.parametrize("model", MODELS)
def test_every_metric_counts_coarse_and_fine_roles_apart(found, model):
    metric, findings = found()
    of = {name.removeprefix(model): value for name, value in findings.metrics.items() if name.startswith(model)}
    given = looped_roles(metric, model)
    assert 0 < sum(map(len, given)) < MAPS * len(NAMES)
    for role in NAMES:
        tested = len(samples(metric, model, role)[0]) > 1
        expected = 100 * sum(role in roles for roles in given) / MAPS
        assert of[f"share_{role}"] == pytest.approx(expected) if tested else np.isnan(of[f"share_{role}"])
    assert of["share_none"] == pytest.approx(100 * sum(not roles & set(COARSE) for roles in given) / MAPS)
    every = np.concatenate([sample for role in COARSE for sample in samples(metric, model, role)])
    assert of["mean_score"] == pytest.approx(every.mean())
    p_values = [looped_p(sample) for role in COARSE for sample in samples(metric, model, role)]
    assert of["p_values_between_5_and_95_percent"] == pytest.approx(100 * np.mean([0.05 < p < 0.95 for p in p_values]))
    syntactic = [roles for roles in given if "syntactic" in roles]
    share = 100 * sum("local" in roles for roles in syntactic) / len(syntactic) if syntactic else np.nan
    assert of["syntactic_that_are_local"] == pytest.approx(share, nan_ok=True)
    means = [[sample.mean() for sample in samples(metric, model, role)] for role in ("local", "syntactic")]
    assert of["local_syntactic_spearman"] == pytest.approx(stats.spearmanr(*means).statistic)
    for name, roles in (("above_tau_that_fail", COARSE), ("fine_above_tau_that_fail", FINE)):
        known = [(role, index) for role in roles if role in NAMES for index in range(MAPS)]
        above = [(r, i) for r, i in known if len(s := samples(metric, model, r)[i]) > 1 and s.mean() > TAU]
        assert of[name] == sum(role not in given[index] for role, index in above)
    assert of["share_of_several_fine_roles"] == pytest.approx(
        100 * sum(len(roles & set(FINE)) > 1 for roles in given) / MAPS
    )
    assert of["delimiter_heads"] == sum("delimiter" in roles for roles in given)
    last = given[-3 * HEADS :]
    expected = 100 * sum(roles & set(COARSE) == {"delimiter"} for roles in last) / len(last)
    assert of["delimiter_only_in_last_three_layers"] == pytest.approx(expected)


def test_the_tables_of_both_models_have_the_fine_tuned_one_first(found):
    metric, findings = found()
    tables = findings.tables
    for name in ("roles", "by_layer", "overlap", "fine_overlap", "assigned", "block"):
        assert list(dict.fromkeys(row["model"] for row in tables[name])) == ["tuned", "model"], name
    for model, said in MODELS.items():
        given = looped_roles(metric, model)
        own = {name: [row for row in rows if row.get("model") == said] for name, rows in tables.items()}
        assert [set(row["roles"]) for row in own["assigned"]] == given
        venn = {row["roles"]: row["heads"] for row in own["overlap"]}
        for roles, count in venn.items():
            wanted = set() if roles == "none" else set(roles.split(" & "))
            assert count == sum(have & set(COARSE) == wanted for have in given)
        assert sum(venn.values()) == MAPS
        scored = {role for role in (*COARSE, *FINE) if any(len(sample) > 1 for sample in samples(metric, model, role))}
        for layer, row in enumerate(own["by_layer"]):
            heads = given[layer * HEADS : (layer + 1) * HEADS]
            assert row["layer"] == layer + 1
            for role in (*COARSE, *FINE):
                assert row[role] == (sum(role in roles for roles in heads) if role in scored else None)
            assert row["none"] == sum(not roles & set(COARSE) for roles in heads)
            assert row["delimiter_only"] == sum(roles & set(COARSE) == {"delimiter"} for roles in heads)
            assert row["several_fine"] == sum(len(roles & set(FINE)) > 1 for roles in heads)
        for row in own["fine_overlap"]:
            one, both = (sum(names <= roles for roles in given) for names in ({row["role"]}, {row["role"], row["with"]}))
            assert (row["heads"], row["both"]) == (one, both)
            assert row["share"] == (pytest.approx(100 * both / one) if one else None)
        failed = {(row["role"], row["head"]) for row in own["failed_pairs"]}
        for role in {*COARSE, *FINE}:
            for index, sample in enumerate(samples(metric, model, role)):
                fails = len(sample) > 1 and sample.mean() > TAU and role not in given[index]
                assert ((role, f"{index // HEADS + 1}-{index % HEADS + 1}") in failed) == fails
        number_of_roles = np.array(findings.heads[f"{model}roles"].value).ravel()
        assert number_of_roles.tolist() == [len(roles & set(FINE)) for roles in given]
    for row in tables["before_after"]:
        old, new = ([row["role"] in roles for roles in looped_roles(metric, model)] for model in ("", "tuned_"))
        assert (row["before"], row["after"]) == (sum(old), sum(new))
        assert row["lost"] == sum(a and not b for a, b in zip(old, new, strict=True))
        assert row["gained"] == sum(b and not a for a, b in zip(old, new, strict=True))


def test_fine_overlaps_are_tested_by_fishers_exact_test(found):
    metric, findings = found()
    rows = [row for row in findings.tables["fine_overlap"] if row["model"] == "tuned"]
    given, p_values = looped_roles(metric, "tuned_"), []
    for row in rows:
        one, other = ([role in roles for roles in given] for role in (row["role"], row["with"]))
        table = [
            [sum(a is x and b is y for a, b in zip(one, other, strict=True)) for y in (True, False)] for x in (True, False)
        ]
        p_values.append(stats.fisher_exact(table, alternative="greater").pvalue)
    assert {(row["role"], row["with"]) for row in rows} >= {("nsubj", "next"), ("dobj", "prev")} - {("dobj", "prev")}
    order, largest = sorted(range(len(rows)), key=lambda n: p_values[n]), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1, p_values[index] * (len(rows) - rank)))
        assert rows[index]["p_holm"] == pytest.approx(largest)


def test_the_change_of_every_head_is_paired_by_input(found):
    metric, findings = found()
    p_values = {}
    for role in NAMES:
        if len(samples(metric, "", role)[0]) < 2:
            assert f"sieve_change:{role}" not in findings.heads
            continue
        values = findings.heads[f"sieve_change:{role}"]
        pairs = zip(samples(metric, "tuned_", role), samples(metric, "", role), strict=True)
        for index, (after, before) in enumerate(pairs):
            change = after - before
            error = change.std(ddof=1) / np.sqrt(len(change))
            low, value, high = (np.array(grid).ravel()[index] for grid in (values.low, values.value, values.high))
            assert (low, value, high) == pytest.approx(
                (change.mean() - 1.959964 * error, change.mean(), change.mean() + 1.959964 * error), rel=1e-5, abs=1e-7
            )
            assert np.array(values.n).ravel()[index] == len(change)
            p_values[role, index] = 2 * stats.norm.sf(abs(change.mean()) / error)
    family = {key: p for key, p in p_values.items() if key[0] in COARSE}
    largest = 0.0
    for rank, (role, index) in enumerate(sorted(family, key=family.__getitem__)):
        largest = max(largest, min(1, family[role, index] * (len(family) - rank)))
        assert np.array(findings.heads[f"sieve_change:{role}"].p).ravel()[index] == pytest.approx(largest, rel=1e-6)


def test_the_change_by_thirds_has_an_interval_over_inputs(found):
    metric, findings = found()
    parts = {"first": [0, 1, 2], "middle": [3, 4, 5], "last": []}  # heads of two layers
    for row in findings.tables["change_by_third"]:
        after, before = (np.array(samples(metric, model, row["role"])) for model in ("tuned_", ""))
        for third, heads in parts.items():
            if not heads or not before.size:
                assert row[third] is row[f"{third}_low"] is None
                continue
            inputs = [np.mean([after[h, i] - before[h, i] for h in heads]) for i in range(before.shape[1])]
            half = 1.959964 * np.std(inputs, ddof=1) / np.sqrt(len(inputs))
            found_row = (row[f"{third}_low"], row[third], row[f"{third}_high"])
            assert found_row == pytest.approx((np.mean(inputs) - half, np.mean(inputs), np.mean(inputs) + half), abs=1e-6)


@pytest.mark.parametrize("released", [(), ("block_entropy",)])
def test_block_by_the_formula_is_bounded_and_by_the_released_code_is_not(found, batches, released):
    _, findings = found(released=list(released), tau=3, level=0.05)
    maps = torch.cat([batch.tuned_maps[:1] for batch in batches]).flatten(1, 2).double()  # the pair of each batch
    length, own = 7, {1: [1, 2], 2: [1, 2], 4: [4, 5], 5: [4, 5]}
    entropy = -(maps * maps.clamp(min=1e-30).log()).sum(3)
    plain = sum(maps[:, :, i, sieve].mean(2) * length for i, sieve in own.items()) / 4
    times = sum(maps[:, :, i, sieve].mean(2) * length * entropy[:, :, i] for i, sieve in own.items()) / 4
    paper, code = (row for row in findings.tables["block"] if row["model"] == "tuned")
    for row, scores in ((paper, plain), (code, times)):
        assert row["mean_score"] == pytest.approx(float(scores.mean()), rel=1e-5)
        assert row["highest"] == pytest.approx(float(scores.mean(0).max()), rel=1e-5)
        statistic = (scores.mean(0) - 3) / (scores.std(0) / len(scores) ** 0.5)
        assert row["heads"] == int((stats.norm.sf(statistic.numpy()) < 0.05).sum())
        assert row["n"] == len(batches)
    assert paper["possible"] == pytest.approx(2 * length / 4)  # two sentences, seven tokens, four of them in sentences
    assert plain.max() < paper["possible"]
    assert code["uniform_head"] == pytest.approx(np.log(length))
    used = findings.heads["tuned_sieve:block"].value
    assert np.array(used).ravel() == pytest.approx((times if released else plain).mean(0).numpy(), rel=1e-5)
    assert "multiplies by the row's entropy" in findings.notes["block"][0]


def test_the_highest_possible_score_of_every_role_by_hand(found):
    _, findings = found()
    possible = {row["role"]: row["possible"] for row in findings.tables["roles"]}
    sizes = {7: [3, 4, 5, 5, 5, 4, 3], 5: [3, 4, 5, 4, 3]}
    local = np.mean([np.mean([length / size for size in of_tokens]) for length, of_tokens in sizes.items()])
    assert possible["local"] == pytest.approx(local)
    assert possible["cls"] == pytest.approx(np.mean(LENGTHS))
    assert possible["delimiter"] == pytest.approx(np.mean([7 / 3, 5 / 2]))


@pytest.mark.parametrize(
    ("variant", "role", "same"),
    [("local_edges", "local", False), ("block_entropy", "block", False), ("student", "local", True)],
)
def test_each_released_variant_changes_its_own_part_alone(found, variant, role, same):
    (_, plain), (_, one) = found(), found(released=[variant])
    changed = {
        name
        for name in SIEVES
        if (score := f"sieve:{name}") in plain.heads and plain.heads[score].value != one.heads[score].value
    }
    assert changed == {"local_edges": {"local", "prev", "next"}, "block_entropy": {"block"}, "student": set()}[variant]
    metric, by_student = found(released=["student"])
    sample = samples(metric, "", "local")[0]
    expected = stats.t.sf((sample.mean() - TAU) / (sample.std(ddof=0) / np.sqrt(len(sample))), len(sample) - 1)
    assert by_student.heads["sieve:local"].p[0][0] == pytest.approx(expected, rel=1e-6)
    assert (one.heads[f"sieve:{role}"].value == plain.heads[f"sieve:{role}"].value) is same


def test_unknown_variants_schemes_and_sieves_are_refused(role_facts):
    for options, sentence in (
        (
            {"released": ["edges"]},
            "^analyses.roles.released=edges: expected true, false, local_edges, block_entropy or student",
        ),
        ({"syntactic": "some"}, "^analyses.roles.syntactic=some: expected all, released or named.$"),
        (
            {"further": ["rarely"], "further_sieves": FURTHER},
            "^analyses.roles.further=rarely: expected some of same_word, rare",
        ),
    ):
        with pytest.raises(ConfigError, match=sentence):
            HeadRoles(role_facts, SIEVES, **options)


def test_further_sieves_have_scores_and_no_part_in_any_count(found):
    (_, without), (metric, findings) = found(), found(further=list(FURTHER), further_sieves=FURTHER)
    assert metric.names == [*NAMES, *FURTHER]
    own = {row["role"]: row for row in findings.tables["roles"]}
    assert [own[name]["kind"] for name in FURTHER] == ["further"] * 4
    assert own["same_word"]["n"] == 15 and own["question_mark"]["n"] == 15 and "sieve:rare" in findings.heads
    shared = {name: value for name, value in findings.metrics.items() if name in without.metrics}
    assert {name: number(value) for name, value in shared.items()} == {n: number(v) for n, v in without.metrics.items()}
    for name in ("overlap", "by_layer", "p_histogram", "score_quantiles", "failed_pairs", "fine_overlap"):
        assert findings.tables[name] == without.tables[name], name
    assert findings.heads["roles"] == without.heads["roles"]


def test_two_processes_find_the_same_as_one(batches, found, role_facts):
    _, whole = found()
    parts = [HeadRoles(role_facts, SIEVES, tau=TAU, level=LEVEL, permutations=2) for _ in range(2)]
    for index, batch in enumerate(batches):
        parts[index % 2].update(batch)
    first, second = parts
    first.update(batches[0].without_inputs())  # of a process that has nothing to do
    for name, how in first._reductions.items():
        one, other = getattr(first, name), getattr(second, name)
        assert how.__name__ in ("dim_zero_cat", "dim_zero_sum")
        setattr(first, name, [*one, *other] if how.__name__ == "dim_zero_cat" else one + other)
    shared = first.compute()
    assert shared.tables == whole.tables
    for name, values in whole.heads.items():
        np.testing.assert_allclose(shared.heads[name].value, values.value, rtol=1e-12, err_msg=name)


def test_one_model_alone_has_no_second_and_tells_no_model(found):
    _, findings = found(tuned=False)
    assert not any(name.startswith("tuned_") for name in (*findings.metrics, *findings.heads))
    assert not findings.tables["before_after"] and not findings.tables["change_by_third"]
    assert "model" not in findings.tables["roles"][0]


def test_figure_two_draws_a_pair_above_the_threshold_that_fails(found):
    metric, findings = found()
    bars, failed = findings.tables["head_histogram"], findings.tables["failed_pairs"]
    assert bars[0]["fails"] and failed
    highest = max((row for row in failed if row["model"] == "tuned"), key=lambda row: row["mean_score"])
    assert (bars[0]["role"], bars[0]["head"], bars[0]["p"]) == (highest["role"], highest["head"], highest["p"])
    layer, head = map(int, highest["head"].split("-"))
    sample = samples(metric, "tuned_", highest["role"])[(layer - 1) * HEADS + head - 1]
    assert sum(bar["count"] for bar in bars) == len(sample) == highest["n"]
    assert all(one["to"] == pytest.approx(two["from"]) for one, two in pairwise(bars))


def test_schemes_of_syntax_differ_in_direction_root_and_relations(random_batch):
    batch = random_batch(LENGTHS, GOLD)

    def pairs(scheme):
        sieve = sieves.syntactic(batch.gold, batch.mask, RELATIONS, scheme=scheme)
        return [{tuple(cell) for cell in one.nonzero().tolist()} for one in sieve]

    assert pairs("all") == [{(1, 2), (2, 1), (4, 5), (5, 4)}, {(1, 2), (2, 1)}]
    assert pairs("released") == [{(1, 2), (4, 5), (5, 4), (2, 2)}, {(1, 2), (2, 2)}]
    assert pairs("named") == [{(1, 2), (4, 5)}, {(1, 2)}]
