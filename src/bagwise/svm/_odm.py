"""Optimal margin distribution machine for single instances."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise._compat import Interval, StrOptions, _check_sample_weight, _fit_context
from bagwise._sizes import check_memory
from bagwise.base.estimator import DocumentedEstimator
from bagwise.kernels.instance import (
    INSTANCE_KERNELS,
    instance_kernel,
    kernel_params,
    resolve_gamma,
    row_blocks,
)
from bagwise.solvers.margin_distribution import (
    FeatureRows,
    KernelRows,
    OdmLoss,
    scaled_rows,
    solve_odm,
    with_constant,
)


class ODM(ClassifierMixin, DocumentedEstimator):
    r"""Optimal margin distribution machine on plain 2-D data.

    Instead of the smallest margin, all margins :math:`m_i = y_i\langle w,
    \phi(x_i)\rangle` are penalized outside of a zone around one ([1]_)

    .. math::
        \min_w \tfrac12\|w\|^2 + \frac{\lambda}{n}\sum_{i=1}^n
        \frac{(1-\theta-m_i)_+^2 + \nu(m_i-1-\theta)_+^2}{(1-\theta)^2}

    where :math:`\lambda` is `lambda_`, :math:`\theta` is `theta`, :math:`\nu` is `nu`
    and :math:`\phi` is the feature map of `kernel`, plus one with `fit_intercept`. More
    than two classes are fitted one-vs-rest.

    Parameters
    ----------
    lambda_ : float, default=100.0
        Weight of the mean loss.
    theta : float, default=0.2
        Half width of the zone without loss, in [0, 1).
    nu : float, default=0.5
        Weight of margins above the zone, in [0, 1].
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Kernel; "linear" is solved in the primal.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Width of the kernel.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    fit_intercept : bool, default=True
        Whether one is added to the kernel, which gives a regularized intercept.
    class_weight : dict or "balanced", default=None
        Factors on the loss of each class.
    tol : float, default=1e-10
        Accepted duality gap relative to the objective; usually the solver ends at an
        exact optimum instead.
    max_iter : int, default=200
        Maximum number of Newton steps per class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen in `fit`.
    coef_ : ndarray of shape (n_outputs, n_features)
        Weight vectors, with the linear kernel; one output for two classes, else one
        for each class.
    dual_coef_ : ndarray of shape (n_outputs, n_support)
        Expansion in kernel values, with the other kernels.
    support_ : ndarray of shape (n_support,)
        Rows of the training data in the expansion.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    intercept_ : ndarray of shape (n_outputs,)
        Constant part of the scores.
    objective_, duality_gap_ : ndarray of shape (n_outputs,)
        Value and gap of the solved problems.
    n_iter_ : int
        Largest number of Newton steps.

    See Also
    --------
    MIODM : The same loss for bags.

    Notes
    -----
    Differs from [1]_: no unregularized intercept, and a semismooth Newton method
    with exact line search instead of coordinate descent: it ends at the optimum after
    finitely many steps, each of which factorizes a system as large as the number of
    rows with loss (kernels), or the smaller of that and the number of features
    (linear). Kernels need ``16 * n_samples**2`` bytes; with the linear kernel memory
    is linear in the data, and conjugate gradients take over when rows and features
    are both above 6,000.

    References
    ----------
    .. [1] Zhang, T. and Zhou, Z.-H., "Optimal Margin Distribution Machine", IEEE
       Transactions on Knowledge and Data Engineering, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bagwise.svm import ODM
    >>> X, y = load_iris(return_X_y=True)
    >>> ODM(gamma="auto").fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: dict = {
        "lambda_": [Interval(Real, 0, None, closed="neither")],
        "theta": [Interval(Real, 0, 1, closed="left")],
        "nu": [Interval(Real, 0, 1, closed="both")],
        "kernel": [StrOptions(set(INSTANCE_KERNELS))],
        "gamma": [
            StrOptions({"scale", "auto", "median"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        lambda_=100.0,
        *,
        theta=0.2,
        nu=0.5,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        fit_intercept=True,
        class_weight=None,
        tol=1e-10,
        max_iter=200,
    ):
        self.lambda_ = lambda_
        self.theta = theta
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        # The name `lambda_` alone would look like a fitted attribute.
        return hasattr(self, "classes_")

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit on samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample in the mean loss.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "ODM needs samples of at least 2 classes, but y holds one class only: "
                f"{self.classes_[0]!r}."
            )
        weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        used = np.flatnonzero(weight)
        if len(used) < len(weight):  # samples without weight are ignored
            if len(np.unique(codes[used])) < len(self.classes_):
                raise ValueError("a class has no sample with a positive weight.")
            X, codes, weight = X[used], codes[used], weight[used]
        factor = compute_class_weight(
            self.class_weight, classes=self.classes_, y=self.classes_[codes]
        )
        cost = self.lambda_ * weight / weight.sum() * factor[codes]
        positive = range(len(self.classes_)) if len(self.classes_) > 2 else (1,)
        signs = [np.where(codes == k, 1.0, -1.0) for k in positive]
        self.gamma_ = resolve_gamma(self.gamma, X, weight)
        self.kernel_params_ = kernel_params(self, self.gamma_)
        self._fit_signs(X, signs, OdmLoss(cost, self.theta, self.nu), used)
        return self

    def _fit_signs(self, X, signs, loss, numbers):
        """Solve one problem for each vector of signs and keep the expansions."""
        linear = self.kernel == "linear"
        features = (
            with_constant(X, float(self.fit_intercept))
            if linear
            else self._kernel_matrix(X)
        )
        results = []
        for sign in signs:
            if linear:
                rows = FeatureRows(scaled_rows(features, sign))
            else:
                rows = KernelRows(features, sign)
            results.append(solve_odm(rows, loss, tol=self.tol, max_iter=self.max_iter))
        if not all(result.converged for result in results):
            warnings.warn(
                f"ODM stopped after max_iter={self.max_iter} Newton steps.",
                ConvergenceWarning,
                stacklevel=3,
            )
        coef = np.stack([s * r.delta for s, r in zip(signs, results, strict=True)])
        self.objective_ = np.array([result.objective for result in results])
        self.duality_gap_ = np.array([result.gap for result in results])
        self.n_iter_ = max(result.n_iter for result in results)
        self.intercept_ = self.fit_intercept * coef.sum(axis=1)
        support = np.flatnonzero(coef.any(axis=0))
        self.support_ = numbers[support]
        if linear:
            self.coef_ = coef @ X if not sparse.issparse(X) else (X.T @ coef.T).T
        else:
            self.dual_coef_ = coef[:, support]
            self.support_vectors_ = X[support]

    def _kernel_matrix(self, X):
        n = X.shape[0]
        check_memory(
            16.0 * n * n,
            f"The kernel matrix of {n} samples and its factor",
            'Use kernel="linear" on features of a kernel approximation.',
        )
        kernel = instance_kernel(X, **self.kernel_params_)
        kernel += float(self.fit_intercept)
        return kernel

    def decision_function(self, X):
        """Return the scores of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive for `classes_[1]` with two classes, else one column per class.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        if self.kernel_params_["kernel"] == "linear":
            scores = X @ self.coef_.T + self.intercept_
        else:
            support = self.support_vectors_
            scores = np.empty((X.shape[0], len(self.intercept_)))
            for rows in row_blocks(X.shape[0], 16.0 * support.shape[0]):
                block = instance_kernel(X[rows], support, **self.kernel_params_)
                scores[rows] = block @ self.dual_coef_.T + self.intercept_
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Predict labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            One label for each sample.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]
