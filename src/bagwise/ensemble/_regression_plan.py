"""The members of `BagRegressor`, and what they cost."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.compose import SimpleMIRegressor, WrapperMIRegressor
from bagwise.ensemble._members import Member
from bagwise.ensemble._plan import estimated_seconds
from bagwise.ensemble._views import ClippedScaler
from bagwise.linear_model import MILinearRegression
from bagwise.solvers.ridge_path import RidgePath

_ALPHAS = np.logspace(-3, 2, 11)

# Members that cost what another one of the classifier costs.
_LIKE = {
    "statistics SVR": "statistics SVC",
    "near bags": "near bags",
    "near bags in the cube": "near bags in the cube",
    "instance forest": "instance forest",
    "statistics boosting": "statistics boosting",
    "mean ridge": "instance logistic",
    "linear mean": "instance logistic",
}


class MatrixRidge(RegressorMixin, BaseEstimator):
    """Kernel ridge regression on a given matrix, its strength chosen by leave-one-out.

    Parameters
    ----------
    alphas : array-like of float
        Strengths to choose from, for a kernel with a diagonal of ones.
    """

    def __init__(self, alphas=tuple(_ALPHAS)):
        self.alphas = alphas

    def fit(self, K, y, sample_weight=None):
        """Fit on the kernel matrix of the training bags."""
        K = validate_data(self, K, reset=True)
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        path = RidgePath(K, np.asarray(y, dtype=np.float64)[:, None], weight)
        self.alpha_, _, _ = path.choose(self.alphas, weight)
        coef, intercept = path.solve(self.alpha_)
        self.dual_coef_, self.intercept_ = coef[:, 0], float(intercept[0])
        return self

    def predict(self, K):
        """Predict from the kernel between bags and the training bags."""
        check_is_fitted(self)
        K = validate_data(self, K, reset=False)
        return K @ self.dual_coef_ + self.intercept_


def regression_members(plan):
    """Return the members: what they are good at differs as much as can be."""
    thin = "" if plan.max_bag_size is None else "thin_"
    forest = RandomForestRegressor(
        100, min_samples_leaf=2, max_features="sqrt", max_samples=plan.tree_draws
    )
    boosting = HistGradientBoostingRegressor(
        max_iter=100,
        learning_rate=0.1,
        max_leaf_nodes=6,
        min_samples_leaf=8,
        max_bins=32,
        max_features=0.2,
        early_stopping=False,
    )
    ridge = RidgeCV(alphas=np.logspace(-2, 4, 13))
    members = [
        Member("mean ridge", SimpleMIRegressor(ridge), "dense"),
        Member(
            "statistics SVR", make_pipeline(ClippedScaler(), SVR(C=10.0)), "statistics"
        ),
        Member("near bags", MatrixRidge(), "near"),
        Member("near bags in the cube", MatrixRidge(), "near_cube"),
        Member("set kernel", MatrixRidge(), "set"),
        Member("statistics boosting", boosting, "statistics"),
        Member("linear max", MILinearRegression("max", 10.0), f"{thin}rows"),
        Member("linear min", MILinearRegression("min", 10.0), f"{thin}rows"),
        Member("statistics trees", ExtraTreesRegressor(150), "statistics"),
        Member("instance forest", WrapperMIRegressor(forest), f"{thin}dense"),
    ]
    return [m for m in members if m.name not in plan.dropped]


def regression_seconds(name, size, plan, n_fits):
    """Guess what a member costs, from its growth and one machine's constants."""
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    rows = N if plan.max_bag_size is None else min(N, n * plan.max_bag_size)
    if name == "statistics trees":  # every column is looked at in every split
        return n_fits * (0.1 + 1.5e-6 * n * 4 * d * np.log2(n + 2))
    if name == "set kernel":
        return 2e-9 * N * N * (5 + d / 10) + n_fits * 3e-9 * n**3
    if name in ("linear max", "linear min"):
        return n_fits * (0.05 + 4e-7 * rows * d + 1e-8 * min(n, d) * n * d)
    extra = n_fits * 3e-9 * n**3 if name.startswith("near") else 0.0
    return extra + estimated_seconds(_LIKE[name], size, plan, n_fits)
