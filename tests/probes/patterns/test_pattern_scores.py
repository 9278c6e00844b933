"""Scores against scikit-learn and plain loops; the temperature; folds joined."""

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score, confusion_matrix, f1_score, precision_recall_fscore_support

from headscope.contracts import ChildRun, Provenance, RunResults
from headscope.data_modules.patterns.labels import CLASSES
from headscope.probes.patterns.scores import (
    BINS,
    Predictions,
    agreement_rows,
    best_temperature,
    class_rows,
    confusion_rows,
    pattern_scores,
    prediction_rows,
    reliability_rows,
)
from headscope.probes.patterns.table import joined_folds

MAPS = 120


@pytest.fixture
def classified():
    """Logits that are right more often than not."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (MAPS,), generator=draw)
    return 2 * torch.randn(MAPS, 5, generator=draw) + 2.5 * torch.nn.functional.one_hot(labels, 5), labels


def test_f1_precision_recall_and_confusion_are_those_of_scikit_learn(classified):
    logits, labels = classified
    found, gold = logits.argmax(1).numpy(), labels.numpy()
    assert float(pattern_scores(logits, labels)["f1"]) == pytest.approx(f1_score(gold, found, average="macro"))
    assert float(pattern_scores(logits, labels)["accuracy"]) == pytest.approx((found == gold).mean())
    expected = np.array(precision_recall_fscore_support(gold, found))
    rows = class_rows(logits, labels, CLASSES)
    assert [row["class"] for row in rows] == list(CLASSES)
    measured = np.array([[row[name] for row in rows] for name in ("precision", "recall", "f1", "maps")])
    assert measured == pytest.approx(expected)
    table = [[row[name] for name in CLASSES] for row in confusion_rows(logits, labels, CLASSES)]
    assert table == confusion_matrix(gold, found).tolist()


def looped_calibration(sure, right):
    """The distance between how sure and how right it is in each bin, weighed by the bin's size."""
    error = 0.0
    for n in range(BINS):
        inside = [place for place, value in enumerate(sure) if n / BINS <= value < (n + 1) / BINS]
        if inside:
            error += abs(np.mean([sure[place] - right[place] for place in inside])) * len(inside) / len(sure)
    return error


def test_the_calibration_error_and_the_table_behind_it_equal_a_loop(classified):
    logits, labels = classified
    sure, found = (logits / 1.7).softmax(1).max(1)
    right = (found == labels).double().tolist()
    expected = looped_calibration(sure.tolist(), right)
    assert float(pattern_scores(logits, labels, 1.7)["calibration_error"]) == pytest.approx(expected, abs=1e-6)
    rows = reliability_rows(logits, labels, 1.7)
    assert sum(row["maps"] for row in rows) == MAPS
    gaps = [abs(row["confidence"] - row["accuracy"]) * row["maps"] / MAPS for row in rows]
    assert sum(gaps) == pytest.approx(expected, abs=1e-6)


def test_the_temperature_makes_logits_as_sure_as_they_should_be(classified):
    logits, labels = classified
    best = float(best_temperature(logits, labels))
    assert float(best_temperature(3 * logits, labels)) == pytest.approx(3 * best, rel=0.05)
    losses = {t: float(pattern_scores(logits, labels, t)["nll"]) for t in (0.8 * best, best, 1.25 * best)}
    assert min(losses, key=losses.get) == best


def test_predictions_come_in_the_order_of_their_places(classified):
    logits, labels = classified
    order = torch.randperm(MAPS, generator=torch.Generator().manual_seed(1))
    kept = Predictions()
    for part in (order[:50], order[50:]):
        kept.update(part, labels[part], logits[part])
    places, found_labels, found_logits = kept.compute()
    assert places.tolist() == list(range(MAPS))
    torch.testing.assert_close((found_labels, found_logits), (labels, logits))


def test_agreement_of_two_passes_by_scikit_learn():
    draw = np.random.default_rng(0)
    first = draw.choice(CLASSES, 80)
    second = np.where(draw.random(80) < 0.7, first, draw.choice(CLASSES, 80))
    rows = {row["what"]: row["value"] for row in agreement_rows(list(zip(first, second, strict=True)), CLASSES)}
    assert rows["kappa of two passes"] == pytest.approx(cohen_kappa_score(first, second), abs=1e-6)
    assert rows["equal labels"] == pytest.approx((first == second).mean(), abs=1e-6)
    assert rows["macro F1 of the second pass"] == pytest.approx(f1_score(first, second, average="macro"), abs=1e-6)
    assert rows["maps labelled twice"] == 80
    assert agreement_rows([], CLASSES) == []


def part(row, value, logits, labels):
    names = [{"encoder": "minilm", "example": place} for place in range(len(labels))]
    tables = {"predictions": prediction_rows(names, labels, logits, CLASSES), "agreement": []}
    return ChildRun(row, value, RunResults("pattern_fold", {}, tables, Provenance({}, {}, {})), [])


def test_joined_folds_pool_all_maps_and_calibrate_each_fold_by_the_others(classified):
    logits, labels = classified
    folds = [slice(0, 40), slice(40, 80), slice(80, None)]
    parts = [part("CNN", n, logits[fold], labels[fold]) for n, fold in enumerate(folds)]
    ruled = torch.nn.functional.one_hot(logits.argmax(1).clamp(max=3), 5).float()
    parts += [part("rules", n, ruled[fold], labels[fold]) for n, fold in enumerate(folds)]
    joined = joined_folds(parts, network="CNN")
    gold, found = labels.numpy(), logits.argmax(1).numpy()
    pooled = f1_score(gold, found, average="macro")
    assert joined.metrics["f1"] == pytest.approx(pooled)
    each = [f1_score(gold[fold], found[fold], average="macro") for fold in folds]
    row = joined.tables["summary"][0]
    assert (row["row"], row["f1 of all folds"]) == ("CNN", pytest.approx(pooled))
    assert (row["mean of folds"], row["deviation"]) == pytest.approx((np.mean(each), np.std(each, ddof=1)))
    ruled_f1 = f1_score(gold, ruled.argmax(1).numpy(), average="macro", zero_division=0)
    assert joined.metrics["f1 of rules"] == pytest.approx(ruled_f1)
    table = [[row[name] for name in CLASSES] for row in joined.tables["confusion"]]
    assert table == confusion_matrix(gold, found).tolist()
    scaled = []
    for fold in folds:
        rest = torch.ones(MAPS, dtype=torch.bool)
        rest[fold] = False
        scaled.append(logits[fold] / best_temperature(logits[rest], labels[rest]))
    expected = float(pattern_scores(torch.cat(scaled), labels)["calibration_error"])
    assert joined.metrics["calibration_error"] == pytest.approx(expected)
    assert joined.metrics["temperature"] == float(best_temperature(logits, labels))
    assert [row["n"] for row in joined.tables["summary"]] == [MAPS, MAPS, None]
    assert joined.notes == {"summary": []}


def test_seeds_are_averaged_and_heard_together(classified):
    logits, labels = classified
    other = logits.roll(1, dims=1) * 0.5 + logits
    folds, gold = [slice(0, 60), slice(60, None)], labels.numpy()
    parts = [part(row, n, one[fold], labels[fold]) for row, one in (("CNN", logits), ("CNN, seed 1", other))
             for n, fold in enumerate(folds)]  # fmt: skip
    joined = joined_folds(parts, network="CNN", seeds=["CNN", "CNN, seed 1"])
    rows = {row["row"]: row for row in joined.tables["summary"]}
    found = [one.argmax(1).numpy() for one in (logits, other)]
    mean, together = rows["CNN, mean of 2 seeds"], rows["CNN, 2 seeds together"]
    assert mean["f1 of all folds"] == pytest.approx(np.mean([f1_score(gold, one, average="macro") for one in found]))
    each = [f1_score(gold[fold], one[fold], average="macro") for one in found for fold in folds]
    assert (mean["mean of folds"], mean["deviation"], mean["folds"]) == pytest.approx(
        (np.mean(each), np.std(each, ddof=1), 4)
    )
    likely = (logits.softmax(1).log() + other.softmax(1).log()).argmax(1).numpy()
    assert together["f1 of all folds"] == pytest.approx(f1_score(gold, likely, average="macro"))


def test_a_classifier_that_knows_one_class_is_named(classified):
    logits, labels = classified
    alike = torch.eye(5)[2].expand(MAPS, 5)
    joined = joined_folds([part("CNN", 0, logits, labels), part("rules", 0, alike, labels)], network="CNN")
    says = "rules calls 100.0 % of the labelled maps vertical diagonal: it does not tell these maps apart"
    assert joined.notes == {"summary": [says]}
