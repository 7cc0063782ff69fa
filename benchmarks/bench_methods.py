"""Every method of the catalog: time of an untuned cross-validation, and its AUROC."""

import os

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from bagwise.comparison import list_methods
from bagwise.comparison.choose import find_method
from bagwise.comparison.description import build_estimator
from bagwise.datasets import load_digit_bags, make_regression_bags

from .common import Benchmark, classic, gaussian

# Bags of digits replace the classic sets where these are not available.
DATA = ["musk1", "elephant"] if os.environ.get("BAGWISE_DATA") else ["digits"]


def _names(task):
    methods = [m for m in list_methods() if m.task == task]
    return [method.name for method in methods]


def _digits():
    return load_digit_bags(40, return_X_y=True)


def _score(model, X):
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict_proba(X)[:, 1]


class Folds(Benchmark):
    """Fits and predictions over the folds of a stratified cross-validation."""

    params = (DATA, _names("classification"))
    param_names = ("data", "method")

    def setup(self, data, method):
        """Load the data and fit once, so that compilation is not timed."""
        super().setup()
        self.X, y = classic(data) if data != "digits" else _digits()
        self.y = np.asarray(y).astype(int)
        splits = StratifiedKFold(10, shuffle=True, random_state=0)
        self.folds = list(splits.split(self.y, self.y))
        self.model = build_estimator(find_method(method).spec(), 0)
        X, y = gaussian(20, 4, 5)
        self.model.fit(X, y).predict(X)

    def _run(self):
        scores = np.empty(len(self.y))
        for train, test in self.folds:
            model = self.model.fit(self.X[train], self.y[train])
            scores[test] = _score(model, self.X[test])
        return scores

    def time_folds(self, data, method):
        """Fit and score all folds."""
        self._run()

    def track_auroc(self, data, method):
        """AUROC of the scores out of fold: a fast answer must stay a good one."""
        return roc_auc_score(self.y, self._run())

    track_auroc.unit = "AUROC"


class Regression(Benchmark):
    """Fit and predict of every regressor."""

    params = ([40, 400], _names("regression"))
    param_names = ("bags", "method")

    def setup(self, n_bags, method):
        """Simulate bags with real values, and fit once."""
        super().setup()
        self.X, self.y = make_regression_bags(n_bags, n_features=20, random_state=0)
        self.model = build_estimator(find_method(method).spec(), 0)
        self.model.fit(self.X[:20], self.y[:20]).predict(self.X[:20])

    def time_fit_and_predict(self, n_bags, method):
        """Fit all bags and predict them."""
        self.model.fit(self.X, self.y).predict(self.X)
