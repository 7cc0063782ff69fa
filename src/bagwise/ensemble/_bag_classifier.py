"""BagClassifier: one line, no tuning."""

from numbers import Real

import numpy as np
from scipy.stats import binomtest, spearmanr

from bagwise._compat import Interval, StrOptions
from bagwise.ensemble._combine import Combination
from bagwise.ensemble._members import Clock
from bagwise.ensemble._plan import (
    Size,
    default_members,
    estimated_seconds,
    make_plan,
    standard_members,
    view_seconds,
)
from bagwise.ensemble._stacking import BagStackingClassifier
from bagwise.ensemble._views import DefaultViews

_AUTO_SECONDS = 60.0
# Members that respect the standard assumption and the rest of the stack call so many
# bags differently, out of fold, that the choice of the assumption matters, and one side
# is right more often than chance would have it.
_DISAGREEMENT, _LEVEL = 0.2, 0.05


class BagClassifier(BagStackingClassifier):
    r"""Classify bags without choosing or tuning anything.

    A fixed stack of members that look at bags in different ways: summary statistics
    (support vector machine, trees, boosting), Fisher vectors, earth mover's distances
    on two scales, similarities to instances (MILES), classifiers of instances (forest,
    logistic regression), boosting under the multi-instance loss, and a max-margin
    machine on witnesses (MI-SVM). They are combined as in `BagStackingClassifier`:

    .. math:: f(B) = \sum_m w_m\, l_m(B) + b

    where :math:`l_m` are the scores of member :math:`m` (`members_`) as log-odds, and
    the weights :math:`w_m` (`member_weights_`) are learned from what members say of
    bags that they have not seen (`cv`). With ``assumption="standard"`` no weight is
    negative.

    Parameters
    ----------
    members : "default" or list of (str, estimator), default="default"
        The members; a list takes the place of the default ones, and every entry learns
        from the bags as they are.
    assumption : {"any", "standard"}, default="any"
        "any" learns whatever tells the training bags apart, also from the frequency of
        harmless instances. "standard" holds that a bag is positive if and only if it
        has a positive instance: only members whose score can never fall when an
        instance joins a bag, with weights that are not negative.
    cv : int, default=5
        Number of stratified folds; fewer when a class has fewer bags. Groups of bags
        stay together, and so do copies of a bag.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive of two classes; the second of `classes_` by default.
    n_jobs : int, default=None
        Folds fitted at the same time. The result does not depend on it.
    random_state : int or RandomState, default=None
        Folds and members.
    time_budget : float, "auto" or None, default="auto"
        Seconds that `fit` should take. Members are dropped, the dearest by a rough
        estimate first, until the estimate fits; with a number the clock is watched as
        well, and members for which no time is left are not fitted. A warning names
        them. "auto" plans for 60 s by the estimate alone, so that the result does not
        depend on how busy the machine is. None sets no limit.
    verbose : int, default=0
        Shows a progress bar when positive.

    Attributes
    ----------
    members_, member_weights_, member_scores_ : dict
        The fitted members, their weights and their out-of-fold ROC areas.
    plan_ : dict
        What was chosen by the size of the data: "members", "dropped" (name and
        reason), "exact_distances", "max_bag_size", "max_prototypes", "tree_draws",
        "estimated_seconds" (processor seconds) and others.
    assumption_check_ : dict
        With two classes: what members that respect the standard assumption, stacked
        among themselves, say out of fold of the training bags, next to all others.
        "disagree" is the share of bags that the two sides call differently,
        "correlation" the rank correlation of their scores, "standard_accuracy" and
        "others_accuracy" the share of bags each side has right, and "warn" whether a
        report should tell: more than a fifth are called differently, and of these one
        side has more right than chance explains (sign test, 5%). If that is the others,
        the classes differ in more than the presence of an instance. A shift that comes
        after training cannot be seen here. Empty where it does not apply.

    Notes
    -----
    Missing values are filled with the median of the column, next to a column that says
    so; weights of bags count by their ratios alone; features are standardised inside,
    and more than 300 of them are projected on 100 principal axes. Sparse rows stay
    sparse for distances and linear members. Each
    of the `cv` + 1 fits of a member sees views that were computed once. What is
    quadratic gives way as the data grow: sliced Wasserstein in place of exact earth
    mover's distances above roughly 800 bags of 7; above 2,000 instances a basis of 100
    instances and 1,000 prototypes, of which fewer from 500 bags on; above 4,000
    instances or bags trees that draw 2,000 of them, from 1,000 bags on 100 trees in
    place of 200; at most 50,000 instances for members that learn from instances (all
    instances are scored); no members quadratic in the bags above 5,000. `plan_` says
    what was done. 1,000 bags of 7 take about 10 processor seconds, 20,000 about 100,
    and 400 bags of 5,000 x 1,024 in half precision on a memory map about 150 and 2.2 GB
    (they are read in pieces; 100 columns of each instance are kept).
    "estimated_seconds" is meant for a core like the one it was measured on, which
    multiplies matrices at about 20 gigaflops, and another one differs in proportion.

    `instance_scores` weighs the members that score instances, see
    `BagStackingClassifier`; where bags tell nothing of them, MI-SVM speaks. On 14 sets
    with known instances their ROC area inside positive bags is that of the best member
    less at most .02, but for two newsgroups with 50 training bags (alt.atheism and
    talk.politics.guns: less .03).

    Differs from [1]_: the members are fixed, two combinations are averaged, and scores
    are scaled by robust Platt curves first.

    References
    ----------
    .. [1] Wolpert, D. H., "Stacked generalization", Neural Networks, 1992.
       :doi:`10.1016/S0893-6080(05)80023-1`

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
        "assumption": [StrOptions({"any", "standard"})],
        "time_budget": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto"}),
            None,
        ],
    }
    _parameter_constraints.pop("estimators")
    _list_name = "members"

    def __init__(
        self,
        members="default",
        *,
        assumption="any",
        cv=5,
        class_weight=None,
        pos_label=None,
        n_jobs=None,
        random_state=None,
        time_budget="auto",
        verbose=0,
    ):
        self.members = members
        self.assumption = assumption
        self.cv = cv
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.time_budget = time_budget
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        own = isinstance(self.members, str)
        tags.input_tags.sparse = own
        tags.input_tags.allow_nan = own
        tags.input_tags.one_sided = own or tags.input_tags.one_sided  # MILBoost is
        tags.input_tags.respects_standard_assumption = (
            self.assumption == "standard" if own else None
        )
        return tags

    def _reads_pieces(self, tags):
        return isinstance(self.members, str)  # rows are standardised piece by piece

    @property
    def estimators(self):
        """The members, as the base class calls them."""
        return None if isinstance(self.members, str) else self.members

    def _seconds(self):
        return _AUTO_SECONDS if self.time_budget == "auto" else self.time_budget

    def _make_clock(self):
        return Clock(None if self.time_budget == "auto" else self.time_budget)

    def _costs(self):
        return None if self._plan is None else self._plan.costs

    def _make_members(self, X):
        if not isinstance(self.members, str):
            self._plan = None
            self.plan_ = {"members": [name for name, _ in self.members], "dropped": {}}
            return super()._make_members(X)
        size = Size.of(X)
        plan = make_plan(size)
        standard = self.assumption == "standard"
        members = standard_members(plan) if standard else default_members(plan)
        n_classes = len(self.classes_)
        cost = {}
        for m in members:
            fits = (self.cv + 1) * (1 if m.native or n_classes == 2 else n_classes)
            cost[m.name] = estimated_seconds(m.name, size, plan, fits)
        plan.keep_within(cost, self._seconds(), view_seconds(size))
        self._plan = plan
        return [m for m in members if m.name in plan.members]

    def _make_views(self, X, members):
        if self._plan is None:
            return super()._make_views(X, members)
        return DefaultViews(
            X,
            {m.view for m in members},
            self._plan,
            n_jobs=self.n_jobs,
            random_state=0,
        )

    def _finish(self, members, scores, models):
        super()._finish(members, scores, models)
        plan, self._plan = self._plan, None
        if plan is None:
            return
        plan.settle(list(models), "BagClassifier", self._seconds())
        self.plan_ = plan.to_dict()

    def _combine(self, scores, positive, weight):
        signed = self.assumption != "standard"
        return Combination.fit(scores, positive, weight, signed=signed)

    def _weigh(self, task, weight):
        super()._weigh(task, weight)
        self.assumption_check_ = {}
        if task.n_columns == 1:
            respects = np.array([_respects(models[0]) for models in self._models])
            if respects.any() and not respects.all():
                self.assumption_check_ = compare_sides(
                    self.oof_scores_, respects, task.codes == 1, weight
                )

    def _fit_arrays(self):
        """Return what the stack trusts, and whether its two kinds of members agree."""
        found = super()._fit_arrays()
        if self.assumption_check_:
            names = ("disagree", "standard_accuracy", "others_accuracy", "warn")
            check = [float(self.assumption_check_[name]) for name in names]
            found["assumption_check"] = np.array(check)
        return found


def compare_sides(scores, respects, positive, weight):
    """Compare members that respect the standard assumption with the others.

    Parameters
    ----------
    scores : ndarray of shape (n_bags, n_members)
        Out-of-fold scores.
    respects : ndarray of bool of shape (n_members,)
        The members of the first side.
    positive : ndarray of bool of shape (n_bags,)
        The labels.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.

    Returns
    -------
    dict
        See `BagClassifier.assumption_check_`.
    """
    sides = []
    for chosen in (respects, ~respects):
        side = Combination.fit(scores[:, chosen], positive, weight, signed=False)
        sides.append(side(scores[:, chosen]))
    one, other = sides
    varies = np.ptp(one) > 0 and np.ptp(other) > 0
    right = (one > 0) == positive, (other > 0) == positive
    differ = right[0] != right[1]
    first = int((right[0] & differ).sum())
    chance = binomtest(first, int(differ.sum())).pvalue if differ.any() else 1.0
    share = float(differ.mean())
    return {
        "disagree": share,
        "correlation": float(spearmanr(one, other).statistic) if varies else 0.0,
        "standard_accuracy": float(right[0].mean()),
        "others_accuracy": float(right[1].mean()),
        "warn": bool(share > _DISAGREEMENT and chance < _LEVEL),
    }


def _respects(model):
    tags = model.__sklearn_tags__().input_tags
    return getattr(tags, "respects_standard_assumption", None) is True
