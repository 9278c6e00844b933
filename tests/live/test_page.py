"""The served page in a real browser: a typed sentence, another head, a disabled head, texts that are too long."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from headscope.reports.atlas.html import atlas_html
from tests.live.test_models import maps_of
from tests.live.test_server import ask
from tests.reports.atlas_data import make_atlas

TEXT = "The cat sat on the mat."


def says(page, selector, text):
    page.wait_for_function(
        "([where, text]) => document.querySelector(where)?.innerText.includes(text)", arg=[selector, text]
    )


def row_of(page, query):
    """The weights of a token's row as the page tells them, by token."""
    page.hover(f"#view-attention .token-from[data-query='{query}']")
    rows = page.locator("#readout li").evaluate_all(
        "rows => rows.map((row) => [Number(row.dataset.readout), Number(row.querySelector('.number').innerText)])"
    )
    return dict(rows)


@pytest.mark.slow
def test_a_typed_sentence_another_head_and_a_disabled_head(browser_page, served):
    page, model = browser_page, served.models[1]
    page.goto(f"{served.address}#view=attention&model=2&head=1-2&panel=no")
    page.wait_for_selector("html[data-ready]")
    page.fill("#live-text", TEXT)
    says(page, "#live-status", "9 tokens")
    expected = model.answer([TEXT])
    assert page.inner_text("#view-attention .lead") == f"“{TEXT}”"
    assert page.locator("#view-attention .token-from").count() == 9
    assert row_of(page, 2) == pytest.approx(top(maps_of(expected)[0, 1, 2]), abs=0.002)
    page.select_option("#attention-layer", "3")
    assert row_of(page, 2) == pytest.approx(top(maps_of(expected)[2, 1, 2]), abs=0.002)
    shares = {row["label"]: row["value"] for row in expected["prediction"]["groups"][0]["rows"]}
    assert predicted(page, 1) == pytest.approx(shares, abs=0.001)
    picture = page.get_attribute("#view-attention .overview image", "href")
    page.click("[data-switch='4']")  # layer 2 head 1
    says(page, "#live-status", "1 head disabled")
    without = model.answer([TEXT], [[2, 1]])
    assert row_of(page, 2) == pytest.approx(top(maps_of(without)[2, 1, 2]), abs=0.002)
    assert page.get_attribute("#view-attention .overview image", "href") != picture
    shares = {row["label"]: row["value"] for row in without["prediction"]["groups"][0]["rows"]}
    assert predicted(page, 2) == pytest.approx(shares, abs=0.001)
    page.select_option("#attention-layer", "2")
    page.select_option("#attention-head", "1")
    assert set(row_of(page, 2).values()) == {round(1 / 9, 3)}
    page.click("#live-one")
    says(page, "#live-status", "9 tokens.")
    assert len(set(row_of(page, 2).values())) > 1


def top(row):
    """The ten largest weights of a row, by key."""
    return {int(key): float(row[key]) for key in row.argsort()[::-1][:10]}


def predicted(page, column):
    rows = page.locator("#live-prediction tbody tr")
    cells = rows.evaluate_all(f"rows => rows.map((row) => [row.dataset.label, Number(row.cells[{column}].innerText)])")
    return dict(cells)


@pytest.mark.slow
def test_long_texts_a_second_client_and_a_stored_sentence(browser_page, served):
    page = browser_page
    page.goto(f"{served.address}#view=attention&panel=no")
    page.wait_for_selector("html[data-ready]")
    page.evaluate("document.getElementById('live-text').value = 'x'.repeat(1000000)")
    page.press("#live-text", "Enter")
    says(page, "#live-status", "The text has 1000000 bytes; up to 12000 are read here")
    body = {"model": 0, "texts": [TEXT], "disabled": [], "how": "uniform"}
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(ask, served, body) for _ in range(6)]
        page.fill("#live-text", "The [MASK] sat.")
        says(page, "#live-prediction", "[MASK] at token 3")
        assert [other.result()[0] for other in others] == [200] * 6
    page.click("#sentence-list [data-key='2']")  # a sentence of the atlas: its own text is what is disabled on
    page.click("#live-one")
    says(page, "#live-status", "1 head disabled")
    assert page.input_value("#live-text").startswith("Heads of attention often look")
    assert page.locator("#view-attention .lead").inner_text().startswith("“Heads of attention")
    page.click("#models [data-model='1']")  # which is asked the same, with all its heads
    says(page, "#live-prediction", "same")
    assert page.locator("[data-switch][aria-pressed=true]").count() == 0


def test_the_page_without_a_server_has_no_live_panel(browser_page, tmp_path):
    file = tmp_path / "atlas.html"
    file.write_text(atlas_html(make_atlas()), encoding="utf-8")
    assert "connect-src" not in file.read_text(encoding="utf-8").split("<title>")[0]
    browser_page.goto(f"{file.as_uri()}#view=attention")
    browser_page.wait_for_selector("html[data-ready]")
    assert browser_page.locator("#live-panel").is_hidden()
    assert browser_page.locator("#live-panel *").count() == 0


@pytest.mark.slow
def test_a_foreign_page_gets_nothing(browser, served, tmp_path):
    """A page of another origin in the same browser, which even knows the token, cannot ask."""
    context = browser.new_context()
    page = context.new_page()
    page.goto("about:blank")
    script = """async ([url, token]) => {
        const body = JSON.stringify({ model: 0, texts: ["a"], disabled: [], how: "uniform" });
        const tried = [];
        for (const headers of [{ "X-Token": token, "Content-Type": "application/json" }, {}])
          tried.push(await fetch(url, { method: "POST", headers, body }).then(() => "answered", () => "refused"));
        return tried; }"""
    address = f"http://127.0.0.1:{served.server_port}/live"
    assert page.evaluate(script, [address, served.token]) == ["refused", "refused"]
    context.close()
    assert json.loads(ask(served, Origin="null")[1])["error"] == "Texts are taken from the page of this server only."
