"""CPU seconds of what users wait for, in two trees of the package in one run.

Two processes hold one tree each and carry out each row in turn, so that a busy machine
slows both::

    git worktree add --detach OTHER fe00d5c
    python studies/scripts/speed_rows.py OTHER/src --log rows.csv [--rows csv h5]

`compare` is measured on its first fold: seconds per method, including tuning and the
prediction of the test bags; "five folds" is five times the sum, and the default for 200
bags and more. Fewer are partitioned twice, which doubles the time. Other figures are
the least of up to five calls. Finished rows of the log are kept. ``--page`` prints the
log as a table. The classic sets are read from the folder that ``BAGWISE_DATA`` names.
The figures are in ``studies/results/speed/rows.md``.
"""

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

FIELDS = ("row", "part", "before", "now", "reference")
SHAPES = {
    "compare 100 x 10 x 50": (100, 10, 50),
    "compare 400 x 10 x 50": (400, 10, 50),
    "compare 1600 x 10 x 50": (1600, 10, 50),
    "compare 200 x 500 x 128": (200, 500, 128),
}
CALLS, WAIT = 5, 8.0


class FoldEnds(Exception):
    """The first fold of a comparison has ended."""


def cpu(function, calls=CALLS):
    """Return the least CPU seconds of several calls; fewer if they take long."""
    best, begun = float("inf"), time.process_time()
    for _ in range(calls):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
        if time.process_time() - begun > WAIT:
            break
    return best


def simulated(n_bags, size, n_features):
    """Return normal instances; one per positive bag is shifted in some features."""
    from bagwise import Bags

    rng = np.random.default_rng(0)
    y = np.arange(n_bags) % 2
    rows = rng.standard_normal((n_bags * size, n_features))
    rows[np.flatnonzero(y) * size, : n_features // 4] += 1.0
    return Bags(rows, np.arange(0, n_bags * size + 1, size)), y


def known(name):
    """Return a classic set with standardized features, or simulated bags."""
    if "x" in name:
        return simulated(*(int(part) for part in name.split(" x ")))
    from bagwise.datasets import fetch

    X, y = fetch(name, return_X_y=True)
    spread = X.data.std(axis=0)
    rows = (X.data - X.data.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X.with_data(rows), np.asarray(y)


def compare_rows(name, method):
    """Return the seconds of each method on the first fold."""
    from bagwise.comparison import CrossValidation, compare

    X, y = known(name.removeprefix("compare "))
    methods, times = [], []

    def listen(event):
        methods.append(event.run.method)
        times.append(time.process_time())
        if len(methods) == event.n_total // 5:
            raise FoldEnds

    small, labels = simulated(40, 4, X.n_features)
    options = {"progress": False, "n_jobs": 1, "time_limit": None}
    options["methods"] = [method] if method else None
    options["protocol"] = CrossValidation(5)  # fewer than 200 bags: not twice
    compare(small, labels, grid="none", **options)  # loads the compiled code
    start = time.process_time()
    with contextlib.suppress(FoldEnds):
        compare(X, y, **options | {"progress": listen})
    # A run is reported when the next one has ended.
    first = ", ".join(["checks of the data", *methods[:2]])
    found = dict(zip(methods[2:], np.diff(times), strict=False))
    return {first: times[0] - start, **found, "five folds": 5 * (times[-1] - start)}


def fit_rows(name, part):
    """Return the seconds of a fit, and those of its reference."""
    import scipy.linalg
    from sklearn.metrics.pairwise import rbf_kernel

    from bagwise.kernels import box_kernel

    X, y = known(part)
    rows = X.data

    def kernel():
        return rbf_kernel(rows, gamma=1.0 / X.n_features)

    def kernel_and_factor():
        K = kernel()
        K.flat[:: len(K) + 1] += 1.0
        scipy.linalg.cho_factor(K, overwrite_a=True, check_finite=False)

    if name == "Box kernel":
        box_kernel(X[:4])
        return {"matrix": [cpu(lambda: box_kernel(X)), cpu(kernel)]}
    from bagwise.compose import WrapperMI
    from bagwise.svm import MIODM, PCSVM, SBMIL

    made = {
        "MI-ODM": MIODM(random_state=0),
        "sbMIL": SBMIL(),
        "WrapperMI": WrapperMI(),
        "PC-SVM": PCSVM(),
    }[name]
    small, labels = simulated(20, 4, 5)
    made.fit(small, labels)
    found = {"fit": [cpu(lambda: made.fit(X, y)), cpu(kernel_and_factor)]}
    if name != "PC-SVM":
        plain = type(made)(**made.get_params(deep=False) | {"threshold": "zero"})
        found["fit, threshold zero"] = [cpu(lambda: plain.fit(X, y)), found["fit"][1]]
    return found


def csv_rows(folder):
    """Return the seconds of a table of 59 MB, and those of pandas."""
    import pandas

    from bagwise import read_bags

    path = Path(folder, "table.csv")
    if not path.exists():
        rows = np.random.default_rng(0).normal(size=(60_000, 50))
        frame = pandas.DataFrame(rows, columns=[f"x{j}" for j in range(50)])
        bag = np.arange(len(rows)) // 20
        frame.insert(0, "mol", [f"mol{b}" for b in bag])
        frame.insert(1, "active", bag % 2)
        frame.to_csv(path, index=False)
    own = cpu(lambda: read_bags(path, "mol", "active"), 3)
    return {"read_bags": [own, cpu(lambda: pandas.read_csv(path), 3)]}


def h5_rows(folder):
    """Return the seconds of 200 files of 1,000 x 512, and those of h5py."""
    import h5py

    from bagwise import read_bags

    path = Path(folder, "features")
    if not path.exists():
        path.mkdir()
        rows = np.random.default_rng(0).normal(size=(1_000, 512)).astype(np.float16)
        for i in range(200):
            with h5py.File(path / f"s{i:03d}.h5", "w") as file:
                file["features"] = rows
                file["coords"] = np.zeros((len(rows), 2), dtype=np.int32)

    def alone():
        kept = []
        for one in sorted(path.glob("*.h5")):
            with h5py.File(one, "r") as file:
                kept.append(file["features"][:])

    read = cpu(lambda: read_bags(path, cache=False), 3)
    return {"read_bags, in memory": [read, cpu(alone, 3)]}


FIRST_CALL = """
import time, warnings
warnings.simplefilter("ignore")
from bagwise.datasets import make_bags
from bagwise.ensemble import BagClassifier
from bagwise.svm import MISVM
X, y = make_bags(20, random_state=0)
model = {name}
times = []
for _ in range(2):
    start = time.process_time()
    model.fit(X, y).predict(X)
    times.append(time.process_time() - start)
print(times[0] - times[1])
"""


def first_call_rows():
    """Return what compilation adds to the first call, with an empty cache."""
    found = {}
    for name in ("BagClassifier(random_state=0)", "MISVM()"):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [sys.executable, "-c", FIRST_CALL.format(name=name)],
                env=os.environ | {"NUMBA_CACHE_DIR": empty},
                capture_output=True,
                text=True,
                check=True,
            )
        found[name.partition("(")[0]] = float(done.stdout)
    return found


ROWS = {
    **{name: ("compare",) for name in SHAPES},
    "MI-ODM, musk1": ("fit", "MI-ODM", "musk1"),
    "MI-ODM, elephant": ("fit", "MI-ODM", "elephant"),
    "MI-ODM, 400 x 10 x 50": ("fit", "MI-ODM", "400 x 10 x 50"),
    "sbMIL, elephant": ("fit", "sbMIL", "elephant"),
    "WrapperMI, elephant": ("fit", "WrapperMI", "elephant"),
    "PC-SVM, musk2": ("fit", "PC-SVM", "musk2"),
    "Box kernel, musk1": ("fit", "Box kernel", "musk1"),
    "Box kernel, elephant": ("fit", "Box kernel", "elephant"),
    "Box kernel, musk2": ("fit", "Box kernel", "musk2"),
    "CSV, 59 MB": ("csv",),
    "200 h5 files": ("h5",),
    "first call": ("first call",),
}


def serve(folder):
    """Carry out the rows that standard input names."""
    warnings.simplefilter("ignore")
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, method = json.loads(line)
        kind, *how = ROWS[name]
        try:
            if kind == "compare":
                found = compare_rows(name, method)
            elif kind == "fit":
                found = fit_rows(*how)
            elif kind == "csv":
                found = csv_rows(folder)
            elif kind == "h5":
                found = h5_rows(folder)
            else:
                found = first_call_rows()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"[:200]
        print("#" + json.dumps(found), flush=True)


class Tree:
    """A process that works with the package of one folder."""

    def __init__(self, source, folder):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        self.process.stdout.readline()

    def ask(self, name, method):
        """Return the seconds of one row by part, or what went wrong."""
        self.process.stdin.write(json.dumps([name, method]) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("#"):
                return json.loads(line[1:])
        raise RuntimeError(f"{name}: the process has ended")


def page(path):
    """Print the rows of the log."""
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    print("| row | part | before, s | now, s | reference, s | now / reference |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        ratio = ""
        if row["reference"] and row["now"]:
            ratio = f"{float(row['now']) / float(row['reference']):.2f}"
        print("|", " | ".join([*row.values(), ratio]), "|")


def main():
    """Measure the rows in both trees, or print those of a log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", nargs="?", help="src folder of the other tree")
    parser.add_argument("--log", default="rows.csv")
    parser.add_argument("--rows", nargs="*", help="beginnings of rows")
    parser.add_argument("--method", help="one method of `compare`")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--serve", metavar="FOLDER")
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve)
    if args.page:
        return page(args.log)
    log, done = Path(args.log), set()
    if log.exists():
        with log.open(newline="") as stream:
            done = {row["row"] for row in csv.DictReader(stream)}
    else:
        log.write_text(",".join(FIELDS) + "\n")
    here = Path(__file__).resolve().parents[2] / "src"
    sources = {"now": here} | ({"before": args.before} if args.before else {})
    wanted = tuple(args.rows or ROWS)
    with tempfile.TemporaryDirectory() as folder:
        trees = {name: Tree(source, folder) for name, source in sources.items()}
        for name in ROWS:
            if not name.startswith(wanted) or (name in done and not args.rows):
                continue
            found = {tree: one.ask(name, args.method) for tree, one in trees.items()}
            write(log, name, found)
    return None


def write(log, name, found):
    """Append what both trees answered about one row."""
    texts = {tree: parts for tree, parts in found.items() if isinstance(parts, str)}
    for tree, text in texts.items():
        print(name, tree, text, flush=True)
    parts = {p: None for tree in found if tree not in texts for p in found[tree]}
    with log.open("a", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        for part in parts:
            cells, reference = {}, ""
            for tree in ("before", "now"):
                value = None if tree in texts else found.get(tree, {}).get(part)
                if isinstance(value, list):
                    value, reference = value[0], f"{value[1]:.4g}"
                cells[tree] = "" if value is None else f"{value:.4g}"
            row = [name, part, cells["before"], cells["now"], reference]
            table.writerow(row)
            print(*row, sep="  ", flush=True)


if __name__ == "__main__":
    main()
