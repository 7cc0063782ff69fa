"""Measure coverage, width, size and power on simulated bags.

``python -m studies.inference --sets 200`` writes one row per cell (generator, learner,
number of bags) to ``studies/results/inference/cells.csv``; cells that are in the file
are not simulated again. None of these generators was used to choose the constants.

The truth of an interval is the mean figure of the fitted models on 4,000 new bags. Two
methods see one half of the features each; the halves are equally good, so that every
rejection is an error, and power is that of a learner against itself with its scores
partly replaced by noise.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from bagwise.comparison import contributions, difference, interval

RESULTS = Path(__file__).parents[1] / "results" / "inference" / "cells.csv"
LEARNERS = {
    "logistic": LogisticRegression,
    "SVC": SVC,
    "5-NN": lambda: KNeighborsClassifier(5),
    "1-NN": lambda: KNeighborsClassifier(1),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
}
GENERATORS = ("witness", "counts", "shift", "digits", "1:9", "groups")
SIZES = (30, 60, 120, 300)
METRICS = ("accuracy", "auroc")
N_NEW, N_SPLITS, BAG = 4000, 5, 6
COLUMNS = [
    *("generator", "learner", "n", "metric", "sets", "truth"),
    *("coverage", "coverage_before", "width", "width_before"),
    *("size", "size_before", "power", "power_before"),
]


def simulate(kind: str, n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return features of bags in two equally good halves, labels and groups."""
    ratio = 0.1 if kind == "1:9" else 0.5
    groups = np.arange(n) // (3 if kind == "groups" else 1)
    y = (rng.random(groups.max() + 1) < ratio).astype(int)[groups]
    halves = []
    for _ in range(2):
        if kind == "digits":
            halves.append(_digits(y, rng))
            continue
        X = rng.normal(size=(n, BAG, 3))
        if kind == "groups":
            X += 0.7 * rng.normal(size=(groups.max() + 1, 1, 3))[groups]
        if kind in ("witness", "groups", "1:9"):
            X[:, 0] += 2.5 * y[:, None]
        elif kind == "counts":
            count = np.where(y == 1, 4, 2)
            X += 2.0 * (np.arange(BAG) < count[:, None])[:, :, None]
        else:
            X += 0.45 * y[:, None, None]
        halves.append(np.hstack([X.mean(axis=1), X.max(axis=1)]))
    return np.stack(halves), y, groups


def _digits(y: Any, rng: np.random.Generator) -> Any:
    """Return maxima of digit images: a positive bag holds a nine."""
    images, digit = load_digits(return_X_y=True)
    nines, others = np.flatnonzero(digit == 9), np.flatnonzero(digit != 9)
    chosen = rng.choice(others, (len(y), BAG))
    chosen[y == 1, 0] = rng.choice(nines, int(y.sum()))
    return images[chosen][:, :, 2:-2:4].max(axis=1)


def folds(y: Any, groups: Any, rng: np.random.Generator) -> Any:
    """Return the number of the fold of every bag; groups stay together."""
    _, first = np.unique(groups, return_index=True)
    own = np.empty(len(first), dtype=int)
    for label in (0, 1):
        at = rng.permutation(np.flatnonzero(y[first] == label))
        own[at] = np.arange(len(at)) % N_SPLITS
    return own[groups]


def measure(kind: str, learner: str, n: int, sets: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric of one cell."""
    key = [GENERATORS.index(kind), list(LEARNERS).index(learner), n]
    rng = np.random.default_rng(key)
    new_X, new_y, _ = simulate(kind, N_NEW, rng)
    notes: dict[str, list[list[float]]] = {metric: [] for metric in METRICS}
    for _ in range(sets):
        X, y, groups = simulate(kind, n, rng)
        run = folds(y, groups, rng)
        if min(np.bincount(run[y == 1], minlength=N_SPLITS).min(), np.sum(y == 0)) < 1:
            continue  # a fold without positive bags: too few of them
        scores, truths = np.empty((3, n)), []
        for half in range(2):
            truth = []
            for k in range(N_SPLITS):
                model = make_pipeline(StandardScaler(), LEARNERS[learner]())
                model.fit(X[half][run != k], y[run != k])
                scores[half][run == k] = score(model, X[half][run == k])
                truth.append(figures(new_y, score(model, new_X[half])))
            truths.append(np.mean(truth, axis=0))
        blurred = rng.random(n) < 0.3
        scores[2] = np.where(blurred, rng.permutation(scores[0]), scores[0])
        for m, metric in enumerate(METRICS):
            own = groups if kind == "groups" else None
            notes[metric].append(one(metric, y, scores, run, own, truths[0][m]))
    for metric, rows in notes.items():
        if rows:
            means = np.mean(rows, axis=0).round(4)
            head = (kind, learner, n, metric, len(rows))
            yield dict(zip(COLUMNS, (*head, *means), strict=True))


def score(model: Any, X: Any) -> Any:
    """Return scores that are positive for the positive class."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict_proba(X)[:, 1] - 0.5


def figures(y: Any, scores: Any) -> list[float]:
    """Return accuracy and area under the ROC curve on new bags."""
    ranks = stats.rankdata(scores)
    m = y.sum()
    area = (ranks[y == 1].sum() - m * (m + 1) / 2) / (m * (len(y) - m))
    return [float(np.mean((scores > 0) == y)), float(area)]


def one(
    metric: str, y: Any, scores: Any, run: Any, groups: Any, truth: float
) -> list[float]:
    """Return what is noted about one data set."""
    found, by_fold = [], []
    for own in scores:
        rows = {"truth": y, "label": (own > 0).astype(int), "score": own}
        bags = np.arange(len(y))
        found.append(contributions(metric, rows, bags, run=run, groups=groups))
        each = [figures(y[run == k], own[run == k]) for k in np.unique(run)]
        by_fold.append(np.array(each)[:, METRICS.index(metric)])
    now, before = interval(found[0]), corrected(by_fold[0])
    tests = [difference(found[0], found[k]).p < 0.05 for k in (1, 2)]
    old = [
        abs(c[0]) > c[1] for c in (corrected(by_fold[0] - by_fold[k]) for k in (1, 2))
    ]
    ends = np.clip([before[0] - before[1], before[0] + before[1]], 0, 1)
    return [
        truth,
        now.low <= truth <= now.high,
        ends[0] <= truth <= ends[1],
        now.high - now.low,
        ends[1] - ends[0],
        *(tests[0], old[0], tests[1], old[1]),
    ]


def corrected(values: Any) -> tuple[float, float]:
    """Return mean and half width of the corrected t interval (Nadeau, Bengio 2003)."""
    share = 1 / len(values) + 1 / (N_SPLITS - 1)
    error = np.sqrt(share * np.var(values, ddof=1))
    return float(np.mean(values)), float(stats.t.ppf(0.975, len(values) - 1) * error)


def main() -> None:
    """Simulate the cells that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=40, help="data sets per cell")
    sets = parser.parse_args().sets
    done = set()
    if RESULTS.exists():
        with RESULTS.open(encoding="utf-8") as file:
            done = {
                (r["generator"], r["learner"], int(r["n"]))
                for r in csv.DictReader(file)
            }
    else:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for n in SIZES:
        for kind in GENERATORS:
            for learner in LEARNERS:
                if (kind, learner, n) in done:
                    continue
                found = list(measure(kind, learner, n, sets))
                with RESULTS.open("a", newline="", encoding="utf-8") as file:
                    csv.DictWriter(file, COLUMNS).writerows(found)


if __name__ == "__main__":
    main()
