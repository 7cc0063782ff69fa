"""Five learners from stable to unstable, fast enough for many small data sets.

`fold_scores` fits one model per fold and returns the scores of the bags that were left
out, and those of all models on new bags. Scores are positive for the positive class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

Fold = Callable[[Any, Any, Any, Any], tuple[Any, Any]]


def fold_scores(
    learner: str, X: Any, y: Any, fold: Any, new: Any | None
) -> tuple[Any, Any]:
    """Return out-of-fold scores of bags, and scores of new bags by every model.

    Parameters
    ----------
    learner : str
        A name of `LEARNERS`.
    X, y, fold : ndarray
        Features, labels and number of the fold of the bags.
    new : ndarray or None
        Features of new bags.
    """
    new = X[:0] if new is None else new
    return LEARNERS[learner](X, y, fold, new)


def _logistic(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    w = _newton(X, y.astype(np.float64), fold, fold.max() + 1)
    scores = X @ w[:, :-1].T + w[:, -1]
    return scores[np.arange(len(y)), fold], w[:, :-1] @ new.T + w[:, -1:]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _newton(X: Any, y: Any, fold: Any, n_folds: int) -> Any:
    """Logistic regression with the penalty of scikit-learn's C = 1, for every fold."""
    n, d = X.shape
    models = np.zeros((n_folds, d + 1))
    for k in range(n_folds):
        w = np.zeros(d + 1)
        for _ in range(12):
            H = np.zeros((d + 1, d + 1))
            g = np.zeros(d + 1)
            for j in range(d):
                H[j, j] = 1.0
                g[j] = w[j]
            H[d, d] = 1e-9
            for i in range(n):
                if fold[i] == k:
                    continue
                z = w[d]
                for j in range(d):
                    z += w[j] * X[i, j]
                p = 1.0 / (1.0 + np.exp(-z))
                v = p * (1.0 - p)
                for a in range(d):
                    g[a] += (p - y[i]) * X[i, a]
                    for b in range(a + 1):
                        H[a, b] += v * X[i, a] * X[i, b]
                    H[d, a] += v * X[i, a]
                g[d] += p - y[i]
                H[d, d] += v
            for a in range(d + 1):
                for b in range(a):
                    H[b, a] = H[a, b]
            step = np.linalg.solve(H, g)
            size = np.sqrt(np.sum(step**2))
            w -= step * min(1.0, 3.0 / max(size, 1e-12))
            if size < 1e-6:
                break
        models[k] = w
    return models


def _svc(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    gamma = 1.0 / (X.shape[1] * X.var())
    K, K_new = _gauss(X, X, gamma), _gauss(new, X, gamma)
    n_folds = fold.max() + 1
    weights, constants = np.zeros((n_folds, len(y))), np.zeros(n_folds)
    for k in range(n_folds):
        at = np.flatnonzero(fold != k)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            model = SVC(kernel="precomputed").fit(K[np.ix_(at, at)], y[at])
        weights[k, at[model.support_]] = model.dual_coef_[0]
        constants[k] = model.intercept_[0]
    scores = K @ weights.T + constants
    own = weights.astype(np.float32) @ K_new.T + constants[:, None]
    return scores[np.arange(len(y)), fold], own


def _gauss(A: Any, B: Any, gamma: float) -> Any:
    A, B = A.astype(np.float32), B.astype(np.float32)
    squares = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * (A @ B.T)
    return np.exp(-np.float32(gamma) * np.maximum(squares, 0))


def _neighbors(k: int) -> Fold:
    def scores(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
        n_folds = fold.max() + 1
        own = _nearest(X, X, y, fold, n_folds, k)[fold, np.arange(len(y))]
        return own, _nearest(new, X, y, fold, n_folds, k)

    return scores


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _nearest(new: Any, X: Any, y: Any, fold: Any, n_folds: int, k: int) -> Any:
    """Return the share of positives among `k` neighbors in other folds, minus 0.5."""
    columns = np.ascontiguousarray(X.T)
    shares = np.empty((n_folds, len(new)))
    far = np.empty((n_folds, k))
    label = np.empty((n_folds, k))
    distance = np.empty(len(X))
    for i in range(len(new)):
        distance[:] = 0.0
        for a in range(X.shape[1]):
            for j in range(len(X)):
                distance[j] += (new[i, a] - columns[a, j]) ** 2
        far[:] = np.inf
        label[:] = 0.5
        worst = np.inf
        for j in range(len(X)):
            if distance[j] >= worst:
                continue
            for f in range(n_folds):
                if f == fold[j] or distance[j] >= far[f, k - 1]:
                    continue
                at = k - 1
                while at > 0 and far[f, at - 1] > distance[j]:
                    far[f, at], label[f, at] = far[f, at - 1], label[f, at - 1]
                    at -= 1
                far[f, at], label[f, at] = distance[j], y[j]
            worst = far[:, k - 1].max()
        for f in range(n_folds):
            shares[f, i] = label[f].mean() - 0.5
    return shares


def _tree(X: Any, y: Any, fold: Any, new: Any) -> tuple[Any, Any]:
    """Full trees; squared errors of two labels are the Gini impurity."""
    X, new = X.astype(np.float32), np.ascontiguousarray(new, dtype=np.float32)
    own, theirs = np.empty(len(y)), np.empty((fold.max() + 1, len(new)))
    target = y.astype(np.float64)
    for k in range(fold.max() + 1):
        test = fold == k
        model = DecisionTreeRegressor(random_state=k)
        with config_context(skip_parameter_validation=True):
            model.fit(X[~test], target[~test], check_input=False)
        own[test] = model.tree_.predict(X[test]).ravel() - 0.5
        if len(new):
            theirs[k] = model.tree_.predict(new).ravel() - 0.5
    return own, theirs


LEARNERS: dict[str, Fold] = {
    "logistic": _logistic,
    "SVC": _svc,
    "5-NN": _neighbors(5),
    "1-NN": _neighbors(1),
    "tree": _tree,
}


def check_logistic(X: Any, y: Any, fold: Any) -> float:
    """Return the largest difference from scikit-learn's logistic regression."""
    own = fold_scores("logistic", X, y, fold, None)[0]
    other = np.empty(len(y))
    for k in range(fold.max() + 1):
        model = LogisticRegression(tol=1e-10).fit(X[fold != k], y[fold != k])
        other[fold == k] = model.decision_function(X[fold == k])
    return float(np.abs(own - other).max())
