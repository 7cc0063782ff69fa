"""The site, where it is built: ``make docs-test`` says where."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def site():
    folder = os.environ.get("BAGWISE_SITE")
    if not folder:
        pytest.skip("the site is not built: make docs-test builds and tests it")
    folder = Path(folder)
    assert (folder / "index.html").exists(), f"no site in {folder}"
    return folder


@pytest.fixture(scope="session")
def pages(site):
    found = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    # Reports and leaderboards that are shown as they are have tests of their own.
    apart = {"_downloads", "_static"}
    return {p: text for p, text in found.items() if not apart & set(p.parts)}
