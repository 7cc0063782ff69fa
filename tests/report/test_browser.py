"""The report in a real browser."""

import pytest
from report_helpers import EVIL, make_comparison

pytestmark = pytest.mark.browser


@pytest.fixture
def open_page(open_report):
    """Open the report of a comparison with hostile names."""
    return lambda images, **options: open_report(make_comparison(images), **options)


def test_opens_without_error_and_draws_its_curves(open_page):
    page = open_page(False)
    assert page.title().startswith(EVIL[:9])
    for chart in ("roc", "pr", "calibration", "histogram", "time"):
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
    page.locator("#bag-filter").select_option("class 1")
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
