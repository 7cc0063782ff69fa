"""What a default stack does at which size: members, short cuts, cost."""

import warnings
from dataclasses import asdict, dataclass, field

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from bagwise._sizes import memory_budget
from bagwise.compose import WrapperMI
from bagwise.embedding.l1_svc import L1SVC
from bagwise.ensemble._members import Member
from bagwise.ensemble._mil_boost import MILBoost
from bagwise.ensemble._views import PROJECTED, WIDE, ClippedScaler
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import MISVM

# Entries that are standardised at the rate of small data.
_MANY_ENTRIES = 100_000_000
# Seconds that exact earth mover's distances on one scale may take.
_EXACT_SECONDS = 5.0
_MAX_EMD, _MAX_EMD_MANY, _MANY_INSTANCES = 40, 15, 10_000
# Rows that a tree draws, basis of the max-margin member, and the instances above which
# a basis and chosen prototypes take the place of all instances.
_TREE_DRAWS, _BASIS, _EXACT_BASIS = 2_000, 100, 2_000
# (Bags, prototypes): what MILES costs grows with the square of the smaller number.
_PROTOTYPES = ((500, 1_000), (5_000, 500), (None, 300))
# Trees of statistics, and how many there are from this number of bags on.
_TREES, _MANY_BAGS, _TREES_OF_MANY = 200, 1_000, 100
# Instances that the members which learn from single instances see at most.
_MAX_ROWS, _MIN_BAG_SIZE = 50_000, 20
# Above so many bags members that are quadratic in the bags are left out.
_QUADRATIC_LIMIT = 5_000
# Scores of members are weighed, never cut: no cut is looked for.
_UNCUT = {"threshold": "zero"}
_QUADRATIC = ("statistics SVC", "near bags", "near bags in the cube")


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
        wide = X.n_features > WIDE
        width = X.data.nnz / X.n_instances if X.is_sparse else X.n_features
        columns = PROJECTED if wide else X.n_features
        return cls(len(X), X.n_instances, columns, float(width))


@dataclass
class Plan:
    """What was chosen by the size of the data.

    Attributes
    ----------
    members : list of str
        The members.
    dropped : dict of str to str
        Members that were left out, and why.
    exact_distances : bool
        Earth mover's distances; otherwise sliced Wasserstein distances.
    max_emd : int
        Instances of a bag that the exact distances look at.
    max_bag_size : int or None
        Instances of a bag that members which learn from instances are fitted on.
    max_prototypes : int or None
        Instances that MILES measures distances to.
    tree_draws : int or None
        Instances that each tree of the forest draws; its cuts are random then.
    bag_draws : int or None
        Bags that each tree on statistics draws.
    n_trees : int
        Trees on statistics.
    basis : int or None
        Size of the reduced basis of the max-margin member.
    costs : dict of str to float
        Estimated seconds of the members, and of the "views" that they share.
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

    def keep_within(self, cost, seconds, views=0.0):
        """Choose the members: the dearest go until the rest fits into `seconds`.

        Parameters
        ----------
        cost : dict of str to float
            Estimated seconds of every member.
        seconds : float or None
            The budget; None for none.
        views : float, default=0.0
            Estimated seconds of what all members share.
        """
        cost, left = dict(cost), np.inf if seconds is None else seconds - views
        while sum(cost.values()) > left and len(cost) > 1:
            dearest = max(cost, key=cost.get)
            guess = cost.pop(dearest)
            self.dropped[dearest] = f"about {guess:.1f} s, over the time budget"
        self.members = list(cost)
        self.costs = {"views": views, **cost}
        self.estimated_seconds = float(sum(self.costs.values()))

    def settle(self, fitted, who, seconds):
        """Note which members were fitted, and warn when time was short.

        Parameters
        ----------
        fitted : sequence of str
            Members that were fitted.
        who : str
            The stack, for the warning.
        seconds : float or None
            Its budget.
        """
        for name in self.members:
            if name not in fitted:
                self.dropped[name] = "no time was left for it"
        self.members = list(fitted)
        late = [name for name, why in self.dropped.items() if "time" in why]
        if late:
            warnings.warn(
                f"{who} leaves out {', '.join(late)} to keep to a time budget of "
                f"{seconds:g} s. time_budget=None sets no limit.",
                UserWarning,
                stacklevel=2,
            )

    def to_dict(self):
        """Return plain values."""
        return asdict(self)


def make_plan(size):
    """Choose the short cuts that a size asks for, members and costs left open."""
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
    if N > 2 * _TREE_DRAWS:  # never more than a fold has
        plan.tree_draws = _TREE_DRAWS
    if n > 2 * _TREE_DRAWS:
        plan.bag_draws = _TREE_DRAWS
    if n >= _MANY_BAGS:
        plan.n_trees = _TREES_OF_MANY
    if n > _QUADRATIC_LIMIT:
        reason = f"quadratic in the bags, and there are {n}"
        plan.dropped = dict.fromkeys(_QUADRATIC, reason)
    elif 4 * 8.0 * n * n > memory_budget():
        reason = f"its {4 * 8.0 * n * n / 1e9:.1f} GB exceed the memory budget"
        plan.dropped = dict.fromkeys(_QUADRATIC, reason)
    return plan


def default_members(plan):
    """Return the members: what they are good at differs as much as can be.

    The order is that of their cost, so that a budget that runs out stops dear ones.
    """
    thin = "" if plan.max_bag_size is None else "thin_"
    forest = RandomForestClassifier(100, min_samples_leaf=2)
    if plan.tree_draws is not None:  # random cuts cost a third of sought ones
        forest = ExtraTreesClassifier(
            100, min_samples_leaf=2, bootstrap=True, max_samples=plan.tree_draws
        )
    trees = ExtraTreesClassifier(
        plan.n_trees, bootstrap=plan.bag_draws is not None, max_samples=plan.bag_draws
    )
    boosting = HistGradientBoostingClassifier(
        max_iter=60,
        learning_rate=0.1,
        max_leaf_nodes=6,
        min_samples_leaf=8,
        max_bins=32,
        max_features=0.2,
        early_stopping=False,
    )
    logistic = LogisticRegression(C=0.1, max_iter=1_000)
    statistics_svc = make_pipeline(ClippedScaler(), SVC(C=10.0))
    near = SVC(C=10.0, kernel="precomputed")
    on_rows = WrapperMI(logistic, **_UNCUT)
    on_trees = WrapperMI(forest, **_UNCUT)
    members = [
        Member("Fisher vector", LinearSVC(C=1.0, dual="auto"), "fisher"),
        Member("statistics SVC", statistics_svc, "statistics"),
        Member("instance logistic", on_rows, f"{thin}rows"),
        Member("statistics trees", trees, "statistics", native=True),
        Member("statistics boosting", boosting, "statistics"),
        Member("near bags", near, "near"),
        Member("near bags in the cube", near, "near_cube"),
        *standard_members(plan)[:2],
        Member("MILES", L1SVC(10.0), "prototypes"),
        Member("instance forest", on_trees, f"{thin}dense"),
    ]
    return [m for m in members if m.name not in plan.dropped]


def standard_members(plan):
    """Return members whose bag score can only rise with an instance.

    The largest score of an instance, or one minus the product of the instances'
    probabilities of being negative: what the standard assumption asks for.
    """
    thin = "" if plan.max_bag_size is None else "thin_"
    rbf = MISVM(C=10.0, n_components=plan.basis, **_UNCUT)
    linear = MISVM(C=1.0, kernel="linear", **_UNCUT)
    milr = MILogisticRegression(100.0, pooling="noisy_or", loss="log", **_UNCUT)
    return [
        Member("MILBoost", MILBoost(100, pooling="noisy_or"), f"{thin}dense"),
        # It learns from witnesses alone, and is trusted on instances first.
        Member("MI-SVM", rbf, f"{thin}rows", trust=1.0),
        Member("linear MI-SVM", linear, f"{thin}rows"),
        Member("MILR", milr, f"{thin}rows"),
    ]


def _exact_seconds(size, plan):
    per_bag = min(size.n_instances / size.n_bags, plan.max_emd)
    return 1.6e-7 * size.n_bags**2 * (20 + 4 * per_bag)


def view_seconds(size):
    """Guess what it costs to standardise the instances and to project wide rows."""
    entries = float(size.n_instances) * size.width
    rate = 4e-8 if size.width == size.n_features else 6e-8
    # Axes are found from a sample: of many entries most are only projected.
    few = min(entries, _MANY_ENTRIES)
    return rate * few + 2e-8 * (entries - few)


def estimated_seconds(name, size, plan, n_fits):
    """Guess what a member costs, from its growth and one machine's constants.

    The constants are processor seconds of one core that multiplies matrices at about
    20 gigaflops in double precision. They are not measured anew: the members of a fit
    must not depend on how busy a machine is.
    """
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    rows = N if plan.max_bag_size is None else min(N, n * plan.max_bag_size)
    many = min(N, plan.max_prototypes or N)
    few, long = sorted((n, many))
    bags_drawn = min(n, plan.bag_draws or n)
    if plan.exact_distances:
        near = _exact_seconds(size, plan)
    else:
        near = 1e-5 * N + 1e-8 * N * d + 7e-8 * n * n
    near += n_fits * (0.007 + 3e-8 * n * n)
    tree = 1.3e-3 + 1.2e-7 * bags_drawn * (4 * d) ** 0.5 + 1e-7 * n
    if plan.tree_draws is None:
        forest = 0.18 + 5e-5 * d**0.5 * N
    else:
        forest = 0.2 + 2e-5 * d**0.5 * plan.tree_draws + 7e-6 * rows
    if plan.basis is None:
        witnesses = 0.01 + 3e-8 * N * N
    else:
        witnesses = 0.1 + 3.5e-7 * rows * plan.basis
    guesses = {
        "statistics SVC": n_fits * (0.008 + 2.4e-10 * n * n * 4 * d),
        "statistics trees": n_fits * plan.n_trees * tree,
        "statistics boosting": n_fits * (0.05 + 1.3e-6 * n * d),
        "Fisher vector": d * (2.5e-7 * rows + 5e-8 * N)
        + n_fits * (0.007 + 2.5e-7 * n * d),
        "near bags": near,
        "near bags in the cube": near,
        "MILES": many * d * (4e-10 * rows + 1e-10 * N)
        + n_fits * (0.012 + 6e-10 * few * few * long),
        # All instances are scored once over the folds by 100 trees.
        "instance forest": n_fits * forest + 2e-5 * N,
        "instance logistic": n_fits * (0.01 + 2.5e-8 * rows * d),
        "MILBoost": n_fits * (0.03 + rows * (2.5e-5 + 3e-7 * d)),
        "MI-SVM": n_fits * witnesses,
        "linear MI-SVM": n_fits * (0.03 + 6e-4 * n + 2e-7 * rows * d),
        "MILR": n_fits * (0.02 + 5e-7 * rows * d),
    }
    return guesses.get(name, 0.0)
