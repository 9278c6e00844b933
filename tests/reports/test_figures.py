import numpy as np
import pytest
from matplotlib import image, pyplot

from headscope.contracts import Provenance, Quantity, RunResults, Section
from headscope.reports.figures.drawing import head_heatmap, head_heatmaps, relation_recall, row_bars

RELATIONS = [{"relation": "det", "recall": 80.0, "count": 12}, {"relation": "obj", "recall": 20.0, "count": 3}]
ROWS = [{"row": "Attention", "ours": 60.0, "published": 61}, {"row": "Structure", "ours": 70.0, "published": None}]


def results(tables=None, quantities=None):
    return RunResults("t", {}, tables or {}, Provenance({}, {}, {}), quantities or {})


def drawn(folder, name):
    picture = image.imread(folder / f"{name}.png")
    assert np.ptp(picture[..., :3]) > 0.5  # not an empty sheet
    return (folder / f"{name}.svg").read_text()


def test_every_quantity_gets_a_grid_as_svg_and_png(tmp_path):
    heads = [
        {"layer": layer, "head": head, "quantity": quantity, "value": layer - head + offset}
        for quantity, offset in (("weight_a", 0.0), ("weight_b", 5.0))
        for layer in (1, 2)
        for head in (1, 2, 3)
    ]
    own, other = Section("probe", "probe"), Section("surface", "surface")
    quantities = {name: Quantity(name, f"label of {name}", section=own) for name in ("weight_a", "weight_b")}
    quantities["entropy"] = Quantity("entropy", "entropy", section=other)
    head_heatmaps(results(quantities=quantities), heads, tmp_path, sections=["probe"])
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"heads_{name}.{suffix}" for name in ("weight_a", "weight_b") for suffix in ("png", "svg")
    ]
    assert "<!-- label of weight_a -->" in drawn(tmp_path, "heads_weight_a")


def test_the_grid_shows_the_values_at_their_places_around_zero():
    figure = head_heatmap("weight", {(1, 1): -2.0, (1, 2): 1.0, (2, 1): 0.5, (2, 2): None})
    shown = figure.axes[0].images[0]
    np.testing.assert_array_equal(shown.get_array().filled(np.nan), [[-2, 1], [0.5, np.nan]])
    assert shown.get_clim() == (-2, 2)
    assert figure.axes[0].get_xlabel() == "head"
    pyplot.close(figure)


@pytest.mark.parametrize(
    ("figure", "found", "name"),
    [
        (relation_recall, results({"relations": RELATIONS}), "relations"),
        (row_bars, results({"summary": ROWS}), "rows"),
    ],
)
def test_bar_charts_are_drawn(tmp_path, figure, found, name):
    figure(found, [], tmp_path)
    assert "<svg" in drawn(tmp_path, name)


def test_the_same_results_give_the_same_svg(tmp_path):
    for folder in ("a", "b"):
        relation_recall(results({"relations": RELATIONS}), [], tmp_path / folder)
    assert (tmp_path / "a" / "relations.svg").read_bytes() == (tmp_path / "b" / "relations.svg").read_bytes()


def test_nothing_is_drawn_of_nothing(tmp_path):
    relation_recall(results(), [], tmp_path)
    head_heatmaps(results(), [], tmp_path, sections=["probe"])
    assert list(tmp_path.iterdir()) == []
