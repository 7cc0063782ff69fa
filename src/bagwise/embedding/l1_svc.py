"""A 1-norm support vector machine as an estimator of rows."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise._compat import _check_sample_weight
from bagwise.solvers.l1 import l1_squared_hinge


class L1SVC(ClassifierMixin, BaseEstimator):
    r"""Linear SVM with a squared hinge loss, a 1-norm and a free intercept.

    .. math:: \min_{w, b} \; |w|_1 + C \sum_i v_i \max(0, 1 - t_i (w'x_i + b))^2

    where :math:`t_i = \pm 1`, and :math:`v_i` are the weights of the rows.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    tol : float, default=1e-6
        Duality gap and residuals at the end, relative to the objective.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (1, n_features) and (1,)
        The function; most of `coef_` is zero.
    objective_ : float
        The minimum.
    n_iter_ : int
        Steps of the interior-point method.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive one.

    Notes
    -----
    Columns that are similarities to instances are so similar that coordinate descent
    is slow; an interior-point method takes 15 to 40 steps for any columns and `C`.
    A step costs O(n_rows * n_columns * min(n_rows, n_columns)).
    """

    def __init__(self, C=1.0, *, tol=1e-6):
        self.C = C
        self.tol = tol

    def fit(self, X, y, sample_weight=None):
        """Find the weights.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            The rows.
        y : ndarray of shape (n_rows,)
            Two different labels.
        sample_weight : ndarray of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        L1SVC
            The fitted classifier.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(f"L1SVC needs two classes, got {len(self.classes_)}.")
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        t = 2.0 * codes - 1.0
        w, b, self.objective_, self.n_iter_ = l1_squared_hinge(
            X, t, self.C * weight, tol=self.tol
        )
        self.coef_ = w[None, :]
        self.intercept_ = np.array([b])
        return self

    def decision_function(self, X):
        """Return w'x + b.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Positive for the second class.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        used = np.flatnonzero(self.coef_[0])
        return X[:, used] @ self.coef_[0, used] + self.intercept_[0]

    def predict(self, X):
        """Return the labels by the sign of `decision_function`.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels.
        """
        return self.classes_[(self.decision_function(X) > 0.0).astype(int)]
