"""BagClassifier: one line, no tuning."""

import warnings
from numbers import Real

from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from bagwise._compat import Interval, StrOptions
from bagwise.compose import WrapperMI
from bagwise.ensemble._mil_boost import MILBoost
from bagwise.ensemble._stacking import BagStackingClassifier, Member
from bagwise.ensemble._views import (
    PROJECTED,
    WIDE,
    ClippedScaler,
    DefaultViews,
)
from bagwise.kernels._instance import memory_budget
from bagwise.solvers.l1 import L1SVC

# Above these, landmarks, thinned bags and samples stand for all instances ...
_MANY_BAGS, _MANY_INSTANCES = 1_000, 10_000
_MAX_PROTOTYPES, _MAX_EMD, _MAX_EMD_MANY = 2_000, 40, 15
# ... and above this, members that are quadratic in the bags are left out.
_QUADRATIC_LIMIT = 5_000
_QUADRATIC = ("statistics SVC", "EMD", "EMD in the cube", "MILES")


def _is_many(n_bags, n_instances):
    return n_bags > _MANY_BAGS or n_instances > _MANY_INSTANCES


def default_members(tree_draws=None):
    """Return the ten members: what they are good at differs as much as can be.

    `tree_draws` is how many instances each tree of the forest draws; as many as there
    are when None. (A share would be one of the sum of the weights, the bags.)
    """
    forest = RandomForestClassifier(100, min_samples_leaf=2, max_samples=tree_draws)
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
    return [
        Member(
            "statistics SVC", make_pipeline(ClippedScaler(), SVC(C=10.0)), "statistics"
        ),
        Member("statistics trees", ExtraTreesClassifier(200), "statistics"),
        Member("statistics boosting", boosting, "statistics"),
        Member("Fisher vector", LinearSVC(C=1.0, dual="auto"), "fisher"),
        Member("EMD", SVC(C=10.0, kernel="precomputed"), "emd"),
        Member("EMD in the cube", SVC(C=10.0, kernel="precomputed"), "emd_cube"),
        Member("MILES", L1SVC(10.0), "prototypes"),
        Member("instance forest", WrapperMI(forest), "dense"),
        Member("instance logistic", WrapperMI(logistic), "rows"),
        Member("MILBoost", MILBoost(100, pooling="noisy_or"), "dense"),
    ]


def estimated_seconds(name, n_bags, n_instances, n_features, n_fits):
    """Guess what a member costs, from its growth and one machine's constants."""
    n, N, d = float(n_bags), float(n_instances), float(n_features)
    thinned = _is_many(n, N)
    per_bag = min(N / n, _MAX_EMD_MANY if thinned else _MAX_EMD)
    few, many = sorted((n, min(N, _MAX_PROTOTYPES) if thinned else N))
    distances = 1.2e-7 * n * n * (20 + 4 * per_bag) + n_fits * 1e-7 * n * n
    guesses = {
        "statistics SVC": n_fits * 1e-9 * n * n * 4 * d,
        "statistics trees": n_fits * (0.15 + 2e-5 * n * (4 * d) ** 0.5),
        "statistics boosting": n_fits * (0.05 + 1e-6 * n * d),
        "Fisher vector": 3e-7 * N * d + n_fits * 1e-6 * n * d,
        "EMD": distances,
        "EMD in the cube": distances,
        "MILES": 1e-9 * N * many * d + n_fits * (0.03 + 7.5e-10 * few * few * many),
        "instance forest": n_fits * (0.1 + 3e-4 * min(N, _MANY_INSTANCES)),
        "instance logistic": n_fits * (0.01 + 5e-8 * N * d),
        "MILBoost": n_fits * (0.02 + N * (3e-5 + 2e-7 * d)),
    }
    return guesses.get(name, 0.0)


class BagClassifier(BagStackingClassifier):
    r"""Classify bags without choosing or tuning anything.

    A fixed stack of ten members that look at bags in different ways: summary
    statistics (support vector machine, trees, boosting), Fisher vectors, earth mover's
    distances on two scales, similarities to instances (MILES), classifiers of
    instances (forest, logistic regression) and boosting under the multi-instance loss.
    They are combined as in `BagStackingClassifier`.

    Parameters
    ----------
    members : "default" or list of (str, estimator), default="default"
        The members; a list takes the place of the ten, and every entry learns from the
        bags as they are.
    cv : int, default=5
        Number of stratified folds; fewer when a class has fewer bags.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    n_jobs : int, default=None
        Members and folds fitted at the same time. The result does not depend on it.
    random_state : int or RandomState, default=None
        Folds and members.
    time_budget : float, default=None
        Seconds that `fit` should take. Members are dropped, the dearest by a rough
        estimate first, until the estimate fits; a warning names them.
    verbose : int, default=0
        Shows a progress bar when positive.

    Attributes
    ----------
    members_, member_weights_, member_scores_ : dict
        The fitted members, their weights and their out-of-fold ROC areas.
    plan_ : dict
        What was chosen by the size of the data: "members", "dropped" (name and reason),
        "max_prototypes", "max_emd_instances", "max_tree_instances" (drawn by a tree of
        the instance forest), "estimated_seconds" (processor seconds).

    Notes
    -----
    Above 1,000 bags or 10,000 instances at most 2,000 instances serve as landmarks and
    bags are thinned for the earth mover's distance; a tree of the instance forest draws
    at most 10,000 instances; above 5,000 bags (or beyond the
    memory budget) the members that are quadratic in the bags are left out. Features are
    standardised inside; sparse rows stay sparse for distances and the linear member.
    Each of the `cv` + 1 fits of a member sees views that were computed once. Processor
    seconds with 7 instances of 20 features a bag: 4 for 200 bags, 42 for 1,000,
    350 for 5,000 (most of them for earth mover's distances), 114 for 20,000.

    `instance_scores` weighs the members that score instances as judges of bags; see
    `BagStackingClassifier`.

    Examples
    --------
    >>> from bagwise import BagClassifier
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(40, random_state=0)
    >>> BagClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        **BagStackingClassifier._parameter_constraints,
        "members": [StrOptions({"default"}), list],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
    }
    _parameter_constraints.pop("estimators")

    def __init__(
        self,
        members="default",
        *,
        cv=5,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        time_budget=None,
        verbose=0,
    ):
        self.members = members
        self.cv = cv
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.time_budget = time_budget
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.members == "default"
        return tags

    @property
    def estimators(self):
        """The members, as the base class calls them."""
        return None if self.members == "default" else self.members

    def _make_members(self, X):
        if self.members != "default":
            self.plan_ = {"members": [name for name, _ in self.members], "dropped": {}}
            return super()._make_members(X)
        many = _is_many(len(X), X.n_instances)
        dropped = self._too_large(X)
        draws = None
        if X.n_instances > _MANY_INSTANCES:  # and never more than a fold has
            draws = min(_MANY_INSTANCES, X.n_instances // 2)
        members = default_members(draws)
        chosen = [m for m in members if m.name not in dropped]
        chosen, seconds = self._within_budget(X, chosen, dropped)
        self.plan_ = {
            "members": [m.name for m in chosen],
            "dropped": dropped,
            "max_prototypes": _MAX_PROTOTYPES if many else None,
            "max_emd_instances": _MAX_EMD_MANY if many else _MAX_EMD,
            "max_tree_instances": draws,
            "estimated_seconds": seconds,
        }
        return chosen

    def _too_large(self, X):
        """Return the quadratic members and why they are left out, if they are."""
        if len(X) > _QUADRATIC_LIMIT:
            reason = f"quadratic in the bags, and there are {len(X)}"
            return dict.fromkeys(_QUADRATIC, reason)
        matrices = 4 * 8.0 * len(X) ** 2
        if matrices > memory_budget():
            reason = f"its {matrices / 1e9:.1f} GB exceed the memory budget"
            return dict.fromkeys(_QUADRATIC, reason)
        return {}

    def _within_budget(self, X, members, dropped):
        """Drop the dearest members until the estimate is within `time_budget`."""
        n_classes = len(self.classes_)
        fits = (self.cv + 1) * (1 if n_classes == 2 else n_classes)
        # Wide sparse rows are projected, or cost what their entries cost.
        wide = X.is_sparse and X.n_features > WIDE
        sizes = (len(X), X.n_instances, PROJECTED if wide else X.n_features)
        cost = {m.name: estimated_seconds(m.name, *sizes, fits) for m in members}
        total = sum(cost.values())
        if self.time_budget is None or total <= self.time_budget:
            return members, total
        gone = []
        while total > self.time_budget and len(cost) > 1:
            dearest = max(cost, key=cost.get)
            seconds = cost.pop(dearest)
            total -= seconds
            gone.append(dearest)
            dropped[dearest] = f"about {seconds:.1f} s, over the time budget"
        warnings.warn(
            f"BagClassifier leaves out {', '.join(gone)} to keep to a time budget of "
            f"{self.time_budget:g} s (estimated: {total:.1f} s).",
            UserWarning,
            stacklevel=2,
        )
        return [m for m in members if m.name in cost], total

    def _make_views(self, X):
        if self.members != "default":
            return super()._make_views(X)
        seed = self.random_state if isinstance(self.random_state, int) else 0
        return DefaultViews(
            X,
            {m.view for m in self._members},
            max_prototypes=self.plan_["max_prototypes"],
            max_emd=self.plan_["max_emd_instances"],
            n_jobs=self.n_jobs,
            random_state=seed,
        )
