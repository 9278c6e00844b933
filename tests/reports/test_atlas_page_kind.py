"""The atlas page is kind to its readers: what it opens with, what fits, what can be typed, what is called noise."""

import base64
import json
import re

import numpy as np
import pytest

from headscope.reports.atlas.html import PAGE, atlas_html, rounded, slim
from tests.reports.atlas_data import make_atlas

LONG = (
    "Divers report that considerable stretches of an internationally recognised reef have regained their colouration two "
    "years after the bleaching event , although oceanographers remain worried about the temperatures that were measured "
    "there in springtime ."
)
BOXES = """texts => texts.map((text) => {
  const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
  return {text: text.textContent, left: box.left, right: box.right, top: box.top, bottom: box.bottom,
          inside: box.left >= frame.left && box.right <= frame.right + 0.5 && box.top >= frame.top - 0.5
            && box.bottom <= frame.bottom + 0.5}; })"""


def written(tmp_path, atlas):
    file = tmp_path / "atlas.html"
    file.write_text(atlas_html(atlas), encoding="utf-8")
    return file


def quantity(model, name):
    return next(each for each in model["quantities"] if each["name"] == name)


def strongest(model):
    """Layer, head and quantity that lie farthest from the mean, in a plain loop."""
    best = (0.0, None)
    for each in model["quantities"]:
        values = np.array(each["value"], float)
        if not each["headline"]:
            continue
        for at, value in np.ndenumerate(values):
            deviation = (value - values.mean()) / values.std()
            height = {"high": deviation, "low": -deviation}.get(each["better"], abs(deviation))
            low, high = (each[end][at[0]][at[1]] if each[end] else value for end in ("low", "high"))
            if low <= values.mean() <= high:
                continue
            best = max(best, (height, (at[0] + 1, at[1] + 1, each["name"])))
    return best[1]


def test_escape_empties_the_filter_that_it_is_typed_in_and_nothing_else(opened):
    page = opened("head=2-3")
    for field, shown in (
        ("#quantity-filter", "#quantity-list .choice:visible"),
        ("#panel-filter", "#panel tr[data-quantity]"),
    ):
        page.wait_for_selector("#panel tr[data-quantity='relation:r3:head_to_dependent']")
        every = page.locator(shown).count()
        page.fill(field, "sieve")
        assert 0 < page.locator(shown).count() < every
        page.keyboard.press("Escape")
        assert page.input_value(field) == ""
        assert page.locator(shown).count() == every
        assert page.locator("#panel").is_visible() and page.evaluate("document.activeElement.id") == field[1:]
    page.focus("#quantity-filter")
    page.keyboard.press("Escape")  # nothing is typed: the panel is what can be closed
    assert page.locator("#panel").is_hidden()
    assert page.evaluate("document.activeElement.id") == "quantity-filter"


def test_heads_lie_in_the_plane_as_their_distances_say(opened, atlas):
    page, model = opened("highlight=role:local"), atlas["models"][0]
    for hidden in ("#quantity-list [data-key^=mds]", "#panel tr[data-quantity^=mds]", "#against option[value^=mds]"):
        assert page.locator(hidden).count() == 0
    points = page.locator("[data-part=plane] .point")
    drawn = np.array([[float(point.get_attribute(key)) for key in ("cx", "cy")] for point in points.all()])
    places = np.stack([np.ravel(quantity(model, f"mds_{axis}")["value"]) for axis in "xy"], 1)
    far = np.linalg.norm(drawn[:, None] - drawn, axis=-1) / np.linalg.norm(places[:, None] - places, axis=-1).clip(1e-9)
    others = ~np.eye(len(places), dtype=bool)
    assert far[others] == pytest.approx(np.median(far[others]), rel=0.1)  # to a tenth of a pixel
    bright = [f"{at // 6 + 1}-{at % 6 + 1}" for at in range(24) if "faded" not in points.nth(at).get_attribute("class")]
    assert bright == [head for head, roles in model["roles"].items() if "local" in roles]
    legend = page.locator("[data-part=plane] [data-layer]")
    for layer in range(4):
        assert points.nth(6 * layer + 2).get_attribute("fill") == legend.nth(layer).get_attribute("fill")
    assert len({each.get_attribute("fill") for each in legend.all()}) == 4


def test_points_are_named_and_open_their_head_by_pointer_and_keyboard(opened):
    page = opened("panel=no")
    points = page.locator("[data-part=plane] .point")
    assert page.locator("[data-part=plane] .point[tabindex='0']").count() == 1
    points.nth(7).hover(force=True)
    assert page.inner_text("#tip").startswith("Layer ")
    points.first.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.ariaLabel").startswith("Layer 1, head 3")
    assert page.locator("#tip").is_visible() and page.inner_text("#tip").startswith("Layer 1, head 3")
    page.keyboard.press("Enter")
    assert page.inner_text("#panel-title") == "Layer 1, head 3"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.point") == "2"
    box = points.nth(20).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("#panel").is_visible()


def test_the_page_opens_with_the_head_that_stands_out_most_and_says_why(opened, atlas):
    model = atlas["models"][0]
    layer, head, name = strongest(model)
    assert (layer, head) != (1, 1)
    page, value = opened(), quantity(model, name)["value"][layer - 1][head - 1]
    assert page.inner_text("#panel-title") == f"Layer {layer}, head {head}"
    assert page.locator("#quantity-list [aria-selected=true]").get_attribute("data-key") == name
    why = page.inner_text("#panel [data-part=why]")
    assert quantity(model, name)["label"] in why and f"{abs(value):.3g}"[:4] in why and "standard deviations" in why
    page.click("#panel-next")
    assert page.locator("#panel [data-part=why]").count() == 0
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#panel").is_hidden()  # who closed it does not want it
    page = opened()
    page.set_viewport_size({"width": 700, "height": 800})  # where it would cover the page
    page.wait_for_selector("#panel", state="hidden")
    assert page.locator("#view-grid .cell.selected").count() == 1
    page.click("nav [data-view=attention]")
    assert "head=" not in page.url  # or the address would open it over the page
    assert page.inner_text("#attention-title") == f"Layer {layer}, head {head}"
    assert page.inner_text("#view-attention [data-part=why]") == why


def test_pieces_stand_beside_their_words_and_words_take_their_place(opened, atlas):
    page, chosen = opened("view=attention&head=3-5&panel=no&sentence=3"), atlas["models"][0]["sentences"][2]
    tokens, words, ids = chosen["tokens"], chosen["words"], chosen["word_ids"]
    pieces = [word for place, word in enumerate(words) if ids.count(place) > 1]
    assert page.locator("#view-attention .word-text").all_text_contents() == [word for word in pieces for _ in (0, 1)]
    first = ids.index(words.index(pieces[0]))
    label = page.locator(f".token-from[data-query='{first}']").get_attribute("aria-label")
    assert label.startswith(f"{tokens[first]} of {pieces[0]}, attends to ")
    page.locator(f".token-from[data-query='{first}']").hover()
    assert page.inner_text("#readout p") == f"{tokens[first]} {pieces[0]} attends to"
    page.check("#words")
    assert page.locator(".token-from text").all_text_contents() == ["[CLS]", *words, "[SEP]"]
    size = len(tokens)
    packed = np.frombuffer(base64.b64decode(chosen["maps"]), np.uint8).reshape(4, 6, size, size)[2, 4]
    units = [[0], *([at for at in range(size) if ids[at] == place] for place in range(len(words))), [size - 1]]
    for row, queries in enumerate(units):
        page.locator(f".token-from[data-query='{row}']").hover()
        for item in page.locator("#readout li").all():
            keys = units[int(item.get_attribute("data-readout"))]
            weight = sum((packed[query, key] / 255) ** 2 for query in queries for key in keys) / len(queries)
            assert float(item.locator(".number").inner_text()) == pytest.approx(weight, abs=6e-4)
    assert "words=yes" in page.url
    page.click("#sentence-list [data-key='0']")
    assert page.locator("label:has(#words)").is_hidden()  # no word of it is in pieces


def test_every_label_of_46_tokens_is_whole_and_covers_no_other(opened, tmp_path):
    atlas = make_atlas(2, 3, sentences=[LONG])
    tokens = atlas["models"][0]["sentences"][0]["tokens"]
    assert len(tokens) >= 46
    file = written(tmp_path, atlas)
    for width in (1280, 390):
        page = opened("view=attention&head=1-2&panel=no", file)
        page.set_viewport_size({"width": width, "height": 900})
        labels = page.locator("#view-attention svg.heat .heat-text").evaluate_all(BOXES)
        rows, columns = labels[::2], labels[1::2]
        lines = page.locator("#view-attention svg.lines .token-text").evaluate_all(BOXES)
        for shown in (rows, columns, lines[: len(tokens)], lines[len(tokens) :]):
            assert [label["text"] for label in shown] == tokens
            assert all(label["inside"] for label in shown)
        for one, other in zip(rows, rows[1:], strict=False):
            assert one["bottom"] <= other["top"] + 2.5  # of which the letters take less
        for one, other in zip(columns, columns[1:], strict=False):
            assert one["right"] <= other["left"] + 2.5
        drawn = page.locator("#view-attention .drawing:has(.heat)")
        assert drawn.evaluate("each => each.scrollHeight <= each.clientHeight + 1")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("entropy (nats) > 2", lambda model, layer, head: cell(model, "entropy", layer, head) > 2),
        ("attention to [SEP] < 0.3", lambda model, layer, head: cell(model, "attention_to_sep", layer, head) < 0.3),
        (
            "layer 2-3 and change without the head (%) > 0",
            lambda model, layer, head: layer in (2, 3) and cell(model, "change_without_head", layer, head) > 0,
        ),
        ("class = vertical diagonal", lambda model, layer, head: top_class(model, layer, head) == "vertical_diagonal"),
        ("2-3", lambda model, layer, head: (layer, head) == (2, 3)),
        ("Layer 2, head 3", lambda model, layer, head: (layer, head) == (2, 3)),
        ("head 2..4", lambda model, layer, head: 2 <= head <= 4),
    ],
)
def test_the_filter_takes_the_names_that_are_shown_heads_and_ranges(opened, atlas, text, passes):
    page, model = opened("view=table&panel=no"), atlas["models"][0]
    page.fill("#table-filter", text)
    wanted = [f"{layer}-{head}" for layer in range(1, 5) for head in range(1, 7) if passes(model, layer, head)]
    assert 0 < len(wanted) < 24
    assert page.locator("#filter-error").is_hidden()
    assert page.locator("#view-table tbody th").all_inner_texts() == wanted


def cell(model, name, layer, head):
    return quantity(model, name)["value"][layer - 1][head - 1]


def top_class(model, layer, head):
    shares = {name: share for name, share in model["pattern"][f"{layer}-{head}"].items() if name not in model["not_a_class"]}
    return max(shares, key=shares.get)


def test_the_first_columns_fit_beside_the_panel_and_more_of_them_where_there_is_room(opened, tmp_path):
    atlas = make_atlas(4, 6, extra=4)
    for each in atlas["models"][0]["quantities"]:
        each["headline"] = each["one_of"] != "plane"
    file, columns = written(tmp_path, atlas), {}
    for width in (1280, 1920, 390):
        page = opened("view=table&head=2-3" if width > 390 else "view=table&panel=no", file)
        page.set_viewport_size({"width": width, "height": 900})
        area = page.locator("#view-table .scroll.tall")
        page.wait_for_timeout(200)
        scrolls = area.evaluate("each => each.scrollWidth > each.clientWidth")
        columns[width] = page.locator("#view-table thead th").count() - 4
        assert scrolls == (width == 390)
        hint = page.locator("#view-table .scroll-frame > .scroll-hint")
        assert hint.is_visible() == scrolls
    assert columns[1920] > columns[1280] >= 3 and columns[390] == 2
    area.evaluate("each => each.scrollTo(10000, 0)")
    page.wait_for_selector("#view-table .scroll-frame[data-more=left]")
    page = opened("view=table&columns=cosine|weight&panel=no", file)  # what the reader chose stays
    assert page.locator("#view-table thead th").count() == 6


BROKEN_WORDS = """() => [...document.querySelectorAll("#view-table thead th")].flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode())
    for (const word of node.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  return broken;
})"""


def test_headings_break_between_words(opened, tmp_path):
    atlas, labels = (
        make_atlas(4, 6, extra=8),
        ("all (%), from dependent to head", "number of roles", "all, (%) from dependent"),
    )
    for number, each in enumerate(atlas["models"][0]["quantities"]):
        each["label"] = f"{labels[number % 3]} {number}"
        each["headline"] = True
    page = opened("view=table&panel=no", written(tmp_path, atlas))
    assert "dependent" in page.locator("#view-table thead").inner_text()
    assert page.evaluate(BROKEN_WORDS) == []


def test_what_is_wider_than_a_telephone_says_that_it_scrolls(opened, tmp_path):
    file = written(tmp_path, make_atlas(4, 16))
    page = opened("view=grid&panel=no", file)
    assert page.locator(".scroll-hint:visible").count() == 0
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_selector("#view-grid .scroll-frame:has(.grid) .scroll-hint", state="visible")
    assert page.locator("[data-part=plane] .scroll-hint").is_hidden()  # the plane is seen whole
    drawing = page.locator("#view-grid .drawing:has(.layers)")
    assert drawing.get_attribute("tabindex") == "0" and drawing.get_attribute("aria-label")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_questions_are_a_list_of_answers_with_n_and_p(opened, atlas):
    page = opened("view=questions&panel=no")
    assert page.locator(".answers > li").count() == len(atlas["questions"])
    for name in ("agreement", "ablation"):
        answer, item = atlas["questions"][name], page.locator(f"[data-answer={name}]")
        smallest = min(row["p_holm"] for row in answer["rows"])
        below = sum(row["p_holm"] < 0.05 for row in answer["rows"])
        told = "< 0.001" if smallest < 0.001 else f"{smallest:.3f}"
        tests = f"n = 72 heads · smallest p (Holm) {told} · {below} of {len(answer['rows'])} tests below 0.05"
        assert item.inner_text().split("\n\n") == [answer["title"], answer["verdict"], tests]
    assert page.locator("[data-answer=gains] p").all_inner_texts() == [
        "No test was made of it; its numbers stand below.",
        "no p-value",
    ]
    page.click("[data-answer=gains] button")
    assert page.evaluate("document.activeElement.textContent") == atlas["questions"]["gains"]["title"]
    assert page.locator("[data-question=gains] h2").is_visible()


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return np.dot([0.2126, 0.7152, 0.0722], [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels])


def test_the_colour_of_every_layer_is_seen_on_the_ground_of_both_themes(opened, tmp_path):
    page = opened("panel=no", written(tmp_path, make_atlas(24, 4)))
    for theme, surface in (("light", "#ffffff"), ("dark", "#161c24")):
        page.emulate_media(color_scheme=theme)
        page.wait_for_selector(f"html[data-theme={theme}]", state="attached")
        assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--surface')") == surface
        for view, place in (("grid", "[data-part=plane]"), ("compare", "#view-compare")):
            page.click(f"nav [data-view={view}]")
            colours = [each.get_attribute("fill") for each in page.locator(f"{place} [data-layer]").all()]
            assert len(set(colours)) == 24
            for colour in colours:
                lighter, darker = sorted((luminance(colour), luminance(surface)), reverse=True)
                assert (lighter + 0.05) / (darker + 0.05) >= 3


def test_two_models_are_told_apart_by_their_first_letters(opened, tmp_path):
    atlas = make_atlas(2, 3, models=2)
    name = "an-encoder-with-a-long-name-in-a-folder-of-models"
    atlas["models"][0]["name"], atlas["models"][1]["name"] = name, f"{name}, fine-tuned on mrpc"
    page = opened("view=compare&panel=no", written(tmp_path, atlas))
    assert page.locator("#models button").all_inner_texts() == [f"A: {name}", f"B: fine-tuned on mrpc ({name})"]
    assert page.locator(".pane h3").all_inner_texts()[:2] == [f"A: {name}", f"B: fine-tuned on mrpc ({name})"]
    assert page.locator("#models button").nth(1).get_attribute("title") == atlas["models"][1]["name"]


def test_a_value_with_little_behind_it_is_neither_largest_nor_smallest(opened, tmp_path):
    atlas = rounded(make_atlas(4, 6, models=2))
    for model in atlas["models"]:
        entropy = quantity(model, "entropy")
        entropy["value"][1][1], entropy["n"][1][1] = 99.0, 29
    page = opened("quantity=entropy&panel=no", written(tmp_path, atlas))
    entropy = quantity(atlas["models"][0], "entropy")
    entropy["value"][1][1] = -1
    layer, head = np.unravel_index(np.argmax(entropy["value"]), (4, 6))
    assert page.inner_text("#view-grid .facts div:has-text('Largest') button") == f"{layer + 1}-{head + 1}"
    page.click("nav [data-view=compare]")
    assert "2-2" not in page.locator("#view-compare .beside tbody th").all_inner_texts()


def test_a_sample_is_called_one_on_every_view(opened, tmp_path, atlas):
    page = opened()
    assert page.locator("#sample").is_hidden()
    sampled = make_atlas(2, 3, models=2)
    sampled["models"][0]["sources"][0] |= {"sample": True, "part": "text"}
    sampled["models"][0]["sources"][1] |= {"sample": False, "part": "glue", "n": 36}
    page = opened("", written(tmp_path, sampled))
    for view in page.locator("nav [data-view]").all():
        view.click()
        assert page.inner_text("#sample").startswith(
            "A sample: no evidence. text: the packaged sample. glue: data in which fewer than 100 cases count."
        )
    page.click("nav [data-view=grid]")
    page.click("#models [data-model='1']")
    assert page.locator("#sample").is_hidden()
    page.click("nav [data-view=compare]")  # which shows both
    assert page.locator("#sample").is_visible()


def test_the_page_is_slim_and_means_the_same():
    assert slim("// a\nlet a = 1; // b\n  /** c\n   * d */\n  f(`x // y`);\n") == "let a = 1; // b\nf(`x // y`);\n"
    for file in PAGE.glob("*.js"):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
            # Indentation could be taken from inside a text that spans lines.
            assert line.count("`") % 2 == 0, f"{file.name}:{number + 1}"
    text = atlas_html(make_atlas(2, 2, sentences=()))
    assert not re.search(r"^ +\S", text.split("<style>")[1].split("</style>")[0], re.M)
    assert json.loads(re.search(r'id="atlas" type="application/json">(.*?)</script>', text, re.S)[1])["models"]
