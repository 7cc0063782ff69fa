"""Pages in a real browser: no error, no request, no sideways scrolling."""

import pytest

pytestmark = pytest.mark.browser

PAGES = [
    "index.html",
    "start/table-to-report.html",
    "guide/which-method.html",
    "methods/misvm.html",
    "gallery/index.html",
    "api/index.html",
]


def watched(chromium, site, page_name, **options):
    """Open a page from the folder; return it and the list of what goes wrong."""
    page, trouble = chromium(**options).new_page(), []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "console",
        lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None,
    )
    page.on("requestfailed", lambda r: trouble.append(f"failed: {r.url}"))
    page.on(
        "request",
        lambda r: (
            None
            if r.url.startswith(("data:", "blob:", site.resolve().as_uri()))
            else trouble.append(f"asked: {r.url}")
        ),
    )
    page.goto(f"{site.resolve().as_uri()}/{page_name}", wait_until="load")
    return page, trouble


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [1300, 390])
def test_a_page_is_quiet_and_fits(chromium, site, name, width):
    page, trouble = watched(
        chromium, site, name, viewport={"width": width, "height": 850}
    )
    page.wait_for_timeout(300)
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert trouble == []
    assert wide <= 1
    page.context.close()


def test_formulas_are_drawn(chromium, site):
    page, trouble = watched(chromium, site, "methods/misvm.html")
    page.wait_for_selector("mjx-container svg")
    assert page.locator("mjx-container").count() > 3
    assert page.locator("mjx-merror").count() == 0
    # None is cut off at the side.
    over = page.evaluate(
        """() => {
            const end = document.querySelector("article").getBoundingClientRect().right;
            const drawn = document.querySelectorAll("mjx-container[display] > svg");
            return Math.max(...[...drawn].map(
                (svg) => svg.getBoundingClientRect().right - end));
        }"""
    )
    assert over <= 1
    assert trouble == []
    page.context.close()


def test_search_works_from_a_folder(chromium, site):
    page, trouble = watched(chromium, site, "search.html?q=threshold")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li").count() > 2
    assert trouble == []
    page.context.close()


def test_the_way_from_a_table_to_a_report_is_one_click(chromium, site):
    page, _ = watched(chromium, site, "index.html")
    # A stretched link, which has no box of its own, covers the card.
    page.locator(".sd-card", has_text="From a table to a report").click()
    page.wait_for_load_state("load")
    text = page.locator("article").inner_text()
    assert "--group patient" in text
    assert "report" in text
    page.context.close()


def test_links_of_estimators_lead_to_their_pages(chromium, site):
    from bagwise.testing import all_estimators

    page, trouble = watched(chromium, site, "estimators.html")
    listed = page.eval_on_selector_all("li a", "links => links.map(link => link.id)")
    assert {name for name, _ in all_estimators()} <= set(listed)
    page, trouble = watched(chromium, site, "estimators.html#MiSVM")
    page.wait_for_url("**/methods/misvm-instances.html")
    assert not trouble
