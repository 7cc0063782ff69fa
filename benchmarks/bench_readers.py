"""Reading tables: what bags cost beyond what pandas needs for the same file."""

import gzip
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
    piece (0).
    """
    n_slides, n_rows, width = (8 if quick else 30), 10_000, 1024
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, width)).astype(np.float16)
    features = Path(folder) / f"features{chunk}"
    features.mkdir()
    files = [features / f"s{i:03d}.h5" for i in range(n_slides)]
    for path in files:
        with h5py.File(path, "w") as file:
            more = {"chunks": (chunk, width)} if chunk else {}
            file.create_dataset("features", data=rows, **more)
            file["coords"] = np.zeros((n_rows, 2), dtype=np.int32)

    def alone():
        # Kept, as whoever reads them wants to have them.
        kept = []
        for path in files:
            with h5py.File(path, "r") as file:
                kept.append(file["features"][:])
        return kept

    caches = iter(range(10))

    def afresh():
        read_bags(features, cache=features.with_name(f"cache{chunk}-{next(caches)}"))

    def again():
        read_bags(features, cache=features.with_name(f"cache{chunk}-0"))

    base, memory = cpu(alone, 3), cpu(lambda: read_bags(features, cache=False), 3)
    first, later = cpu(afresh, 3), cpu(again, 3)
    show(
        f"{n_slides} slides, {n_slides * rows.nbytes / 1e6:.0f} MB of half precision, "
        + (f"chunks of {chunk} rows" if chunk else "in one piece"),
        [
            ("the h5 rows alone", f"{base:.2f} s", ""),
            ("read_bags, in memory / rows alone", f"{memory / base:.2f}x", "<= 1.5x"),
            ("read_bags, into a cache / rows alone", f"{first / base:.2f}x", "<= 1.5x"),
            ("read_bags, from the cache / rows alone", f"{later / base:.2f}x", ""),
        ],
    )


def main():
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        csv(folder, quick)
        slides(folder, quick, 0)
        slides(folder, quick, 256)


if __name__ == "__main__":
    main()
