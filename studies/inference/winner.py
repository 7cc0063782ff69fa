"""The figure of the best of sixteen methods that are equally good.

``python -m studies.inference.winner`` writes ``studies/results/inference/winner.csv``:
how much the figure of the selected method is above the truth, before and after the
correction, and the coverage of the interval of the corrected figure. Each method is a
linear classifier on columns of its own, of equal signal, in cross-validation; a part of
the columns is shared, which correlates the methods. The truth is the mean figure of the
selected method's fitted models on new bags.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.comparison import contributions, selected
from studies.inference.__main__ import RESULTS
from studies.inference.data_sets import TRUTHS, figures, stratified

N_METHODS, N_NEW, SIZES, SHARED = 16, 2000, (30, 60, 120, 300), (0, 3)
METRICS = ("accuracy", "auroc")
COLUMNS = ["n", "shared", "metric", "sets", "truth", "bias", "corrected_bias"]
COLUMNS += ["error", "coverage"]


def simulate(n: int, shared: int, rng: Any) -> tuple[Any, Any]:
    """Return columns (methods, bags, 4), and labels of alternate classes."""
    y = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(N_METHODS, n, 4))
    X[:, :, :shared] = X[0, :, :shared]
    return X + 0.45 * y[:, None], y


def one_set(n: int, shared: int, rng: Any) -> list[list[float]]:
    """Return truth, biases and coverage for each metric."""
    X, y = simulate(n, shared, rng)
    new_X, new_y = simulate(N_NEW, shared, rng)
    fold = stratified(y, np.arange(n), rng)
    scores, models = np.empty((N_METHODS, n)), []
    for k in range(int(fold.max()) + 1):
        train, test = fold != k, fold == k
        high = X[:, train & (y == 1)].mean(axis=1)
        low = X[:, train & (y == 0)].mean(axis=1)
        w = high - low
        center = ((high + low) * w).sum(axis=1, keepdims=True) / 2.0
        scores[:, test] = np.einsum("mbd,md->mb", X[:, test], w) - center
        models.append((w, center))
    notes = []
    for metric in METRICS:
        found = {}
        for m, own in enumerate(scores):
            rows = {"truth": y, "score": own, "label": (own > 0).astype(np.int64)}
            found[str(m)] = contributions(metric, rows, np.arange(n), run=fold)
        winner = selected(found, n_resamples=500)
        m = int(winner.method)
        truths = [figures(new_y, new_X[m] @ w[m] - c[m]) for w, c in models]
        truth = float(np.mean(truths, axis=0)[TRUTHS.index(metric)])
        own = winner.corrected
        inside = own.low <= truth <= own.high
        notes.append([truth, winner.uncorrected.mean - truth, own.mean - truth, inside])
    return notes


def main() -> None:
    """Simulate all cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400, help="data sets per cell")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the file")
    args = parser.parse_args()
    rows = []
    for n in SIZES:
        for shared in SHARED:
            rng = np.random.default_rng([5_000_011, n, shared])
            notes = np.array([one_set(n, shared, rng) for _ in range(args.sets)])
            for metric, own in zip(METRICS, notes.transpose(1, 0, 2), strict=True):
                truth, bias, corrected, inside = own.mean(axis=0)
                error = own[:, 2].std() / np.sqrt(args.sets)
                values = np.round([truth, bias, corrected, error, inside], 4).tolist()
                head = (n, shared, metric, args.sets)
                rows.append(dict(zip(COLUMNS, (*head, *values), strict=True)))
            print(*rows[-2:], sep="\n", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "winner.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
