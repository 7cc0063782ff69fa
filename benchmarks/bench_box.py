"""Box-counting kernel: ratios to one RBF Gram matrix, to one process, to pairs.

The bars:

- full Gram of Musk1 / Musk2 at (epsilon, delta) = (0.1, 0.01), clt, one thread, against
  one ``rbf_kernel`` call on the 6,598 x 166 instances of Musk2 in the same run: at most
  0.2x and 6x (integer grid, the natural one of these data, and the default grid);
- two processes: close to twice as fast as one;
- random boxes on protein: at least 50x faster than pair by pair (projected).

Single-thread figures are CPU time, which other programs on the machine disturb least.
Needs the folder named by BAGWISE_DATA. ``--quick`` leaves out Musk2 and protein.
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.datasets import fetch
from bagwise.kernels import BoxGrid, box_kernel


def best_of(function, repeats=3, clock=time.process_time):
    """Smallest time of several calls."""
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def line(what, ratio, bar):
    print(f"{what:58s} {ratio:8.3f}x   bar {bar}", flush=True)


def bags_of(name):
    return fetch(name).X


def bench_musk(quick):
    one, two = bags_of("musk1"), bags_of("musk2")
    instances = np.asarray(two.data, dtype=np.float64)
    box_kernel(one[:6], grid="integer")  # compiles
    unit = best_of(lambda: rbf_kernel(instances, gamma=1e-5))
    print(f"unit: rbf_kernel on {instances.shape}: {unit:.2f} s of CPU time")
    sets = [("Musk1", one, "<= 0.2")] + ([] if quick else [("Musk2", two, "<= 6")])
    for name, X, bar in sets:
        for grid in ("integer", "width"):
            seconds = best_of(lambda X=X, grid=grid: box_kernel(X, grid=grid), 2)
            line(f"{name} Gram, {grid} grid, clt / rbf_kernel", seconds / unit, bar)
        seconds = best_of(
            lambda X=X: box_kernel(X, grid="integer", stop="bernstein"), 1
        )
        line(f"{name} Gram, integer grid, bernstein / rbf_kernel", seconds / unit, "-")


def bench_processes(quick):
    X = bags_of("musk1" if quick else "musk2")
    grid = BoxGrid("integer").fit(X)
    settings = {"grid": grid, "stop": "bernstein"}
    box_kernel(X, n_jobs=2, grid=grid)  # starts the workers, which load the code
    one = best_of(lambda: box_kernel(X, **settings), 2, time.perf_counter)
    two = best_of(lambda: box_kernel(X, n_jobs=2, **settings), 2, time.perf_counter)
    load = os.getloadavg()[0]
    line(f"one process / two, bernstein (load {load:.1f})", one / two, "near 2, idle")


def bench_protein():
    X = bags_of("protein")
    grid = BoxGrid().fit(X)
    box_kernel(X[:3], grid=grid, method="random_boxes")
    box_kernel(X[:3], grid=grid, method="coverage")
    fast = best_of(lambda: box_kernel(X, grid=grid, method="random_boxes"), 2)
    some = X[np.arange(0, len(X), 16)]
    slow = best_of(lambda: box_kernel(some, grid=grid, method="coverage"), 1)
    pairs = len(some) * (len(some) + 1) / 2
    slow *= len(X) * (len(X) + 1) / 2 / pairs
    print(f"protein: random boxes {fast:.2f} s, pairs {slow:.0f} s (projected)")
    line("protein, pair by pair / random boxes", slow / fast, ">= 50")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    bench_musk(quick)
    bench_processes(quick)
    if not quick:
        bench_protein()


if __name__ == "__main__":
    main()
