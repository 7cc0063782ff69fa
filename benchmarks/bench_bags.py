"""Slicing and segment reductions, as ratios to what NumPy itself needs."""

import sys

import numpy as np
from _timing import best_of, show

from bagwise import Bags
from bagwise.bags.segments import segment_max


def slicing(quick):
    n_bags, size, width = (1000 if quick else 5000), 20, 166
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_bags * size, width))
    X = Bags(rows, np.arange(0, n_bags * size + 1, size))
    chosen = np.sort(rng.permutation(n_bags)[: int(0.8 * n_bags)])
    index = np.flatnonzero(np.isin(X.bag_index, chosen))
    ours = best_of(lambda: X[chosen])
    numpy = best_of(lambda: rows[index])
    view = best_of(lambda: X[: int(0.8 * n_bags)])
    show(
        f"80% of {n_bags} bags, {rows.nbytes / 1e6:.0f} MB",
        [
            (
                "Bags[index] / NumPy fancy indexing",
                f"{ours / numpy:.2f}x",
                "at most 1.5x",
            ),
            ("Bags[a:b] (a view)", f"{view * 1e6:.0f} us", ""),
        ],
    )


def reductions(quick):
    rows = []
    for n_bags, size in ((100, 5), (5000, 20), (100_000 if not quick else 10_000, 5)):
        offsets = np.arange(0, n_bags * size + 1, size)
        values = np.random.default_rng(0).normal(size=n_bags * size)
        segment_max(values, offsets)  # loads the compiled loop
        ours = best_of(lambda v=values, o=offsets: segment_max(v, o), 20)
        numpy = best_of(lambda v=values, o=offsets: np.maximum.reduceat(v, o[:-1]), 20)
        rows.append(
            (
                f"max, {n_bags} bags of {size}: ours / reduceat",
                f"{ours / numpy:.2f}x",
                "",
            )
        )
    show("Segment reductions", rows)


def main():
    quick = "--quick" in sys.argv
    slicing(quick)
    reductions(quick)


if __name__ == "__main__":
    main()
