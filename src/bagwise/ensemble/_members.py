"""The members of the default stacks, and which of them suit the size of the data."""

import warnings
from dataclasses import asdict, dataclass, field

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
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise._sizes import memory_budget
from bagwise.compose import SimpleMIRegressor, WrapperMI, WrapperMIRegressor
from bagwise.embedding import MiFV, PrototypeEmbedding
from bagwise.embedding.l1_svc import L1SVC
from bagwise.ensemble._inputs import (
    PROJECTED,
    WIDE,
    ClippedScaler,
    CubeRows,
    DenseRows,
    EarthMover,
    Embedded,
    NearBags,
    Prototypes,
    SetKernel,
    SlicedDistance,
    StandardRows,
    Statistics,
    ThinnedRows,
    check_rows,
)
from bagwise.ensemble._mil_boost import MILBoost
from bagwise.ensemble._stack import Member, named_members
from bagwise.linear_model import MILinearRegression, MILogisticRegression
from bagwise.solvers.ridge_path import RidgePath
from bagwise.svm import MISVM

# Entries that are standardized at the rate of small data.
_MANY_ENTRIES = 100_000_000
# Seconds that exact earth mover's distances on one scale may take.
_EXACT_SECONDS = 5.0
_MAX_EMD, _MAX_EMD_MANY, _MANY_INSTANCES = 40, 15, 10_000
# Rows that a tree samples, basis of the max-margin member, and the instances above
# which a basis and chosen prototypes take the place of all instances.
_TREE_ROWS, _BASIS, _EXACT_BASIS = 2_000, 100, 2_000
# (Bags, prototypes): what MILES costs grows with the square of the smaller number.
_PROTOTYPES = ((500, 1_000), (5_000, 500), (None, 300))
# Trees of statistics, and how many there are from this number of bags on.
_TREES, _MANY_BAGS, _TREES_OF_MANY = 200, 1_000, 100
# Instances that members which learn from single instances see at most.
_MAX_ROWS, _MIN_BAG_SIZE = 50_000, 20
# Above so many bags, members that are quadratic in the bags are left out; the set
# kernel looks at all pairs of instances.
_QUADRATIC_LIMIT, _MAX_PAIRS_ROWS = 5_000, 5_000
_QUADRATIC = ("near bags", "near bags in the cube")
# The stack weighs scores of members and needs none of their thresholds.
_NO_THRESHOLD = {"threshold": "zero"}
# Strengths of ridge regression for a kernel with a diagonal of ones.
_ALPHAS = tuple(np.logspace(-3, 2, 11))


# Size and plan ------------------------------------------------------------------------


@dataclass
class Size:
    """The numbers that costs depend on; `n_features` after projection, `width` before.

    Of sparse rows, the width is the mean number of entries.
    """

    n_bags: int
    n_instances: int
    n_features: int
    width: float

    @classmethod
    def of(cls, X):
        """Return the size of bags."""
        width = X.data.nnz / X.n_instances if X.is_sparse else X.n_features
        columns = PROJECTED if X.n_features > WIDE else X.n_features
        return cls(len(X), X.n_instances, columns, float(width))


@dataclass
class Plan:
    """What is chosen by the size of the data.

    Attributes
    ----------
    members : list of str
        The members.
    dropped : dict of str to str
        Members that are left out, and why.
    exact_distances : bool
        Earth mover's distances; otherwise sliced Wasserstein distances.
    max_emd : int
        Instances of a bag that the exact distances look at.
    max_bag_size : int or None
        Instances of a bag that members which learn from instances are fitted to.
    max_prototypes : int or None
        Instances that MILES measures distances to.
    tree_draws : int or None
        Instances that each tree of the forest samples; its thresholds are random then.
    bag_draws : int or None
        Bags that each tree on statistics samples.
    n_trees : int
        Trees on statistics.
    basis : int or None
        Size of the reduced basis of the max-margin member.
    costs : dict of str to float
        Estimated seconds of the members, and of the inputs ("views") that they share.
    estimated_seconds : float
        Their sum: processor seconds of a fit on a core like the one that was measured.
    """

    members: list = field(default_factory=list)
    dropped: dict = field(default_factory=dict)
    exact_distances: bool = True
    max_emd: int = _MAX_EMD
    max_bag_size: int | None = None
    max_prototypes: int | None = None
    tree_draws: int | None = None
    bag_draws: int | None = None
    n_trees: int = _TREES
    basis: int | None = None
    costs: dict = field(default_factory=dict)
    estimated_seconds: float = 0.0

    def keep_within(self, cost, seconds, shared):
        """Drop the most expensive members until the rest fits into the budget.

        Parameters
        ----------
        cost : dict of str to float
            Estimated seconds of every member.
        seconds : float or None
            The budget; None for none.
        shared : float
            Estimated seconds of what all members share.
        """
        cost, left = dict(cost), np.inf if seconds is None else seconds - shared
        while sum(cost.values()) > left and len(cost) > 1:
            most = max(cost, key=cost.get)
            guess = cost.pop(most)
            self.dropped[most] = f"about {guess:.1f} s, over the time budget"
        self.members = list(cost)
        self.costs = {"views": shared, **cost}
        self.estimated_seconds = float(sum(self.costs.values()))


def choose_members(parameter, X, make, *, n_classes, n_fits, budget):
    """Return the members of a stack, and what the size of the data had to do with them.

    Parameters
    ----------
    parameter : "default" or list of (str, estimator)
        The parameter `members`.
    X : Bags
        The training bags.
    make : callable
        Gets a plan and a size and returns the default members.
    n_classes : int
        How many classes there are; 0 for values.
    n_fits : int
        How often each member is fitted.
    budget : Budget
        What they may cost.

    Returns
    -------
    members : list of Member
        Those that suit the size and fit into the budget, or those of the list.
    plan : Plan or None
        What was chosen, and what was left out; None for a list.
    """
    if not isinstance(parameter, str):
        return named_members(parameter, "members"), None
    size = Size.of(X)
    plan = make_plan(size)
    members = make(plan, size)
    cost = {member.name: member.seconds(n_fits, n_classes) for member in members}
    plan.keep_within(cost, budget.seconds, shared_seconds(size))
    members = [member for member in members if member.name in plan.members]
    check_rows(X, [member.input for member in members])
    return members, plan


def report_plan(plan, fitted, stack, budget):
    """Return what was done as plain values, and warn when time was short.

    Parameters
    ----------
    plan : Plan or None
        The plan; None for members of a list.
    fitted : list of str
        Members that were fitted.
    stack : str
        Name of the stack, for the warning.
    budget : Budget
        Its budget.
    """
    planned = fitted if plan is None else plan.members
    dropped = {} if plan is None else plan.dropped
    dropped |= {
        name: "no time was left for it" for name in planned if name not in fitted
    }
    late = [name for name, why in dropped.items() if "time" in why]
    if late:
        warnings.warn(
            f"{stack} leaves out {', '.join(late)} to keep to a time budget of "
            f"{budget.seconds:g} s. time_budget=None sets no limit.",
            UserWarning,
            stacklevel=2,
        )
    found = {} if plan is None else asdict(plan)
    return {**found, "members": fitted, "dropped": dropped}


def make_plan(size):
    """Choose the approximations that a size asks for; members are left open."""
    n, N = size.n_bags, size.n_instances
    plan = Plan()
    plan.max_emd = _MAX_EMD if N <= _MANY_INSTANCES else _MAX_EMD_MANY
    plan.exact_distances = _exact_seconds(size, plan) <= _EXACT_SECONDS
    if N > _MAX_ROWS:
        plan.max_bag_size = max(_MIN_BAG_SIZE, _MAX_ROWS // n)
    if N > _EXACT_BASIS:
        plan.basis = _BASIS
        plan.max_prototypes = next(
            many for most, many in _PROTOTYPES if most is None or n <= most
        )
    if N > 2 * _TREE_ROWS:  # never more than a fold has
        plan.tree_draws = _TREE_ROWS
    if n > 2 * _TREE_ROWS:
        plan.bag_draws = _TREE_ROWS
    if n >= _MANY_BAGS:
        plan.n_trees = _TREES_OF_MANY
    return plan


def _refuse_quadratic(plan, size, names):
    """Leave out members that are quadratic in the bags, where there are many."""
    n = size.n_bags
    n_bytes = 4 * 8.0 * n * n
    if n > _QUADRATIC_LIMIT:
        reason = f"quadratic in the bags, and there are {n}"
    elif n_bytes > memory_budget():
        reason = f"its {n_bytes / 1e9:.1f} GB exceed the memory budget"
    else:
        return
    plan.dropped |= dict.fromkeys(names, reason)


# Members ------------------------------------------------------------------------------


class _Inputs:
    """The inputs that members of a default stack share."""

    def __init__(self, plan, n_jobs):
        self.rows = StandardRows()
        self.dense = DenseRows(self.rows)
        self.fit_rows = ThinnedRows(self.rows, plan.max_bag_size)
        self.fit_dense = ThinnedRows(self.dense, plan.max_bag_size)
        self.statistics = Statistics(self.dense)
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
    inputs = _Inputs(plan, n_jobs)
    respecting = _standard_members(inputs, plan, size)
    if standard:
        return respecting
    _refuse_quadratic(plan, size, ("statistics SVC", *_QUADRATIC))
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    rows = _fitted_rows(plan, size)
    n_prototypes = min(N, plan.max_prototypes or N)
    few, many = sorted((n, n_prototypes))
    tree = 1.3e-3 + 1.2e-7 * min(n, plan.bag_draws or n) * (4 * d) ** 0.5 + 1e-7 * n
    near = {
        "once": _near_seconds(size, plan),
        "per_fit": 0.007 + 3e-8 * n * n,
    }
    forest = RandomForestClassifier(100, min_samples_leaf=2)
    if plan.tree_draws is not None:  # random thresholds cost a third of the best ones
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
            inputs.statistics,
            native=True,
            per_fit=plan.n_trees * tree,
        ),
        Member(
            "statistics boosting",
            HistGradientBoostingClassifier(max_iter=60, **_BOOSTING),
            inputs.statistics,
            per_fit=0.05 + 1.3e-6 * n * d,
        ),
        Member("near bags", _precomputed_svc(), inputs.near, **near),
        Member(
            "near bags in the cube", _precomputed_svc(), inputs.near_in_cube, **near
        ),
        *respecting[:2],
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
            **_forest_seconds(size, plan),
        ),
    ]
    return _kept(members, plan)


def _standard_members(inputs, plan, size):
    """Return members whose bag score can only rise with an instance.

    That is the largest score of an instance, or one minus the product of the instances'
    probabilities to be negative: what the standard assumption asks for.
    """
    n, d = float(size.n_bags), float(size.n_features)
    rows = _fitted_rows(plan, size)
    if plan.basis is None:
        witnesses = 0.01 + 3e-8 * float(size.n_instances) ** 2
    else:
        witnesses = 0.1 + 3.5e-7 * rows * plan.basis
    members = [
        Member(
            "MILBoost",
            MILBoost(100, pooling="noisy_or"),
            inputs.fit_dense,
            per_fit=0.03 + rows * (2.5e-5 + 3e-7 * d),
        ),
        # It learns from witnesses alone, and comes first where instances are scored.
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
            per_fit=0.03 + 6e-4 * n + 2e-7 * rows * d,
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
    inputs = _Inputs(plan, n_jobs)
    _refuse_quadratic(plan, size, ("statistics SVR", *_QUADRATIC))
    if size.n_instances > _MAX_PAIRS_ROWS:
        why = f"it looks at all pairs of {size.n_instances} instances"
        plan.dropped["set kernel"] = why
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    rows = _fitted_rows(plan, size)
    ends = {"per_fit": 0.05 + 4e-7 * rows * d + 1e-8 * min(n, d) * n * d}
    near = {
        "once": _near_seconds(size, plan),
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
        Member("near bags", MatrixRidge(), inputs.near, **near),
        Member("near bags in the cube", MatrixRidge(), inputs.near_in_cube, **near),
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
            # Every column is looked at in every split.
            per_fit=0.1 + 1.5e-6 * n * 4 * d * np.log2(n + 2),
        ),
        Member(
            "instance forest",
            WrapperMIRegressor(forest),
            inputs.fit_dense,
            **_forest_seconds(size, plan),
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


# Costs --------------------------------------------------------------------------------
#
# Constants are processor seconds of one core that multiplies matrices at about 20
# gigaflops in double precision. They are not re-measured where the library runs: the
# members of a fit must not depend on how busy a computer is.


def shared_seconds(size):
    """Estimate what it costs to standardize instances and to project wide rows."""
    entries = float(size.n_instances) * size.width
    rate = 4e-8 if size.width == size.n_features else 6e-8
    # Axes are found from a sample: of many entries most are only projected.
    few = min(entries, _MANY_ENTRIES)
    return rate * few + 2e-8 * (entries - few)


def _fitted_rows(plan, size):
    """Return how many instances members that learn from instances are fitted to."""
    if plan.max_bag_size is None:
        return float(size.n_instances)
    return min(float(size.n_instances), float(size.n_bags) * plan.max_bag_size)


def _exact_seconds(size, plan):
    per_bag = min(size.n_instances / size.n_bags, plan.max_emd)
    return 1.6e-7 * size.n_bags**2 * (20 + 4 * per_bag)


def _near_seconds(size, plan):
    if plan.exact_distances:
        return _exact_seconds(size, plan)
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    return 1e-5 * N + 1e-8 * N * d + 7e-8 * n * n


def _forest_seconds(size, plan):
    N, d = float(size.n_instances), float(size.n_features)
    if plan.tree_draws is None:
        per_fit = 0.18 + 5e-5 * d**0.5 * N
    else:
        per_fit = (
            0.2 + 2e-5 * d**0.5 * plan.tree_draws + 7e-6 * _fitted_rows(plan, size)
        )
    # All instances are scored once over the folds by 100 trees.
    return {"once": 2e-5 * N, "per_fit": per_fit}
