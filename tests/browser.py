"""A real browser for tests of pages: any error on the page, and any request that leaves the machine, fails the test."""

import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """One headless Chromium for the tests of a module; they are skipped where none is installed."""
    # Not for the whole session: the sync API keeps an event loop running, which other tests must not find.
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture
def browser_page(browser) -> Iterator:
    """A new page without memory of others; errors on it and requests to elsewhere are found when the test ends."""
    context = browser.new_context(accept_downloads=True, viewport={"width": 1400, "height": 900})
    context.set_default_timeout(10_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if is_local(request.url) else wrong.append(f"request to {request.url}"))
    context.route(lambda url: not is_local(url), lambda route: route.abort())
    yield page
    context.close()
    assert not wrong, "\n".join(wrong)


def is_local(url: str) -> bool:
    """Whether an address stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme in ("file", "data", "blob", "about") or parts.hostname in ("127.0.0.1", "localhost")
