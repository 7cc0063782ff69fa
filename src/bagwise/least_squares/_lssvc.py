"""Least-squares support vector classifier on plain rows."""

from numbers import Real

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise._compat import Interval, StrOptions, _check_sample_weight, _fit_context
from bagwise._sizes import check_memory
from bagwise.base.estimator import DocumentedEstimator, class_factors
from bagwise.kernels.instance import (
    instance_kernel,
    kernel_params,
    resolve_gamma,
    row_blocks,
)
from bagwise.least_squares._safe_kernel import Bordered


class LSSVC(ClassifierMixin, DocumentedEstimator):
    r"""Classify rows with a least-squares support vector machine.

    The classifier solves ([1]_)

    .. math::
        \begin{bmatrix} K + (C S)^{-1} & 1 \\ 1' & 0 \end{bmatrix}
        \begin{bmatrix} \alpha \\ b \end{bmatrix}
        = \begin{bmatrix} y \\ 0 \end{bmatrix}

    where K is the kernel matrix, :math:`C` is `C`, :math:`S` the diagonal matrix of
    sample weights and :math:`y` -1 or +1; the decision value of x is
    :math:`\sum_i \alpha_i k(x_i, x) + b`. More than two classes are one column of y
    for each class, with one factorization. It is the second stage of SKSC + LS-SVM.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared residuals.
    kernel : {"rbf", "linear", "poly", "precomputed"}, default="rbf"
        Kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Width of the kernel.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    class_weight : dict or "balanced", default=None
        Weights of the residuals by class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    dual_coef_ : ndarray of shape (n_outputs, n_samples)
        Coefficients of the training rows.
    intercept_ : ndarray of shape (n_outputs,)
        Intercepts.
    leave_one_out_decision_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision value of each training row by the model fitted without it.
    X_fit_ : array or CSR matrix
        Training rows; None with a precomputed kernel.

    Notes
    -----
    Differs from [1]_: written with residuals of targets -1 and +1, which is the same
    model; leave-one-out values follow from the inverse at no extra cost. Cost n**3.

    References
    ----------
    .. [1] Suykens, J. A. K. and Vandewalle, J., "Least squares support vector machine
       classifiers", Neural Processing Letters 9, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.least_squares import LSSVC
    >>> X = np.array([[0.0], [0.2], [1.0], [1.2]])
    >>> LSSVC().fit(X, ["no", "no", "yes", "yes"]).predict([[0.1], [1.1]])
    array(['no', 'yes'], dtype='<U3')
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"rbf", "linear", "poly", "precomputed"})],
        "gamma": [
            StrOptions({"scale", "auto", "median"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Real, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        class_weight=None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _validate(self, X, **how):
        sparse = False if self.kernel == "precomputed" else "csr"
        return validate_data(self, X, accept_sparse=sparse, dtype=np.float64, **how)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit on rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Training rows, or the kernel matrix.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the residuals; zero excludes a row.

        Returns
        -------
        self
        """
        X, y = self._validate(X, y=y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "LSSVC needs at least 2 classes, but y holds one class only: "
                f"{self.classes_[0]}."
            )
        weight = self._weights(codes, sample_weight, X)
        used = weight > 0
        K = self._training_kernel(X, weight, used)
        first = 1 if len(self.classes_) == 2 else 0
        wanted = np.arange(first, len(self.classes_))
        Y = np.where(codes[used, None] == wanted, 1.0, -1.0)
        K[np.diag_indices_from(K)] += 1.0 / (self.C * weight[used])
        bordered = Bordered(K, np.ones(len(K)))
        alpha, self.intercept_ = bordered.solve(Y, np.zeros(Y.shape[1]))
        self.dual_coef_ = np.zeros((Y.shape[1], len(y)))
        self.dual_coef_[:, used] = alpha.T
        inverse, _ = bordered.solve(np.eye(len(K)), np.zeros(len(K)))
        left_out = self._raw_decision(X)  # correct for rows with zero weight
        left_out[used] = Y - alpha / np.diag(inverse)[:, None]
        self.leave_one_out_decision_ = left_out[:, 0] if first else left_out
        return self

    def _weights(self, codes, sample_weight, X):
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError("sample_weight must not be negative.")
        if len(np.unique(codes[weight > 0])) < len(self.classes_):
            raise ValueError("a class has no row with a positive sample_weight.")
        factor = class_factors(self.class_weight, self.classes_, codes, weight)
        return weight * factor[codes]

    def _training_kernel(self, X, weight, used):
        n = int(used.sum())
        check_memory(
            8.0 * n * n, f"The kernel matrix of {n} rows", "Take a sample of the rows."
        )
        if self.kernel == "precomputed":
            if X.shape[0] != X.shape[1]:
                raise ValueError(
                    f"A precomputed kernel must be square for fit, got {X.shape}."
                )
            self.X_fit_ = self.kernel_params_ = None
            return X[np.ix_(used, used)].copy()
        self.X_fit_ = X
        self.kernel_gamma_ = 1.0
        if self.kernel != "linear":
            self.kernel_gamma_ = resolve_gamma(self.gamma, X, weight)
        self.kernel_params_ = kernel_params(self, self.kernel_gamma_)
        return instance_kernel(X[used], X[used], **self.kernel_params_)

    def decision_function(self, X):
        """Return the score of each row.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Rows, or their kernel values with the training rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive for `classes_[1]` with two classes, else one column per class.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        out = self._raw_decision(X)
        return out[:, 0] if out.shape[1] == 1 else out

    def _raw_decision(self, X):
        if self.kernel_params_ is None:
            return X @ self.dual_coef_.T + self.intercept_
        out = np.empty((X.shape[0], self.dual_coef_.shape[0]))
        for block in row_blocks(X.shape[0], 8.0 * self.X_fit_.shape[0]):
            K = instance_kernel(X[block], self.X_fit_, **self.kernel_params_)
            out[block] = K @ self.dual_coef_.T + self.intercept_
        return out

    def predict(self, X):
        """Predict the label of each row.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Rows, or their kernel values with the training rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]
