"""What a user without this library would do: pool bags, then a model of rows.

The estimators are bag classifiers and regressors only so that `compare` can run them on
the same folds. LightGBM and CatBoost are not among the packages of this library.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.stats import kurtosis, skew
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.bags.segments import bag_matrix
from bagwise.base import BaseBagRegressor, MulticlassBagClassifier, ProbabilityMixin
from bagwise.datasets import make_regression_bags

PACKAGES = ("lightgbm", "catboost", "six", "graphviz", "plotly")
# Number of columns of sparse rows that are pooled: those present in most bags.
COLUMNS = 2_000


def install(folder):
    """Install the other packages into a folder, once, and make them importable.

    Parameters
    ----------
    folder : path
        A folder of its own; what is installed otherwise comes first.
    """
    folder = Path(folder).resolve()
    if not (folder / "catboost").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target"]
        subprocess.run([*command, str(folder), *PACKAGES], check=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def summarize(X, summary, columns=None):
    """Return one row per bag: "mean", "statistics" or "series".

    "statistics" is mean, standard deviation, minimum, maximum, median and size;
    "series" adds quantiles, skewness, kurtosis, the mean absolute change between
    neighbors and the correlation with the position, as packages for series do.
    """
    rows = []
    for part in X:
        part = part[:, columns].toarray() if columns is not None else np.asarray(part)
        part = part.astype(np.float64)
        found = [part.mean(axis=0)]
        if summary != "mean":
            found += [part.std(axis=0), part.min(axis=0), part.max(axis=0)]
            found += [np.median(part, axis=0), [len(part)]]
        if summary == "series":
            found += list(np.quantile(part, [0.1, 0.25, 0.75, 0.9], axis=0))
            with np.errstate(all="ignore"):
                found += [np.nan_to_num(f(part, axis=0)) for f in (skew, kurtosis)]
            place = np.linspace(-1.0, 1.0, len(part)) if len(part) > 1 else [0.0]
            found += [np.abs(np.diff(part, axis=0)).sum(axis=0) / len(part)]
            found += [place @ (part - part.mean(axis=0)) / len(part)]
        rows.append(np.concatenate(found))
    return np.nan_to_num(np.stack(rows)).astype(np.float32)


def _boosting(name, kind):
    package, class_name = {
        "LightGBM": ("lightgbm", f"LGBM{kind}"),
        "CatBoost": ("catboost", f"CatBoost{kind}"),
    }[name]
    quiet = {"LightGBM": {"verbose": -1, "n_jobs": 1}}.get(
        name, {"verbose": False, "thread_count": 1, "allow_writing_files": False}
    )
    return getattr(importlib.import_module(package), class_name)(
        random_state=0, **quiet
    )


def row_model(name, task):
    """Return a model of rows with its defaults, by its name in the tables."""
    kind = "Classifier" if task == "classification" else "Regressor"
    if name in ("LightGBM", "CatBoost"):
        return _boosting(name, kind)
    found = {
        "HistGradientBoosting": (
            HistGradientBoostingClassifier(random_state=0),
            HistGradientBoostingRegressor(random_state=0),
        ),
        "ExtraTrees": (
            ExtraTreesClassifier(500, random_state=0),
            ExtraTreesRegressor(500, random_state=0),
        ),
        "linear": (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000)),
            make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))),
        ),
        "MLP": (
            make_pipeline(
                StandardScaler(),
                MLPClassifier(hidden_layer_sizes=(128, 64), alpha=1e-2, random_state=0),
            ),
            make_pipeline(
                StandardScaler(),
                MLPRegressor(hidden_layer_sizes=(128, 64), alpha=1e-2, random_state=0),
            ),
        ),
    }
    return found[name][task != "classification"]


def _common_columns(X):
    if not X.is_sparse:
        return None
    n_bags = (bag_matrix(X.offsets) @ (X.data != 0) > 0).sum(axis=0)
    return np.argsort(-np.asarray(n_bags).ravel(), kind="stable")[:COLUMNS]


class Pooled(ProbabilityMixin, MulticlassBagClassifier):
    """Pool bags, then a classifier of rows."""

    def __init__(self, model="ExtraTrees", summary="statistics"):
        self.model = model
        self.summary = summary

    _parameter_constraints: dict = {"model": [str], "summary": [str]}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit_codes(self, X, codes, weight):
        self.columns_ = _common_columns(X)
        rows = summarize(X, self.summary, self.columns_)
        self.model_ = row_model(self.model, "classification").fit(rows, codes)

    def _probabilities(self, X):
        return self.model_.predict_proba(summarize(X, self.summary, self.columns_))

    def _decide(self, X):
        p = np.clip(self._probabilities(X), 1e-12, 1.0)
        return np.log(p[:, 1]) - np.log(p[:, 0]) if p.shape[1] == 2 else np.log(p)


class PooledRegressor(BaseBagRegressor):
    """Pool bags, then a regressor of rows."""

    def __init__(self, model="ExtraTrees", summary="statistics"):
        self.model = model
        self.summary = summary

    _parameter_constraints: dict = {"model": [str], "summary": [str]}

    def _fit_bags(self, X, y, weight):
        rows = summarize(X, self.summary)
        self.model_ = row_model(self.model, "regression").fit(rows, y)

    def _predict_bags(self, X):
        return self.model_.predict(summarize(X, self.summary))


class TwoStage(ProbabilityMixin, MulticlassBagClassifier):
    """Twenty lines of LightGBM: instances, then quantiles of their scores per bag.

    Instances inherit the label of their bag; their scores are out of fold (5 folds of
    bags) in training.
    """

    _parameter_constraints: dict = {}

    def _fit_codes(self, X, codes, weight):
        fold = np.arange(len(X)) % 5
        scores = np.empty(X.n_instances)
        labels = np.repeat(codes, X.sizes)
        of_row = np.repeat(fold, X.sizes)
        for k in range(5):
            out = of_row == k
            model = row_model("LightGBM", "classification")
            model.fit(X.data[~out], labels[~out])
            scores[out] = model.predict_proba(X.data[out])[:, 1]
        self.instances_ = row_model("LightGBM", "classification").fit(X.data, labels)
        self.bags_ = row_model("LightGBM", "classification")
        self.bags_.fit(self._quantiles(scores, X), codes)

    def _quantiles(self, scores, X):
        parts = np.split(scores, X.offsets[1:-1])
        levels = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]
        return np.array([[*np.quantile(p, levels), p.mean(), len(p)] for p in parts])

    def _probabilities(self, X):
        scores = self.instances_.predict_proba(X.data)[:, 1]
        return self.bags_.predict_proba(self._quantiles(scores, X))

    def _decide(self, X):
        p = np.clip(self._probabilities(X), 1e-12, 1.0)
        return np.log(p[:, 1]) - np.log(p[:, 0])


# Simulated tasks with known structure -------------------------------------------------


def _from_rule(rule, n_bags, seed, size=15, n_features=20):
    """Return bags of normal rows, labels by the log-odds of a rule, and these."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_bags, size, n_features))
    odds = rule(rows)
    y = (rng.random(n_bags) < 1.0 / (1.0 + np.exp(-odds))).astype(int)
    offsets = np.arange(n_bags + 1) * size
    return Bags(rows.reshape(-1, n_features), offsets), y, odds


def one_decides(rows):
    """One instance in a disc of two features makes a bag positive."""
    inside = np.hypot(rows[:, :, 0] - 1.6, rows[:, :, 1] - 1.6) < 0.75
    return np.where(inside.any(axis=1), 2.4, -2.4)


def counts_decide(rows):
    """The number of instances on one side of a plane."""
    count = (rows[:, :, 2] + rows[:, :, 3] > 0.8).sum(axis=1)
    return 2.4 * (count - count.mean())


def shares_decide(rows):
    """Whether more instances are in one disc than in another."""
    near = [np.hypot(rows[:, :, 0] - c, rows[:, :, 1]) < 1.0 for c in (1.0, -1.0)]
    return 1.5 * (near[0].sum(axis=1) - near[1].sum(axis=1))


def spread_decides(rows):
    """The variance of a feature and the covariance of two, in any order."""
    both = (rows[:, :, 1] * rows[:, :, 2]).mean(axis=1)
    return 3.0 * (rows[:, :, 0].std(axis=1) - 0.95) * 2.0 + 4.0 * both


RULES = {
    "simulated: one instance": one_decides,
    "simulated: counts": counts_decide,
    "simulated: shares": shares_decide,
    "simulated: spread": spread_decides,
}


def simulated(name, n_bags=300, seed=11):
    """Return bags, labels and the true log-odds of a simulated task."""
    return _from_rule(RULES[name], n_bags, seed)


def threads(n_bags=6_000, n_words=5_000, seed=0):
    """Sparse threads of texts, 1 of 25 positive: one text has six words of a topic."""
    import scipy.sparse as sp
    from sklearn.preprocessing import normalize

    rng = np.random.default_rng(seed)
    y = (rng.random(n_bags) < 1 / 25).astype(int)
    share = 1.0 / np.arange(1, n_words + 1) ** 1.05
    sizes = rng.integers(5, 20, n_bags)
    offsets = np.r_[0, np.cumsum(sizes)]
    length = rng.integers(15, 40, offsets[-1])
    words = rng.choice(n_words, length.sum(), p=share / share.sum())
    texts = np.repeat(np.arange(offsets[-1]), length)
    topic = rng.choice(np.arange(200, 3_000), 60, replace=False)
    witness = offsets[:-1][y == 1] + rng.integers(0, sizes[y == 1])
    texts = np.r_[texts, np.repeat(witness, 6)]
    words = np.r_[words, rng.choice(topic, 6 * len(witness))]
    counts = sp.csr_matrix(
        (np.ones(len(words)), (texts, words)), shape=(offsets[-1], n_words)
    )
    counts.data = np.log1p(counts.data)
    return Bags(normalize(counts), offsets), y


def regression_tasks():
    """Return simulated regression tasks: name -> bags and values."""
    return {
        f"simulated: {kind}": make_regression_bags(150, kind=kind, random_state=12)
        for kind in ("prime", "mean", "distribution")
    }
