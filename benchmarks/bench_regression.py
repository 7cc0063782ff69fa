"""Regressors of bags: ten strengths, sliced distances, SAFE and the stack, as ratios.

    python benchmarks/bench_regression.py [--quick] [--only kernel sliced safe stack]

Times are processor times of one thread in one run. Run with OPENBLAS_NUM_THREADS=1.
"""

import argparse
import time

import numpy as np
from _timing import best_of, show
from scipy.linalg import cho_factor, cho_solve

from bagwise import BagClassifier, BagRegressor, Bags
from bagwise.datasets import make_regression_bags
from bagwise.embedding import SlicedWassersteinEmbedding
from bagwise.kernels import set_kernel
from bagwise.least_squares import SAFE, BagKernelRidge, SAFERegressor

ALPHAS = np.logspace(-4, 2, 10)
GAMMA = 0.05


def cpu(function, repeats=3):
    """Return the least processor seconds of several calls."""
    return best_of(function, repeats, clock=time.process_time)


def bench_kernel(quick):
    """Ten strengths against the kernel matrix and one solve."""
    rows = []
    for n_bags, d in ((100, 20),) if quick else ((200, 20), (400, 20), (400, 166)):
        X, y = make_regression_bags(
            n_bags, n_features=d, bag_size=(5, 15), random_state=0
        )
        K = set_kernel(X, gamma=GAMMA)

        def one_solve(K=K, y=y):
            return cho_solve(cho_factor(K + np.eye(len(y))), y)

        parts = cpu(lambda X=X: set_kernel(X, gamma=GAMMA)) + cpu(one_solve)
        model = BagKernelRidge(gamma=GAMMA, alphas=ALPHAS)
        whole = cpu(lambda m=model, X=X, y=y: m.fit(X, y))
        name = f"{n_bags} bags of 5 to 15, {d} features"
        rows.append((name, f"{whole / parts:.2f}", "<= 1.3"))
    show("BagKernelRidge, ten alphas over (kernel matrix + one solve)", rows)


def bench_sliced(quick):
    """The embedding against the product with the directions and one sort of it."""
    n, d, size = (100_000 if quick else 1_000_000), 64, 100
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    X = Bags(rows, np.arange(0, n + 1, size))
    model = SlicedWassersteinEmbedding(50, n_quantiles=20, random_state=0).fit(X[:2])
    model.transform(X[:2])  # compiles
    product = cpu(lambda: rows @ model.directions_, 2)
    projected = rows @ model.directions_
    sort = cpu(lambda: np.sort(projected, axis=0), 1)
    by_bag = cpu(lambda: np.sort(projected.reshape(-1, size, 50), axis=1), 1)
    whole = cpu(lambda: model.transform(X), 2)
    show(
        f"SlicedWassersteinEmbedding, {n:,} x {d}, 50 projections, 20 quantiles",
        [
            ("product, seconds", f"{product:.2f}", ""),
            ("sort of all values of a direction", f"{sort:.2f}", ""),
            ("sort inside bags of 100", f"{by_bag:.2f}", ""),
            ("over product + sort", f"{whole / (product + sort):.2f}", "<= 3"),
            ("over product + sort in bags", f"{whole / (product + by_bag):.2f}", ""),
        ],
    )


def bench_safe(quick):
    """The same system with real values."""
    X, y = make_regression_bags(100 if quick else 300, n_features=20, random_state=0)
    label = (y > np.median(y)).astype(int)
    options = {"gamma": GAMMA, "rho": 10.0}
    real = cpu(lambda: SAFERegressor(**options).fit(X, y))
    classes = cpu(lambda: SAFE(**options).fit(X, label))
    bar = "about 1"
    show("SAFERegressor over SAFE", [("fit", f"{real / classes:.2f}", bar)])


def bench_stack(quick):
    """The two stacks on 200 bags of 7 x 20."""
    n = 60 if quick else 200
    X, y = make_regression_bags(n, n_features=20, bag_size=7, random_state=0)
    label = (y > np.median(y)).astype(int)
    BagRegressor(random_state=0, cv=2).fit(X[:20], y[:20])  # compiles
    BagClassifier(random_state=0, cv=2).fit(X[:20], np.arange(20) % 2)
    real = classes = np.inf
    for _ in range(2):  # in turns: the machine is not equally busy all the time
        real = min(real, cpu(lambda: BagRegressor(random_state=0).fit(X, y), 1))
        fit = cpu(lambda: BagClassifier(random_state=0).fit(X, label), 1)
        classes = min(classes, fit)
    show(
        f"BagRegressor over BagClassifier, {n} bags of 7 x 20",
        [
            ("seconds of both", f"{real:.1f}, {classes:.1f}", ""),
            ("fit", f"{real / classes:.2f}", "about 1"),
        ],
    )


BENCHES = {
    "kernel": bench_kernel,
    "sliced": bench_sliced,
    "safe": bench_safe,
    "stack": bench_stack,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES))
    given = parser.parse_args()
    for name in given.only:
        BENCHES[name](given.quick)


if __name__ == "__main__":
    main()
