"""Coverage of the intervals of the other metrics, under other protocols.

``python -m studies.inference.metrics`` writes a row for each task, metric, protocol and
number of bags to ``studies/results/inference/metrics.csv``; rows that are in the file
are kept. Linear models on Gaussian vectors, a nearest neighbor method and a tree
predict labels, values, survival times and key instances.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.tree import DecisionTreeRegressor

from bagwise.comparison import METRICS, contributions, interval
from bagwise.metrics import concordance_index
from studies.inference.__main__ import RESULTS
from studies.inference.data_sets import TRUTHS, figures, stratified
from studies.inference.learners import fold_scores

PROTOCOLS = ("5-fold", "2 x 5-fold", "leave-one-out", "test set")
SIZES = (30, 60, 120)
N_NEW = 3000
COLUMNS = ["task", "learner", "protocol", "n", "metric"]
COLUMNS += ["sets", "truth", "bias", "coverage", "width"]
Predict = Callable[[Any, Any, Any, Any], tuple[Any, Any]]


# Each task: features and truth of n bags; predictions; metrics on new bags.


def labels(n: int, rng: Any) -> tuple[Any, Any]:
    """Return two classes in five dimensions; their shares vary between samples."""
    y = (rng.random(n) < 0.5).astype(np.int64)
    return rng.normal(size=(n, 5)) + 0.5 * y[:, None], y


def values(n: int, rng: Any) -> tuple[Any, Any]:
    """Return a linear function of two of six columns with noise."""
    X = rng.normal(size=(n, 6))
    return X, X[:, 0] + X[:, 1] + rng.normal(size=n)


def times(n: int, rng: Any) -> tuple[Any, Any]:
    """Return exponential times, some of them censored."""
    X = rng.normal(size=(n, 4))
    time = rng.exponential(np.exp(-0.7 * X[:, 0] - 0.7 * X[:, 1]))
    end = rng.exponential(2.0, n)
    y = np.empty(n, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = time <= end, np.minimum(time, end)
    return X, y


def keys(n: int, rng: Any) -> tuple[Any, Any]:
    """Return bags of six instances, flattened; the first one is the key instance."""
    X = rng.normal(size=(n, 6, 4))
    y = rng.permutation(np.arange(n) % 2)
    X[:, 0, :2] += 1.2 * y[:, None]
    return X.reshape(n, 24), y


def ridge(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    """Return out-of-fold and new predictions of ridge regression."""
    return _by_fold(lambda A, b, C: _ridge(A, b, C), X, y, fold, new)


def _ridge(A: Any, b: Any, C: Any) -> Any:
    center = A.mean(axis=0)
    w = np.linalg.solve(
        (A - center).T @ (A - center) + np.eye(A.shape[1]),
        (A - center).T @ (b - b.mean()),
    )
    return (C - center) @ w + b.mean()


def five_nn(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    """Return predictions of the mean of five neighbors."""

    def predict(A: Any, b: Any, C: Any) -> Any:
        squares = (C**2).sum(1)[:, None] + (A**2).sum(1) - 2 * C @ A.T
        return b[np.argpartition(squares, 5, axis=1)[:, :5]].mean(axis=1)

    return _by_fold(predict, X, y, fold, new)


def tree(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    """Return predictions of a full tree."""
    return _by_fold(
        lambda A, b, C: DecisionTreeRegressor(random_state=0).fit(A, b).predict(C),
        *(X, y, fold, new),
    )


def _by_fold(predict: Any, X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    own, theirs = np.empty(len(y)), []
    for k in range(int(fold.max()) + 1):
        if not np.any(fold != k):
            continue
        test = fold == k
        found = predict(X[~test], y[~test], np.vstack([X[test], new]))
        own[test] = found[: test.sum()]
        theirs.append(found[test.sum() :])
    return own, np.array(theirs)


def risk(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    """Return minus the time that ridge regression predicts."""
    own, theirs = ridge(X, np.log(y["time"] + 0.01), fold, new)
    return -own, -theirs


def hits(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    """Return whether the instance with the largest score is the first one.

    Scores are projections on the difference of the class means of bag means.
    """

    def predict(A: Any, b: Any, C: Any) -> Any:
        means = A.reshape(len(A), 6, 4).mean(axis=1)
        w = means[b == 1].mean(axis=0) - means[b == 0].mean(axis=0)
        return (C.reshape(len(C), 6, 4) @ w).argmax(axis=1) == 0

    return _by_fold(predict, X, y, fold, new)


def of_labels(y: Any, own: Any) -> dict[str, float]:
    """Return figures of scores."""
    return dict(zip(TRUTHS, figures(y, own), strict=True))


def of_values(y: Any, own: Any) -> dict[str, float]:
    """Return figures of predicted values."""
    error = float(np.mean((y - own) ** 2))
    found = {"r2": 1 - error / float(np.var(y)), "rmse": error}
    rank = float(spearmanr(y, own)[0]) if np.ptp(own) > 0 else 0.0
    return found | {"mae": float(np.mean(np.abs(y - own))), "spearman": rank}


TASKS: dict[str, tuple[Any, dict[str, Predict], Any]] = {
    "labels": (
        labels,
        {
            "logistic": lambda *a: fold_scores("logistic", *a),
            "tree": lambda *a: fold_scores("tree", *a),
        },
        of_labels,
    ),
    "values": (values, {"ridge": ridge, "5-NN": five_nn, "tree": tree}, of_values),
    "survival": (
        times,
        {"ridge": risk},
        lambda y, own: {"concordance": concordance_index(y, own)},
    ),
    "key instances": (
        keys,
        {"means": hits},
        lambda y, own: {"key_success": float(np.mean(own[y == 1]))},
    ),
}


def rows_of(task: str, y: Any, own: Any) -> dict[str, Any]:
    """Return the columns that the figures of a task are made from."""
    if task == "labels":
        probability = 1.0 / (1.0 + np.exp(-own))
        label = (own > 0).astype(np.int64)
        return {"truth": y, "score": own, "label": label, "probability": probability}
    if task == "values":
        return {"truth": y, "prediction": own}
    if task == "survival":
        return {"truth": y, "score": own}
    return {"hit": np.where(y == 1, own, np.nan)}


def one_set(
    task: str, learner: str, protocol: str, n: int, rng: Any
) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield metric, truth, figure and the ends of the interval for one data set."""
    simulate, learners, judge = TASKS[task]
    predict = learners[learner]
    X, y = simulate(n, rng)
    new_X, new_y = simulate(N_NEW if task != "survival" else 800, rng)
    bag = np.arange(n)
    repeats = 2 if protocol == "2 x 5-fold" else 1
    parts = []
    for _ in range(repeats):
        if protocol == "test set":  # the first half of twice as many bags
            X2, y2 = simulate(n, rng)
            fold = np.repeat([0, 1], n)
            own, theirs = predict(np.vstack([X2, X]), np.r_[y2, y], fold, new_X)
            parts.append((y2, own[:n], np.zeros(n, dtype=np.int64), theirs[:1]))
            continue
        strata = y if task in ("labels", "key instances") else np.zeros(n, np.int64)
        fold = bag if protocol == "leave-one-out" else stratified(strata, bag, rng)
        parts.append((y, *_with_fold(predict(X, y, fold, new_X), fold)))
    runs = [own_fold + 1000 * r for r, (_, _, own_fold, _) in enumerate(parts)]
    columns = [rows_of(task, own_y, own) for own_y, own, _, _ in parts]
    whole = {c: np.concatenate([one[c] for one in columns]) for c in columns[0]}
    truths = [judge(new_y, own) for _, _, _, theirs in parts for own in theirs]
    for metric in truths[0]:
        if metric == "log_loss" and learner == "tree":
            continue
        found = contributions(
            metric,
            whole,
            np.tile(bag, repeats),
            run=np.concatenate(runs),
            repeat=np.repeat(np.arange(repeats), n),
            fixed=protocol == "test set",
        )
        about = METRICS[metric]
        ends = interval(found, low=about.low, high=about.high)
        truth = float(np.mean([one[metric] for one in truths]))
        yield metric, truth, found.value, ends.low, ends.high


def _with_fold(found: tuple[Any, Any], fold: Any) -> tuple[Any, Any, Any]:
    return found[0], fold, found[1]


def measure(
    task: str, learner: str, protocol: str, n: int, sets: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric of a cell."""
    key = [list(TASKS).index(task), list(TASKS[task][1]).index(learner)]
    rng = np.random.default_rng([4_000_037, *key, PROTOCOLS.index(protocol), n])
    notes: dict[str, list[list[float]]] = {}
    for _ in range(sets):
        for metric, truth, value, low, high in one_set(task, learner, protocol, n, rng):
            note = [truth, value - truth, low <= truth <= high, high - low]
            notes.setdefault(metric, []).append(note)
    for metric, values_ in notes.items():
        means = np.round(np.mean(values_, axis=0), 4).tolist()
        head = (task, learner, protocol, n, metric, len(values_))
        yield dict(zip(COLUMNS, (*head, *means), strict=True))


def main() -> None:
    """Simulate the cells that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=300, help="data sets per cell")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the file")
    args = parser.parse_args()
    path = args.out / "metrics.csv"
    done = set()
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            done = {tuple(row[c] for c in COLUMNS[:4]) for row in csv.DictReader(file)}
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for n in SIZES:
        for task, (_, learners, _) in TASKS.items():
            for learner in learners:
                for protocol in PROTOCOLS:
                    slow = protocol == "leave-one-out" and n > 60
                    if slow or (task, learner, protocol, str(n)) in done:
                        continue
                    rows = list(measure(task, learner, protocol, n, args.sets))
                    with path.open("a", newline="", encoding="utf-8") as file:
                        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                        writer.writerows(rows)


if __name__ == "__main__":
    main()
