"""Models whose explanations are known exactly."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from bagwise.bags import Ragged, as_bags
from bagwise.bags.segments import segment_max, segment_mean, segment_sum

POOL = {"max": segment_max, "mean": segment_mean, "sum": segment_sum}


class Pooled(ClassifierMixin, BaseEstimator):
    """Instance scores w'x (or a table of columns), pooled; nothing is learned."""

    def __init__(self, pooling="max", shift=0.0, classes=(0, 1), native=True):
        self.pooling = pooling
        self.shift = shift
        self.classes = classes
        self.native = native

    def fit(self, X, y=None):
        X = as_bags(X)
        self.classes_ = np.array(self.classes)
        k = len(self.classes_)
        rng = np.random.default_rng(1)
        shape = (X.n_features,) if k == 2 else (X.n_features, k)
        self.coef_ = rng.standard_normal(shape)
        if self.native:
            self.instance_scores = self._instance_scores
        self.calls = 0
        return self

    def _instance_scores(self, X):
        X = as_bags(X)
        return Ragged(X.data @ self.coef_, X.offsets)

    def decision_function(self, X):
        X = as_bags(X)
        self.calls += 1
        return POOL[self.pooling](X.data @ self.coef_, X.offsets) - self.shift

    def predict(self, X):
        f = self.decision_function(X)
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]


class PooledRegressor(RegressorMixin, BaseEstimator):
    """Predicts the mean of w'x."""

    def fit(self, X, y=None):
        X = as_bags(X)
        self.coef_ = np.random.default_rng(2).standard_normal(X.n_features)
        return self

    def predict(self, X):
        X = as_bags(X)
        return segment_mean(X.data @ self.coef_, X.offsets)
