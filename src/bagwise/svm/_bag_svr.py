"""Support vector regression of bags through a kernel between bags."""

from numbers import Integral, Real

import numpy as np
from sklearn.svm import SVR

from bagwise._compat import Interval
from bagwise.bags import Bags
from bagwise.base import BaseBagRegressor
from bagwise.kernels.registry import FittedKernel


class BagSVR(BaseBagRegressor):
    r"""Support vector regression on a kernel between bags.

    .. math::
        \min_{f, b}\; \tfrac12 \|f\|^2
            + C \sum_i \omega_i \max\bigl(0, |f(B_i) + b - \tilde y_i| - \epsilon\bigr)

    where :math:`C` is `C`, :math:`\epsilon` is `epsilon`, :math:`\omega_i` the weight
    of a bag and :math:`\tilde y` the values with mean zero and variance one, so that
    both parameters do not depend on the units of y ([1]_).

    Parameters
    ----------
    kernel : str or callable, default="set"
        A name of ``bagwise.kernels.registry.BAG_KERNELS``, or a function
        ``K = kernel(X, Y, **kernel_params)`` of two `Bags`.
    C : float, default=10.0
        Weight of the loss.
    epsilon : float, default=0.1
        Errors up to this size have no loss, in standard deviations of y.
    gamma : float or str, default=None
        Width of the kernel; None is the default of the kernel.
    kernel_params : dict, default=None
        Further parameters of the kernel.
    tol : float, default=1e-4
        Tolerance of the solver, libsvm.
    max_iter : int, default=-1
        Maximum number of steps of the solver, -1 for no limit.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Positions of the support bags among the training bags.
    dual_coef_ : ndarray of shape (n_support,)
        Their coefficients, in units of y.
    intercept_ : float
        The intercept.

    See Also
    --------
    bagwise.least_squares.BagKernelRidge : The squared loss, cheaper to tune.

    Notes
    -----
    `instance_scores` is the prediction for a bag that contains only this instance.
    Shifting and scaling y shifts and scales predictions. Costs the kernel matrix and
    libsvm's ``n_bags ** 2`` to ``n_bags ** 3`` steps. Differs from [1]_: values are
    standardized internally.

    References
    ----------
    .. [1] Smola, A. J. and Schölkopf, B., "A tutorial on support vector regression",
       Statistics and Computing, 2004. :doi:`10.1023/B:STCO.0000035301.49549.88`

    Examples
    --------
    >>> from bagwise.svm import BagSVR
    >>> X = [[[0.0], [0.2]], [[1.0]], [[2.0], [1.8]], [[3.0]]]
    >>> model = BagSVR(C=100.0).fit(X, [0.1, 1.0, 1.9, 3.0])
    >>> bool(abs(model.predict([[[1.0]]])[0] - 1.0) < 0.3)
    True
    """

    _parameter_constraints: dict = {
        "kernel": [str, callable],
        "C": [Interval(Real, 0, None, closed="neither")],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "kernel_params": [dict, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
    }

    def __init__(
        self,
        kernel="set",
        C=10.0,
        *,
        epsilon=0.1,
        gamma=None,
        kernel_params=None,
        tol=1e-4,
        max_iter=-1,
    ):
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel not in ("ppmm", "box")
        return tags

    def _fit_bags(self, X, y, weight):
        kernel = FittedKernel(self.kernel, self.gamma, self.kernel_params)
        K = kernel.fit(X, weight)
        center = float(np.average(y, weights=weight))
        spread = float(np.sqrt(np.average((y - center) ** 2, weights=weight))) or 1.0
        machine = SVR(
            kernel="precomputed",
            C=self.C,
            epsilon=self.epsilon,
            tol=self.tol,
            max_iter=self.max_iter,
        ).fit(K, (y - center) / spread, sample_weight=weight)
        self.support_ = machine.support_
        self.dual_coef_ = spread * machine.dual_coef_[0]
        self.intercept_ = float(spread * machine.intercept_[0] + center)
        self.n_iter_ = int(np.max(machine.n_iter_))
        kernel.bags = X[self.support_]  # prediction needs no other bags
        self._kernel = kernel

    def _predict_bags(self, X):
        if not len(self.support_):
            return np.full(len(X), self.intercept_)
        return self._kernel.product(X, self.dual_coef_) + self.intercept_

    def _score_instances(self, X):
        return self._predict_bags(Bags(X.data, np.arange(X.n_instances + 1)))
