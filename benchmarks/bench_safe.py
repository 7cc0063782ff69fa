"""SAFE: model selection, explicit features and streams, as ratios in one run.

Times are processor times of one thread, because a shared machine makes the clock on
the wall a measure of the neighbours. Run with OPENBLAS_NUM_THREADS=1.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from bagwise.bags import Bags
from bagwise.compose import OnInstances
from bagwise.datasets import fetch, make_safe_toy
from bagwise.least_squares import SAFE, SAFECV
from bagwise.least_squares.weights import mean_squared_distance

GAMMA = 2.0  # kernel width for the toy, whose clusters have a spread of 0.2


def clock(function):
    """Return processor seconds, wall seconds and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def peak_memory():
    """Peak memory of this process in MB.

    The kernel's own count where there is one: `ru_maxrss` of a child process starts
    at the size of its parent.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def line(name, value, bar, fulfilled):
    """Print one row of the table."""
    print(f"{name:<58}{value:>14}   {bar:<16}{'ok' if fulfilled else 'MISSED'}")


def bench_selection(quick):
    """SAFECV against a grid search with the same folds and grid."""
    try:
        X, y = fetch("musk1", return_X_y=True, download_if_missing=False)
        name = "Musk1"
    except (OSError, ValueError) as error:
        print(f"Musk1 is not at hand ({type(error).__name__}); bags of the same shape")
        rng = np.random.default_rng(0)
        y = np.arange(92) % 2
        X = Bags.from_list([rng.normal(0.2 * k, 1, (5, 166)) for k in y])
        name = "92 random bags"
    X = OnInstances(StandardScaler()).fit_transform(X)
    unit = mean_squared_distance(X.data, np.ones(X.n_instances))
    gammas = [1.0 / (c * unit) for c in (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)]
    grid = {
        "gamma": gammas[:2] if quick else gammas,
        "rho": [0.3, 3.0, 30.0, 300.0],
        "variance_weight": [0.0, 0.5, 0.9],
    }
    cv = StratifiedKFold(10, shuffle=True, random_state=0)
    ours = SAFECV(grid["gamma"], cv=cv)
    SAFECV(grid["gamma"][:1], cv=cv).fit(X, y)  # imports and caches
    runs = [clock(lambda: ours.fit(X, y))[0] for _ in range(3)]
    search = GridSearchCV(SAFE(), grid, cv=cv)
    slow = clock(lambda: search.fit(X, y))[0]
    ratio = slow / np.median(runs)
    shape = "x".join(str(len(v)) for v in grid.values())
    line(
        f"GridSearchCV / SAFECV, {name}, {shape}", f"{ratio:.1f}", ">= 10", ratio >= 10
    )
    same = all(
        np.array_equal(ours.cv_results_[k], search.cv_results_[k])
        for k in ours.cv_results_
        if k.startswith("split")
    )
    line("  scores of all folds equal", str(same), "True", same)
    print(f"  SAFECV {np.median(runs):.2f} s, GridSearchCV {slow:.2f} s (processor)")


def bench_features(name, X, y, width, n_components, bar):
    """A fit on all bags against their features and one product, alone."""

    def reference():
        features = Nystroem(gamma=width, n_components=n_components, random_state=0)
        return dsyrk(1.0, features.fit_transform(X.data).T)

    model = SAFE(gamma=width, n_components=n_components, random_state=0)
    ours = np.median([clock(lambda: model.fit(X, y))[0] for _ in range(3)])
    theirs = np.median([clock(reference)[0] for _ in range(3)])
    ratio = ours / theirs
    # Directions without weight are dropped by SAFE and kept by the reference: only
    # where none is dropped do both do the same work.
    kept = model.features_.n_features_out
    title = f"SAFE / (Nystroem + syrk), {name}, m={n_components} ({kept} kept)"
    line(title, f"{ratio:.2f}", f"< {bar}", ratio < bar)
    print(f"  SAFE {ours:.2f} s, Nystroem + syrk {theirs:.2f} s (processor)")
    ksc = model.set_params(core="ksc", variance_weight=0.5)
    two_pass = clock(lambda: ksc.fit(X, y))[0] / theirs
    line(
        "  same with core='ksc', variance_weight=0.5",
        f"{two_pass:.2f}",
        f"< {bar}",
        two_pass < bar,
    )


def worker(n_bags, n_components):
    """Fit in a process of its own and print accuracy and peak memory."""
    X, y = make_safe_toy(2, n_bags, random_state=0)
    base = peak_memory()
    model = SAFE(gamma=GAMMA, n_components=n_components, random_state=0).fit(X, y)
    peak = peak_memory()
    new, y_new = make_safe_toy(2, 20_000, random_state=1)
    print(model.score(new, y_new), base, peak)


def bench_memory(n_components, n_bags):
    """Peak memory and accuracy on new bags."""
    command = [sys.executable, __file__, "--worker", str(n_bags), str(n_components)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    score, base, peak = map(float, out.split())
    line(
        f"peak memory in MB, m={n_components} (data alone {base:.0f})",
        f"{peak:.0f}",
        "< 1000",
        peak < 1000,
    )
    line(
        f"accuracy on 20,000 new bags, m={n_components} (best possible 0.993)",
        f"{score:.4f}",
        ">= 0.985",
        score >= 0.985,
    )


def bench_stream(n_instances):
    """Instances by the million, in memory that does not grow."""
    chunk = 20_000  # bags
    model = SAFE(gamma=GAMMA, n_components=20, random_state=0)
    SAFE(gamma=GAMMA, n_components=20).partial_fit(*make_safe_toy(2, chunk))  # warm
    sizes, times, memory, spent, seen = [], [], [], 0.0, 0
    for number in range(n_instances // (5 * chunk)):
        X, y = make_safe_toy(2, chunk, random_state=number)
        spent += clock(lambda X=X, y=y: model.partial_fit(X, y))[0]
        seen += X.n_instances
        sizes.append(seen)
        times.append(spent)
        memory.append(peak_memory())
    start = max(2, len(sizes) // 20)  # the first chunks draw landmarks
    slope = np.polyfit(np.log(sizes[start:]), np.log(times[start:]), 1)[0]
    line(
        f"exponent of time in n, up to {seen:,} streamed instances",
        f"{slope:.3f}",
        "0.95 - 1.10",
        0.95 <= slope <= 1.1,
    )
    growth = memory[-1] - memory[start]
    line(
        "  growth of peak memory over the stream, MB",
        f"{growth:.1f}",
        "< 20",
        growth < 20,
    )
    new, y_new = make_safe_toy(2, 20_000, random_state=10**6)
    score = model.score(new, y_new)
    line("  accuracy on new bags", f"{score:.4f}", ">= 0.985", score >= 0.985)
    print(f"  {spent:.1f} s processor, peak {memory[-1]:.0f} MB")


def main():
    """Run everything; --quick takes a tenth of the data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(*options.worker)
        return
    print(f"{'what':<58}{'measured':>14}   {'bar':<16}")
    n_bags = 10_000 if options.quick else 100_000
    # The stream first: peak memory never goes down, and the others need more.
    bench_stream(1_000_000 if options.quick else 10_000_000)
    toy, y = make_safe_toy(2, n_bags, random_state=0)
    rows = np.random.default_rng(0).standard_normal((n_bags, 20))
    noise, labels = Bags(rows, np.arange(0, n_bags + 1, 5)), np.arange(n_bags // 5) % 2
    for n_components, bar in ((20, 4), (300, 2)):
        bench_memory(n_components, n_bags)
        bench_features("toy 2", toy, y, GAMMA, n_components, bar)
        bench_features("20-D noise", noise, labels, 0.05, n_components, bar)
    bench_selection(options.quick)


if __name__ == "__main__":
    main()
