"""Scores of tasks against scikit-learn and scipy; predictions in their order and as rows."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score

from headscope.data_modules.readers.glue import TASKS
from headscope.finetune.glue_scores import predicted, prediction_rows, task_scores
from headscope.finetune.per_input import PerInput

METRICS = {
    "mrpc": ["f1", "accuracy"],
    "stsb": ["pearson", "spearman"],
    "sst2": ["accuracy"],
    "qqp": ["f1", "accuracy"],
    "rte": ["accuracy"],
    "qnli": ["accuracy"],
    "mnli": ["accuracy"],
}
OUTPUTS = {"stsb": 1, "mnli": 3}
REFERENCE = {
    "f1": lambda labels, found: f1_score(labels, found),
    "accuracy": accuracy_score,
    "pearson": lambda labels, found: pearsonr(labels, found).statistic,
    "spearman": lambda labels, found: spearmanr(labels, found).statistic,
}


def drawn(task, seed=0, examples=101):
    """Random outputs and labels of a task; scores on a coarse scale, so that some are equal."""
    draw, outputs = torch.Generator().manual_seed(seed), OUTPUTS.get(task, 2)
    logits = torch.randn(examples, outputs, generator=draw)
    if task == "stsb":
        return logits.mul(4).round().div(4), torch.randint(0, 26, (examples,), generator=draw) / 5
    return logits, torch.randint(0, outputs, (examples,), generator=draw)


def test_every_task_has_its_metrics():
    assert {name: list(task.metrics) for name, task in TASKS.items()} == METRICS
    assert {name: task.outputs for name, task in TASKS.items()} == {name: OUTPUTS.get(name, 2) for name in TASKS}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("task", METRICS)
def test_the_scores_of_random_predictions_equal_the_reference(task, seed):
    logits, labels = drawn(task, seed)
    found = logits[:, 0].double().numpy() if task == "stsb" else np.array([row.index(max(row)) for row in logits.tolist()])
    scores = task_scores(logits, labels, TASKS[task])
    assert list(scores) == METRICS[task]
    for name, score in scores.items():
        assert score == pytest.approx(100 * REFERENCE[name](labels.double().numpy(), found), abs=1e-4)


@pytest.mark.parametrize("task", ["mrpc", "stsb", "mnli"])
def test_perfect_predictions_score_a_hundred(task):
    _, labels = drawn(task)
    logits = labels[:, None] if task == "stsb" else torch.nn.functional.one_hot(labels).float()
    assert list(task_scores(logits, labels, TASKS[task]).values()) == pytest.approx([100] * len(METRICS[task]))


def test_f1_is_that_of_label_one():
    logits = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    labels = torch.tensor([1, 0, 1, 0, 0])
    assert task_scores(logits, labels, TASKS["mrpc"]) == pytest.approx({"f1": 50, "accuracy": 60})


def test_f1_without_a_one_is_zero():
    nothing = torch.tensor([[1.0, 0.0]] * 4)
    assert task_scores(nothing, torch.tensor([0, 1, 0, 1]), TASKS["qqp"]) == {"f1": 0, "accuracy": 50}
    assert task_scores(nothing, torch.zeros(4, dtype=torch.long), TASKS["qqp"]) == {"f1": 0, "accuracy": 100}


@pytest.mark.filterwarnings("ignore:The variance of predictions")
@pytest.mark.parametrize("examples", [3, 10, 36, 101])
@pytest.mark.parametrize("constant", [0.0, 2.5, 0.1, -3.3333, 1e4 / 3])
def test_constant_scores_give_zero_and_no_nan(constant, examples):
    _, labels = drawn("stsb", examples=examples)
    assert task_scores(torch.full((examples, 1), constant), labels, TASKS["stsb"]) == {"pearson": 0, "spearman": 0}


def test_the_label_or_the_score_is_predicted_on_any_leading_axes():
    logits = torch.tensor([[[0.1, 0.7, 0.2], [3.0, -1.0, 2.0]], [[0.0, 0.0, 1.0], [-3.0, -2.0, -1.0]]])
    assert predicted(logits, TASKS["mnli"]).tolist() == [[1, 0], [2, 2]]
    assert torch.equal(predicted(logits[..., :1], TASKS["stsb"]), logits[..., 0])


def test_predictions_come_in_the_order_of_the_data():
    seen = PerInput("logits", "labels")
    seen.update(torch.tensor([4, 1]), logits=torch.tensor([[4.0, 0.0], [1.0, 0.0]]), labels=torch.tensor([0, 1]))
    seen.update(torch.tensor([3]), logits=torch.tensor([[3.0, 0.0]]), labels=torch.tensor([1]))
    seen.update(torch.tensor([0, 2]), logits=torch.tensor([[0.0, 0.0], [2.0, 0.0]]), labels=torch.tensor([1, 0]))
    index, logits, labels = seen.rows().values()
    assert index.tolist() == [0, 1, 2, 3, 4]
    assert logits.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]]
    assert labels.tolist() == [1, 1, 0, 1, 0]


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_predictions_of_several_processes_are_joined():
    seen = PerInput("logits", "labels")
    seen.index, seen.logits, seen.labels = (
        torch.tensor([2, 0, 1]),
        torch.tensor([[2.0], [0.0], [1.0]]),
        torch.tensor([7, 5, 6]),
    )
    assert [values.flatten().tolist() for values in seen.compute().values()] == [[0, 1, 2], [0, 1, 2], [5, 6, 7]]
    assert {how.__name__ for how in seen._reductions.values()} == {"dim_zero_cat"}


def test_predictions_of_lower_precision_become_float32_and_scores_stay_floats():
    seen = PerInput("logits", "labels")
    seen.update(
        torch.tensor([0, 1]), logits=torch.tensor([[1.5], [2.0]], dtype=torch.bfloat16), labels=torch.tensor([3.25, 0.5])
    )
    _, logits, labels = seen.rows().values()
    assert logits.dtype == labels.dtype == torch.float32
    assert (logits.tolist(), labels.tolist()) == ([[1.5], [2.0]], [3.25, 0.5])


def test_predictions_start_anew_after_a_reset():
    seen = PerInput("logits", "labels")
    seen.update(torch.tensor([0]), logits=torch.tensor([[1.0]]), labels=torch.tensor([1]))
    seen.reset()
    seen.update(torch.tensor([6, 5]), logits=torch.tensor([[2.0], [3.0]]), labels=torch.tensor([0, 0]))
    assert seen.compute()["index"].tolist() == [5, 6]


@pytest.mark.parametrize("task", ["mrpc", "stsb"])
def test_one_input_alone_is_scored_and_has_its_row(task):
    logits, labels = drawn(task, examples=1)
    seen = PerInput("logits", "labels")
    seen.update(torch.tensor([0]), logits=logits, labels=labels)
    index, logits, labels = seen.rows().values()
    assert (index.shape, logits.shape, labels.shape) == ((1,), (1, TASKS[task].outputs), (1,))
    assert len(prediction_rows(index, logits, labels, TASKS[task])) == 1
    assert list(task_scores(logits, labels, TASKS[task])) == METRICS[task]


def test_rows_of_labels_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)], [math.log(4.0), 0.0]])
    rows = prediction_rows(torch.tensor([3, 8]), logits, torch.tensor([1, 1]), TASKS["rte"])
    assert rows == [
        {
            "example": 3, "gold": "not_entailment", "predicted": "not_entailment",
            "p_entailment": pytest.approx(0.25), "p_not_entailment": pytest.approx(0.75),
        },
        {
            "example": 8, "gold": "not_entailment", "predicted": "entailment",
            "p_entailment": pytest.approx(0.8), "p_not_entailment": pytest.approx(0.2),
        },
    ]  # fmt: skip


def test_a_row_of_three_labels_by_hand():
    logits = torch.tensor([[0.0, math.log(2.0), math.log(5.0)]])
    (row,) = prediction_rows(torch.tensor([0]), logits, torch.tensor([1]), TASKS["mnli"])
    assert (row["example"], row["gold"], row["predicted"]) == (0, "neutral", "contradiction")
    chances = [row["p_entailment"], row["p_neutral"], row["p_contradiction"]]
    assert chances == pytest.approx([0.125, 0.25, 0.625])


def test_rows_of_scores_by_hand():
    rows = prediction_rows(torch.tensor([0, 1]), torch.tensor([[2.5], [-1.0]]), torch.tensor([3.25, 0.0]), TASKS["stsb"])
    assert rows == [{"example": 0, "gold": 3.25, "predicted": 2.5}, {"example": 1, "gold": 0.0, "predicted": -1.0}]


@pytest.mark.parametrize("task", ["qqp", "mnli"])
def test_rows_predict_what_is_scored(task):
    logits, labels = drawn(task)
    rows = prediction_rows(torch.arange(len(labels)), logits, labels, TASKS[task])
    right = sum(row["gold"] == row["predicted"] for row in rows)
    assert task_scores(logits, labels, TASKS[task])["accuracy"] == pytest.approx(100 * right / len(labels), abs=1e-4)
