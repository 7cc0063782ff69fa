"""Time and peak memory of every method that reads bags in pieces, on stored slides.

Slides are float16 features in one memory map. Each fit runs in a process of its own,
which reports its processor time and how far its resident memory rose above what the
imports take; pages of the map count. The exponent is the slope of log time over log
instances, from the smallest to the largest size, at a fixed number of slides.

    python studies/scripts/slides_growth.py [--slides 40] [--sizes 2000 8000]
                                      [--features 256] [--folder FOLDER] [--methods ..]

The bars: exponents of at most 1.1, and 3 GB for 500 slides x 10,000 x 1,024
(``--slides 500 --sizes 2500 10000 --features 1024``, 10 GB on disk).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

MOST_GIGABYTES = 3.0
MOST_EXPONENT = 1.1


def methods():
    """Return every method by its name; made late, in the process that fits."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import LogisticRegression

    from bagwise.compose import OnInstances, SampleInstances, SimpleMI
    from bagwise.embedding import MiFV, SlicedWassersteinEmbedding
    from bagwise.least_squares import SAFE
    from bagwise.linear_model import MILogisticRegression
    from bagwise.svm import MISVM

    linear = LogisticRegression(max_iter=2000)
    return {
        "standardize": OnInstances(),
        "sample 200 per bag": SampleInstances(200, random_state=0),
        "mean + logistic": SimpleMI(linear),
        "mean+std + logistic": SimpleMI(linear, pooling="mean+std"),
        "miFV": MiFV(max_samples=20_000, random_state=0),
        "sliced Wasserstein": SlicedWassersteinEmbedding(random_state=0),
        "random features": OnInstances(RBFSampler(n_components=100, random_state=0)),
        "SAFE linear": SAFE(kernel="linear", aggregation="mean"),
        "SAFE 100 landmarks": SAFE(n_components=100, random_state=0),
        "MILR": MILogisticRegression(n_init=1, max_iter=20, random_state=0),
        "MI-SVM linear": MISVM(C=0.1, kernel="linear", max_iter=5),
    }


def make(folder, n_slides, size, n_features):
    """Write slides: a tenth of the patches of positive ones differ in ten features."""
    path = Path(folder) / f"slides-{n_slides}-{size}-{n_features}.npy"
    if path.exists():
        return path
    out = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.float16, shape=(n_slides * size, n_features)
    )
    rng = np.random.default_rng(0)
    for k in range(n_slides):
        rows = rng.standard_normal((size, n_features), dtype=np.float32)
        if k % 2:
            rows[: size // 10, :10] += 1.5
        out[k * size : (k + 1) * size] = rows
    out.flush()
    return path


def one(name, path, n_slides, size):
    """Fit once in this process and print what it took as JSON."""
    import warnings

    from bagwise.bags import Bags

    warnings.simplefilter("ignore")  # few iterations: not converged
    model = methods()[name]
    small = Bags(np.random.default_rng(0).normal(size=(40, 20)), np.arange(0, 41, 4))
    type(model)(**model.get_params(deep=False)).fit(small, np.arange(10) % 2)
    rows = np.load(path, mmap_mode="r")
    X = Bags(rows, size * np.arange(n_slides + 1))
    y = np.arange(n_slides) % 2
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    while not times or (sum(times) < 2.0 and len(times) < 3):  # short runs are noisy
        started = time.process_time()
        model.fit(X, y)
        if hasattr(model, "transform"):
            model.transform(X)
        times.append(time.process_time() - started)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                "processor": min(times),
                "gigabytes": (after - before) / 1e6,
                "total": after / 1e6,
            }
        )
    )


def measure(name, path, n_slides, size):
    """Run `one` in a process of its own."""
    command = [sys.executable, __file__, "--one", name, str(path), str(n_slides)]
    done = subprocess.run(
        [*command, str(size)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    """Print a table and end with 1 if a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slides", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 8000])
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--folder")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--one", nargs=4)
    options = parser.parse_args()
    if options.one:
        name, path, n_slides, size = options.one
        one(name, path, int(n_slides), int(size))
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or temporary
        paths = [
            make(folder, options.slides, size, options.features)
            for size in options.sizes
        ]
        stored = [path.stat().st_size / 1e9 for path in paths]
        print(f"{options.slides} slides, {options.features} features, float16")
        print(f"{'instances of a slide':<24}", *(f"{s:>18}" for s in options.sizes))
        print(f"{'on disk':<24}", *(f"{s:>15.2f} GB" for s in stored), "  exponent")
        for name in options.methods or methods():
            runs = [
                measure(name, path, options.slides, size)
                for path, size in zip(paths, options.sizes, strict=True)
            ]
            growth = np.log(runs[-1]["processor"] / runs[0]["processor"])
            exponent = growth / np.log(options.sizes[-1] / options.sizes[0])
            cells = [f"{r['processor']:8.1f} s {r['gigabytes']:5.2f} GB" for r in runs]
            fine = exponent <= MOST_EXPONENT
            fine = fine and runs[-1]["total"] <= MOST_GIGABYTES
            missed += not fine
            print(
                f"{name:<24}",
                *(f"{cell:>18}" for cell in cells),
                f"{exponent:8.2f} {'' if fine else 'MISSED'}",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
