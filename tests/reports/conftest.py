"""A page of a seeded atlas, opened in a real browser."""

import pytest

from headscope.reports.atlas.html import atlas_html, rounded
from tests.reports.atlas_data import make_atlas


@pytest.fixture(scope="module")
def atlas():
    return rounded(make_atlas(models=2, extra=4))  # so that no number is rounded twice


@pytest.fixture(scope="module")
def page_file(atlas, tmp_path_factory):
    file = tmp_path_factory.mktemp("atlas") / "atlas.html"
    file.write_text(atlas_html(atlas), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser_page, page_file):
    """Opens the page at a state."""

    def go(state="", file=page_file):
        browser_page.goto("about:blank")
        browser_page.goto(f"{file.as_uri()}#{state}")
        browser_page.wait_for_selector("html[data-ready]")
        return browser_page

    return go
