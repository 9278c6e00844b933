"""The tables of docs/papers: every figure, table and number has a command that there is and a test that there is."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PAGES = sorted((PROJECT / "docs" / "papers").glob("*.md"))
LEAST_ROWS = 60
TEST = re.compile(r"([\w/]+\.py)?(?:::(test_\w+)(?:\[[\w.-]+\])?)?")


def rows_of(page):
    """The rows of the tables that have a column of tests, as cells."""
    found, in_table = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] == "in the paper":
            in_table = True
        elif not cells:
            in_table = False
        elif in_table and set(line) - set("|- "):
            found.append(cells)
    return found


ROWS = {page.stem: rows_of(page) for page in PAGES}


def held_by(rows):
    """For each row, the (file, test) pairs that hold it; `the same` is what holds the row before, `::test` of its file."""
    file, before = None, []
    for cells in rows:
        named = []
        for path, test in TEST.findall(cells[3]):
            if path or test:
                file = path or file
                named.append((file, test))
        before = named or (before if cells[3].startswith("the same") else [])
        yield cells[0], before


def test_there_are_enough_rows_and_none_has_an_empty_cell():
    assert sum(map(len, ROWS.values())) >= LEAST_ROWS
    assert set(ROWS) == {"clark", "kovaleva", "pande"}
    for page, rows in ROWS.items():
        assert rows
        for cells in rows:
            assert len(cells) == 5, (page, cells[0])
            assert all(cells), (page, cells[0])


@pytest.mark.parametrize("page", ROWS)
def test_every_row_names_a_test_that_there_is(page):
    for row, named in held_by(ROWS[page]):
        assert named, row
        for file, test in named:
            path = PROJECT / "tests" / file
            assert path.is_file(), (row, file)
            assert test, (row, file)
            assert re.search(rf"^def {test}\(", path.read_text(encoding="utf-8"), re.MULTILINE), (row, test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_experiment_that_is_named_there_is(page):
    named = set(re.findall(r"experiment=(\w+)", page.read_text(encoding="utf-8")))
    assert named
    assert all((PROJECT / "conf" / "experiment" / f"{name}.yaml").is_file() for name in named)
