"""The notebooks that are kept: each runs from top to bottom in an empty folder, and gives what the file shows."""

import base64
import csv
import json
import re

import pytest

from tests.notebooks import FOLDER, NOTEBOOKS, NUMBER, PNG, cells, differences, executed, joined, kinds, plain, slim, whole

LARGEST_PICTURE, LARGEST_FILE = 60_000, 400_000
# Notebooks whose outputs are not kept yet: `python -m tests.notebooks NAME`.
NOT_KEPT: set[str] = set()


def test_there_are_three():
    assert [file.name[:2] for file in NOTEBOOKS] == ["1_", "2_", "3_"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_what_is_kept_is_small_whole_and_of_no_machine(notebook):
    text = notebook.read_text(encoding="utf-8")
    content = json.loads(text)
    assert len(text) < LARGEST_FILE
    assert any(cell["outputs"] for cell in cells(content)) == (notebook.stem not in NOT_KEPT)
    assert not re.search(r"/(?:tmp|root|home|work|Users)/", text)
    if notebook.stem in NOT_KEPT:
        return
    assert [cell["execution_count"] for cell in cells(content)] == list(range(1, len(cells(content)) + 1))
    pictures = [
        output["data"][PNG] for cell in cells(content) for output in cell["outputs"] if PNG in output.get("data", {})
    ]
    assert pictures and all(len(base64.b64decode(joined(one))) < LARGEST_PICTURE for one in pictures)
    outputs = [output for cell in cells(content) for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert [cell["outputs"] for cell in cells(content)] == [whole(cell["outputs"]) for cell in cells(content)]


def test_a_stream_in_pieces_is_one_output():
    first, second = ({"output_type": "stream", "name": "stdout", "text": text} for text in ("a\n", ["b\n", "c"]))
    shown = {"output_type": "execute_result", "data": {"text/plain": "1"}}
    other = {"output_type": "stream", "name": "stderr", "text": "d"}
    assert whole([first, second, shown, second]) == [{**first, "text": "a\nb\nc"}, shown, second]
    assert whole([first, other, second]) == [first, other, second]
    assert whole([shown, shown]) == [shown, shown]
    cell = {"outputs": [first, second]}
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs")
    (node,) = whole([nbformat.from_dict(first), nbformat.from_dict(second)])
    assert node.text == "a\nb\nc"  # still what nbformat writes
    assert kinds(cell) == [["text"]] and plain(cell) == "a\nb\nc"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_another_number_and_a_missing_output_are_found(notebook):
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert differences(notebook, content) == []
    cell = next(cell for cell in cells(content) if NUMBER.search(plain(cell)) and "data" in cell["outputs"][0])
    shown = cell["outputs"][0]["data"]
    number = NUMBER.search(joined(shown["text/plain"])).group()
    shown["text/plain"] = joined(shown["text/plain"]).replace(number, str(10 * float(number) + 1), 1)
    assert len(differences(notebook, content)) == (not notebook.stem.startswith("3_"))
    cell["outputs"] = []
    assert len(differences(notebook, content)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_gives_what_it_shows(notebook, tmp_path):
    now = slim(executed(notebook, tmp_path), tmp_path)
    assert notebook.stem in NOT_KEPT or differences(notebook, now) == []
    if notebook.stem.startswith("1_"):
        check_numbers_of_the_first(now, tmp_path)


def check_numbers_of_the_first(content, folder):
    """The table that the notebook shows is that of the file that the command writes as well."""
    with (folder / "outputs" / "relations" / "heads.csv").open() as file:
        rows = {(row["layer"], row["head"]): row["value"] for row in csv.DictReader(file)
                if row["quantity"] == "relation:all:dependent_to_head"}  # fmt: skip
    (cell,) = [cell for cell in cells(content) if "run.grid(" in joined(cell["source"])]
    shown = [float(number) for number in NUMBER.findall(plain(cell).split("layer", 1)[1])]
    shown = [value for index, value in enumerate(shown) if index % 13]  # a row begins with its layer
    assert shown == [round(float(value), 1) for value in rows.values()]


def test_the_documentation_names_them():
    text = (FOLDER.parent / "notebooks.md").read_text(encoding="utf-8")
    assert all(f"notebooks/{file.name}" in text for file in NOTEBOOKS)
