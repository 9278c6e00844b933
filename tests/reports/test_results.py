import csv
import json

import pytest

from headscope.reports.results import finished_results, head_rows, number, write_atomically, write_json, write_report

RESULTS = {"experiment": "x", "metrics": {"test/uas": 50.0}, "tables": {"summary": []}, "provenance": {}}


def test_heads_csv_is_tidy_and_one_based(tmp_path):
    heads = {"weight": {"value": [[0.5, -1.0], [2.0, float("nan")]], "n": [[3, 4], [5, 6]]}}
    write_report(tmp_path, RESULTS, heads, [])
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
    assert number(float("inf")) is None
    assert [row["value"] for row in head_rows({"q": {"value": [[float("nan")]]}})] == [None]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "results.json", {"metrics": {"a": float("nan")}})
    assert list(tmp_path.iterdir()) == []


def test_results_come_last_so_that_a_failing_figure_leaves_none(tmp_path):
    def broken(results, heads, folder):
        raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        write_report(tmp_path, RESULTS, {}, [broken])
    assert finished_results(tmp_path) is None


def test_a_file_is_replaced_whole_and_without_leftovers(tmp_path):
    write_atomically(tmp_path / "a" / "b.txt", b"old")
    write_atomically(tmp_path / "a" / "b.txt", b"new")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"new"
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b.txt"]


def test_nothing_of_an_earlier_run_passes_for_this_ones(tmp_path):
    def figure(results, rows, folder):
        write_atomically(folder / "heads.png", b"")

    write_report(tmp_path, RESULTS, {"entropy": {"value": [[0.5]]}}, [figure])
    assert (tmp_path / "heads.csv").is_file() and (tmp_path / "figures" / "heads.png").is_file()
    write_report(tmp_path, RESULTS, {}, [])
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_finished_results_are_read_back(tmp_path):
    write_report(tmp_path, RESULTS, {}, [])
    assert finished_results(tmp_path) == RESULTS
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8")) == RESULTS
