"""The members of the default stacks: estimators, their inputs and their costs."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.compose import SimpleMIRegressor, WrapperMI, WrapperMIRegressor
from bagwise.embedding import MiFV, PrototypeEmbedding, SlicedWassersteinEmbedding
from bagwise.embedding.l1_svc import L1SVC
from bagwise.ensemble._inputs import (
    ClippedScaler,
    CubeRows,
    DenseRows,
    Embedded,
    Input,
    PooledColumns,
    Prototypes,
    StandardRows,
    Statistics,
    ThinnedRows,
)
from bagwise.ensemble._mil_boost import MILBoost
from bagwise.ensemble._plan import (
    MAX_PAIRS_ROWS,
    QUADRATIC,
    fitted_rows,
    forest_seconds,
    near_seconds,
    refuse_quadratic,
)
from bagwise.ensemble._stack import Member
from bagwise.ensemble._two_stage import TwoStageBoosting
from bagwise.kernels.distances import emd_distances, thin_bags
from bagwise.kernels.registry import FittedKernel
from bagwise.linear_model import MILinearRegression, MILogisticRegression
from bagwise.solvers.ridge_path import RidgePath
from bagwise.svm import MISVM

# The stack weighs scores of members and needs none of their thresholds.
_NO_THRESHOLD = {"threshold": "zero"}
# With few bags, trees on statistics predict better than their out-of-fold scores show.
_TREES_SHARE = 4.0
# Even more so on wide sparse rows, also for other members on original columns: few
# bags show a word, and projections that ignore the labels lose it.
_SPARSE_SHARE = 32.0
# Weights of the loss of linear members on original columns: 1-norm SVM and logistic.
_WIDE_C, _LOGISTIC_C = 1.0, 0.01
# Bags from which on a linear MI-SVM and two-stage boosting are members.
_STAGES_FROM = 300
# Squared distances below this share of the largest are computed again, exactly.
_CLOSE = 1e-6
# Principal axes with a smaller share of the largest spread are rounding errors.
_CONSTANT = 1e-6
# Strengths of ridge regression for a kernel with a diagonal of ones.
_ALPHAS = tuple(np.logspace(-3, 2, 11))


# Members ------------------------------------------------------------------------------


class _Inputs:
    """The inputs that members of a default stack share."""

    def __init__(self, plan, size, n_jobs):
        self.rows = StandardRows()
        self.dense = DenseRows(self.rows)
        self.fit_rows = ThinnedRows(self.rows, plan.max_bag_size)
        self.fit_dense = ThinnedRows(self.dense, plan.max_bag_size)
        self.statistics = Statistics(self.dense)
        # Trees and sparse linear members use original columns, not projections.
        self.pooled = self.statistics
        if size.is_wide:
            self.pooled = PooledColumns(plan.max_bag_size)
        self.near = NearBags(self.rows, _distance(plan, n_jobs), 1.0)
        self.near_in_cube = NearBags(CubeRows(self.rows), _distance(plan, n_jobs), 0.25)


def _distance(plan, n_jobs):
    if plan.exact_distances:
        return EarthMover(plan.max_emd, n_jobs)
    return SlicedDistance()


def classification_members(plan, size, *, standard=False, n_jobs=None):
    """Return the members of `BagClassifier`: they differ as much as they can.

    Parameters
    ----------
    plan : Plan
        What the size of the data asks for.
    size : Size
        That size.
    standard : bool, default=False
        Whether only members that respect the standard assumption are wanted.
    n_jobs : int or None
        Processes that compute distances.

    Returns
    -------
    list of Member
        In the order of their cost, so that a budget that runs out stops the most
        expensive ones.
    """
    inputs = _Inputs(plan, size, n_jobs)
    respecting = _standard_members(inputs, plan, size)
    if standard:
        return respecting
    refuse_quadratic(plan, size, ("statistics SVC", *QUADRATIC))
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    rows = fitted_rows(plan, size)
    n_prototypes = min(N, plan.max_prototypes or N)
    few, many = sorted((n, n_prototypes))
    tree = (
        1.3e-3
        + 1.2e-7 * min(n, plan.bag_draws or n) * (4 * size.n_pooled) ** 0.5
        + 1e-7 * n
    )
    near = {
        "once": near_seconds(size, plan),
        "per_fit": 0.007 + 3e-8 * n * n,
    }
    # With few bags, neither of these improves the ensemble (results/bag-classifier).
    staged = size.n_bags >= _STAGES_FROM
    forest = RandomForestClassifier(100, min_samples_leaf=2)
    if plan.tree_draws is not None:  # random thresholds take a third of the time
        forest = ExtraTreesClassifier(
            100, min_samples_leaf=2, bootstrap=True, max_samples=plan.tree_draws
        )
    members = [
        Member(
            "Fisher vector",
            LinearSVC(C=1.0, dual="auto"),
            Embedded(
                inputs.dense,
                MiFV(2, energy=0.9, random_state=0),
                plan.max_bag_size,
            ),
            once=d * (2.5e-7 * rows + 5e-8 * N),
            per_fit=0.007 + 2.5e-7 * n * d,
        ),
        Member(
            "statistics SVC",
            make_pipeline(ClippedScaler(), SVC(C=10.0)),
            inputs.statistics,
            per_fit=0.008 + 2.4e-10 * n * n * 4 * d,
        ),
        Member(
            "instance logistic",
            WrapperMI(LogisticRegression(C=0.1, max_iter=1_000), **_NO_THRESHOLD),
            inputs.fit_rows,
            per_fit=0.01 + 2.5e-8 * rows * d,
        ),
        Member(
            "statistics trees",
            ExtraTreesClassifier(
                plan.n_trees,
                bootstrap=plan.bag_draws is not None,
                max_samples=plan.bag_draws,
            ),
            inputs.pooled,
            native=True,
            share=_SPARSE_SHARE if size.is_wide_sparse else _TREES_SHARE,
            per_fit=plan.n_trees * tree,
        ),
        Member(
            "statistics boosting",
            HistGradientBoostingClassifier(max_iter=60, **_BOOSTING),
            inputs.pooled,
            per_fit=0.05 + (7e-7 if size.is_wide else 1.3e-6) * n * size.n_pooled,
        ),
        Member("Wasserstein", _precomputed_svc(), inputs.near, **near),
        Member(
            "Wasserstein (min-max)", _precomputed_svc(), inputs.near_in_cube, **near
        ),
        *respecting[: 3 if staged or size.is_wide else 2],
        Member(
            "MILES",
            L1SVC(10.0),
            Prototypes(
                inputs.rows,
                PrototypeEmbedding(max_prototypes=plan.max_prototypes, random_state=0),
                plan.max_bag_size,
            ),
            once=n_prototypes * d * (4e-10 * rows + 1e-10 * N),
            per_fit=0.012 + 6e-10 * few * few * many,
        ),
        Member(
            "instance forest",
            WrapperMI(forest, **_NO_THRESHOLD),
            inputs.fit_dense,
            **forest_seconds(size, plan),
        ),
    ]
    if size.is_wide:
        members.append(
            Member(
                "statistics L1",
                make_pipeline(ClippedScaler(), L1SVC(_WIDE_C)),
                inputs.pooled,
                per_fit=0.02 + 4e-7 * n * size.n_pooled,
            )
        )
    if size.is_wide_sparse and not staged:
        members.append(
            Member(
                "statistics logistic",
                make_pipeline(
                    ClippedScaler(), LogisticRegression(C=_LOGISTIC_C, max_iter=1_000)
                ),
                inputs.pooled,
                share=_SPARSE_SHARE,
                per_fit=0.02 + 8e-7 * n * size.n_pooled,
            )
        )
    if staged:
        members.append(
            Member(
                "two-stage boosting",
                TwoStageBoosting(),
                inputs.fit_dense,
                per_fit=0.2 + rows * (2e-6 + 4e-7 * d),
            )
        )
    return _kept(members, plan)


def _standard_members(inputs, plan, size):
    """Return members whose bag score can only rise with an instance.

    That is the largest score of an instance, or one minus the product of the instances'
    probabilities to be negative: what the standard assumption asks for.
    """
    n, d = float(size.n_bags), float(size.n_features)
    rows = fitted_rows(plan, size)
    if plan.basis is None:
        witnesses = 0.01 + 3e-8 * float(size.n_instances) ** 2
    else:
        witnesses = 0.1 + 3.5e-7 * rows * plan.basis
    members = [
        Member(
            "MILBoost",
            MILBoost(100, pooling="noisy_or"),
            inputs.fit_dense,
            per_fit=0.03 + rows * (1.5e-5 + 3e-7 * d),
        ),
        # It learns from witnesses only, and is the first one to score instances.
        Member(
            "MI-SVM",
            MISVM(C=10.0, n_components=plan.basis, **_NO_THRESHOLD),
            inputs.fit_rows,
            prior=1.0,
            per_fit=witnesses,
        ),
        Member(
            "linear MI-SVM",
            MISVM(C=1.0, kernel="linear", **_NO_THRESHOLD),
            inputs.fit_rows,
            per_fit=0.03 + (1.4e-3 if size.is_wide else 3e-5) * n + 2e-7 * rows * d,
        ),
        Member(
            "MILR",
            MILogisticRegression(
                100.0, pooling="noisy_or", loss="log", **_NO_THRESHOLD
            ),
            inputs.fit_rows,
            per_fit=0.02 + 5e-7 * rows * d,
        ),
    ]
    return _kept(members, plan)


def regression_members(plan, size, *, n_jobs=None):
    """Return the members of `BagRegressor`, see `classification_members`."""
    inputs = _Inputs(plan, size, n_jobs)
    refuse_quadratic(plan, size, ("statistics SVR", *QUADRATIC))
    if size.n_instances > MAX_PAIRS_ROWS:
        why = f"it needs all pairs of {size.n_instances} instances"
        plan.dropped["set kernel"] = why
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    rows = fitted_rows(plan, size)
    ends = {"per_fit": 0.05 + 4e-7 * rows * d + 1e-8 * min(n, d) * n * d}
    near = {
        "once": near_seconds(size, plan),
        "per_fit": 0.007 + 3e-8 * n * n + 3e-9 * n**3,
    }
    forest = RandomForestRegressor(
        100, min_samples_leaf=2, max_features="sqrt", max_samples=plan.tree_draws
    )
    members = [
        Member(
            "mean ridge",
            SimpleMIRegressor(RidgeCV(alphas=np.logspace(-2, 4, 13))),
            inputs.dense,
            per_fit=0.01 + 2.5e-8 * rows * d,
        ),
        Member(
            "statistics SVR",
            make_pipeline(ClippedScaler(), SVR(C=10.0)),
            inputs.statistics,
            per_fit=0.008 + 2.4e-10 * n * n * 4 * d,
        ),
        Member("Wasserstein", MatrixRidge(), inputs.near, **near),
        Member("Wasserstein (min-max)", MatrixRidge(), inputs.near_in_cube, **near),
        Member(
            "set kernel",
            MatrixRidge(),
            SetKernel(inputs.rows),
            once=2e-9 * N * N * (5 + d / 10),
            per_fit=3e-9 * n**3,
        ),
        Member(
            "statistics boosting",
            HistGradientBoostingRegressor(max_iter=100, **_BOOSTING),
            inputs.statistics,
            per_fit=0.05 + 1.3e-6 * n * d,
        ),
        Member("linear max", MILinearRegression("max", 10.0), inputs.fit_rows, **ends),
        Member("linear min", MILinearRegression("min", 10.0), inputs.fit_rows, **ends),
        Member(
            "statistics trees",
            ExtraTreesRegressor(150),
            inputs.statistics,
            # Every split examines all columns.
            per_fit=0.1 + 1.5e-6 * n * 4 * d * np.log2(n + 2),
        ),
        Member(
            "instance forest",
            WrapperMIRegressor(forest),
            inputs.fit_dense,
            **forest_seconds(size, plan),
        ),
    ]
    return _kept(members, plan)


_BOOSTING = {
    "learning_rate": 0.1,
    "max_leaf_nodes": 6,
    "min_samples_leaf": 8,
    "max_bins": 32,
    "max_features": 0.2,
    "early_stopping": False,
}


def _kept(members, plan):
    """Return the members that the size does not rule out, without their warnings."""
    kept = [member for member in members if member.name not in plan.dropped]
    for member in kept:
        member.quiet = True
        member.share = member.share or 1.0
    return kept


def _precomputed_svc():
    return SVC(C=10.0, kernel="precomputed")


class MatrixRidge(RegressorMixin, BaseEstimator):
    """Kernel ridge regression on a given matrix; leave-one-out chooses its strength.

    Parameters
    ----------
    alphas : array-like of float
        Strengths to choose from, for a kernel with a diagonal of ones.
    """

    def __init__(self, alphas=_ALPHAS):
        self.alphas = alphas

    def fit(self, K, y, sample_weight=None):
        """Fit to the kernel matrix of the training bags."""
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


# Kernels with the training bags ------------------------------------------------------


class NearBags(Input):
    """Kernel exp(-scale D / mean D) with the training bags, D a distance of bags.

    Parameters
    ----------
    source : Input
        Makes the bags.
    distance : EarthMover or SlicedDistance
        The distance D.
    scale : float
        How narrow the kernel is.
    """

    def __init__(self, source, distance, scale):
        self.source = source
        self.distance = distance
        self.scale = scale

        # Exact distances are by far the most expensive input.
        self.cost = 10.0 if isinstance(distance, EarthMover) else 1.0

    def fit_transform(self, X):
        """Return the kernel of the training bags."""
        D = self.distance.fit(X)
        n = len(X)
        mean = D.sum() / max(1, n * (n - 1))
        self.gamma = self.scale / mean if mean > 0 else 1.0
        self.column_bags = np.arange(n)
        return np.exp(-self.gamma * D)

    def transform(self, X):
        """Return the kernel between other bags and the training bags."""
        K = self.distance.between(X)
        K *= -self.gamma
        return np.exp(K, out=K)


class EarthMover:
    """Earth mover's distances of thinned bags."""

    def __init__(self, max_instances, n_jobs=None):
        self.max_instances = max_instances
        self.n_jobs = n_jobs

    def fit(self, X):
        """Return the distances between training bags."""
        self.bags = thin_bags(X, self.max_instances)
        return emd_distances(self.bags, max_instances=None, n_jobs=self.n_jobs)

    def between(self, X):
        """Return the distances of other bags from the training bags."""
        thin = thin_bags(X, self.max_instances)
        return emd_distances(thin, self.bags, max_instances=None, n_jobs=self.n_jobs)


class SlicedDistance:
    """Sliced Wasserstein distances, on all principal axes of the training bags."""

    def __init__(self, random_state=0):
        self.embedding = SlicedWassersteinEmbedding(random_state=random_state)

    def fit(self, X):
        """Return the distances between training bags."""
        rows = self.embedding.fit_transform(X)
        self.center = rows.mean(axis=0)
        rows -= self.center
        square, axes = np.linalg.eigh(rows.T @ rows)
        self.axes = axes[:, square > _CONSTANT**2 * square[-1]]
        self.points = rows @ self.axes
        self.norms = row_norms(self.points, squared=True)
        return self._distances(rows)

    def between(self, X):
        """Return the distances of other bags from the training bags."""
        return self._distances(self.embedding.transform(X) - self.center)

    def _distances(self, rows):
        """Return distances by products, which lose the digits of small ones."""
        A, B, out = (
            rows @ self.axes,
            self.points,
            np.empty((len(rows), len(self.norms))),
        )
        norms, inside = row_norms(rows, squared=True), row_norms(A, squared=True)
        outside = np.where(norms > (1.0 + 1e-12) * inside, norms - inside, 0.0)
        for first in range(0, len(A), 256):  # a block stays in cache
            D = np.matmul(A[first : first + 256], B.T, out=out[first : first + 256])
            D *= -2.0
            D += (inside + outside)[first : first + 256, None]
            D += self.norms
            close = np.argwhere(D < _CLOSE * D.max(initial=0.0))
            for part in np.array_split(close, len(close) // 10_000 + 1):
                i, j = part.T
                gap = A[first + i] - B[j]
                D[i, j] = row_norms(gap, squared=True) + outside[first + i]
            np.sqrt(D, out=D)
        return out


class SetKernel(Input):
    """The set kernel with the training bags."""

    def __init__(self, source):
        self.source = source

    def fit_transform(self, X):
        """Return the kernel of the training bags."""
        self.kernel = FittedKernel("set")
        self.column_bags = np.arange(len(X))
        return self.kernel.fit(X)

    def transform(self, X):
        """Return the kernel between other bags and the training bags."""
        return self.kernel.matrix(X)
