"""Table 1 from its rows: which figure stands beside which, and the mean gain."""

from dataclasses import replace

import pytest

from headscope.contracts import ChildRun, Provenance, RunResults
from headscope.finetune.glue_table import start_table
from tests.runs.conftest import composed

TASKS = {"mrpc": ("f1", "accuracy"), "stsb": ("pearson", "spearman"), "sst2": ("accuracy",), "qqp": ("f1", "accuracy"),
         "rte": ("accuracy",), "qnli": ("accuracy",), "mnli": ("accuracy",)}  # fmt: skip
STARTS = {"untrained": ("stages=[test]", "start=untrained"), "normal": ("encoder.init=normal",), "pre-trained": ()}


def row_of(task, start, scores, train=100):
    cfg = composed("experiment=kovaleva_glue", f"data.task={task}", *STARTS[start])
    config = {"published": {key: cfg.published[key] for key in cfg.published}, "stages": list(cfg.stages)}
    provenance = Provenance({}, {}, {"train": train, "test": 50}, config=config)
    return ChildRun(start, task, RunResults("kovaleva_glue", scores, {}, provenance), [])


@pytest.fixture(scope="module")
def parts():
    """Scores as different as can be: 10 for untrained, 20 for normal, 30 for pre-trained; the second metric 5 more."""
    return [
        row_of(task, start, {f"test/{name}": 10.0 * (s + 1) + 5 * m for m, name in enumerate(names)})
        for task, names in TASKS.items()
        for s, start in enumerate(STARTS)
    ]


def test_the_published_mean_gain_is_that_of_the_table(parts):
    found = start_table(parts)
    *tasks, mean = found.tables["gains"]
    assert [row["task"] for row in tasks] == list(TASKS)
    assert {row["metric"] for row in tasks if row["task"] != "stsb"} == {"accuracy"}
    assert mean["task"] == "mean of 7"
    assert round(mean["published"], 1) == 35.9  # as section 4.3 says
    assert (mean["ours"], found.metrics["mean gain"]) == (20, 20)


def test_every_figure_of_table_1_stands_beside_its_metric_and_start(parts):
    published = {(r["row"], r["metric"].removeprefix("test/")): r["published"] for r in start_table(parts).tables["summary"]}
    assert len(published) == 30
    expected = {"mrpc": ((0, 31.6), (81.2, 68.3), (87.9, 82.3)), "stsb": ((33.1, None), (2.9, None), (82.7, None)),
                "sst2": ((49.1,), (80.5,), (92,)), "qqp": ((0, 60.9), (0, 63.2), (65.2, 78.6)),
                "rte": ((52.7,), (52.7,), (64.6,)), "qnli": ((52.8,), (49.5,), (84.4,)),
                "mnli": ((31.7,), (61.0,), (78.6,))}  # fmt: skip
    for task, columns in expected.items():
        for start, figures in zip(STARTS, columns, strict=True):
            assert [published[f"{task}, {start}", name] for name in TASKS[task]] == list(figures)


def test_a_model_that_is_only_tested_has_no_published_figure():
    cfg = composed("experiment=kovaleva_glue", "stages=[test]")
    assert {key: cfg.published[key] for key in cfg.published if key.startswith("test/")} == dict.fromkeys(
        ("test/main", "test/f1", "test/accuracy", "test/pearson")
    )


def test_starts_that_learnt_from_unequally_many_examples_are_named(parts):
    fewer = replace(parts[1].results.provenance, examples={"train": 80, "test": 50})
    other = [parts[0], replace(parts[1], results=replace(parts[1].results, provenance=fewer)), *parts[2:]]
    assert not [line for line in start_table(parts).notes["summary"] if "learnt" in line]
    (line,) = [line for line in start_table(other).notes["summary"] if "learnt" in line]
    assert line.startswith("mrpc: its starts learnt from 80 and 100 examples")
