"""Regressors of bags: ten penalties, sliced distances, SAFE and the stack, as ratios.

    python regressor_speed.py [--quick] [--only kernel sliced safe stack]
    python studies/scripts/regressor_speed.py

Processor seconds of one thread (OPENBLAS_NUM_THREADS=1), the least of several calls;
both sides of a ratio are measured alternately in one run. The sliced embedding is
compared with the product of the rows and the directions plus one sort of what that
gives, of all values of a direction or, which is less work, of those inside each bag.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from _timing import best_of, show
from scipy.linalg import cho_factor, cho_solve

from bagwise import BagClassifier, BagRegressor, Bags
from bagwise.comparison.run_one import versions
from bagwise.datasets import make_regression_bags
from bagwise.embedding import SlicedWassersteinEmbedding
from bagwise.kernels import set_kernel
from bagwise.least_squares import SAFE, BagKernelRidge, SAFERegressor

ALPHAS = np.logspace(-4, 2, 10)
GAMMA = 0.05


def cpu(function, repeats=3):
    """Return the least processor seconds of several calls."""
    return best_of(function, repeats, clock=time.process_time)


def in_turns(functions, turns):
    """Return the least processor seconds of each: a busy computer slows all."""
    least = np.full(len(functions), np.inf)
    for _ in range(turns):
        least = np.minimum(least, [cpu(function, 1) for function in functions])
    return least


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

        model = BagKernelRidge(gamma=GAMMA, alphas=ALPHAS)
        matrix, solve, whole = in_turns(
            [
                lambda X=X: set_kernel(X, gamma=GAMMA),
                one_solve,
                lambda m=model, X=X, y=y: m.fit(X, y),
            ],
            30,
        )
        parts = matrix + solve
        name = f"{n_bags} bags of 5 to 15, {d} features"
        rows.append((name, f"{whole / parts:.2f}", "<= 1.3"))
    return "BagKernelRidge, ten alphas over (kernel matrix + one solve)", rows


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
    return (
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
    fits = [
        lambda: SAFERegressor(**options).fit(X, y),
        lambda: SAFE(**options).fit(X, label),
    ]
    real, classes = in_turns(fits, 3)
    ratio = f"{real / classes:.2f}"
    return f"SAFERegressor over SAFE, {len(y)} bags", [("fit", ratio, "about 1")]


def bench_stack(quick):
    """The two stacks on 200 bags of 7 x 20."""
    n = 60 if quick else 200
    X, y = make_regression_bags(n, n_features=20, bag_size=7, random_state=0)
    label = (y > np.median(y)).astype(int)
    BagRegressor(random_state=0, cv=2).fit(X[:20], y[:20])  # compiles
    BagClassifier(random_state=0, cv=2).fit(X[:20], np.arange(20) % 2)
    fits = [
        lambda: BagRegressor(random_state=0).fit(X, y),
        lambda: BagClassifier(random_state=0).fit(X, label),
    ]
    real, classes = in_turns(fits, 2)
    return (
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


def write(found, out):
    """Write a page of what was measured."""
    made_with = ", ".join(f"{k} {v}" for k, v in versions().items() if k != "platform")
    lines = [
        "# Speed of regressors",
        "",
        __doc__.strip(),
        "",
        f"Made with {made_with}.",
    ]
    for title, rows in found:
        lines += ["", f"## {title}", "", "| what | measured | bar |", "|---|---|---|"]
        lines += [f"| {what} | {value} | {bar} |" for what, value, bar in rows]
    out.mkdir(parents=True, exist_ok=True)
    (out / "speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES))
    parser.add_argument("--out", type=Path, help="folder of a page")
    given = parser.parse_args()
    found = []
    for name in given.only:
        found.append(BENCHES[name](given.quick))
        show(*found[-1])
    if given.out is not None:
        write(found, given.out)


if __name__ == "__main__":
    main()
