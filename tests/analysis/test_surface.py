"""Surface patterns against loops over segments, tokens and heads."""

import math
import statistics
from dataclasses import replace

import pytest
import torch

from headscope.analysis.statistics import holm
from headscope.analysis.surface import EXAMPLES, QUANTITIES, SurfacePatterns, heads_by_layer, published_sentences
from headscope.contracts import DrawnInput
from tests.analysis.conftest import HEADS, LAYERS, merged

NAMES = [quantity.name for quantity in QUANTITIES]

OTHER, CLS, SEP, PUNCTUATION = range(4)
LENGTHS = [9, 7, 2, 1]
CLASSES = torch.tensor(
    [
        [CLS, 0, 0, PUNCTUATION, SEP, 0, PUNCTUATION, 0, SEP],
        [CLS, 0, 0, 0, SEP, 0, SEP, -100, -100],
        [CLS, SEP, *[-100] * 7],
        [OTHER, *[-100] * 8],
    ]
)


@pytest.fixture
def batch(random_batch):
    return random_batch(LENGTHS, {"token_class": CLASSES})


@pytest.fixture
def segment_facts(facts):
    return replace(facts, kind="segments")


def entropy(row, smoothing):
    row = [(1 - smoothing) * p + smoothing / len(row) for p in row]
    return -sum(p * math.log(p) for p in row if p > 0)


def looped(maps, classes, smoothing=0.0):
    """All quantities of one segment and head that are defined for it."""
    n, rows = len(maps), maps.tolist()

    def mean(values):
        return sum(values) / len(values) if values else None

    def to(kind, sources):
        return mean([sum(rows[i][j] for j in range(n) if classes[j] == kind) for i in sources])

    sep = [i for i in range(n) if classes[i] == SEP]
    cls = [i for i in range(n) if classes[i] == CLS]
    return {
        "attention_to_previous": mean([rows[i][i - 1] for i in range(1, n)]),
        "attention_to_current": mean([rows[i][i] for i in range(n)]),
        "attention_to_next": mean([rows[i][i + 1] for i in range(n - 1)]),
        "attention_to_cls": to(CLS, range(n)) if cls else None,
        "attention_to_sep": to(SEP, range(n)) if sep else None,
        "attention_to_punctuation": to(PUNCTUATION, range(n)),
        "attention_to_special": to(CLS, range(n)) + to(SEP, range(n)) if cls or sep else None,
        "sep_to_sep": to(SEP, sep),
        "others_to_sep": to(SEP, [i for i in range(n) if i not in sep]) if sep else None,
        "largest_weight": mean([max(row) for row in rows]),
        "entropy": mean([entropy(row, smoothing) for row in rows]),
        "cls_entropy": mean([entropy(rows[i], smoothing) for i in cls]),
    }


@pytest.mark.parametrize(("released", "smoothing"), [(False, 0.0), (True, 0.0001)])
def test_every_quantity_of_every_head_equals_a_plain_loop(batch, segment_facts, released, smoothing):
    metric = SurfacePatterns(segment_facts, released=released)
    metric.update(batch)
    heads = metric.compute().heads
    for layer in range(LAYERS):
        for head in range(HEADS):
            each = [
                looped(batch.maps[n, layer, head, :length, :length].double(), CLASSES[n, :length].tolist(), smoothing)
                for n, length in enumerate(LENGTHS)
            ]
            for name in NAMES:
                defined = [values[name] for values in each if values[name] is not None]
                assert heads[name].value[layer][head] == pytest.approx(sum(defined) / len(defined), abs=1e-6)
                assert heads[name].n[layer][head] == len(defined)
                reach = 1.959964 * statistics.stdev(defined) / len(defined) ** 0.5 if len(defined) > 1 else math.nan
                for end, sign in ((heads[name].low, -1), (heads[name].high, 1)):
                    expected = sum(defined) / len(defined) + sign * reach
                    assert end[layer][head] == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_two_processes_count_as_one(batch, parts_of, segment_facts):
    whole, first, second = (SurfacePatterns(segment_facts) for _ in range(3))
    whole.update(batch)
    for metric, part in zip((first, second), parts_of(batch, 3), strict=True):
        metric.update(part)
    expected, found = whole.compute().heads, merged(first, second).compute().heads
    for name in NAMES:
        torch.testing.assert_close(torch.tensor(found[name].value), torch.tensor(expected[name].value))


def test_a_head_on_the_previous_token_is_found(segment_facts, random_batch):
    batch = random_batch([5, 4], {"token_class": torch.zeros(2, 5, dtype=torch.long)})
    batch.maps[:, 1, 2] = torch.eye(5).roll(-1, 1)  # row i looks at i - 1
    metric = SurfacePatterns(segment_facts)
    metric.update(batch)
    found = metric.compute()
    assert found.heads["attention_to_previous"].value[1][2] == 1
    assert found.heads["entropy"].value[1][2] == pytest.approx(0, abs=1e-12)
    assert found.metrics["heads_mostly_previous"] == 1
    checks = {row["check"]: row for row in found.tables["checks"]}
    # All segments agree, so there is no spread: p is 0 for this head.
    assert checks["heads over 50 % on the previous token"]["ours"] == "1 (layers 2) [1]"
    assert {row["n"] for row in checks.values()} == {2}
    assert found.heads["attention_to_previous"].p[1][2] == 0


def test_what_no_segment_has_is_undefined_with_count_zero(segment_facts, random_batch):
    batch = random_batch([4], {"token_class": torch.zeros(1, 4, dtype=torch.long)})
    metric = SurfacePatterns(segment_facts)
    metric.update(batch)
    sep = metric.compute().heads["sep_to_sep"]
    assert math.isnan(sep.value[0][0])
    assert sep.n[0][0] == 0


def test_heads_by_layer_names_the_layer_of_each():
    chosen = torch.tensor([[True, False], [True, True], [False, False]])
    assert heads_by_layer(chosen) == "3 (layers 1, 2, 2)"
    assert heads_by_layer(chosen & False) == "0"


def test_heads_over_half_are_tested_by_hand(batch, segment_facts):
    """The normal test of the mean over segments against one half, Holm over the heads."""
    batch.maps[:] = 0.9 * torch.eye(9) + 0.1 * batch.maps
    metric = SurfacePatterns(segment_facts)
    metric.update(batch)
    found = metric.compute().heads["attention_to_current"]
    p = []
    for layer in range(LAYERS):
        for head in range(HEADS):
            values = [float(batch.maps[n, layer, head].diagonal()[:length].mean()) for n, length in enumerate(LENGTHS)]
            z = (statistics.mean(values) - 0.5) / (statistics.stdev(values) / len(values) ** 0.5)
            p.append(statistics.NormalDist().cdf(-z))
    expected = holm(p)
    assert [one for row in found.p for one in row] == pytest.approx(expected, abs=1e-6)


def test_uniform_attention_by_hand(batch, segment_facts):
    metric = SurfacePatterns(segment_facts)
    metric.update(batch)
    uniform = {row["quantity"]: row["uniform"] for row in metric.compute().tables["uniform"]}
    assert uniform["attention_to_sep"] == pytest.approx((2 / 9 + 2 / 7 + 1 / 2 + 0) / 4)
    assert uniform["entropy"] == pytest.approx(sum(map(math.log, LENGTHS)) / 4)


def test_the_examples_are_the_heads_that_are_most_so_with_special_tokens(batch, segment_facts):
    tokens = ("[CLS]", "a", "b", ".", "[SEP]", "c", ",", "d", "[SEP]")
    metric = SurfacePatterns(replace(segment_facts, drawn=(DrawnInput(0, tokens),)))
    metric.update(batch)
    found = metric.compute()
    by_what = {row["what"]: row for row in found.drawings["example_heads"]}
    assert set(by_what) == set(EXAMPLES)
    for what, quantity in EXAMPLES.items():
        grid = torch.tensor(found.heads[quantity].value)
        place = int(grid.argmax())
        assert by_what[what]["head"] == f"{place // HEADS + 1}-{place % HEADS + 1}"
        assert by_what[what]["words"] == list(tokens)
        expected = batch.maps[0, place // HEADS, place % HEADS]
        torch.testing.assert_close(torch.tensor(by_what[what]["attention"]), expected, atol=1e-4, rtol=0)


def test_the_paper_s_sentences_by_hand():
    low, high = torch.full((1, 2), 0.2), torch.full((1, 2), 0.8)
    grids = dict.fromkeys(NAMES, torch.cat([low, high])) | {"sep_to_sep": torch.tensor([[0.1, 0.1], [0.9, 0.95]])}
    grids |= {"largest_weight": torch.tensor([[0.3, 0.1], [0.6, 0.7]]), "entropy": torch.tensor([[1.0, 3.0], [2.0, 2.0]])}
    certain = {name: torch.tensor([[False, False], [True, False]]) for name in NAMES}
    ours = {
        row["check"]: row["ours"]
        for row in published_sentences(grids, certain, {"attention_to_sep": 1 / 64, "entropy": 4.0, "cls_entropy": 4.0})
    }
    assert ours["layers whose heads give [SEP] over 50 %"] == "2"
    assert ours["attention from [SEP] to [SEP] in these layers"] == "92.5 % in these layers"
    assert ours["heads over 50 % on the previous token"] == "2 (layers 2, 2) [1]"
    assert ours["heads over 50 % on the special tokens"] == "2 of 4 [1]"
    assert ours["mean layer of these heads"] == "2.0 of 2"
    assert ours["largest weight of the broad heads"] == "10.0 %"
    assert ours["mean layer of the broad heads"] == "1.0 of 2"
    assert ours["the same under uniform attention"] == "1.6 %"
    assert ours["entropy of [CLS] against all tokens, other layers"] == "differs by 1.80"
