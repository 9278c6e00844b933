"""The one place that writes results: what is in the files, in which order, and what an earlier run left."""

import csv
import json

import pytest

from headscope.contracts import Findings, HeadValues, Provenance, Quantity, RunResults, Section, number
from headscope.files import write_atomically, write_json
from headscope.reports.results import finished_results
from headscope.runs.report import finish

SOURCE = {"encoder": {"name": "tiny"}, "data": {"a.conllu": "12"}, "examples": {"test": 3}}
ENTROPY = Quantity("entropy", "entropy (nats)", "How broadly.", "nats", "low", Section("surface", "surface"), headline=True)
RESULTS = RunResults("x", {"test/uas": 50.0}, {"summary": []}, Provenance(**SOURCE, config={"a": 1}), {"entropy": ENTROPY})


def of_heads(**columns):
    return Findings(heads={"entropy": HeadValues(ENTROPY, **columns)})


def test_heads_csv_is_tidy_and_one_based(tmp_path):
    finish(tmp_path, RESULTS, of_heads(value=[[0.5, -1.0], [2.0, float("nan")]], n=[[3, 4], [5, 6]]))
    rows = list(csv.DictReader((tmp_path / "heads.csv").open()))
    assert list(rows[0]) == ["layer", "head", "quantity", "value", "n", "low", "high", "p"]
    assert [(row["layer"], row["head"], row["value"], row["n"]) for row in rows] == [
        ("1", "1", "0.5", "3"),
        ("1", "2", "-1.0", "4"),
        ("2", "1", "2.0", "5"),
        ("2", "2", "", "6"),
    ]


def test_an_undefined_number_is_null_and_never_nan(tmp_path):
    assert number(float("nan")) is None
    assert number(float("-inf")) is None
    assert number(None) is None
    assert [row["value"] for row in of_heads(value=[[float("nan")]]).head_rows()] == [None]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "results.json", {"metrics": {"a": float("nan")}})
    assert list(tmp_path.iterdir()) == []


def test_results_come_last_so_that_a_failing_figure_leaves_none(tmp_path):
    def broken(results, heads, folder):
        raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        finish(tmp_path, RESULTS, Findings(), [broken])
    assert finished_results(tmp_path) is None


def test_a_file_is_replaced_whole_and_without_leftovers(tmp_path):
    write_atomically(tmp_path / "a" / "b.txt", b"old")
    write_atomically(tmp_path / "a" / "b.txt", b"new")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"new"
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b.txt"]


def test_nothing_of_an_earlier_run_passes_for_this_ones(tmp_path):
    def figure(results, rows, folder):
        write_atomically(folder / "heads.png", b"")

    finish(tmp_path, RESULTS, of_heads(value=[[0.5]]), [figure])
    assert (tmp_path / "heads.csv").is_file()
    assert (tmp_path / "figures" / "heads.png").is_file()
    finish(tmp_path, RESULTS, Findings())
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_finished_results_are_read_back(tmp_path):
    finish(tmp_path, RESULTS, Findings())
    assert finished_results(tmp_path) == RESULTS
    content = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert set(content) == {"experiment", "metrics", "tables", "quantities", "drawings", "provenance", "sha256"}
    assert content["quantities"]["entropy"]["label"] == "entropy (nats)"
