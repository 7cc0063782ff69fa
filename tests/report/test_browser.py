"""The report in a real browser."""

import shutil

import pytest
from report_helpers import EVIL, make_comparison

from bagwise.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, tmp_path):
    """Open a report; afterwards there must be no error and no request."""
    contexts, trouble = [], []

    def open_(images, **options):
        path = write_report(make_comparison(images), tmp_path / f"{images}.html")
        context = chromium.new_context(
            **{"viewport": {"width": 1200, "height": 900}, **options}
        )
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


def test_opens_without_error_and_draws_its_curves(open_page):
    page = open_page(False)
    assert page.title().startswith(EVIL[:9])
    for chart in ("roc", "calibration", "histogram", "time"):
        assert page.locator(f"#{chart} svg").count() == 1, chart
    lines = page.locator("#roc path.line")
    before = lines.count()
    page.locator("#chips button").first.click()
    assert lines.count() == before - 1


def test_bag_browser_by_mouse(open_page):
    page = open_page(True)
    items = page.locator("#bag-list li")
    assert items.count() == 40
    items.nth(3).click()
    assert page.locator("#bag-view h3").inner_text() == "mol 3"
    cards = page.locator("#bag-view .card")
    scores = [
        float(text) for text in cards.locator(".row span:first-child").all_inner_texts()
    ]
    assert scores == sorted(scores, reverse=True)
    assert cards.first.locator("canvas").count() == 1
    cards.nth(1).click()
    assert cards.nth(1).get_attribute("aria-pressed") == "true"
    page.locator("#bag-filter").select_option("positive")
    assert items.count() == 20
    page.locator("#bag-method").select_option(index=1)
    assert page.locator("#bag-view .card").count() > 0


def test_bag_browser_by_keyboard(open_page):
    page = open_page(False)
    page.locator("#bag-list").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert page.locator("#bag-view h3").inner_text() == "mol 1"
    page.keyboard.press("End")
    assert page.locator("#bag-view h3").inner_text() == "mol 39"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert (
        page.locator("#bag-view .card").nth(1).get_attribute("aria-pressed") == "true"
    )
    page.keyboard.press("Home")
    assert page.locator(".card .bars").count() > 0


def test_hostile_names_stay_text(open_page):
    page = open_page(False)
    assert EVIL in page.locator("#bag-list li").first.inner_text()
    assert page.locator("b", has_text="&").count() == 0


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_sticks_out_and_dark_is_dark(open_page, width):
    page = open_page(
        True, viewport={"width": width, "height": 800}, color_scheme="dark"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert max(page.evaluate(shade)) < 60
    page.locator("#theme").click()
    assert min(page.evaluate(shade)) > 200
