"""Every kind of figure, for few and for many heads, on a page and in a column."""

import ast
from pathlib import Path

import pytest

from headscope.reports import figures as package
from headscope.reports.figures.drawing import data_name
from tests.reports.figures.drawn import assert_readable, figures, said
from tests.reports.figures.examples import EXAMPLES, example

FOLDER = Path(package.__file__).parent


@pytest.mark.parametrize(
    ("layers", "width", "page"), [(6, 12, 183), (24, 16, 89), pytest.param(24, 16, 183, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("make", EXAMPLES)
def test_text_is_readable_and_the_title_names_model_and_data(make, layers, width, page):
    draw, found, rows, options = example(make, layers, width, page)
    drawn = figures(draw, found, rows, **options)
    assert drawn
    for figure in drawn.values():
        assert_readable(figure, page)
        assert "— bert-base-uncased on ewt dev (n = 2,001)" in said(figure)
        assert "_" not in said(figure).replace("Intentionally_affect", "").replace("hidden_layer", "")  # a user's own names


def test_every_function_that_draws_has_an_example():
    drawing = {
        node.name
        for file in FOLDER.glob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any(getattr(one, "id", "") == "written" for one in node.decorator_list)
    }
    assert {make(2, 2)[0].__name__ for make in EXAMPLES} == drawing


def test_data_are_named_by_their_folders():
    files = [Path(f"glue/{task}/dev.tsv") for task in ("MRPC", "SST-2", "QNLI", "RTE")]
    expected = ["MRPC dev", "MRPC dev and SST-2 dev", "MRPC dev, SST-2 dev and QNLI dev", "MRPC dev, SST-2 dev and 2 more"]
    assert [data_name(files[:count]) for count in range(1, 5)] == expected
