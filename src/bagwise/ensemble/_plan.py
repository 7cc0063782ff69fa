"""The plan of a default stack: its size, its approximations, its costs, its members."""

import warnings
from dataclasses import asdict, dataclass, field

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from bagwise._sizes import memory_budget
from bagwise.ensemble._inputs import (
    PROJECTED,
    WIDE,
    check_rows,
    few_entries,
    pooled_columns,
    share_of_entries,
    spread_out,
)
from bagwise.ensemble._stack import Budget, fit_stack, named_members

# Entries up to which standardization runs at the rate of small data.
_MANY_ENTRIES = 100_000_000
# Time limit, in seconds, of exact earth mover's distances on one scale.
_EXACT_SECONDS = 5.0
_MAX_EMD, _MAX_EMD_MANY, _MANY_INSTANCES = 40, 15, 10_000
# Rows sampled per tree, basis size of the max-margin member, and the number of
# instances above which a basis and selected prototypes replace all instances.
_TREE_ROWS, _BASIS, _EXACT_BASIS = 2_000, 100, 2_000
# (Bags, prototypes): the cost of MILES is quadratic in the smaller number.
_PROTOTYPES = ((500, 1_000), (5_000, 500), (None, 300))
# Trees on statistics; from the second number of bags on, the third number of trees.
_TREES, _MANY_BAGS, _TREES_OF_MANY = 200, 1_000, 100
# Maximum number of instances for members that learn from single instances.
_MAX_ROWS, _MIN_BAG_SIZE = 50_000, 20
# Above this many bags, members with quadratic cost in the bags are left out; the set
# kernel evaluates all pairs of instances.
_QUADRATIC_LIMIT, MAX_PAIRS_ROWS = 5_000, 5_000
QUADRATIC = ("Wasserstein", "Wasserstein (min-max)")
# The weakest members are found on a quarter of the bags, at most the first number, and
# left out. If that is fewer than the second number, the most expensive are left out.
_TRIAL_BAGS, _LEAST_TRIAL = 2_000, 150


# Size and plan ------------------------------------------------------------------------


@dataclass
class Size:
    """The numbers that costs depend on; `n_features` after projection, `width` before.

    Of sparse rows, the width is the mean number of entries. `n_pooled` original columns
    are pooled where rows are wide, all columns elsewhere. Wide rows may be sparse.
    """

    n_bags: int
    n_instances: int
    n_features: int
    width: float
    n_pooled: int
    is_wide: bool
    is_wide_sparse: bool

    @classmethod
    def of(cls, X):
        """Return the size of bags."""
        width = X.n_features
        sparse = few_entries(X)
        if sparse:
            width *= share_of_entries(X)
        wide = X.n_features > WIDE
        columns = PROJECTED if wide else X.n_features
        pooled = min(X.n_features, pooled_columns(len(X)))
        return cls(
            len(X), X.n_instances, columns, float(width), pooled, wide, wide and sparse
        )


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
    trial : dict of str to float
        Scores of members on a part of the bags, where some had to be left out.
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
    trial: dict = field(default_factory=dict)
    estimated_seconds: float = 0.0

    def keep_within(self, cost, seconds, shared, strength=None):
        """Drop members until the rest fits into the budget.

        Parameters
        ----------
        cost : dict of str to float
            Estimated seconds of every member.
        seconds : float or None
            The budget; None for none.
        shared : float
            Estimated seconds of what all members share.
        strength : dict of str to float, default=None
            How well members predict: the strongest stay, as far as time permits.
            Without it the most expensive are dropped.
        """
        left = np.inf if seconds is None else seconds - shared
        order = {k: -v for k, v in (cost if strength is None else strength).items()}
        over = sum(cost.values()) - left
        kept = dict(cost)
        if strength is None:
            for name in sorted(cost, key=order.get)[:-1]:
                if over <= 0:
                    break
                over -= kept.pop(name)
        elif over > 0:
            kept = {}
            for name in sorted(cost, key=order.get):
                if cost[name] <= left:
                    left -= cost[name]
                    kept[name] = cost[name]
            if not kept:
                least = min(cost, key=lambda name: (cost[name], order[name]))
                kept[least] = cost[least]
        for name in cost.keys() - kept.keys():
            why = f"about {cost[name]:.1f} s, over the time budget"
            if strength is not None:
                why += f"; {strength[name]:.3f} on a part of the bags"
            self.dropped[name] = why
        self.members = [name for name in cost if name in kept]
        self.costs = {"views": shared, **{k: cost[k] for k in self.members}}
        self.estimated_seconds = float(sum(self.costs.values()))


def choose_members(
    parameter, X, y, weight, make, *, n_classes, n_fits, budget, random_state, n_jobs
):
    """Return the members of a stack, and what the size of the data had to do with them.

    Parameters
    ----------
    parameter : "default" or list of (str, estimator)
        The parameter `members`.
    X, y, weight : Bags and ndarray of shape (n_bags,)
        The training bags, their codes of classes or values (a column per target), and
        their weights.
    make : callable
        Gets a plan and a size and returns the default members.
    n_classes : int
        How many classes there are; 0 for values.
    n_fits : int
        How often each member is fitted.
    budget : Budget
        What they may cost.
    random_state : int, RandomState or None
        Seeds members that are measured on a part of the bags.
    n_jobs : int or None
        Fits at the same time.

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
    check_rows(X, [member.input for member in members])
    cost = {member.name: member.seconds(n_fits, n_classes) for member in members}
    shared = shared_seconds(size)
    over = budget.seconds is not None and shared + sum(cost.values()) > budget.seconds
    if over and len(X) >= 4 * _LEAST_TRIAL and not X.on_disk:
        few = Size.of(X[_trial_bags(y, n_classes)])
        n_trials = 3 * (y.shape[1] if y.ndim == 2 else 1)
        trial = shared_seconds(few) + sum(
            member.seconds(n_trials, n_classes) for member in make(make_plan(few), few)
        )
        if trial <= 0.5 * budget.seconds:
            shared += trial
            options = {"random_state": random_state, "n_jobs": n_jobs}
            plan.trial = measure_members(members, X, y, weight, n_classes, **options)
    plan.keep_within(cost, budget.seconds, shared, plan.trial or None)
    return [m for m in members if m.name in plan.members], plan


def _trial_bags(y, n_classes):
    """Return positions of a part of the bags, with the same share of every class."""
    share = min(0.25, _TRIAL_BAGS / len(y))
    if not n_classes:
        return spread_out(len(y), int(share * len(y)))
    parts = [np.flatnonzero(y == k) for k in range(n_classes)]
    few = [
        part[spread_out(len(part), max(20, int(share * len(part))))] for part in parts
    ]
    return np.sort(np.concatenate(few))


def measure_members(members, X, y, weight, n_classes, *, random_state, n_jobs):
    """Return out-of-fold scores of members on a part of the bags.

    Parameters
    ----------
    members : list of Member
        The members.
    X, y, weight : Bags and ndarray of shape (n_bags,)
        All training bags.
    n_classes : int
        How many classes there are; 0 for values.
    random_state : int, RandomState or None
        Random seed of folds and members.
    n_jobs : int or None
        Fits at the same time.

    Returns
    -------
    dict of str to float
        Area under the ROC curve, the mean over classes, or the coefficient of
        determination.
    """
    part = _trial_bags(y, n_classes)
    y = y[part]
    stack, seen = fit_stack(
        members,
        X[part],
        y,
        weight[part],
        n_classes=n_classes,
        cv=2,
        random_state=random_state,
        n_jobs=n_jobs,
        budget=Budget(None),
    )
    found = {}
    for name, scores in zip(stack.names, np.moveaxis(seen.scores, 1, 0), strict=True):
        if n_classes:
            codes = [1] if n_classes == 2 else range(n_classes)
            areas = [
                roc_auc_score(y == k, s) for k, s in zip(codes, scores.T, strict=True)
            ]
            found[name] = float(np.mean(areas))
        else:
            found[name] = float(r2_score(y.reshape(len(y), -1), scores))
    return found


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
        name: "the time budget was used up" for name in planned if name not in fitted
    }
    late = [name for name, why in dropped.items() if "time" in why]
    if late:
        warnings.warn(
            f"{stack} excludes {', '.join(late)} to stay within a time budget of "
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


def refuse_quadratic(plan, size, names):
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


# Costs --------------------------------------------------------------------------------
#
# The constants are CPU seconds of one core that multiplies matrices at about 20 GFLOPS
# in double precision. They are not measured at run time: the members of a fit must not
# depend on the load of the computer.


def shared_seconds(size):
    """Estimate what it costs to standardize instances and to project wide rows."""
    entries = float(size.n_instances) * size.width
    rate = 4e-8 if size.width == size.n_features else 6e-8
    # Axes are found from a sample: of many entries most are only projected.
    few = min(entries, _MANY_ENTRIES)
    return rate * few + 2e-8 * (entries - few)


def fitted_rows(plan, size):
    """Return how many instances members that learn from instances are fitted to."""
    if plan.max_bag_size is None:
        return float(size.n_instances)
    return min(float(size.n_instances), float(size.n_bags) * plan.max_bag_size)


def _exact_seconds(size, plan):
    per_bag = min(size.n_instances / size.n_bags, plan.max_emd)
    return 1.6e-7 * size.n_bags**2 * (20 + 4 * per_bag)


def near_seconds(size, plan):
    if plan.exact_distances:
        return _exact_seconds(size, plan)
    n, N, d = float(size.n_bags), float(size.n_instances), float(size.n_features)
    return 1e-5 * N + 1e-8 * N * d + 7e-8 * n * n


def forest_seconds(size, plan):
    N, d = float(size.n_instances), float(size.n_features)
    if plan.tree_draws is None:
        per_fit = 0.18 + 5e-5 * d**0.5 * N
    else:
        per_fit = 0.2 + 2e-5 * d**0.5 * plan.tree_draws + 7e-6 * fitted_rows(plan, size)
    # All instances are scored once, out of fold, by 100 trees.
    return {"once": 2e-5 * N, "per_fit": per_fit}
