"""Fits on partitions with one and two workers: time, memory, equality with local fits.

Parts are parquet files that the workers read themselves. For every method the table
shows the wall time with one and with two workers, the processor time of the busiest
worker with both and their ratio, the peak resident memory of a worker above its start
in units of one part (as float64 in memory), and the largest difference of answers from
a local fit on all bags. On a machine whose cores are busy with other work only the
processor times tell how the work was shared.

    python distributed_fits.py [--parts 8] [--bags 4000] [--features 200]
                                           [--methods ..] [--out OUT.md]

Finished rows are kept in OUT.json next to OUT.md, so that a run that was stopped goes
on; ``--methods`` measures these again.
"""

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
MOST_DIFFERENCE = 1e-8
MOST_PARTS_IN_MEMORY = 8.0  # one part as a table, as bags, and the copies in between
KEPT = ("MILR", "linear regression")  # many passes: the workers keep their parts


def methods():
    """Return every method by its name, with what it answers."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import LogisticRegression

    from bagwise.compose import OnInstances, SimpleMI
    from bagwise.embedding import MiFV
    from bagwise.least_squares import SAFE, SAFERegressor
    from bagwise.linear_model import MILinearRegression, MILogisticRegression

    waves = RBFSampler(gamma=0.01, n_components=50, random_state=0)
    learner = LogisticRegression(tol=1e-10, max_iter=2000)
    return {
        "StandardScaler": (OnInstances(), None),
        "random features": (OnInstances(waves), None),
        "mean+std + logistic regression": (
            SimpleMI(learner, pooling="mean+std"),
            "decision_function",
        ),
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
        "linear regression": (
            MILinearRegression(n_init=1, random_state=0),
            "predict",
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


def run(n_workers, folder, names, add):
    """Fit some methods on a fresh cluster; hand times, memory and answers on."""
    from bagwise.distributed import fit, read_parts
    from distributed import Client, LocalCluster

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
        for name in names:
            model, _ = methods()[name]
            fit(model, parts[:2])  # imports modules and compiles loops
            before, used = client.run(reset_peak), client.run(time.process_time)
            started = time.perf_counter()
            fitted = fit(model, parts, persist=name in KEPT)
            seconds = time.perf_counter() - started
            peaks, after = client.run(resident), client.run(time.process_time)
            rise = max(peaks[w][1] - before[w] for w in before)
            work = max(after[w] - used[w] for w in used)
            add(name, {"wall": seconds, "busiest": work, "rise": rise}, fitted)


def answer(model, method, X):
    """Return what a fitted model says of the bags."""
    if method is None:
        return model.transform(X).data
    return getattr(model, method)(X)


def table(found, options, size):
    """Return the rows as Markdown."""
    lines = [
        "# Fits on a cluster: one and two workers",
        "",
        f"{options.bags} bags of 5 to 15 instances with {options.features} features in"
        f" {options.parts} parquet files of {size / 1e6:.0f} MB (as float64 in "
        "memory), read by the workers themselves; one thread per worker, all on one "
        "computer with two cores that was also used for other work. The processor "
        "time of the busiest worker shows how the work is shared; wall times include "
        "the other work. Memory: the increase of the resident memory of a worker "
        "since its start, as a multiple of the size of a part. Difference: of the "
        "predictions from those of a local fit, relative to the largest of them. Made "
        "by `studies/scripts/distributed_fits.py`.",
        "",
        "| fit | wall, 1 worker, s | 2 workers, s | busiest worker, 1, s | 2, s | "
        "ratio | memory, parts | difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    missed = []
    for name in methods():
        rows = [found.get(f"{name} | {n}") for n in (1, 2)]
        if None in rows:
            continue
        one, two = rows
        held = max(one["rise"], two["rise"]) / size
        gap = max(one["gap"], two["gap"])
        # Parts that the workers keep in memory are added to the limit.
        most = MOST_PARTS_IN_MEMORY + (options.parts if name in KEPT else 0)
        if gap > MOST_DIFFERENCE or held > most:
            missed.append(name)
        lines.append(
            f"| {name}{', parts kept' if name in KEPT else ''} | {one['wall']:.1f} | "
            f"{two['wall']:.1f} | {one['busiest']:.2f} | {two['busiest']:.2f} | "
            f"{one['busiest'] / two['busiest']:.2f} | {held:.1f} | {gap:.0e} |"
        )
    if missed:
        lines += ["", f"Missed: {', '.join(missed)}."]
    return "\n".join(lines) + "\n", missed


def main():
    """Measure what is missing, write the table, end with 1 if a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--bags", type=int, default=4000)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--out", type=Path, default=RESULTS / "distributed/README.md")
    options = parser.parse_args()
    kept = options.out.with_suffix(".json")
    settings = [options.parts, options.bags, options.features]
    found = {"settings": settings}
    if kept.exists():
        found = json.loads(kept.read_text(encoding="utf-8"))
        if found["settings"] != settings:
            found = {"settings": settings}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        X, y = write_parts(folder, options.parts, options.bags, options.features)
        size = 8.0 * X.n_instances * X.n_features / options.parts
        expected = {}

        def add(name, row, fitted, n):
            model, method = methods()[name]
            if name not in expected:
                expected[name] = answer(model.fit(X, y), method, X)
            gap = np.abs(answer(fitted, method, X) - expected[name]).max()
            row["gap"] = float(gap / max(1.0, np.abs(expected[name]).max()))
            found[f"{name} | {n}"] = row
            kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(name, n, row, flush=True)

        for n in (1, 2):
            names = options.methods or [
                name for name in methods() if f"{name} | {n}" not in found
            ]
            if names:
                run(n, folder, names, partial(add, n=n))
    text, missed = table(found, options, size)
    options.out.write_text(text, encoding="utf-8")
    print(text)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
