"""Probabilities of classes, for the classifiers that have them."""

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted


class ProbabilityMixin:
    """Adds `predict_proba` to a method that has a probability.

    A two-class method writes ``_positive_probability(X)``; any other
    ``_probabilities(X)``, a column per class (of two, the positive one comes second).
    Where a two-class method has a `threshold`, its scores are log-odds, which are moved
    by the cut: a bag at the cut has probability one half.
    """

    def predict_proba(self, X):
        """Return the probability of each class for each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_classes)
            Rows sum to one; with more than two classes the one-vs-rest
            probabilities are divided by their sum.
        """
        check_is_fitted(self)
        columns = self._probabilities(self._check_bags(X, reset=False))
        return columns[:, ::-1] if self._turned else columns

    def _probabilities(self, X):
        columns = [
            one._moved_probability(X)
            if getattr(one, "threshold_", 0.0)
            else one._positive_probability(X)
            for one in self._parts()
        ]
        if len(columns) == 1:
            return np.column_stack([1.0 - columns[0], columns[0]])
        raw = np.column_stack(columns)
        total = raw.sum(axis=1, keepdims=True)
        flat = np.full_like(raw, 1.0 / raw.shape[1])
        return np.divide(raw, total, out=flat, where=total > 0)

    def _moved_probability(self, X):
        return expit(self._score_bags(X) - self.threshold_)
