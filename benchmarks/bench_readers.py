"""Reading tables and folders: what bags cost beyond reading the same numbers alone.

    python benchmarks/bench_readers.py [--quick] [--slides]

With ``--slides`` folders of slides only.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from _timing import best_of, show

from bagwise.io import from_frame, read_bags


def cpu(function, repeats=3):
    """Return the shortest processor time: other work on the machine does not count."""
    return best_of(function, repeats, clock=time.process_time)


def write_table(folder, n_rows, n_columns, *, holes=0.0):
    """Write rows of 17-digit numbers with a text bag and a label; return the file."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, n_columns))
    rows[rng.random(rows.shape) < holes] = np.nan
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(n_columns)])
    bag = np.arange(n_rows) // 20
    frame.insert(0, "mol", [f"mol{b}" for b in bag])
    frame.insert(1, "active", bag % 2)
    path = Path(folder) / f"table{holes:g}.csv"
    frame.to_csv(path, index=False)
    return path


def csv(folder, quick):
    n_rows = 6_000 if quick else 60_000
    path = write_table(folder, n_rows, 50)
    size = path.stat().st_size / 1e6
    pandas = cpu(lambda: pd.read_csv(path), 3)
    table = pd.read_csv(path)
    frame = cpu(lambda: from_frame(table, "mol", "active"), 3)
    ours = cpu(lambda: read_bags(path, "mol", "active"), 3)
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    gz = cpu(lambda: read_bags(packed, "mol", "active"), 2)
    gaps = write_table(folder, n_rows, 50, holes=0.01)
    keep = cpu(lambda: read_bags(gaps, "mol", "active", missing="keep"), 2)
    show(
        f"{size:.0f} MB of CSV, {n_rows} rows",
        [
            ("pandas.read_csv", f"{pandas:.2f} s", ""),
            ("from_frame on that table", f"{frame:.2f} s", ""),
            ("read_bags", f"{ours:.2f} s", ""),
            ("read_bags beyond pandas", f"{ours - pandas:.2f} s", "at most 2 s"),
            ("read_bags / pandas", f"{ours / pandas:.1f}x", ""),
            ("the same, .csv.gz", f"{gz:.2f} s", ""),
            ("the same, 1% of the cells empty", f"{keep:.2f} s", ""),
        ],
    )


def slides(folder, quick, chunk):
    """A folder of h5 files: against reading their rows and nothing else.

    Rows lie in chunks of some rows, as tools write them that add to a file, or in one
    piece (0). Whoever opens a folder does so once: every reading has a process of its
    own, as memory that a process has used before comes at a fraction of the price. In
    every round all ways take their turn; the best of all rounds counts.
    """
    n_slides, n_rows, width = (8 if quick else 30), 10_000, 1024
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, width)).astype(np.float16)
    features = Path(folder) / f"features{chunk}"
    for name, shown, count in (("warm", rows[:64], 1), (".", rows, n_slides)):
        (features / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            with h5py.File(features / name / f"s{i:03d}.h5", "w") as file:
                more = {"chunks": (min(chunk, len(shown)), width)} if chunk else {}
                file.create_dataset("features", data=shown, **more)
                file["coords"] = np.zeros((len(shown), 2), dtype=np.int32)
    rounds = [
        {way: in_own_process(way, features) for way in WAYS}
        for _ in range(5 if quick else 9)
    ]
    best = {way: min(r[way]["processor"] for r in rounds) for way in WAYS}
    base = best["alone"]
    lines = [("the h5 rows alone", f"{base:.2f} s", "")]
    for way, told in WAYS.items():
        if way == "alone":
            continue
        bar = "" if way == "cached" else "<= 1.5x"
        lines.append((f"{told} / rows alone", f"{best[way] / base:.2f}x", bar))
    for way, told in WAYS.items():
        held = np.median([r[way]["bytes"] for r in rounds]) / (n_slides * rows.nbytes)
        lines.append((f"memory: {told} / bytes of the rows", f"{held:.2f}x", ""))
    show(
        f"{n_slides} slides, {n_slides * rows.nbytes / 1e6:.0f} MB of half precision, "
        + (f"chunks of {chunk} rows" if chunk else "in one piece"),
        lines,
    )


WAYS = {
    "alone": "the h5 rows alone",
    "memory": "read_bags, in memory",
    "afresh": "read_bags, into a cache",
    "cached": "read_bags, from the cache",
}


def in_own_process(way, features):
    """Read a folder in a process of its own; return what it took."""
    command = [sys.executable, __file__, "--one", way, str(features)]
    # Large pages are there or are not, as the machine has it: neither way gets any.
    plain = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=plain
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def one(way, features):
    """Read in this process; print processor time and the rise of private memory."""
    cache = features.with_name(features.name + "-cache")
    if way == "afresh":
        shutil.rmtree(cache, ignore_errors=True)
    files = sorted(features.glob("*.h5"))

    def alone(files):
        # Kept, as whoever reads them wants to have them.
        kept = []
        for path in files:
            with h5py.File(path, "r") as file:
                kept.append(file["features"][:])
        return kept

    alone([features / "warm" / "s000.h5"])  # imports and compiled loops
    read_bags(features / "warm", cache=features.with_name("warm-cache"))
    before, started = private_bytes(), time.process_time()
    if way == "alone":
        kept = alone(files)
    else:
        kept = read_bags(features, cache=False if way == "memory" else cache)
    processor, after = time.process_time() - started, private_bytes()
    assert len(kept)
    print(json.dumps({"processor": processor, "bytes": after - before}))


def private_bytes():
    """Return the private memory of this process, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0


def main():
    if "--one" in sys.argv:
        one(sys.argv[2], Path(sys.argv[3]))
        return
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        if "--slides" not in sys.argv:
            csv(folder, quick)
        slides(folder, quick, 0)
        slides(folder, quick, 256)


if __name__ == "__main__":
    main()
