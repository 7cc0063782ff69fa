"""The report in a real browser."""

import numpy as np
import pytest
from cases import build, of
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


@pytest.fixture(scope="module")
def many():
    """Return a comparison of 5,000 bags whose ids are their positions."""
    y = np.where(np.arange(5_000) % 3 == 0, "yes", "no")
    ids = [f"bag-{i:05d}" for i in range(5_000)]
    methods = {"a": of(2), "b": of(2, strength=0.5), "c": of(2, instances=False)}
    return build(y, methods, ids=ids, sizes=np.arange(5_000) % 9 + 1, pos_label="yes")


def test_any_of_many_bags_is_found(open_report, many):
    page = open_report(many)
    items, name = page.locator("#bag-list li"), page.locator("#bag-view h3")
    assert items.count() == 200
    assert page.locator("#bag-count").inner_text() == "1 to 200 of 5,000 bags"
    X = many.problem.X
    for i in (0, 4_999, 1_234, 3_001):
        page.locator("#bag-find").fill(f"bag-{i:05d}")
        assert items.count() == 1
        assert name.inner_text() == f"bag-{i:05d}"
        head = page.locator(".bag-head").inner_text()
        assert f"true class: {many.problem.y[i]}" in head
        assert f"{X.sizes[i]} instance" in head
        for method in ("a", "b"):
            page.locator("#bag-method").select_option(method)
            (row,) = (
                r for r in many.runs(method)
                if i in many.arrays[r["key"]]["test"]
            )  # fmt: skip
            arrays = many.arrays[row["key"]]
            place = int(np.flatnonzero(arrays["test"] == i)[0])
            label = many.problem.classes[arrays["label"][place]]
            assert f"predicted: {label}" in page.locator(".bag-head").inner_text()
            shown = float(items.first.locator("small").inner_text())
            assert shown == pytest.approx(arrays["score"][place], rel=6e-3)
            first = int(X.sizes[arrays["test"][:place]].sum())
            own = arrays["instances"][first : first + X.sizes[i]]
            cards = page.locator("#bag-view .card .row span:first-child")
            scores = [float(text) for text in cards.all_inner_texts()]
            assert scores == sorted(scores, reverse=True)
            assert len(scores) >= min(4, len(own))
            if len(scores) == len(own) or method == "a":
                best = sorted(own, reverse=True)[: len(scores)]
                assert scores == pytest.approx(best, rel=1e-3)
        page.locator("#bag-method").select_option("a")


def test_pages_of_many_bags(open_report, many):
    page = open_report(many)
    name = page.locator("#bag-view h3")
    page.locator("#bag-on").click()
    assert page.locator("#bag-count").inner_text() == "201 to 400 of 5,000 bags"
    assert name.inner_text() == "bag-00200"
    page.locator("#bag-list").focus()
    page.keyboard.press("ArrowUp")
    assert name.inner_text() == "bag-00199"
    page.keyboard.press("End")
    assert name.inner_text() == "bag-04999"
    assert page.locator("#bag-on").is_disabled()
    page.locator("#bag-filter").select_option("class 1")
    assert "of 1,667 bags" in page.locator("#bag-count").inner_text()
    page.locator("#bag-find").fill("no such thing")
    assert "No bag matches" in page.locator("#bag-view").inner_text()
    page.locator("#bag-find").fill("")
    assert page.locator("#bag-list li").count() == 200


def test_methods_may_have_the_names_of_properties_of_objects(open_report):
    names = ["constructor", "__proto__", "toString", "hasOwnProperty"]
    methods = {name: of(2, probability=k % 2 == 0) for k, name in enumerate(names)}
    comparison = build(np.arange(60) % 2, methods)
    page = open_report(comparison)
    assert page.locator("#roc path.line").count() == len(names)
    assert page.locator("#calibration path.line").count() == 2
    for name in names:
        page.locator("#histogram-method").select_option(name)
        bars = page.locator("#histogram rect title").all_text_contents()
        assert sum(int(text.split()[0]) for text in bars) == 60
        page.locator("#classes-method").select_option(name)
        assert page.locator("#classes-hint").inner_text() == f"{name} on 60 test bags."
        page.locator("#bag-method").select_option(name)
        assert "predicted" in page.locator(".bag-head").inner_text()
        assert page.locator("#bag-view .card").count() > 0
