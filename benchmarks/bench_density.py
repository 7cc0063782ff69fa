"""Diverse density: screened starts against a start from every positive instance.

Run ``python benchmarks/bench_density.py [--quick]``. Times are of one processor thread
in this run. Musk1 is read from the folder named by BAGWISE_DATA; artificial bags of the
same shape take its place where it is absent (always with ``--quick``, with fewer bags).
"""

import os
import sys

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import time  # noqa: E402
import warnings  # noqa: E402

from _classic_data import artificial, load  # noqa: E402
from _timing import best_of, show  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from bagwise.density import EMDD, DiverseDensity  # noqa: E402


def compare(cls, title, X, y, **options):
    """Fit with both kinds of starts and show time and objective."""
    fitted = {}

    def fit(starts):
        fitted[starts] = cls(starts=starts, threshold="zero", **options).fit(X, y)

    fit("screened")  # loads what is compiled
    screened = best_of(lambda: fit("screened"), 3, clock=time.process_time)
    every = best_of(lambda: fit("all"), 1, clock=time.process_time)
    ours, best = fitted["screened"].objective_, fitted["all"].objective_
    show(
        f"{title}: {fitted['screened'].n_starts_} screened starts, "
        f"{fitted['all'].n_starts_} in all",
        [
            (
                "all starts / screened",
                f"{every / screened:.1f}x",
                f"at least 10x ({every:.2f} s / {screened:.2f} s)",
            ),
            (
                "objective above that of all starts",
                f"{(ours - best) / best:+.3%}",
                f"at most 0.1% ({ours:.4f}, {best:.4f})",
            ),
        ],
    )


def main():
    quick = "--quick" in sys.argv
    warnings.simplefilter("ignore", ConvergenceWarning)
    if quick:
        X, y = artificial(30, 5, 20)
    else:
        X, y = load("musk1")
    what = "artificial bags" if quick else "Musk1"
    compare(DiverseDensity, f"Diverse density, noisy-or, {what}", X, y)
    compare(EMDD, f"EM-DD, {what}", X, y)


if __name__ == "__main__":
    main()
