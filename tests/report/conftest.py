"""Reports in a real browser."""

import pytest

from bagwise.report import write_report


@pytest.fixture
def open_file(chromium):
    """Open a page; there must be no error and no request until it is closed."""
    contexts, trouble = [], []

    def open_(path, **options):
        context = chromium(**{"viewport": {"width": 1200, "height": 900}, **options})
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
