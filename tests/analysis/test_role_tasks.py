"""Roles over several tasks, and the published figures: each beside the same state of the model and the same count."""

from dataclasses import replace

import numpy as np
import pytest

from headscope.analysis.roles.heads import HeadRoles
from headscope.analysis.roles.tasks import METRICS, joined_tasks, summary_row
from headscope.contracts import ChildRun, Provenance, RunResults, defined
from tests.analysis.test_role_tables import SIEVES, batches, role_facts  # noqa: F401
from tests.runs.conftest import composed

TASKS = ("qnli", "qqp", "mrpc", "sst2")


def part(findings, task, published, inputs):
    """A finished run of one task, as the table gets it."""
    provenance = Provenance({}, {}, {"test": inputs}, config={"published": published})
    results = RunResults(
        "pande_sieves",
        defined({f"test/{name}": value for name, value in findings.metrics.items()}),
        defined(findings.tables),
        provenance,
        quantities={name: values.quantity for name, values in findings.heads.items()},
        notes=findings.notes,
    )
    heads = [{name: "" if value is None else str(value) for name, value in row.items()} for row in findings.head_rows()]
    return ChildRun("roles", task, results, heads)


@pytest.fixture
def parts(batches, role_facts):  # noqa: F811
    """Two tasks of other inputs, with a fine-tuned model or without."""

    def make(tuned=True):
        made = []
        for task, chosen in (("mrpc", batches[:7]), ("sst2", batches[7:])):
            metric = HeadRoles(replace(role_facts, tuned=tuned), SIEVES, tau=1.15, level=0.2, permutations=2)
            for batch in chosen:
                metric.update(batch)
            published = dict(composed("experiment=pande_sieves", f"data.task={task}").published)
            made.append(part(metric.compute(), task, published, 2 * len(chosen)))
        return made

    return make


def test_every_published_figure_has_its_metric_in_the_fine_tuned_model(parts):
    means = dict(composed("experiment=pande_sieves").means_over_tasks)
    runs = parts()
    for task in TASKS:
        published = composed("experiment=pande_sieves", f"data.task={task}").published
        figures = {key: value for key, value in published.items() if key not in ("source", "state", "tables")}
        assert figures == {
            "test/tuned_local_syntactic_spearman": {"qnli": 0.78, "qqp": 0.81, "mrpc": 0.85, "sst2": 0.73}[task]
        }
        assert all(key in runs[0].results.metrics and "tuned_" in key for key in figures)
        assert not published.tables
    assert composed("experiment=pande_sieves", "data.task=rte").published["test/tuned_local_syntactic_spearman"] is None
    rows = joined_tasks(runs, means).tables["summary"]
    assert {row["metric"]: row["published"] for row in rows if row["published"] is not None} == means
    assert all(row["model"] == "tuned" for row in rows if row["published"] is not None)


def test_the_summary_is_per_task_and_the_mean_over_tasks(parts):
    runs = parts()
    found = joined_tasks(runs, {"share_none": 9.37})
    assert [row["model"] for row in found.tables["summary"]] == ["tuned"] * len(METRICS) + ["model"] * len(METRICS)
    for row in found.tables["summary"]:
        prefix = "tuned_" if row["model"] == "tuned" else ""
        values = [run.results.metrics[f"test/{prefix}{row['metric']}"] for run in runs]
        assert [row["mrpc"], row["sst2"]] == values
        known = [value for value in values if value is not None]
        assert row["mean"] == (pytest.approx(sum(known) / len(known)) if known else None)
        assert found.metrics[f"{prefix}{row['metric']}"] == row["mean"]
        assert found.metrics[f"sst2 {prefix}{row['metric']}"] == row["sst2"]
    spearman = {(row["task"], row["model"]): row["published"] for row in found.tables["spearman"]}
    assert spearman == {("mrpc", "tuned"): 0.85, ("sst2", "tuned"): 0.73, ("mrpc", "model"): None, ("sst2", "model"): None}
    assert "inputs: mrpc 14, sst2 16; published means are over" in found.notes["summary"][0]
    assert {row["task"] for row in found.tables["by_layer_of_tasks"]} == {"mrpc", "sst2"}


def test_heads_have_the_mean_over_tasks_with_its_interval(parts):
    runs = parts()
    values = joined_tasks(runs, {}).heads["tuned_sieve:local"]
    cells = [
        next(r for r in run.heads if (r["quantity"], r["layer"], r["head"]) == ("tuned_sieve:local", "2", "3"))
        for run in runs
    ]
    mean = np.mean([float(cell["value"]) for cell in cells])
    half = np.sqrt(sum(((float(cell["high"]) - float(cell["low"])) / 2) ** 2 for cell in cells)) / 2
    assert (values.low[1][2], values.value[1][2], values.high[1][2]) == pytest.approx((mean - half, mean, mean + half))
    assert values.n[1][2] == 30
    assert "mean over tasks" in values.quantity.description


def test_without_a_fine_tuned_model_nothing_published_is_shown(parts):
    found = joined_tasks(parts(tuned=False), {"share_none": 9.37})
    assert all(row["published"] is None for name in ("summary", "spearman") for row in found.tables[name])
    assert {row["model"] for row in found.tables["summary"]} == {"model"}
    assert "published" not in found.notes["summary"][0]


def test_a_published_mean_over_tasks_is_not_beside_a_single_task():
    metrics = {"sst2": {"test/tuned_share_none": 24.0}, "mrpc": {}, "rte": {"test/tuned_share_none": 10.0}}
    for tasks, mean, published in ((["sst2", "mrpc"], 24.0, None), (["sst2", "mrpc", "rte"], 17.0, 9.37)):
        row = summary_row({task: metrics[task] for task in tasks}, "share_none", "tuned_", {"share_none": 9.37})
        assert (row["mean"], row["published"]) == (mean, published)
