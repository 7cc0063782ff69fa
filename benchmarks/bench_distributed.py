"""Fits on partitions with one and two workers: time, memory, equality with local fits.

Parts are parquet files that the workers read themselves. For every method the table
shows the wall time with one and with two workers, the processor time of the busiest
worker with both and their ratio, the peak resident memory of a worker above its start
in units of one part (as float64 in memory), and the largest difference of answers from
a local fit on all bags. On a machine whose cores are busy with other work only the
processor times tell how the work was shared.

    python benchmarks/bench_distributed.py [--parts 8] [--bags 4000] [--features 40]
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

MOST_DIFFERENCE = 1e-8
MOST_PARTS_IN_MEMORY = 8.0  # a part as a table, as bags, and the copies in between


def methods():
    """Return every method by its name, with what it answers."""
    from bagwise.compose import OnInstances
    from bagwise.embedding import MiFV
    from bagwise.least_squares import SAFE, SAFERegressor
    from bagwise.linear_model import MILogisticRegression

    return {
        "StandardScaler": (OnInstances(), None),
        "SAFE linear": (SAFE(kernel="linear"), "decision_function"),
        "SAFE 100 landmarks": (
            SAFE(n_components=100, random_state=0),
            "decision_function",
        ),
        "SAFERegressor": (SAFERegressor(kernel="linear"), "predict"),
        "MiFV": (MiFV(max_samples=5000, random_state=0), "transform"),
        "MILR": (
            MILogisticRegression(n_init=1, tol=1e-6, random_state=0),
            "decision_function",
        ),
    }


def write_parts(folder, n_parts, n_bags, n_features):
    """Write parquet files of whole bags and return all bags and labels."""
    import pandas as pd

    from bagwise.bags import Bags

    rng = np.random.default_rng(0)
    parts, labels = [], []
    for number in range(n_parts):
        sizes = rng.integers(5, 16, n_bags // n_parts)
        y = np.arange(len(sizes)) % 2
        rows = rng.normal(0.3 * np.repeat(y, sizes)[:, None], 1.0)
        rows = rows + rng.normal(size=(sizes.sum(), n_features))
        frame = pd.DataFrame(rows, columns=[f"f{j}" for j in range(n_features)])
        names = [f"{number}-{k}" for k in range(len(sizes))]
        frame["bag"], frame["y"] = np.repeat(names, sizes), np.repeat(y, sizes)
        frame.to_parquet(Path(folder) / f"part-{number:03}.parquet", index=False)
        parts.append(Bags(rows, np.concatenate([[0], np.cumsum(sizes)])))
        labels.append(y)
    return Bags.concatenate(parts), np.concatenate(labels)


def resident():
    """Return the resident memory of this process and its peak, in bytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            found[name] = int(value.split()[0]) * 1024
    return found["VmRSS"], found["VmHWM"]


def reset_peak():
    """Forget the peak so far; returns what is resident now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resident()[0]


def run(n_workers, folder):
    """Fit every method on a fresh cluster; return times, memory and model of each."""
    from bagwise.distributed import fit, read_parts
    from distributed import Client, LocalCluster

    out = {}
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        parts = read_parts(folder, bag="bag", label="y")
        for name, (model, _) in methods().items():
            fit(model, parts[:2])  # imports and compiled loops
            before, used = client.run(reset_peak), client.run(time.process_time)
            started = time.perf_counter()
            fitted = fit(model, parts, persist=name == "MILR")
            seconds = time.perf_counter() - started
            peaks, after = client.run(resident), client.run(time.process_time)
            rise = max(peaks[w][1] - before[w] for w in before)
            work = max(after[w] - used[w] for w in used)
            out[name] = seconds, work, rise, fitted
    return out


def answer(model, method, X):
    """Return what a fitted model says of the bags."""
    if method is None:
        return model.transform(X).data
    return getattr(model, method)(X)


def main():
    """Print a table and end with 1 if a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--bags", type=int, default=4000)
    parser.add_argument("--features", type=int, default=40)
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        X, y = write_parts(folder, options.parts, options.bags, options.features)
        size = 8.0 * X.n_instances * X.n_features / options.parts
        print(
            f"{len(X)} bags, {X.n_instances} instances, {options.parts} parts of "
            f"{size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f} on "
            f"{os.cpu_count()} cores"
        )
        found = {n: run(n, folder) for n in (1, 2)}
        print(
            f"{'':<20} {'wall: 1':>8} {'2':>8} {'busiest: 1':>11} {'2':>8} "
            f"{'ratio':>6} {'memory / part':>14} {'difference':>11}"
        )
        for name, (model, method) in methods().items():
            one, two = found[1][name], found[2][name]
            expected = answer(model.fit(X, y), method, X)
            gap = np.abs(answer(one[3], method, X) - expected).max()
            gap /= max(1.0, np.abs(expected).max())
            held = max(one[2], two[2]) / size
            # Parts that are kept in memory are counted as they are.
            most = options.parts if name == "MILR" else 0
            fine = gap <= MOST_DIFFERENCE and held <= MOST_PARTS_IN_MEMORY + most
            missed += not fine
            print(
                f"{name:<20} {one[0]:6.2f} s {two[0]:6.2f} s {one[1]:9.2f} s "
                f"{two[1]:6.2f} s {one[1] / two[1]:6.2f} {held:14.1f} {gap:11.1e} "
                f"{'' if fine else 'MISSED'}",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
