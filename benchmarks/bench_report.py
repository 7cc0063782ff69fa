"""The page of 20,000 bags: how long it takes to write, and how large it is.

Results are made up, so that the page alone is measured.
"""

import sys
import tempfile
import time
from pathlib import Path

from bagwise.report import write_report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "report"))
from cases import CASES, build, of

MOST_SECONDS, MOST_BYTES = 10.0, 5e6


def twelve_methods():
    """Return a comparison of twelve methods on 20,000 bags of two classes."""
    y = ["yes" if i % 2 else "no" for i in range(20_000)]
    methods = {f"method {k}": of(2, strength=0.2 * k) for k in range(12)}
    return build(y, methods, sizes=20, width=10)


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
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
