"""Bag kernels and nearest bags: speed against direct implementations, and scale.

Run ``python benchmarks/bench_kernels.py [--quick]``. All figures are ratios measured in
this run, in processor time of one thread (the machine may be busy with other work).
The data sets are read from the folder named by BAGWISE_DATA; artificial bags of the
same shape take their place where they are absent.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from scipy.spatial.distance import cdist  # noqa: E402
from sklearn.metrics.pairwise import rbf_kernel  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402

from bagwise import Bags  # noqa: E402
from bagwise.kernels import (  # noqa: E402
    emd_distances,
    graph_kernel,
    mi_graph_kernel,
    set_kernel,
)
from bagwise.neighbors import CitationKNN  # noqa: E402
from bagwise.svm import BagSVC  # noqa: E402

# Shape of the data sets: bags, features, instances of a bag on average.
SHAPES = {"musk1": (92, 166, 5), "elephant": (200, 230, 7), "musk2": (102, 166, 65)}


def load(name):
    """Return standardised bags and labels."""
    try:
        from bagwise.datasets import fetch

        if not os.environ.get("BAGWISE_DATA"):
            raise OSError("BAGWISE_DATA is not set")
        X, y = fetch(name, return_X_y=True)
    except (OSError, ValueError) as error:
        print(f"{name}: artificial bags of the same shape ({error})")
        n_bags, width, size = SHAPES[name]
        X, y = artificial(n_bags, size, width)
    spread = X.data.std(axis=0)
    scaled = (X.data - X.data.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X.with_data(scaled), np.asarray(y)


def artificial(n_bags, size, width, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    data = rng.normal(size=(n_bags * size, width))
    data[np.flatnonzero(y) * size] += 1.0  # one witness in every positive bag
    return Bags(data, np.arange(0, n_bags * size + 1, size)), y


def seconds(function, repeats=3):
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def report(what, ratio, bar, detail):
    print(f"{what:<48} {ratio:8.2f}   bar {bar:<9} {detail}", flush=True)


def bench_gram():
    X, _ = load("musk2")
    gamma = 1.0 / X.n_features
    ours = seconds(lambda: set_kernel(X, gamma=gamma))
    theirs = seconds(lambda: rbf_kernel(X.data, gamma=gamma))
    detail = f"{ours:.3f} s against {theirs:.3f} s"
    report("(a) set kernel Musk2 / rbf_kernel(X, X)", ours / theirs, "< 2", detail)


def squares(A, B):
    """Squared distances in plain NumPy."""
    D = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2.0 * A @ B.T
    return np.maximum(D, 0.0)


def gaussian(A, B, gamma):
    """Gaussian kernel in plain NumPy."""
    return np.exp(-gamma * squares(A, B))


def generic_mi_kernel(train, y, test, gamma, C):
    """MI-Kernel as one would write it: instance matrix, slices, and a generic QP."""
    import clarabel
    import scipy.sparse as sp

    def sums(A, B):
        K = gaussian(A.data, B.data, gamma)
        rows = list(zip(A.offsets, A.offsets[1:], strict=False))
        cols = list(zip(B.offsets, B.offsets[1:], strict=False))
        return np.array([[K[a:b, c:d].sum() for c, d in cols] for a, b in rows])

    K = sums(train, train)
    norm = np.sqrt(np.diag(K))
    K /= np.outer(norm, norm)
    n, t = len(y), np.where(y == 1, 1.0, -1.0)
    P = sp.csc_matrix(np.triu(np.outer(t, t) * K + 1e-10 * np.eye(n)))
    A = sp.csc_matrix(np.vstack([t, np.eye(n), -np.eye(n)]))
    b = np.concatenate([[0.0], np.full(n, C), np.zeros(n)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(P, -np.ones(n), A, b, cones, settings).solve()
    alpha = np.asarray(solution.x) * t
    own = np.sqrt([gaussian(a, a, gamma).sum() for a in test])
    free = (np.abs(alpha) > 1e-6 * C) & (np.abs(alpha) < C * (1 - 1e-6))
    bias = np.mean((t - K @ alpha)[free])
    return sums(test, train) / np.outer(own, norm) @ alpha + bias


def bench_mi_kernel():
    for name in ("musk1", "elephant"):
        X, y = load(name)
        gamma, C = 1.0 / X.n_features, 10.0
        folds = list(StratifiedKFold(10, shuffle=True, random_state=0).split(y, y))

        def fast(X=X, y=y, gamma=gamma, C=C, folds=folds):
            models = [BagSVC(C=C, gamma=gamma).fit(X[a], y[a]) for a, _ in folds]
            pairs = zip(models, folds, strict=True)
            return np.concatenate([m.decision_function(X[b]) for m, (_, b) in pairs])

        def slow(X=X, y=y, gamma=gamma, C=C, folds=folds):
            parts = [generic_mi_kernel(X[a], y[a], X[b], gamma, C) for a, b in folds]
            return np.concatenate(parts)

        gap = np.abs(fast() - slow()).max()
        ours, theirs = seconds(fast), seconds(slow)
        detail = f"{ours:.3f} s against {theirs:.2f} s, decisions within {gap:.0e}"
        report(f"(b) generic MI-Kernel / BagSVC, {name}", theirs / ours, "> 3", detail)


def citation_loop(train, y, test):
    """Citation-kNN with R = 2 and C = 4, one pair of bags after the other."""
    D = np.array([[np.sqrt(squares(a, b).min()) for b in train] for a in train])
    np.fill_diagonal(D, np.inf)
    radius = np.sort(D, axis=1)[:, 3]
    N = np.array([[np.sqrt(squares(a, b).min()) for b in train] for a in test])
    votes = (N.argsort(axis=1).argsort(axis=1) < 2).astype(int) + (N <= radius)
    return votes @ (2 * y - 1)


def graph_loop(bags, gamma):
    """Kernel of miGraph, one pair of bags after the other."""
    weights = []
    for a in bags:
        D = np.sqrt(squares(a, a))
        near = D < (D.sum() / max(1, len(a) * (len(a) - 1)) * (1 - 1e-9))
        np.fill_diagonal(near, True)
        weights.append(1.0 / near.sum(axis=1))
    pairs = list(zip(bags, weights, strict=True))
    return np.array(
        [
            [u @ gaussian(a, b, gamma) @ v / (u.sum() * v.sum()) for b, v in pairs]
            for a, u in pairs
        ]
    )


def bench_loops():
    for name in ("musk1", "elephant"):
        X, y = load(name)
        folds = list(StratifiedKFold(10, shuffle=True, random_state=0).split(y, y))

        def fast(X=X, y=y, folds=folds):
            for a, b in folds:
                CitationKNN().fit(X[a], y[a]).decision_function(X[b])

        def slow(X=X, y=y, folds=folds):
            for a, b in folds:
                citation_loop(list(X[a]), y[a], list(X[b]))

        ours, theirs = seconds(fast), seconds(slow, 1)
        detail = f"{ours:.4f} s against {theirs:.2f} s, ten folds"
        what = f"(c) loop over pairs / Citation-kNN, {name}"
        report(what, theirs / ours, "> 20", detail)
        gamma = 1.0 / X.n_features
        gap = np.abs(mi_graph_kernel(X, gamma=gamma) - graph_loop(list(X), gamma)).max()
        ours = seconds(lambda X=X, gamma=gamma: mi_graph_kernel(X, gamma=gamma), 5)
        theirs = seconds(lambda X=X, gamma=gamma: graph_loop(list(X), gamma), 1)
        detail = f"{ours:.4f} s against {theirs:.2f} s, kernels within {gap:.0e}"
        report(f"(c) loop over pairs / miGraph, {name}", theirs / ours, "> 20", detail)


def bench_emd():
    import ot

    for name in ("musk1", "elephant"):
        X, _ = load(name)
        bags = list(X)
        costs = [
            (ot.unif(len(a)), ot.unif(len(b)), cdist(a, b))
            for i, a in enumerate(bags)
            for b in bags[i + 1 :]
        ]
        ours = seconds(lambda X=X: emd_distances(X))
        theirs = seconds(lambda costs=costs: [ot.emd2(*pair) for pair in costs], 1)
        detail = f"{ours:.3f} s with distances, {theirs:.2f} s without ({len(costs)})"
        report(f"(d) EMD / ot.emd2 alone, {name}", ours / theirs, "< 1.5", detail)
    X, _ = load("musk2")
    start = time.process_time()
    emd_distances(X)
    print(f"    EMD of Musk2, thinned to 40: {time.process_time() - start:.2f} s")
    start = time.process_time()
    graph_kernel(X)
    print(f"    MIGraph of Musk2, all edges: {time.process_time() - start:.2f} s")


MODES = {
    "exact": {},
    "n_components=500": {"n_components": 500, "random_state": 0},
    "linear": {"kernel_params": {"kernel": "linear"}},
}


def peak_memory():
    """Return the largest resident memory of this process so far, in kB."""
    try:  # getrusage remembers the parent's memory across a fork
        with open("/proc/self/status") as status:
            return next(int(row.split()[1]) for row in status if row[:6] == "VmHWM:")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def child(n_instances, mode):
    """Fit once and print time and peak memory; runs in a process of its own."""
    size = 24
    X, y = artificial(n_instances // size, size, 100)
    gamma = None if mode == "linear" else 0.01
    before = peak_memory()
    start, cpu = time.perf_counter(), time.process_time()
    model = BagSVC("set", C=1.0, gamma=gamma, **MODES[mode]).fit(X, y)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    peak = peak_memory()
    score = (model.predict(X[:200]) == y[:200]).mean()
    print(
        json.dumps(
            {"cpu": cpu, "wall": wall, "peak": peak, "base": before, "acc": score}
        )
    )


def bench_scale(quick):
    steps = (10_000, 30_000) if quick else (10_000, 30_000, 120_000)
    print(
        "\n(e) BagSVC(kernel='set'), 100 features, 24 instances a bag; bar: 4 GB peak"
    )
    for mode in MODES:
        cost = []
        for n in steps:
            command = [sys.executable, __file__, "--child", str(n), mode]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            row = json.loads(done.stdout.splitlines()[-1])
            cost.append(row["cpu"])
            print(
                f"    {mode:<18} {n:>7} instances: {row['cpu']:7.2f} s of processor, "
                f"{row['wall']:7.2f} s by the clock, peak {row['peak'] / 1e6:.2f} GB "
                f"(before the fit {row['base'] / 1e6:.2f}), training accuracy "
                f"{row['acc']:.2f}",
                flush=True,
            )
        growth = np.log(cost[-1] / cost[0]) / np.log(steps[-1] / steps[0])
        print(f"    {mode:<18} growth exponent {growth:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="skip 120,000 instances")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(int(options.child[0]), options.child[1])
        return
    bench_gram()
    bench_mi_kernel()
    bench_loops()
    bench_emd()
    bench_scale(options.quick)


if __name__ == "__main__":
    main()
