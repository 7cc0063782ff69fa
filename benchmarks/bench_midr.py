"""MIDR and multi-instance logistic regression: what an evaluation and a fit cost.

Two questions: what one evaluation of loss and gradient costs next to the two
matrix-vector products it contains; how time grows with the number of instances.
"""

import argparse
import time
from itertools import product

import numpy as np
from _timing import show

from bagwise import Bags
from bagwise.datasets import fetch
from bagwise.linear_model import MILogisticRegression
from bagwise.linear_model.loss import LOSSES, BagLoss
from bagwise.linear_model.milr import LINEAR_POOLINGS

SETS = ("musk1", "musk2", "elephant")
BAR = "bar: 2.5x"


def scaled(name):
    """Return stacked z-scored instances, offsets and labels of a benchmark set."""
    data = fetch(name)
    X = np.asarray(data.X.data, dtype=np.float64)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X, data.X.offsets, (data.y == np.unique(data.y)[1]).astype(np.float64)


def against_products(data, offsets, y, repeats, **settings):
    """Return seconds of an evaluation, and their ratio to its two products.

    Both are timed in turn, so that a busy machine slows both: medians of each of five
    rounds, then the median of the rounds.
    """
    loss = BagLoss(data, offsets, y, **settings)
    rng = np.random.default_rng(0)
    U, b = 0.1 * rng.standard_normal((data.shape[1], 1)), np.zeros(1)
    u = U[:, 0].astype(data.dtype)
    r = rng.standard_normal(len(data)).astype(data.dtype)
    loss(U, b)
    rounds = []
    for _ in range(5):
        whole, products = [], []
        for _ in range(repeats):
            begin = time.perf_counter()
            loss(U, b)
            middle = time.perf_counter()
            data @ u
            data.T @ r
            whole.append(middle - begin)
            products.append(time.perf_counter() - middle)
        rounds.append((np.median(whole), np.median(whole) / np.median(products)))
    return np.median(rounds, axis=0)


def evaluation(names, repeats):
    rows = []
    for name in names:
        X, offsets, y = scaled(name)
        for dtype in (np.float64, np.float32):
            data = np.ascontiguousarray(X, dtype=dtype)
            seconds, ratio = against_products(data, offsets, y, repeats)
            what = f"{name} ({X.shape[0]} x {X.shape[1]}) {np.dtype(dtype).name}"
            rows.append((f"{what}: {1e3 * seconds:.3f} ms", f"{ratio:.2f}x", BAR))
    show("Loss and gradient against the two products in it", rows)


def poolings(names, repeats):
    """The same for every pooling and loss."""
    for name, dtype in product(names, (np.float64, np.float32)):
        X, offsets, y = scaled(name)
        data = np.ascontiguousarray(X, dtype=dtype)
        rows = []
        for pooling in LINEAR_POOLINGS:
            ratios = [
                against_products(data, offsets, y, repeats, pooling=pooling, loss=loss)
                for loss in LOSSES
            ]
            what = f"{pooling}: " + ", ".join(LOSSES)
            rows.append((what, ", ".join(f"{ratio:.2f}x" for _, ratio in ratios), BAR))
        show(f"The same by pooling and loss, {name} {np.dtype(dtype).name}", rows)


def made(n_instances, dtype, n_features=50):
    """Return bags of ten instances; one in each positive bag is moved."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_instances, n_features), dtype=dtype)
    y = np.arange(n_instances // 10) % 2
    X[np.flatnonzero(y) * 10, 0] += 3
    return Bags(X, np.arange(0, n_instances + 1, 10)), y


def growth(sizes):
    for dtype in (np.float64, np.float32):
        rows, first = [], None
        for n in sizes:
            X, y = made(n, dtype)
            loss = BagLoss(X.data, X.offsets, y.astype(np.float64))
            U, b = np.full((50, 1), 0.05), np.zeros(1)
            loss(U, b)
            n_calls = max(5, 2_000_000 // n)
            begin = time.perf_counter()
            for _ in range(n_calls):
                loss(U, b)
            per_row = (time.perf_counter() - begin) / n_calls / n
            begin = time.perf_counter()
            model = MILogisticRegression(n_init=1).fit(X, y)
            fit = time.perf_counter() - begin
            first = first or per_row
            what = f"{n:>9} instances: fit {fit:.2f} s, {model.n_iter_} iterations"
            rows.append(
                (what, f"{per_row / first:.2f}x", "time per instance; 1 = linear")
            )
        show(f"Growth, {np.dtype(dtype).name}", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    evaluation((*SETS, "protein"), 50 if quick else 300)
    if not quick:
        poolings(("musk1", "protein"), 100)
    growth([10_000, 100_000] if quick else [100_000, 300_000, 1_000_000])


if __name__ == "__main__":
    main()
