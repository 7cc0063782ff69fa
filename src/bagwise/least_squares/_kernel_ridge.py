"""Kernel ridge regression of bags, with leave-one-out errors in closed form."""

from numbers import Real

import numpy as np

from bagwise._compat import Interval
from bagwise.bags import Bags
from bagwise.base import BaseBagRegressor
from bagwise.kernels.registry import FittedKernel
from bagwise.solvers.ridge_path import RidgePath


class BagKernelRidge(BaseBagRegressor):
    r"""Kernel ridge regression on a kernel between bags.

    .. math::
        \min_{f, b}\; \sum_i \omega_i \bigl(f(B_i) + b - y_i\bigr)^2
            + \alpha \|f\|^2, \qquad f(B) = \sum_i a_i K(B_i, B)

    where :math:`\alpha` is `alpha`, :math:`\omega_i` the weight of a bag
    (`sample_weight`), :math:`a` is `dual_coef_` and :math:`b` is `intercept_`. Given
    several `alphas`, the one with the smallest leave-one-out error is chosen; one
    eigendecomposition is used for all of them ([1]_).

    Parameters
    ----------
    kernel : str or callable, default="set"
        A name of ``bagwise.kernels.registry.BAG_KERNELS``, or a function
        ``K = kernel(X, Y, **kernel_params)`` of two `Bags`.
    alpha : float, default=1.0
        Strength of the penalty, when `alphas` is None.
    alphas : array-like of float, default=None
        Strengths to choose from by the leave-one-out error.
    gamma : float or str, default=None
        Width of the kernel; None is the default of the kernel.
    kernel_params : dict, default=None
        Further parameters of the kernel.
    fit_intercept : bool, default=True
        Whether to fit :math:`b`, which is not penalized.

    Attributes
    ----------
    alpha_ : float
        The strength that was used.
    dual_coef_ : ndarray of shape (n_bags,) or (n_bags, n_outputs)
        The coefficients :math:`a` of the training bags.
    intercept_ : float or ndarray of shape (n_outputs,)
        The intercept.
    loo_errors_ : ndarray of shape (n_bags,) or (n_bags, n_outputs)
        Leave-one-out error of each training bag: prediction minus value.
    loo_scores_ : ndarray of shape (n_alphas,)
        Weighted mean of their squares, for every strength.

    See Also
    --------
    bagwise.svm.BagSVR : The same kernels with an absolute loss.
    bagwise.kernels.distribution_kernel : A second, Gaussian level.

    Notes
    -----
    `instance_scores` is the prediction for a bag that contains only this instance.
    Shifting y shifts predictions (with `fit_intercept`), scaling y scales them.

    Differs from [1]_: an intercept and weights; several outputs share one `alpha`.
    Costs the kernel matrix and one eigendecomposition, ``O(n_bags ** 3)``; every
    further strength ``O(n_bags ** 2)``.

    References
    ----------
    .. [1] Rifkin, R. M. and Lippert, R. A., "Notes on regularized least squares", MIT
       technical report CSAIL-TR-2007-025, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.least_squares import BagKernelRidge
    >>> X = [[[0.0], [0.2]], [[1.0]], [[2.0], [1.8]], [[3.0]]]
    >>> model = BagKernelRidge(alphas=[0.01, 0.1, 1.0]).fit(X, [0.1, 1.0, 1.9, 3.0])
    >>> bool(abs(model.predict([[[1.0]]])[0] - 1.0) < 0.3)
    True
    """

    _parameter_constraints: dict = {
        "kernel": [str, callable],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "alphas": ["array-like", None],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "kernel_params": [dict, None],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        kernel="set",
        alpha=1.0,
        *,
        alphas=None,
        gamma=None,
        kernel_params=None,
        fit_intercept=True,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.alphas = alphas
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel not in ("ppmm", "box")
        tags.target_tags.multi_output = True
        return tags

    def _fit_bags(self, X, y, weight):
        alphas = self._strengths()
        self._kernel = FittedKernel(self.kernel, self.gamma, self.kernel_params)
        target = y if y.ndim == 2 else y[:, None]
        K = self._kernel.fit(X, weight)
        path = RidgePath(K, target, weight, self.fit_intercept)
        self.alpha_, errors, self.loo_scores_ = path.choose(alphas, weight)
        coef, intercept = path.solve(self.alpha_)
        one = y.ndim == 1
        self.loo_errors_ = errors[:, 0] if one else errors
        self.dual_coef_ = coef[:, 0] if one else coef
        self.intercept_ = float(intercept[0]) if one else intercept

    def _strengths(self):
        if self.alphas is None:
            return [self.alpha]
        alphas = np.asarray(self.alphas, dtype=np.float64)
        if alphas.ndim != 1 or not alphas.size or not (alphas > 0).all():
            raise ValueError(
                f"alphas must be a list of positive numbers, got {self.alphas!r}."
            )
        return alphas

    def _predict_bags(self, X):
        return self._kernel.product(X, self.dual_coef_) + self.intercept_

    def _score_instances(self, X):
        return self._predict_bags(Bags(X.data, np.arange(X.n_instances + 1)))
