"""A real browser for pages."""

import shutil

import pytest

from bagwise.report import write_report

# Milliseconds: a busy machine is slow, which is no fault of the page.
PATIENCE = 300_000
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            timeout=PATIENCE,
        )
        yield browser
        browser.close()


@pytest.fixture
def open_file(chromium):
    """Open a page; afterwards there must be no error and no request."""
    contexts, trouble = [], []

    def open_(path, **options):
        context = chromium.new_context(
            **{"viewport": {"width": 1200, "height": 900}, **options}
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "request",
            lambda r: (
                None if r.url.startswith(path.as_uri()) else trouble.append(r.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("window.hacked") is None
        context.close()
    assert [text for text in trouble if not text.startswith("data:")] == []


@pytest.fixture
def open_report(open_file, tmp_path):
    """Write the report of a comparison and open it."""

    def open_(comparison, **options):
        return open_file(write_report(comparison, tmp_path / "report.html"), **options)

    return open_
