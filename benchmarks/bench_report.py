"""The page of 20,000 bags: how long it takes to write, and how large it is.

Results are made up, so that the page alone is measured. With chromium and playwright at
hand, the page of 5,000 bags is also opened: the best of three times until the bag
browser shows a bag, and until it has found another one by its name.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from bagwise.report import write_report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "report"))
from cases import CASES, build, of

MOST_SECONDS, MOST_BYTES = 10.0, 5e6
MOST_TO_OPEN = 3.0
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def twelve_methods():
    """Return a comparison of twelve methods on 20,000 bags of two classes."""
    y = ["yes" if i % 2 else "no" for i in range(20_000)]
    methods = {f"method {k}": of(2, strength=0.2 * k) for k in range(12)}
    return build(y, methods, sizes=20, width=10)


def five_thousand():
    """Return a comparison of eight methods on 5,000 named bags."""
    y = ["yes" if i % 2 else "no" for i in range(5_000)]
    methods = {f"method {k}": of(2, strength=0.2 * k) for k in range(8)}
    ids = [f"molecule-{i:05d}" for i in range(5_000)]
    return build(y, methods, sizes=20, width=10, ids=ids)


def open_page():
    """Print how long the page of 5,000 bags takes to open; tell if it is too long."""
    if CHROMIUM is None:
        print("no chromium: the page was not opened")
        return False
    from playwright.sync_api import sync_playwright

    opened, found = [], []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = write_report(five_thousand(), Path(folder) / "report.html")
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        for _ in range(3):
            page = browser.new_page()
            started = time.perf_counter()
            page.goto(path.as_uri(), wait_until="commit")
            page.locator("#bag-view h3").wait_for(timeout=300_000)
            opened.append(time.perf_counter() - started)
            started = time.perf_counter()
            page.locator("#bag-find").fill("molecule-04321")
            page.locator("#bag-view h3", has_text="molecule-04321").wait_for()
            found.append(time.perf_counter() - started)
            page.close()
        size = path.stat().st_size
        browser.close()
    fine = min(opened) < MOST_TO_OPEN
    print(
        f"5,000 bags, 8 methods: opened in {min(opened):.2f} s"
        f" (bar {MOST_TO_OPEN:g} s), a bag found in {min(found):.2f} s,"
        f" {size / 1e6:.2f} MB"
        f"{'' if fine else ', MISSED'}"
    )
    return not fine


def main():
    """Print one line a case; end with an error where a bar is missed."""
    missed = 0
    cases = {"12 methods, 2 classes": twelve_methods}
    cases |= {name: CASES[name] for name in ("many bags", "many values")}
    for name, make in cases.items():
        comparison = make()
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            path = write_report(comparison, Path(folder) / "report.html")
            seconds = time.process_time() - started
            size = path.stat().st_size
        fine = seconds < MOST_SECONDS and size < MOST_BYTES
        missed += not fine
        print(
            f"{name}: {seconds:.1f} s (bar {MOST_SECONDS:g} s),"
            f" {size / 1e6:.2f} MB (bar {MOST_BYTES / 1e6:g} MB)"
            f"{'' if fine else ', MISSED'}"
        )
    missed += open_page()
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
