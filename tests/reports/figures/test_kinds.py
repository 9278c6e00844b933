"""What the figures of single analyses show: values, marks, names and legends."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgba
from matplotlib.text import Annotation

from headscope.reports.figures.coreference import published_by_kind
from headscope.reports.figures.drawing import COLOURS, OURS, PUBLISHED
from headscope.reports.figures.labels import box_of, free_offset, overlap
from headscope.reports.figures.patterns import PATTERNS
from headscope.reports.figures.relations import LINK, published_accuracy
from headscope.reports.figures.role_tasks import BROAD
from headscope.reports.figures.roles import EMPTY, FINE
from tests.reports.figures import examples
from tests.reports.figures.drawn import bars, edges, figures, head_rows, lines, one, panels, results, said, texts
from tests.reports.figures.examples import SHARES


def drawn(make, layers=2, width=3, page=183, change=None):
    draw, found, rows, options = examples.example(make, layers, width, page)
    if change:
        change(found, rows)
    return figures(draw, found, rows, **options)


def only(make, *args, **options):
    (figure,) = drawn(make, *args, **options).values()
    return figure


def legend_texts(figure):
    return [text.get_text() for legend in figure.subfigs[0].legends for text in legend.get_texts()]


def below_the_data(figure):
    lowest = min(axes.get_window_extent().y0 for axes in panels(figure))
    return all(legend.get_window_extent().y1 <= lowest for legend in figure.subfigs[0].legends)


# Relations


def test_the_chart_of_relations_has_head_offset_and_published():
    figure = only(examples.chart, 12, 12)
    (axes,) = panels(figure)
    *intervals, best, offsets, held_out, published = axes.collections
    assert [tuple(point) for point in best.get_offsets()] == [(80 - 9 * n, n) for n in range(6)]
    assert [tuple(point) for point in offsets.get_offsets()] == [(50 - 8 * n, n) for n in range(6)]
    assert [tuple(point) for point in published.get_offsets()] == [(86.8, 2)]
    assert intervals[0].get_segments()[0].tolist() == [[75, 0], [84, 0]]
    assert [tuple(point) for point in held_out.get_offsets()] == [(79 - 9 * n, n) for n in range(6)]
    # Where a head is the best of both halves, the tick still shows: above the point, taller, and of another colour.
    assert held_out.get_zorder() > best.get_zorder()
    assert held_out.get_sizes()[0] > 2 * best.get_sizes()[0]
    assert to_hex(held_out.get_edgecolor()[0]) != to_hex(best.get_facecolor()[0])
    assert [label.get_text() for label in axes.get_yticklabels()][2] == "nmod:poss (1,200)   12-10"
    assert legend_texts(figure) == ["best head", "best fixed offset", "head chosen on the other half", "published best head"]
    assert below_the_data(figure)


@pytest.mark.parametrize(
    ("text", "expected"), [("7-6 34.5 (26.3, 1)", 34.5), ("dobj 8-10 86.8 (40.0, -2)", 86.8), (None, None), ("none", None)]
)
def test_the_published_accuracy_is_read_from_its_cell(text, expected):
    assert published_accuracy(text) == expected


def test_lines_have_a_legend_and_the_relation_s_links_a_colour_of_their_own():
    figure = only(examples.sentence)
    (axes,) = [axes for axes in figure.axes if axes.lines]
    links = {tuple(line.get_ydata()): line for line in axes.lines if line.get_color() == LINK}
    assert set(links) == {(3, 5), (2, 8)}
    weights = examples.attention()
    others = [line for line in axes.lines if line.get_color() == OURS]
    left, right = others[0].get_ydata()
    assert others[0].get_alpha() == weights[int(left)][int(right)]
    assert min(line.get_zorder() for line in links.values()) > max(line.get_zorder() for line in others)
    for (query, key), line in links.items():  # seen also where the head gives it little
        assert line.get_alpha() == pytest.approx(0.35 + 0.65 * weights[int(query)][int(key)])
    assert legend_texts(figure) == ["nsubj link", "other attention"]
    assert texts(figure).count("representatives") == 2
    assert "Head 2-3 finds nsubj (dependent → governor) — " in said(figure)


# Frames, coreference, disabling


def test_frames_mark_target_and_element():
    figure, row = drawn(examples.frames).values()
    (axes,) = panels(row)
    weights = [bar.get_width() for bar in axes.patches]
    example = examples.frames(2, 3)[1]["drawings"]["example_maps"][0]
    assert weights == pytest.approx(example["attention"][8])  # the only token of the target
    assert [n for n, bar in enumerate(axes.patches) if to_hex(bar.get_facecolor()).upper() == COLOURS[0]] == [2, 10]
    named = {label.get_text(): to_hex(label.get_color()).upper() for label in axes.get_yticklabels()}
    assert [name for name, colour in named.items() if colour == COLOURS[1]] == ["it"]
    assert "Coloured name: the target; coloured bars: the frame's elements." in said(row)
    (axes,) = panels(figure)
    framed = {(box.get_x() + 0.5, box.get_y() + 0.5): to_hex(box.get_edgecolor()).upper() for box in axes.patches}
    target, element = COLOURS[1], COLOURS[0]
    assert framed == {(2, 8): target, (10, 8): target, (8, 2): element, (8, 10): element}  # (key, query)
    colours = {label.get_text(): label.get_color() for label in axes.get_yticklabels()}
    assert (colours["it"], colours["representatives"], colours["The"]) == (target, element, "black")
    assert len(legend_texts(figure)) == 2
    np.testing.assert_allclose(edges(bars(figure)), edges([axes]), atol=1.5)


def test_coreference_has_the_published_figures_across_the_bars():
    figure = only(examples.coreference, 12, 12)
    (axes,) = panels(figure)
    heights = [bar.get_height() for bar in axes.patches]
    assert heights[:4] == [20, 23, 26, 29]  # nearest mention, over the four kinds
    published = [line for line in axes.lines if line.get_color() == "black" and len(line.get_ydata()) == 2]
    assert [line.get_ydata()[0] for line in published] == [69, 70, 77, 60, 65, 64, 73, 58]
    rules = axes.patches[2 * 4]  # their bar over all mentions
    assert rules.get_x() < np.mean(published[0].get_xdata()) < rules.get_x() + rules.get_width()
    assert "head 12-12, among mentions" in legend_texts(figure)
    assert legend_texts(figure)[-1] == "published"
    assert {"proper name", "common noun", "(1,309)"} <= set(texts(figure))
    assert below_the_data(figure)


def test_links_to_antecedents_stand_out_by_their_share_of_the_attention_to_earlier_mentions():
    figure = only(examples.mentions)
    (axes,) = [axes for axes in figure.axes if axes.lines]
    links = {tuple(line.get_ydata()): line for line in axes.lines if line.get_color() == LINK}
    others = {tuple(line.get_ydata()): line for line in axes.lines if line.get_color() == OURS}
    weights = examples.mentions(2, 3)[1]["drawings"]["coreference_lines"][0]["attention"]
    shares = {(row, column): weights[row][column] / sum(weights[row][:row]) for row in range(8) for column in range(row)}
    assert set(links) | set(others) == {pair for pair, share in shares.items() if share >= 0.05}
    assert set(links) == {pair for pair in ((5, 1), (7, 5)) if shares[pair] >= 0.05} != set()
    for pair, line in (links | others).items():
        assert line.get_alpha() == pytest.approx(shares[pair])
    assert min(line.get_zorder() for line in links.values()) > max(line.get_zorder() for line in others.values())
    assert min(line.get_linewidth() for line in links.values()) > max(line.get_linewidth() for line in others.values())
    assert legend_texts(figure) == ["to an antecedent", "other attention"]


def test_links_that_the_head_does_not_see_are_not_drawn_and_their_words_not_bold():
    def unseen(found, rows):
        found.drawings["coreference_lines"][0]["attention"][7][5] = 0.0

    (axes,) = [axes for axes in only(examples.mentions, change=unseen).axes if axes.lines]
    assert (7, 5) not in {tuple(line.get_ydata()) for line in axes.lines}
    bold = {text.get_text() for text in axes.texts if text.get_fontweight() == "bold"}
    assert examples.WORDS[7] not in bold


def test_published_coreference_is_read_from_its_cell():
    assert published_by_kind("5-4 65 (64/73/58)") == {"all": 65, "pronoun": 64, "proper": 73, "nominal": 58}
    assert published_by_kind("27 (29/29/19)")["nominal"] == 19
    assert published_by_kind(None) == {}


def test_disabled_heads_are_changes_around_zero_and_say_what_is_chance():
    figure = only(examples.disabled)
    (axes,), (bar,) = panels(figure), bars(figure)
    values, veil = axes.images
    low, high = values.get_clim()
    assert low == -high
    assert values.get_array()[1, 2] == pytest.approx(examples.wave(2, 3) - 0.5)
    unsure = [[0.1 <= examples.wave(layer, head) <= 0.9 for head in (1, 2, 3)] for layer in (1, 2)]
    assert (np.asarray(veil.get_array())[..., 3] > 0).tolist() == unsure
    assert bar.get_ylabel().replace("\n", " ") == "change of F1 (points)"
    assert "F1 of the whole model: 87.6." in said(figure)
    assert "Change of F1 when a head is disabled (attention made uniform) — " in said(figure)


def test_disabled_layers_are_bars_with_intervals():
    figure = only(examples.disabled_layers, 4)
    (axes,) = panels(figure)
    assert [bar.get_width() for bar in axes.patches] == [0, -1, -2, -3]
    assert [bar.get_alpha() for bar in axes.patches] == [0.35, 0.35, 1, 1]  # -0.5 - layer to 2.5 - layer
    assert "Pale: the 95 % interval holds 0 (2 of 4 layers)." in said(figure)
    assert "Accuracy of the whole model: 60.0." in said(figure)


# Features and surface


def test_features_are_on_one_scale_in_both_models_and_special_tokens_apart():
    def far_more_to_cls(found, rows):
        for row in rows:
            row["value"] *= 100 if row["quantity"].endswith("_cls") else 2 if row["quantity"].startswith("tuned_") else 1

    made = drawn(examples.features, change=far_more_to_cls)
    words, tuned = made["features_attention_to"], made["features_tuned_attention_to"]
    most = max(2 * examples.wave(layer, head) for layer in (1, 2) for head in (1, 2, 3))
    for figure in (words, tuned):
        assert [axes.get_title() for axes in panels(figure)] == ["to noun", "to verb", "to negation"]
        assert {axes.images[0].get_clim() for axes in panels(figure)} == {(0, most)}
        assert len(bars(figure)) == 1
        np.testing.assert_allclose(edges(bars(figure)), edges(panels(figure)), atol=1.5)
    assert [axes.get_title() for axes in panels(made["features_special_attention_to"])] == ["to [CLS]", "to [SEP]"]
    change = panels(made["features_change_attention_to"])[0].images[0]
    assert change.get_clim()[0] == -change.get_clim()[1]
    assert "The intervals of the differences are in heads.csv; none is tested." in said(made["features_change_attention_to"])
    assert "from verb to subject" in texts(made["features_verb_subject"])
    assert "last layer" not in said(words)


def test_attention_from_cls_names_the_layer_of_the_table():
    def from_cls(found, rows):
        rows[:] = [{**row, "quantity": row["quantity"].replace("attention_to", "cls_to")} for row in rows]

    for name, figure in drawn(examples.features, change=from_cls).items():
        said_so = "The table of features is about the last layer of these grids." in said(figure)
        assert said_so == ("cls_to" in name)


def test_a_classifier_that_tells_no_maps_apart_is_named_in_the_figure():
    draw, found, rows, options = examples.example(examples.patterns, 2, 3, 183)
    found = replace(found, notes={"patterns_by_layer": ["the classifier calls 98.0 % of the maps block"]})
    assert "The classifier calls 98.0 % of the maps block." in said(
        figures(draw, found, rows, **options)["patterns_by_layer"]
    )


def test_features_of_few_inputs_are_named():
    def two_negations(found, rows):
        rows[:] = [{**row, "n": 2 if row["quantity"].endswith("negation") else 36} for row in rows]

    made = drawn(examples.features, change=two_negations)
    assert "Of fewer than 30 inputs: to negation (2)." in said(made["features_attention_to"])
    assert "fewer" not in said(made["features_special_attention_to"])


def test_points_are_heads_and_lines_the_means_of_layers():
    made = drawn(examples.surface, 6, 12)
    first = panels(made["surface_attention"])[0]
    mean = np.mean([examples.wave(1, head) for head in range(1, 13)])
    assert first.lines[0].get_ydata()[0] == pytest.approx(mean)
    assert len(first.collections[0].get_offsets()) == 72
    for axes in panels(made["surface_attention"]):
        legend = axes.get_legend().get_window_extent()
        assert legend.y1 <= axes.get_window_extent().y0
        assert len({line.get_color() for line in axes.lines}) == len(axes.lines)
    assert legend_texts(made["surface_entropy"]) == ["of all tokens", "of [CLS]", "uniform attention"]
    assert panels(made["surface_attention"])[2].lines[-1].get_ydata()[0] == 0.016
    assert panels(made["surface_entropy"])[0].lines[-1].get_ydata()[0] == 0.9
    assert below_the_data(made["surface_entropy"])


def test_examples_of_heads_have_all_tokens_on_both_sides():
    figure = only(examples.kinds_of_heads, 6, 12)
    rooms = [axes for axes in figure.subfigs[0].axes if axes.lines]
    for axes, what in zip(rooms, ("broad", "next token", "[SEP]", "periods and commas"), strict=True):
        assert axes.get_title() == f"6-12: {what}"
        shown = [one.get_text() for one in axes.texts]
        assert shown.count("[CLS]") == shown.count("[SEP]") == 2
        strongest = max(examples.wave(3, column) / 9 for column in range(17))
        assert max(line.get_alpha() for line in axes.lines if line.get_ydata()[0] == 3) == pytest.approx(strongest)


def test_gradients_have_a_line_for_each_class():
    figure = only(examples.importance)
    assert legend_texts(figure) == ["[SEP]", "periods and commas", "other"]
    assert len(panels(figure)[0].lines) == 3


# Clusters and comparisons


def test_the_plane_names_notable_heads_without_overlap():
    figure = only(examples.clusters, 12, 12)
    by_layer, by_behaviour = panels(figure)
    assert len(by_layer.collections[0].get_offsets()) == 144
    names = [one.get_text() for one in by_behaviour.texts if isinstance(one, Annotation)]
    assert {"11-11", "10-10", "9-9"} <= set(names)  # best heads of relations that find room
    assert len(names) >= 10
    assert "Best heads: 9-9 aux:pass; 10-10 nmod:poss; 11-11 nsubj." in said(figure)
    assert [axes.get_xlim() for axes in (by_layer, by_behaviour)].count(by_layer.get_xlim()) == 2
    assert any(text.startswith("previous token (") for text in legend_texts(figure))
    assert below_the_data(figure)


def test_a_name_goes_where_nothing_is():
    room = (0.0, 0.0, 50.0, 50.0)
    (right, up), near = free_offset("1-1", (25, 25), [], room)
    assert near
    assert right > 0 == up
    beside = box_of("1-1", (25 + right, 25 + up))
    (left, _), _ = free_offset("1-1", (25, 25), [beside], room)
    assert left < 0
    assert free_offset("1-1", (25, 25), [room], room) is None
    assert overlap((0, 0, 2, 2), (1, 1, 3, 3))
    assert not overlap((0, 0, 2, 2), (2, 0, 3, 2))


def test_scatters_name_the_runs_on_the_axes_and_share_ends():
    figure = only(examples.scatters, 6, 12)
    first, second = panels(figure)
    for axes, run in ((first, "outputs/another"), (second, "outputs/a third run")):
        assert axes.get_xlabel().replace("\n", " ") == "outputs/a run with a long name (nats)"
        assert axes.get_ylabel().replace("\n", " ") == f"{run} (nats)"
        assert axes.get_xlim() == axes.get_ylim()
        assert len(axes.collections[0].get_offsets()) == 72
    largest = max(
        ((la, he) for la in range(1, 7) for he in range(1, 13)),
        key=lambda one: abs(examples.wave(one[0] + 1, one[1]) - examples.wave(*one)),
    )
    assert f"{largest[0]}-{largest[1]}" in texts(figure)
    assert "Run against run: entropy — " in said(figure)


def test_differences_say_which_run_minus_which_and_that_none_is_tested():
    made = drawn(examples.differences)
    assert list(made) == ["difference:entropy:outputs/another", "difference:entropy:outputs/a third run"]
    figure = made["difference:entropy:outputs/another"]
    assert "Difference of entropy: outputs/another minus outputs/a run with a long name — " in said(figure)
    low, high = panels(figure)[0].images[0].get_clim()
    assert low == -high
    assert "The runs give no intervals of differences: none is tested." in said(figure)


# Patterns and roles


def test_the_confusion_matrix_has_counts_in_cells_and_shares_as_colours():
    made = drawn(examples.classifier)
    (axes,) = panels(made["confusion"])
    assert axes.images[0].get_array()[0].tolist() == pytest.approx([100 * n / 132 for n in (120, 3, 3, 3, 3)])
    assert texts(made["confusion"]).count("120") == 5
    assert bars(made["confusion"])[0].get_ylabel() == "share of the label (%)"
    np.testing.assert_allclose(edges(bars(made["confusion"])), edges([axes]), atol=1.5)
    points = panels(made["reliability"])[0].collections[0]
    assert [tuple(point) for point in points.get_offsets()] == [(n / 10, n / 11) for n in range(3, 11)]


def test_transfer_has_a_bar_for_each_encoder_and_a_point_for_each_class_that_it_shows():
    (axes,) = panels(drawn(examples.classifier)["transfer"])
    assert [bar.get_width() for bar in axes.patches] == [0.87, 0.8, 0.8, 0.8]
    assert len(axes.collections) == 5 + 3 * 4
    assert [label.get_text() for label in axes.get_yticklabels()][1:3] == ["minilm (500 maps)", "e5-small (500 maps)"]


def test_examples_are_a_map_of_each_class_from_each_encoder():
    figure = drawn(examples.classifier)["examples"]
    assert sum(bool(axes.images) for axes in panels(figure)) == 13
    assert texts(figure).count("none") == 2
    assert [axes.get_title() for axes in panels(figure)][:3] == ["e5-small", "minilm", "mpnet"]
    assert [axes.get_ylabel() for axes in panels(figure)][::3][:3] == ["vertical", "diagonal", "vertical + diagonal"]


def test_patterns_stack_to_the_whole_in_every_panel():
    made = drawn(examples.pattern_tasks, 6)
    (axes,) = panels(made["patterns_by_task"])
    assert {round(sum(bar.get_height() for bar in axes.patches if round(bar.get_x() + 0.42) == n)) for n in range(14)} == {
        100
    }
    not_sure, *bounds = sorted(axes.lines, key=lambda line: line.get_marker() != "D")
    assert list(not_sure.get_ydata()) == [SHARES["abstained"]] * 14
    assert [line.get_ydata()[0] for line in bounds] == [61] * 7
    assert "published bound" in legend_texts(made["patterns_by_task"])
    titles = [axes.get_title() for axes in panels(made["patterns_by_layer"])]
    assert titles[:3] == ["MRPC, pre-trained", "MRPC, fine-tuned", "STS-B, pre-trained"]
    assert len({axes.get_ylim() for axes in panels(made["patterns_by_layer"])}) == 1


def test_each_pattern_has_an_example_with_its_tokens_where_they_have_room():
    made = drawn(examples.pattern_maps, 12, 12)
    assert list(made) == ["pattern_examples", "pattern_examples_tuned"]
    axes = panels(made["pattern_examples"])[:5]
    assert [one.get_title() for one in axes] == ["vertical", "diagonal", "vertical + diagonal", "block", "heterogeneous"]
    assert [len([t for t in one.get_xticklabels() if t.get_text()]) for one in axes] == [9, 16, 0, 0, 0]
    assert [one.get_xticks().tolist() for one in axes[2:4]] == [[0, 63], [0, 16]]
    assert np.asarray(axes[1].images[0].get_array())[3, 4] == pytest.approx((1 + 12 % 5) / 10)
    assert "no map" in texts(made["pattern_examples"])
    assert axes[0].get_xlabel() == "STS-B, input 1234, head 12-12, 98.7 % sure"


def test_the_grid_of_patterns_is_pale_where_the_pattern_is_rare():
    (axes,) = panels(drawn(examples.patterns, 2, 3)["patterns_of_heads"])
    picture = np.asarray(axes.images[0].get_array())
    full = np.array(to_rgba(PATTERNS["vertical"])[:3])  # the first of equals
    np.testing.assert_allclose(picture[1, 0], full)
    np.testing.assert_allclose(picture[0, 0], 1 - 0.5 * (1 - full))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("head", "layer")
    assert [text.get_text() for text in axes.texts] == ["50"] * 3 + ["100"] * 3


def test_each_head_is_named_above_nine_cells_one_for_each_fine_role():
    made = drawn(examples.roles, 2, 3)
    (axes,) = panels(made["roles_grid"])
    names = {text.get_text(): text.get_position() for text in axes.texts}
    assert set(names) == {"1-1", "1-2", "1-3", "2-1", "2-2", "2-3"}
    for name, count in {"1-1": 1, "1-3": 3, "2-3": 6}.items():  # of the fine-tuned model
        x, y = names[name]
        cells = [
            cell
            for cell in axes.patches
            if abs(cell.get_x() + cell.get_width() / 2 - x) < 0.4 and int(cell.get_y()) == int(y)
        ]
        filled = [to_hex(cell.get_facecolor()).upper() for cell in cells]
        assert filled == [*(colour.upper() for colour in list(FINE.values())[:count]), *[EMPTY.upper()] * (9 - count)]
    assert names["1-3"][0] < names["1-1"][0]  # with three roles it comes first
    assert "after fine-tuning" in said(made["roles_grid"])


def test_layers_show_coarse_roles_and_heads_of_several_fine_ones_before_and_after():
    left, right = panels(drawn(examples.roles, 2, 3)["roles_by_layer"])
    assert [line.get_ydata().tolist() for line in left.lines] == [[(layer * n) % 3 for layer in (1, 2)] for n in range(4)]
    assert [line.get_ydata().tolist() for line in right.lines] == [[1, 2], [1, 2]]
    assert [line.get_label() for line in right.lines] == [
        "several fine roles, fine-tuned", "several fine roles, pre-trained",
    ]  # fmt: skip


def test_a_role_that_no_input_has_is_no_line_at_zero():
    def single_sentences(found, rows):
        for row in found.tables["by_layer"]:
            row["block"] = None

    left, _ = panels(drawn(examples.roles, 2, 3, change=single_sentences)["roles_by_layer"])
    assert [line.get_label() for line in left.lines] == [role for role in BROAD if role != "block"]


def test_the_threshold_curve_says_which_model_it_is_of():
    assert "Heads with each role, by threshold after fine-tuning — " in said(drawn(examples.roles, 2, 3)["roles_tau"])


def test_roles_of_tasks_have_a_panel_for_each_and_the_published_mean_beside_the_fine_tuned_alone():
    made = drawn(examples.role_tasks, 3, 4)
    (axes,) = panels(made["roles_shares"])
    published = [line for line in axes.lines if to_hex(line.get_color()).upper() == PUBLISHED.upper()]
    assert [line.get_ydata()[0] for line in published] == [73.43, 70.9]
    bars_of_tuned = axes.containers[0]
    assert [line.get_xdata().mean() for line in published] == pytest.approx(
        [bars_of_tuned[n].get_x() + bars_of_tuned[n].get_width() / 2 for n in (0, 5)]
    )
    for name in ("roles_by_layer", "roles_change"):
        assert [axes.get_title() for axes in panels(made[name])] == ["QNLI", "QQP", "MRPC", "SST-2"]
        assert len({axes.get_ylim() for axes in panels(made[name])}) == 1


def test_roles_that_go_together_and_their_spread():
    made = drawn(examples.roles, 2, 3)
    counts, dots = panels(made["roles_overlap"])
    assert [bar.get_height() for bar in counts.patches] == [90, 39, 38, 37, 36]
    black = [line for line in dots.lines if line.get_color() == "black"]
    assert [len(line.get_ydata()) for line in black] == [0, 1, 2, 3, 4]
    assert legend_texts(made["roles_distributions"]) == [
        "mean of all scores, 3.42", "threshold tau, 3", "mean of this head, 3.20",
    ]  # fmt: skip
    assert "head 2-1, [CLS]: above tau, p = 0.21" in texts(made["roles_distributions"])
    assert {"100", "1000"} <= set(texts(made["roles_distributions"]))
    assert legend_texts(made["roles_tau"]) == [*BROAD, "this run, 3"]
    first = panels(made["roles_change"])[0].patches
    assert [bar.get_height() for bar in first] == [0.1] * 3 + [-0.2] * 3 + [0] * 3


# Sweeps


def test_a_sweep_is_a_line_per_job_through_its_values():
    figure = only(examples.jobs)
    (axes,) = panels(figure)
    jobs = [line for line in axes.lines if len(line.get_ydata()) == 5]
    assert len(jobs) == 13
    assert jobs[-1].get_ydata()[-1] == 1  # the best is drawn last, on top
    assert [label.get_text().replace("\n", "") for label in axes.get_xticklabels()] == [
        "module.lr", "data.hidden_layer", "vectors.path", "module.dropout", "UAS, validation",
    ]  # fmt: skip
    assert bars(figure)[0].get_ylabel() == "UAS, validation"
    assert not [line for line in lines(figure) if "/" in line.text and "…" not in line.text]  # long values are shortened
    assert "13 jobs of a sweep, a line each — " in said(figure)


# Trees in hidden states, and a masked-LM head


def test_structure_has_the_probe_beside_word_order_where_the_score_is_known():
    figure = only(examples.structure)
    uuas, spearman = panels(figure)
    probe, order, published = uuas.lines
    assert probe.get_ydata().tolist() == [90, 81, 72, 63, 54, 45]
    assert order.get_ydata().tolist() == [50, 49, 48, 47, 46, 45]
    assert set(published.get_ydata()) == {80}
    assert [line.get_ydata().tolist() for line in spearman.lines] == [
        pytest.approx([0.8, 0.7, 0.6, 0.5, 0.4]), pytest.approx([0.4, 0.3, 0.2, 0.1, 0])
    ]  # fmt: skip
    assert spearman.get_xticklabels()[0].get_text() == "5–9\n999"
    assert uuas.get_title() == "all: probe 77.0, word order alone 48.9"
    assert legend_texts(figure) == ["probe", "word order alone", "published, all lengths: 80"]
    assert "hidden states of layer 4" in said(figure) and below_the_data(figure)


def test_a_probe_of_another_model_stands_beside_no_published_figure():
    def other(found, rows):
        found.tables["summary"][0]["published"] = None

    assert legend_texts(only(examples.structure, change=other)) == ["probe", "word order alone"]


def test_losses_by_frequency_stand_beside_those_of_frequencies_alone():
    figure = only(examples.frequencies)
    (axes,) = panels(figure)
    assert [bar.get_height() for bar in axes.patches] == [11, 9, 7, 5, 3, 12, 11, 10, 9, 8]
    assert axes.get_xticklabels()[2].get_text() == "10–99\n20,005"
    assert legend_texts(figure) == ["the head", "frequencies alone"]


def test_a_plane_without_surface_patterns_has_its_heads():
    rows = head_rows(["mds_x", "mds_y"], 1, 2)
    for axes in panels(one(examples.clusters(2, 2)[0], results(), rows)):
        assert len(axes.collections[0].get_offsets()) == 2
