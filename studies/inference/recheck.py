"""The same questions with other settings: generators, class ratio, learners, folds.

``python -m studies.inference.recheck`` writes ``studies/results/inference/recheck.csv``
with a row for each cell and metric; cells that are in the file are kept. Nothing of it
was used to choose the estimator. Bags have 6 to 14 instances and become vectors by
mean, standard deviation and minimum. Three of ten bags are positive, and there are
ten folds. Some cells have no signal, some are almost separable, and some have groups of
four bags. As in the study, a second method sees other features that are as good, and a
third one sees those of the first with noise.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from bagwise.comparison import difference, interval
from studies.inference.__main__ import RESULTS
from studies.inference.cells import figure
from studies.inference.data_sets import TRUTHS, DataSet, figures, stratified

SEED, N_SPLITS, RATIO, N_NEW = 6_000_011, 10, 0.3, 2500
METRICS = ("accuracy", "auroc", "balanced_accuracy", "average_precision")
SHIFTS = {"mixture": 1.1, "no signal": 0.0, "almost separable": 4.5, "clinics": 1.2}
LEARNERS = {
    "LDA": LinearDiscriminantAnalysis(),
    "naive Bayes": GaussianNB(),
    "3-NN": KNeighborsClassifier(3),
    "forest": ExtraTreesClassifier(10, random_state=0),
}
CELLS = [
    *(("mixture", name, n) for n in (40, 100, 250) for name in list(LEARNERS)[:3]),
    ("mixture", "forest", 100),
    *(("no signal", name, 60) for name in ("LDA", "3-NN")),
    *(("almost separable", name, n) for n in (40, 100) for name in ("LDA", "3-NN")),
    *(("clinics", name, n) for n in (80, 200) for name in ("LDA", "naive Bayes")),
]
COLUMNS = ["generator", "learner", "n", "metric", "sets"]
COLUMNS += ["truth", "bias", "coverage", "width", "size", "power"]


def simulate(kind: str, n: int, rng: Any) -> tuple[Any, Any, Any]:
    """Return features (two halves, bags, columns), labels and groups of bags."""
    groups = np.arange(n) // (4 if kind == "clinics" else 1)
    y = (rng.random(groups[-1] + 1) < RATIO).astype(np.int64)[groups]
    size = rng.integers(6, 15, n)
    halves = []
    for _ in range(2):
        X = rng.laplace(size=(n, 14, 2))
        if kind == "clinics":
            X += 0.7 * rng.normal(size=(groups[-1] + 1, 1, 2))[groups]
        concept = rng.random((n, 14)) < 0.5 * y[:, None]
        X += SHIFTS[kind] * concept[:, :, None]
        X[np.arange(14) >= size[:, None]] = np.nan
        parts = (np.nanmean(X, 1), np.nanstd(X, 1), np.nanmin(X, 1))
        halves.append(np.hstack(parts))
    return np.stack(halves), y, groups


def data_set(kind: str, learner: str, n: int, rng: Any) -> DataSet | None:
    """Return out-of-fold scores of three methods, and the truth about the first."""
    X, y, groups = simulate(kind, n, rng)
    new_X, new_y, _ = simulate(kind, N_NEW, rng)
    _, first = np.unique(groups, return_index=True)
    n_splits = min(N_SPLITS, *np.bincount(y[first], minlength=2))
    if n_splits < 2:
        return None
    fold = stratified(y, groups, rng, n_splits)
    noisy = X[0] + 0.8 * X[0].std(axis=0) * rng.normal(size=X[0].shape)
    scores, truth = np.empty((3, 1, n)), []
    for k in range(n_splits):
        test = fold == k
        for method, own in enumerate((X[0], X[1], noisy)):
            model = clone(LEARNERS[learner]).fit(own[~test], y[~test])
            scores[method, 0, test] = model.predict_proba(own[test])[:, 1] - 0.5
            if method == 0:
                truth.append(figures(new_y, model.predict_proba(new_X[0])[:, 1] - 0.5))
    own_groups = groups if kind == "clinics" else None
    return DataSet(y, own_groups, fold[None], scores, np.mean(truth, axis=0)[None])


def measure(kind: str, learner: str, n: int, sets: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric of a cell."""
    rng = np.random.default_rng([SEED, CELLS.index((kind, learner, n))])
    notes: dict[str, list[list[float]]] = {metric: [] for metric in METRICS}
    for _ in range(sets):
        found = data_set(kind, learner, n, rng)
        if found is None:
            continue
        for metric, own in notes.items():
            first, *others = (figure(found, metric, method, 1) for method in range(3))
            ends = interval(first)
            truth = float(found.truth[0, TRUTHS.index(metric)])
            tests = [difference(first, other).p < 0.05 for other in others]
            inside = ends.low <= truth <= ends.high
            width = ends.high - ends.low
            own.append([truth, first.value - truth, inside, width, *tests])
    for metric, own in notes.items():
        head = (kind, learner, n, metric, len(own))
        means = np.round(np.mean(own, axis=0), 4).tolist()
        yield dict(zip(COLUMNS, (*head, *means), strict=True))


def main() -> None:
    """Simulate the cells that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200, help="data sets per cell")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the file")
    args = parser.parse_args()
    path = args.out / "recheck.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with path.open(encoding="utf-8", newline="") as file:
        done = {tuple(row[c] for c in COLUMNS[:3]) for row in csv.DictReader(file)}
    for kind, learner, n in CELLS:
        if (kind, learner, str(n)) not in done:
            rows = list(measure(kind, learner, n, args.sets))
            with path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
