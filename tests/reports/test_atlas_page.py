import base64
import csv
import gzip
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from headscope.contracts import Provenance, Quantity, RunResults, Section
from headscope.reports.atlas.content import Measured, Model, Part, quantity_entry
from headscope.reports.atlas.html import PLAIN_BYTES, atlas_html, rounded
from tests.reports.atlas_data import ROLES, make_atlas

VIEWS = ("grid", "table", "attention", "compare", "questions", "sources")
SVG = "{http://www.w3.org/2000/svg}"


def quantity(model, name):
    return next(each for each in model["quantities"] if each["name"] == name)


def listed(model):
    """The quantities that stand in lists: all but the coordinates of heads in the plane."""
    return [each for each in model["quantities"] if each["one_of"] != "plane"]


def shown(value):
    """A number as the page writes it, in Python's own terms."""
    if value is None:
        return "–"
    size = abs(value)
    if float(value).is_integer():
        text = str(int(size))
    elif size >= 100:
        text = f"{size:.1f}"
    elif size >= 1:
        text = f"{size:.2f}"
    elif size >= 0.001:
        text = f"{size:.{2 - int(np.floor(np.log10(float(f'{size:.2e}'))))}f}"
    else:
        text = re.sub("e-0", "e-", f"{size:.1e}")
    return ("−" if value < 0 else "") + text


def shown_p(p):
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def saved(page, click):
    with page.expect_download() as waiting:
        click()
    return waiting.value.path().read_text(encoding="utf-8"), waiting.value.suggested_filename


def cell(page, layer, head, grid="#view-grid"):
    return page.locator(f"{grid} [role=gridcell][aria-label^='layer {layer} head {head},']")


def cell_numbers(page, grid="#view-grid"):
    labels = page.locator(f"{grid} [role=gridcell]").evaluate_all("cells => cells.map((cell) => cell.ariaLabel)")
    return [re.search(r", .*? (−?[\d.]+(?:e-\d+)?|not defined)(?:,|$)", label)[1] for label in labels]


def column_text(page, number):
    return page.locator(f"#view-table tbody tr > :nth-child({number})").all_inner_texts()


def test_the_page_holds_everything_and_cannot_be_broken_by_its_data(atlas):
    text = atlas_html(atlas)
    assert text.count("</script>") == text.count("<script")  # a sentence of the data holds this very tag
    assert not re.search(r"""(src|href)=["'](?!#)|@import|url\(""", text.split("</head>")[0])
    embedded = re.search(r'<script id="atlas" type="application/json">(.*?)</script>', text, re.S)[1]
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded) == atlas
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_numbers_keep_six_digits_and_what_is_not_finite_is_null():
    numbers = {"a": (1 / 3, 2e-7 / 3, 1234567.8), "b": float("nan"), "c": [float("inf"), 2.0, None, True, "x"]}
    assert rounded(numbers) == {"a": [0.333333, 6.66667e-08, 1234570], "b": None, "c": [None, 2, None, True, "x"]}


def test_every_view_opens_in_both_themes_and_all_widths_without_sideways_scrolling(opened):
    for width, theme in ((1400, "light"), (800, "dark"), (360, "light")):
        page = opened()
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=theme)
        page.wait_for_selector(f"html[data-theme={theme}]", state="attached")
        for view in VIEWS:
            page.click(f"nav [data-view={view}]")
            assert page.locator(f"#view-{view}").is_visible()
            assert page.locator("main > section:visible").count() == 1
            assert page.locator("nav [aria-current=page]").get_attribute("data-view") == view
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_grid_shows_the_values_of_the_chosen_quantity(opened, atlas):
    page, model = opened(), atlas["models"][0]
    for name in ("entropy", "weight", "sieve:local"):
        page.fill("#quantity-filter", name)
        page.click(f"#quantity-list [data-key='{name}']")
        expected = quantity(model, name)
        values = [value for row in expected["value"] for value in row]
        assert cell_numbers(page) == ["not defined" if value is None else shown(value) for value in values]
        assert page.inner_text("#grid-title") == expected["label"]
        ticks = page.locator("#view-grid .legend-ticks span").all_inner_texts()
        known = [value for value in values if value is not None]
        largest = max(map(abs, known))
        ends = [-largest, largest] if min(known) < 0 else [min(known), max(known)]
        assert [ticks[0], ticks[-1]] == [shown(end) for end in ends]
    marked = page.locator("#view-grid .significant").count()
    assert marked == sum(p < 0.05 for row in quantity(model, "sieve:local")["p"] for p in row) > 0
    page.goto(page.url.split("#")[0] + "#quantity=weight")
    assert page.locator("#view-grid .missing").count() == 1
    page.check("#numbers")
    assert page.locator("#view-grid [role=gridcell]").all_inner_texts()[1] == "–"


def test_a_cells_label_says_all(opened, atlas):
    page, tested = opened("quantity=sieve:block"), quantity(atlas["models"][0], "sieve:block")
    value, low, high, p = (tested[column][1][2] for column in ("value", "low", "high", "p"))
    words = f"layer 2 head 3, sieve:block {shown(value)}, n 1000, interval {shown(low)} to {shown(high)}, p {shown_p(p)}"
    assert cell(page, 2, 3).get_attribute("aria-label") == words
    cell(page, 2, 3).hover()
    assert page.locator("#tip").is_visible() and shown(value) in page.inner_text("#tip")


def test_colours_run_with_the_values_and_ranks_are_even(opened, atlas):
    page = opened("quantity=attention_to_sep")
    luminance = """cells => cells.map((cell) => {
        const [r, g, b] = getComputedStyle(cell).backgroundColor.match(/\\d+/g).map(Number);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; })"""
    values = np.array(quantity(atlas["models"][0], "attention_to_sep")["value"]).ravel()
    for by_rank in (False, True):
        page.set_checked("#by-rank", by_rank)
        colours = np.array(page.locator("#view-grid [role=gridcell]").evaluate_all(luminance))
        assert (np.diff(colours[values.argsort()]) > -1.5).all()  # viridis grows lighter
        target = values.argsort().argsort() / (len(values) - 1) if by_rank else (values - values.min()) / np.ptp(values)
        assert np.corrcoef(colours, target)[0, 1] > 0.98


def test_highlighting_fades_all_other_heads(opened, atlas):
    page = opened("highlight=role:local")
    with_role = sum("local" in roles for roles in atlas["models"][0]["roles"].values())
    assert page.locator("#view-grid .cell:not(.faded)").count() == with_role
    page.select_option("#highlight", "")
    assert page.locator("#view-grid .faded").count() == 0


def test_the_panel_shows_what_is_known_of_a_head(opened, atlas):
    page, model = opened(), atlas["models"][0]
    cell(page, 2, 3).click()
    assert page.inner_text("#panel-title") == "Layer 2, head 3"
    chips = page.locator("#panel .chip").all_inner_texts()
    assert (chips or []) == model["roles"]["2-3"]
    rows = page.locator("[data-part=roles] tbody tr").all_inner_texts()
    assert len(rows) == len(ROLES)
    for role in ROLES:
        tested = quantity(model, f"sieve:{role}")
        row = next(row for row in rows if row.startswith(role))
        assert shown(tested["value"][1][2]) in row and shown_p(tested["p"][1][2]) in row
        assert ("✓" in row) == (role in model["roles"]["2-3"])
    page.click("[data-part=relations] summary")
    for row, text in zip(
        model["relations"]["2-3"], page.locator("[data-part=relations] tbody tr").all_inner_texts(), strict=True
    ):
        assert text.split("\t")[0] == row["relation"] + (" ★" if row["best"] else "")
        assert text.split("\t")[2].split("\n")[:2] == [
            shown(row["accuracy"]),
            f"{shown(row['low'])} to {shown(row['high'])}",
        ]
    pattern = page.locator("[data-part=pattern] svg").inner_html()
    widths = dict(re.findall(r'class="stack".*?width="([\d.]+)".*?<title>([\w ]+?) [\d.]+ %', pattern))
    for width, name in widths.items():
        assert float(width) == pytest.approx(max(340 * model["pattern"]["2-3"][name.replace(" ", "_")] - 1, 0.5), abs=0.01)
    ablation = quantity(model, "change_without_head")
    standing = next(
        row for row in page.locator("[data-part=standing] tbody tr").all_inner_texts() if row.startswith("change")
    )
    assert shown(ablation["value"][1][2]) in standing
    assert f"{shown(ablation['low'][1][2])} to {shown(ablation['high'][1][2])}" in standing


def test_the_panel_ranks_every_quantity(opened, atlas):
    page, model = opened("head=3-4"), atlas["models"][0]
    page.wait_for_selector(f"#panel tr[data-quantity='{listed(model)[-1]['name']}']")
    for each in listed(model):
        values = [value for row in each["value"] for value in row if value is not None]
        rank = 1 + sum(value > each["value"][2][3] for value in values)
        row = page.inner_text(f"#panel tr[data-quantity='{each['name']}']")
        assert shown(each["value"][2][3]) in row and f"{rank} of {len(values)}" in row
    page.fill("#panel-filter", "cosine")
    assert page.locator("#panel tr[data-quantity]").count() == 1
    page.click("#panel tr[data-quantity] button")
    assert page.inner_text("#grid-title") == "cosine after fine-tuning"


def test_heads_that_stand_out_can_be_opened(opened, atlas):
    page = opened()
    assert page.locator("[data-part=facts] tbody tr").all_inner_texts() == ["most even attention\t2-4\tentropy (nats)\t3.50"]
    page.click("[data-part=facts] button")
    assert page.inner_text("#panel-title") == "Layer 2, head 4"
    page.click("#panel-attention")
    assert page.inner_text("#attention-title") == "Layer 2, head 4"


def test_heads_can_be_walked_and_closing_gives_the_focus_back(opened):
    page = opened()
    cell(page, 1, 6).click()
    page.click("#panel-next")
    assert page.inner_text("#panel-title") == "Layer 2, head 1"
    page.click("#panel-previous")
    page.keyboard.press("Enter")  # the button has kept the focus
    assert page.inner_text("#panel-title") == "Layer 1, head 5"
    page.keyboard.press("Escape")
    assert page.locator("#panel").is_hidden()
    assert page.evaluate("document.activeElement.ariaLabel").startswith("layer 1 head 6")
    assert "head=" not in page.url
    page.set_viewport_size({"width": 700, "height": 800})
    cell(page, 2, 2).click()
    assert page.evaluate("document.getElementById('main').inert")  # the panel covers the page
    page.click("#panel-close")
    assert not page.evaluate("document.getElementById('main').inert")


def test_the_keyboard_reaches_and_works_everything_in_the_grid(opened):
    page = opened("panel=no")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus("#highlight")
    page.keyboard.press("Tab")
    focused = "document.activeElement.ariaLabel.split(',')[0]"
    assert page.evaluate(focused) == "layer 1 head 1"
    for key, place in (
        ("ArrowRight", "layer 1 head 2"),
        ("ArrowDown", "layer 2 head 2"),
        ("End", "layer 2 head 6"),
        ("ArrowRight", "layer 2 head 6"),
        ("Control+End", "layer 4 head 6"),
        ("ArrowUp", "layer 3 head 6"),
        ("Home", "layer 3 head 1"),
        ("PageUp", "layer 1 head 1"),
        ("ArrowLeft", "layer 1 head 1"),
        ("PageDown", "layer 4 head 1"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused) == place
    assert page.locator("#view-grid [role=gridcell][tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert page.inner_text("#panel-title") == "Layer 4, head 1"
    assert page.evaluate("document.activeElement.id") == "panel-title"
    page.keyboard.press("Escape")
    assert page.evaluate(focused) == "layer 4 head 1"


def test_the_list_of_quantities_is_walked_with_the_arrows(opened, atlas):
    page = opened()
    page.focus("#quantity-filter")
    page.keyboard.type("sieve")
    assert page.locator("#quantity-list .choice:visible").count() == len(ROLES)
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#grid-title") == "sieve:local"
    page.keyboard.press("End")
    assert page.inner_text("#grid-title") == "sieve:delimiter"
    page.locator("#live").filter(has_text="sieve:delimiter, from").wait_for(state="attached")
    page.keyboard.press("ArrowUp")
    assert page.locator("#quantity-list [aria-selected=true]").get_attribute("data-key") == "sieve:block"
    page.fill("#quantity-filter", "nothing like it")
    assert page.locator("#view-grid .nothing").is_visible()


def test_the_table_sorts_as_python_does(opened, atlas):
    page, model = opened("view=table&columns=weight|entropy"), atlas["models"][0]
    places = [(layer, head) for layer in range(4) for head in range(6)]
    for name in ("weight", "entropy"):
        values = quantity(model, name)["value"]
        for descending in (True, False):
            page.click(f"#view-table [data-sort={name}]")
            sign = -1 if descending else 1
            missing_last = sorted(
                places, key=lambda at: (values[at[0]][at[1]] is None, sign * (values[at[0]][at[1]] or 0), at)
            )
            assert column_text(page, 1) == [f"{layer + 1}-{head + 1}" for layer, head in missing_last]
            order = page.locator(f"#view-table th:has([data-sort={name}])").get_attribute("aria-sort")
            assert order == ("descending" if descending else "ascending")
    page.click("#view-table [data-sort=roles]")
    roles = [", ".join(model["roles"][head]) for head in column_text(page, 1)]
    assert roles == sorted(roles, key=lambda text: (not text, text))


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("delimiter", lambda model, layer, head: any_text(model, layer, head, "delimiter")),
        ("entropy > 2 and layer < 4", lambda model, layer, head: value(model, "entropy", layer, head) > 2 and layer < 4),
        ("1 < entropy <= 2.5", lambda model, layer, head: 1 < value(model, "entropy", layer, head) <= 2.5),
        ("not (head = 1 or layer >= 3)", lambda model, layer, head: not (head == 1 or layer >= 3)),
        ("sieve:local.p < 0.05", lambda model, layer, head: value(model, "sieve:local", layer, head, "p") < 0.05),
        ("role = local layer = 2", lambda model, layer, head: "local" in model["roles"][f"{layer}-{head}"] and layer == 2),
        ('"entropy (nats)" > weight', lambda model, layer, head: below(model, "weight", "entropy", layer, head)),
        ("cosine.rank <= 5", lambda model, layer, head: rank(model, "cosine", layer, head) <= 5),
        ("class != diagonal", lambda model, layer, head: top_class(model, layer, head) != "diagonal"),
    ],
)
def test_the_filter_keeps_what_it_says(opened, atlas, text, passes):
    page, model = opened("view=table"), atlas["models"][0]
    page.fill("#table-filter", text)
    wanted = [f"{layer}-{head}" for layer in range(1, 5) for head in range(1, 7) if passes(model, layer, head)]
    assert 0 < len(wanted) < 24
    assert column_text(page, 1) == wanted
    assert page.inner_text("#table-count") == f"{len(wanted)} of 24 heads"


def value(model, name, layer, head, column="value"):
    return quantity(model, name)[column][layer - 1][head - 1]


def below(model, low, high, layer, head):
    left, right = value(model, low, layer, head), value(model, high, layer, head)
    return left is not None and right is not None and left < right


def rank(model, name, layer, head):
    return 1 + sum(other > value(model, name, layer, head) for row in quantity(model, name)["value"] for other in row)


def top_class(model, layer, head):
    shares = {name: share for name, share in model["pattern"][f"{layer}-{head}"].items() if name not in model["not_a_class"]}
    return max(shares, key=shares.get)


def any_text(model, layer, head, word):
    name = f"{layer}-{head}"
    texts = [*model["roles"][name], top_class(model, layer, head), *(row["relation"] for row in model["relations"][name])]
    return any(word in text for text in texts)


def test_a_filter_that_cannot_be_read_says_so_and_changes_nothing(opened):
    page = opened("view=table")
    page.fill("#table-filter", "layer = 1")
    for text, message in (
        ("entropi > 2", "There is no quantity “entropi”; near it: entropy."),
        ("entropy >", "After “entropy >” a number or a name is missing."),
        ("(layer = 1", "A bracket is not closed."),
        ("layer = 1 )", "“)” is not expected here."),
        ("not", "Something is missing at the end."),
    ):
        page.fill("#table-filter", text)
        assert page.inner_text("#filter-error") == message
        assert page.inner_text("#table-count") == "6 of 24 heads"
    page.fill("#table-filter", "")
    assert page.locator("#filter-error").is_hidden()
    assert page.inner_text("#table-count") == "24 of 24 heads"


def test_columns_come_and_go_and_rows_open_heads(opened):
    page = opened("view=table&columns=entropy")
    page.click("#columns-list [data-key=cosine]")
    assert page.locator("#view-table thead th").all_inner_texts()[-1].startswith("cosine after fine-tuning")
    page.click("#columns-list [data-key=entropy]")
    assert "columns=cosine" in page.url
    page.click("#view-table tbody tr:nth-child(8) td:last-child")
    assert page.inner_text("#panel-title") == "Layer 2, head 2"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "2-2"


def test_csv_files_hold_the_data(opened, atlas):
    page, model = opened("view=table&columns=weight|entropy&sort=entropy&filter=layer < 3"), atlas["models"][0]
    text, name = saved(page, lambda: page.click("#csv-shown"))
    rows = list(csv.DictReader(text.splitlines()))
    assert name == "heads_MiniLM_shown.csv"
    assert list(rows[0]) == ["layer", "head", "roles", "class", "relation", "weight", "entropy"]
    assert [float(row["entropy"]) for row in rows] == sorted(
        each for row in quantity(model, "entropy")["value"][:2] for each in row
    )
    for row in rows:
        layer, head = int(row["layer"]), int(row["head"])
        assert row["roles"].split() == model["roles"][f"{layer}-{head}"] and row["class"] == top_class(model, layer, head)
        assert (float(row["weight"]) if row["weight"] else None) == value(model, "weight", layer, head)
    text, name = saved(page, lambda: page.click("#csv-all"))
    rows = list(csv.DictReader(text.splitlines()))
    assert list(rows[0]) == ["layer", "head", "quantity", "value", "n", "low", "high", "p"]
    assert len(rows) == 24 * len(model["quantities"])
    for row in rows:
        expected = quantity(model, row["quantity"])
        for column in ("value", "n", "low", "high", "p"):
            known = expected[column] and expected[column][int(row["layer"]) - 1][int(row["head"]) - 1]
            assert (float(row[column]) if row[column] else None) == known


def test_every_figure_downloads_as_svg_that_stands_alone(opened):
    names = set()
    for view in ("grid", "attention", "compare", "questions"):
        page = opened(f"view={view}&head=2-3")
        for button in page.locator(".figure button:visible, .pane button:visible, #grid-svg:visible").all():
            text, name = saved(page, button.click)
            root = ET.fromstring(text)
            assert root.tag == f"{SVG}svg" and name.endswith(".svg")
            assert "var(" not in text and "class=" not in text and "http" not in text.replace("http://www.w3.org/", "")
            drawn = [
                each
                for each in root.iter()
                if each.tag in {SVG + tag for tag in ("rect", "circle", "path", "text", "image")}
            ]
            assert len(drawn) > 5 or any(each.tag == f"{SVG}image" for each in drawn)
            assert all(each.get("fill") for each in root.iter(f"{SVG}text"))
            names.add(name)
    kinds = (
        "grid",
        "layers",
        "relations",
        "pattern",
        "standing",
        "lines",
        "heatmap",
        "all_heads",
        "compare",
        "scatter",
        "questions",
    )
    assert all(any(name.startswith(kind) for name in names) for kind in kinds)


def test_the_theme_is_chosen_and_remembered(opened):
    page = opened()
    assert page.locator("html[data-theme=light]").count() == 1
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.click("#theme")
    assert page.evaluate(background) != light
    assert opened().locator("html[data-theme=dark]").count() == 1
    page.emulate_media(color_scheme="light")
    assert page.locator("html[data-theme=dark]").count() == 1


CONTRAST = """() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".unseen, .skip, .tip, :disabled, option, optgroup")) continue;
    const svg = element instanceof SVGElement, style = getComputedStyle(element);
    if (svg && (element.tagName !== "text" || element.hasAttribute("fill"))) continue;
    const [a, b] = [light(parse(svg ? style.fill : style.color)), light(ground(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${element.textContent.slice(0, 30)} ${(a + 0.05) / (b + 0.05)}`);
  }
  return low;
}"""


def test_all_text_has_enough_contrast_in_both_themes(opened):
    page = opened("head=2-3&numbers=yes&filter=layer >")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_selector(f"html[data-theme={theme}]", state="attached")
        for view in VIEWS:
            page.click(f"nav [data-view={view}]")
            assert page.evaluate(CONTRAST) == []


NAMELESS = """() => [...document.querySelectorAll("button, select, input, a, svg[role], [role=region], table")]
  .filter((each) => each.checkVisibility() && !(each.ariaLabel || each.textContent.trim() || each.labels?.length))
  .map((each) => each.outerHTML.slice(0, 80))"""


def test_everything_has_a_name_for_those_who_do_not_see_it(opened):
    page = opened("head=2-3")
    for view in VIEWS:
        page.click(f"nav [data-view={view}]")
        assert page.evaluate(NAMELESS) == []
        assert page.locator("table:visible:not(:has(caption))").count() == 0
        ids = page.locator("[id]").evaluate_all("all => all.map((each) => each.id)")
        assert len(ids) == len(set(ids))
        assert page.locator("h1").count() == 1 and page.locator("main h2:visible, main h2.unseen").count() >= 1


def test_attention_is_the_packed_maps(opened, atlas):
    page, model = opened("view=attention"), atlas["models"][0]
    page.fill("#sentence-filter", "next token")
    assert page.locator("#sentence-list .choice:visible").count() == 1
    page.keyboard.press("Enter")
    chosen = model["sentences"][2]
    page.select_option("#attention-layer", "3")
    page.select_option("#attention-head", "5")
    assert page.inner_text("#attention-title") == "Layer 3, head 5"
    size = len(chosen["tokens"])
    packed = np.frombuffer(base64.b64decode(chosen["maps"]), np.uint8).reshape(4, 6, size, size)
    maps = (packed[2, 4] / 255) ** 2
    for query in (0, 3, size - 1):
        page.locator(f"#view-attention .token-from[data-query='{query}']").hover()
        read = {}
        for row in page.locator("#readout li").all():
            read[int(row.get_attribute("data-readout"))] = float(row.locator(".number").inner_text())
        best = sorted(maps[query], reverse=True)[:10]
        assert sorted(read.values(), reverse=True) == pytest.approx(best, abs=6e-4)
        assert all(weight == pytest.approx(maps[query, key], abs=6e-4) for key, weight in read.items())
    lines = page.locator("#view-attention .links").evaluate_all("all => all.map((each) => each.childElementCount)")
    assert lines == (maps >= 0.02).sum(1).tolist()
    page.locator("#view-attention .token-from").first.focus()
    page.keyboard.press("ArrowDown")
    assert chosen["tokens"][1] in page.inner_text("#readout p")
    page.check("#special")
    assert page.locator("#view-attention .token-from").count() == size - 2
    assert page.locator("#view-attention code").filter(has_text="sentences=").first.is_visible()


def test_the_heat_map_has_the_colour_of_each_weight(opened, atlas):
    page, chosen = opened("view=attention&head=1-2&panel=no"), atlas["models"][0]["sentences"][0]
    size = len(chosen["tokens"])
    packed = np.frombuffer(base64.b64decode(chosen["maps"]), np.uint8).reshape(4, 6, size, size)[0, 1]
    areas = {}
    for path in page.locator("#view-attention svg.heat path").all():
        for place in re.findall(r"M([\d.]+) ([\d.]+)h", path.get_attribute("d")):
            areas[tuple(map(float, place))] = path.get_attribute("fill")
    assert len(areas) == size * size
    ordered = [areas[place] for place in sorted(areas, key=lambda place: (place[1], place[0]))]
    darkness = np.array([sum(int(colour[at : at + 2], 16) for at in (1, 3, 5)) for colour in ordered])
    assert np.corrcoef(darkness, packed.ravel())[0, 1] < -0.97
    overview = page.locator("#view-attention svg.overview")
    overview.scroll_into_view_if_needed()
    box = overview.bounding_box()
    overview.click(position={"x": box["width"] - 10, "y": box["height"] - 10})
    assert page.inner_text("#attention-title") == "Layer 4, head 6"
    page.click("#attention-panel")
    assert page.inner_text("#panel-title") == "Layer 4, head 6"


def test_two_models_are_compared(opened, atlas):
    page = opened("view=compare&quantity=weight")
    grids = [np.array(quantity(model, "weight")["value"], float) for model in atlas["models"]]
    for place, expected in enumerate(grids):
        numbers = cell_numbers(page, f".pane:nth-child({place + 1})")
        assert numbers == ["not defined" if np.isnan(each) else shown(each.item()) for each in expected.ravel()]
    labels = page.locator(".pane:nth-child(3) [role=gridcell]").evaluate_all("all => all.map((each) => each.ariaLabel)")
    found = [re.search(r"difference (−?[\d.e-]+|–)", label)[1].replace("−", "-") for label in labels]
    differences = [np.nan if text == "–" else float(text) for text in found]
    np.testing.assert_allclose(differences, (grids[1] - grids[0]).ravel(), rtol=6e-3)
    both = ~np.isnan(grids[0] + grids[1])
    pearson = np.corrcoef(grids[0][both], grids[1][both])[0, 1]
    orders = [grid[both].argsort().argsort() for grid in grids]
    words = page.locator("[data-part=correlation]").first.inner_text()
    assert f"Over {both.sum()} heads" in words
    found = [float(text.replace("−", "-")) for text in re.findall(r"\) (−?[\d.]+)(?=[,.])", words)]
    assert found == pytest.approx([np.corrcoef(*orders)[0, 1], pearson], abs=6e-3)
    points = page.locator("#view-compare svg.scatter").first.locator(".point")
    assert points.count() == both.sum()
    x = np.array([float(point.get_attribute("cx")) for point in points.all()])
    assert np.corrcoef(x, grids[0][both])[0, 1] > 0.9999
    page.wait_for_selector("#view-compare .card:last-child tbody tr")
    assert page.locator("#view-compare .card:last-child tbody tr").count() == len(listed(atlas["models"][0]))
    page.select_option("#against", "cosine")
    assert "against=cosine" in page.url
    page.locator(".pane:nth-child(2) [role=gridcell]").nth(7).click()
    assert page.inner_text("#panel-title") == "Layer 2, head 2"
    assert page.inner_text("#panel .panel-head p") == atlas["models"][1]["name"]


def test_models_of_other_shapes_and_single_models_have_no_difference(opened, tmp_path):
    file = tmp_path / "atlas.html"
    file.write_text(atlas_html(make_atlas(shapes=[(2, 3), (3, 4)])), encoding="utf-8")
    page = opened("view=compare", file)
    assert "differ in shape (2 × 3 and 3 × 4)" in page.inner_text("#view-compare .lead >> nth=0")
    assert page.locator(".pane:visible").count() == 2
    page.click("#models [data-model='1']")
    page.click("nav [data-view=grid]")
    assert page.locator("#view-grid [role=gridcell]").count() == 12
    bare = make_atlas(2, 2, sentences=())
    bare["questions"] = {"agreement": None, "ablation": {"rows": [], "how": None, "why": "No ablation was run."}}
    bare["models"][0] |= {
        "roles": {},
        "pattern": {},
        "relations": {},
        "published": [],
        "tables": {},
        "left_out": [],
        "sources": [],
    }
    file.write_text(atlas_html(bare), encoding="utf-8")
    page = opened("view=questions&head=1-1", file)
    assert "No ablation was run." in page.inner_text("[data-question=ablation]")
    for view in VIEWS:
        page.click(f"nav [data-view={view}]")
    assert page.locator(".pane:visible").count() == 0


def test_a_quantity_that_no_head_has_is_shown_as_not_defined(opened, tmp_path):
    """As where a run found no example of something: all cells of its rows are empty."""
    empty = dict.fromkeys(("value", "n", "low", "high", "p"), "")
    rows = [{"layer": str(layer), "head": str(head), "quantity": "rare", **empty} for layer in (1, 2) for head in (1, 2, 3)]
    rare = Measured(Quantity("rare", "rare", "Never seen.", section=Section("surface", "surface")), "text", rows)
    part = Part("text", Path("text"), RunResults("x", {}, {}, Provenance({}, {}, {})), [rare])
    entry = quantity_entry(rare)
    assert (entry["value"], entry["n"], entry["p"]) == ([[None] * 3] * 2, None, None)
    assert Model("tiny", [part], []).grids() == {}
    atlas = make_atlas(2, 3, models=2)
    for model in atlas["models"]:
        model["quantities"].insert(0, entry)
    file = tmp_path / "atlas.html"
    file.write_text(atlas_html(atlas), encoding="utf-8")
    page = opened("head=2-3", file)
    assert set(cell_numbers(page)) == {"not defined"}
    for view in VIEWS:
        page.click(f"nav [data-view={view}]")


def test_questions_are_answered_with_tests(opened, atlas):
    page = opened("view=questions")
    for name, columns in (("agreement", ("role", "class", "both", "kappa")), ("ablation", ("role", "heads", "difference"))):
        answer, card = atlas["questions"][name], page.locator(f"[data-question={name}]")
        assert answer["how"] in card.inner_text()
        card.locator("[data-sort=p]").click()
        rows = [row.split("\t") for row in card.locator("tbody tr").all_inner_texts()]
        header = [text.split()[0] for text in card.locator("thead th").all_inner_texts()]
        expected = sorted(answer["rows"], key=lambda row: -row["p"])
        for column in columns:
            texts = [
                shown(row[column]) if not isinstance(row[column], str) else row[column].replace("_", " ") for row in expected
            ]
            assert [row[header.index(column)] for row in rows] == texts
        significant = [row for row in answer["rows"] if row["p_holm"] < 0.05]
        assert significant and all(row["role"] in card.locator(".verdict").inner_text() for row in significant)
    marks = page.locator("[data-question=ablation] svg .dot-mark")
    x = [float(mark.get_attribute("cx")) for mark in marks.all()]
    assert np.corrcoef(x, [row["difference"] for row in atlas["questions"]["ablation"]["rows"]])[0, 1] > 0.9999


def test_a_question_brings_its_own_columns_and_chart(opened, atlas):
    page = opened("view=questions")
    assert page.locator("#view-questions .card h2").all_inner_texts() == [
        "Answers",
        *(atlas["questions"][name]["title"] for name in ("agreement", "ablation", "gains")),
        "plain",
    ]
    card = page.locator("[data-question=gains]")
    assert [text.split("\u2002")[0].rstrip("\u00a0↕▲▼") for text in card.locator("thead th").all_inner_texts()] == [
        "half",
        "gain in points",
    ]
    assert card.locator("tbody tr").all_inner_texts() == ["first half\t−2.50", "second half\t1.25"]
    x = [float(mark.get_attribute("cx")) for mark in card.locator("svg .dot-mark").all()]
    assert len(x) == 2 and x[0] < x[1]
    assert page.locator("[data-question=plain] svg").count() == 0
    assert page.locator("[data-question=plain] tbody tr").all_inner_texts() == ["any\t3"]


def test_labels_come_with_units_and_sections_with_their_names(opened, atlas):
    page, model = opened("quantity=change_without_head&head=2-3"), atlas["models"][0]
    assert page.inner_text("#grid-title") == "change without the head (%)"
    assert "change without the head (%) " in cell(page, 1, 1).get_attribute("aria-label")
    headings = ["Roles and their tests", "Where heads look", "Disabling", "Drift", "probe", "relations"]
    assert page.locator("#quantity-list .choice-group").evaluate_all("all => all.map((each) => each.ariaLabel)") == headings
    page.wait_for_selector(f"#panel tr[data-quantity='{model['quantities'][-1]['name']}']")
    assert page.locator("#panel .section-row th").evaluate_all("all => all.map((each) => each.textContent)") == headings
    told = ["entropy (nats)", "change without the head (%)", "cosine after fine-tuning"]
    assert [row.split("\t")[0] for row in page.locator("[data-part=standing] tbody tr").all_inner_texts()] == told
    page.click("nav [data-view=table]")
    shown_columns = page.locator("#view-table thead th").evaluate_all("all => all.map((each) => each.textContent)")
    assert [text.split("\u00a0")[0] for text in shown_columns] == ["head", "roles", "class", "best relation", *told]


def test_the_filters_of_the_help_can_be_used(opened):
    page = opened("view=table")
    page.click("#view-table .help summary")
    texts = [page.get_attribute("#table-filter", "placeholder"), *page.locator("#filter-help code").all_inner_texts()]
    examples = [text for text in texts if text not in ("and", "or", "not") and not text.startswith(".")]
    assert len(examples) == 10
    for text in examples:
        page.fill("#table-filter", text)
        assert page.locator("#filter-error").is_hidden()


def test_sources_and_published_figures_are_told(opened, atlas):
    page, model = opened("view=sources"), atlas["models"][0]
    rows = [row.split("\t") for row in page.locator("[data-part=published] tbody tr").all_inner_texts()]
    expected = [
        [
            row["experiment"].replace("_", " "),
            row["metric"].replace("_", " "),
            shown(row["ours"]),
            shown(row["published"]),
            row["source"],
        ]
        for row in model["published"]
    ]
    assert rows == expected
    sources = page.inner_text("[data-part=sources]")
    assert all(text in sources for text in ("clark surface", "wiki.txt", "1000", "12.50"))
    assert model["left_out"][0]["why"] in page.inner_text("[data-part=left-out]")
    assert model["encoder"]["sha256"] in page.inner_text("[data-part=origin]")
    page.click("[data-part=tables] summary")
    assert page.locator("[data-part=tables] tbody tr").all_inner_texts() == ["local\t3", "block\t–"]


def test_the_address_reopens_what_was_seen_and_back_goes_back(opened, atlas):
    page = opened()
    page.click("#models [data-model='1']")
    page.click("#quantity-list [data-key=cosine]")
    cell(page, 3, 2).click()
    page.click("nav [data-view=table]")
    page.fill("#table-filter", "layer > 1")
    page.click("#view-table [data-sort=cosine]")
    rows, address = column_text(page, 1), page.url.split("#")[1]
    for part in ("view=table", "model=2", "quantity=cosine", "head=3-2"):
        assert part in address
    page = opened(address)
    assert column_text(page, 1) == rows and page.input_value("#table-filter") == "layer > 1"
    assert page.inner_text("#panel-title") == "Layer 3, head 2"
    assert page.locator("#models [aria-pressed=true]").get_attribute("data-model") == "1"
    page.click("nav [data-view=grid]")
    assert page.inner_text("#grid-title") == "cosine after fine-tuning"
    assert cell_numbers(page) == [shown(each) for row in quantity(atlas["models"][1], "cosine")["value"] for each in row]
    page.go_back()
    page.wait_for_selector("#view-table:not([hidden])")
    for view in ("nowhere", "constructor", "__proto__"):
        page = opened(f"view={view}&model=9&head=77-1&quantity=none&sentence=50")
        assert page.locator("#view-grid").is_visible() and page.locator("#panel").is_hidden()


def test_a_large_atlas_of_two_models_stays_usable_and_small(opened, tmp_path):
    large = make_atlas(24, 16, models=2, extra=289)
    file, text = tmp_path / "atlas.html", atlas_html(large)
    assert len(large["models"][0]["quantities"]) == 300
    assert len(text.encode()) < 10_000_000
    packed = re.search(r'<script id="atlas" type="application/gzip">(.*?)</script>', text)[1]
    unpacked = gzip.decompress(base64.b64decode(packed))
    assert len(unpacked) > PLAIN_BYTES and json.loads(unpacked)["title"] == large["title"]
    file.write_text(text, encoding="utf-8")
    page = opened("", file)
    page.fill("#quantity-filter", "r288")
    page.keyboard.press("Enter")
    values = rounded(quantity(large["models"][0], "relation:r288:head_to_dependent")["value"])
    assert cell_numbers(page) == [shown(each) for row in values for each in row]
    cell(page, 24, 16).click()
    page.wait_for_selector("#panel tr[data-quantity='relation:r288:head_to_dependent']")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 800})
    for view in VIEWS:
        page.click(f"nav [data-view={view}]")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.click("nav [data-view=table]")
    page.click("#view-table [data-sort=entropy]")
    page.locator("#view-table tbody tr").nth(383).wait_for()
    entropy = np.array(quantity(large["models"][0], "entropy")["value"])
    assert column_text(page, 1) == [f"{at // 16 + 1}-{at % 16 + 1}" for at in (-entropy).ravel().argsort(kind="stable")]
