"""The one place that writes results: what is in the files, in which order, and what an earlier run left."""

import csv
import json

import pytest

from headscope.contracts import Findings, HeadValues, Provenance, Quantity, RunResults, Section, number
from headscope.errors import DamagedFile
from headscope.files import write_atomically, write_json
from headscope.reports.results import finished_results, read_heads
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


DAMAGE = {
    "a digit of a metric": ("results.json", lambda text: text.replace("50.0", "51.0")),
    "half of the results": ("results.json", lambda text: text[: len(text) // 2]),
    "a list for an object": ("results.json", lambda text: "[]"),
    "words for numbers": ("results.json", lambda text: text.replace("50.0", '"many"')),
    "a digit of a head": ("heads.csv", lambda text: text.replace("0.5", "0.6")),
    "half of the heads": ("heads.csv", lambda text: text[: len(text) // 2]),
    "a prediction": ("predictions.csv", lambda text: text.replace("1", "0")),
    "a weight": ("model/weights", lambda text: text + "0"),
}


def finished_run(folder):
    write_atomically(folder / "model" / "weights", b"01")
    findings = Findings(heads=of_heads(value=[[0.5, 1.5]]).heads, files={"predictions.csv": [{"label": 1}]})
    finish(folder, RESULTS, findings)


@pytest.mark.parametrize("case", DAMAGE)
def test_whatever_of_a_run_was_changed_is_noticed_when_it_is_read(tmp_path, case):
    name, damage = DAMAGE[case]
    finished_run(tmp_path)
    assert finished_results(tmp_path).metrics == RESULTS.metrics
    file = tmp_path / name
    file.write_text(damage(file.read_text()))
    with pytest.raises(DamagedFile, match=rf"^{file}: .*; run it again with run_dir={tmp_path}"):
        finished_results(tmp_path)


def test_a_file_of_a_run_that_is_gone_is_noticed(tmp_path):
    finished_run(tmp_path)
    (tmp_path / "heads.csv").unlink()
    with pytest.raises(DamagedFile, match="heads.csv: is gone since the run wrote it; run it again"):
        finished_results(tmp_path)


def test_results_of_a_version_without_checksums_are_read_with_a_warning(tmp_path, caplog):
    finished_run(tmp_path)
    content = json.loads((tmp_path / "results.json").read_text())
    del content["sha256"], content["files"]
    (tmp_path / "results.json").write_text(json.dumps(content))
    assert finished_results(tmp_path) == RESULTS
    assert "was written by a version without checksums" in caplog.text
    (tmp_path / "heads.csv").write_text((tmp_path / "heads.csv").read_text()[:-12])
    with pytest.raises(DamagedFile, match=r"heads.csv:3: expected a head and its numbers"):
        read_heads(tmp_path)
