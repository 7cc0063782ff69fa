"""Time and peak memory of MI-SVM, mi-SVM and sbMIL up to 120,000 instances.

Each fit runs in a process of its own, which reports its peak resident memory. The
exponent is the slope of log processor time over log instances, first to last size.
The bars: minutes and 4 GB at 120,000 instances x 100 features in 5,000 bags.

    python benchmarks/bench_scale_svm.py [--quick]
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

SIZES = (10_000, 30_000, 120_000)
ROADS = {
    "linear": {"kernel": "linear"},
    "nystroem 100": {"kernel": "rbf", "gamma": "auto", "n_components": 100},
}
BAG = 24  # instances in a bag
FEATURES = 100


def make(n_instances):
    """Gaussian bags; a sixth of the instances of positive bags is shifted."""
    from bagwise.bags import Bags

    rng = np.random.default_rng(0)
    n_bags = n_instances // BAG
    data = rng.standard_normal((n_bags * BAG, FEATURES))
    y = np.arange(n_bags) % 2
    shifted = np.repeat(y, BAG).astype(bool) & (rng.random(n_bags * BAG) < 1 / 6)
    data[shifted, :10] += 1.2
    return Bags(data, np.arange(0, n_bags * BAG + 1, BAG)), y


def one(name, road, n_instances):
    """Fit once in this process and print what it took as JSON."""
    from bagwise import svm

    X, y = make(n_instances)
    small = X[:40]
    getattr(svm, name)(**ROADS[road], random_state=0).fit(small, y[:40])
    started, used = time.perf_counter(), time.process_time()
    model = getattr(svm, name)(**ROADS[road], random_state=0).fit(X, y)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    result = {
        "seconds": seconds,
        "processor": used,
        "gigabytes": peak,
        "steps": int(getattr(model, "n_iter_", 2)),
        "gap": model.duality_gap_ / model.objective_,
        "accuracy": float((model.predict(X) == y).mean()),
    }
    print(json.dumps(result))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3,000 and 10,000 only")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one[0], options.one[1], int(options.one[2]))
        return
    sizes = (3_000, 10_000) if options.quick else SIZES
    head = f"{'method':7}{'road':14}{'instances':>10}{'CPU s':>8}{'wall s':>8}"
    print(head + f"{'GB':>6}{'steps':>6}{'rel. gap':>10}{'train acc':>10}")
    for name in ("MISVM", "MiSVM", "SBMIL"):
        for road in ROADS:
            seconds = []
            for size in sizes:
                command = [sys.executable, __file__, "--one", name, road, str(size)]
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True
                )
                row = json.loads(done.stdout.splitlines()[-1])
                seconds.append(row["processor"])
                print(
                    f"{name:7}{road:14}{size:10,}{row['processor']:8.1f}{row['seconds']:8.1f}"
                    f"{row['gigabytes']:6.2f}{row['steps']:6}{row['gap']:10.1e}"
                    f"{row['accuracy']:10.3f}",
                    flush=True,
                )
            slope = np.log(seconds[-1] / seconds[0]) / np.log(sizes[-1] / sizes[0])
            print(f"{name:7}{road:14}  growth exponent {slope:.2f}")
    print("bars at 120,000: minutes, 4 GB")


if __name__ == "__main__":
    main()
