"""BagClassifier and BagStackingClassifier: members combined by out-of-fold scores."""

from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy.special import expit
from scipy.stats import binomtest, spearmanr
from sklearn.metrics import roc_auc_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions
from bagwise.bags import Ragged
from bagwise.base import MulticlassBagClassifier, ProbabilityMixin
from bagwise.compose import SimpleMI, WrapperMI
from bagwise.ensemble._combine import (
    Combination,
    InstanceCombination,
    prior_weights,
    without_negligible,
)
from bagwise.ensemble._inputs import EncodesColumns
from bagwise.ensemble._members import classification_members
from bagwise.ensemble._outliers import OutlierScoresMixin, TrainingDistances
from bagwise.ensemble._plan import choose_members, report_plan
from bagwise.ensemble._stack import Budget, fit_stack, named_members, scaled_to_one

# The choice of the assumption matters if members that respect the standard assumption
# and the others differ on this share of the out-of-fold predictions, and one side is
# correct significantly more often (at this level).
_DISAGREEMENT, _LEVEL = 0.2, 0.05
# The folds of default members are repeated below this number of bags.
_FEW_BAGS, _REPEATS = 60, 2
_CONSTRAINTS: dict = {
    "cv": [Interval(Integral, 2, None, closed="left")],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "pos_label": "no_validation",
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class StackedClassifier(EncodesColumns, ProbabilityMixin, MulticlassBagClassifier):
    """Fit and use a stack of classifiers; subclasses choose the members.

    Fitted attributes are those of `BagStackingClassifier`. `_stack` holds the members,
    `_combinations` one `Combination` per column of scores, `_on_instances` an
    `InstanceCombination`, or None where no member scores instances.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"  # each member scales its own columns
        tags.input_tags.order_invariant = False  # folds are made by position
        return tags

    def _fit_stack(
        self, members, X, codes, weight, *, signed=True, budget=None, n_repeats=1
    ):
        """Fit members, combine their out-of-fold scores, and weigh their instances."""
        n_classes = len(self.classes_)
        self._stack, seen = fit_stack(
            members,
            X,
            codes,
            weight,
            n_classes=n_classes,
            cv=self.cv,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            budget=Budget(None) if budget is None else budget,
            n_repeats=n_repeats,
            progress=type(self).__name__ if self.verbose else None,
        )
        scores = seen.scores
        positives = [codes == k for k in range(n_classes)]
        positives = positives[1:] if n_classes == 2 else positives
        rows = [np.tile(positive, n_repeats) for positive in positives]
        row_weight = np.tile(weight, n_repeats) / n_repeats
        options = {"signed": signed, "prior": prior_weights(seen.shares)}
        self._combinations = [
            Combination.fit(scores[:, :, k], positive, row_weight, **options)
            for k, positive in enumerate(rows)
        ]
        if seen.shares.any():  # the default members
            cost = np.array([one.cost for one in self._stack.inputs])
            self._combinations = without_negligible(
                self._combinations, scores, rows, row_weight, cost, **options
            )
        self._on_instances = InstanceCombination.fit(
            self._stack, seen, positives, weight
        )
        mean = scores.reshape(n_repeats, len(X), *scores.shape[1:]).mean(axis=0)
        self._describe(mean, positives)
        return seen

    def _describe(self, scores, positives):
        """Set the attributes with the members, their weights and scores."""
        names, several = self._stack.names, len(positives) > 1
        weights = np.array([c.coef for c in self._combinations])
        areas = [
            [roc_auc_score(positive, column) for column in scores[:, :, k].T]
            for k, positive in enumerate(positives)
        ]
        self.members_ = self._stack.by_name()
        self.member_weights_ = {
            name: weights[:, j] if several else float(weights[0, j])
            for j, name in enumerate(names)
        }
        means = map(float, np.mean(areas, axis=0))
        self.member_scores_ = dict(zip(names, means, strict=True))
        self.oof_scores_ = scores if several else scores[:, :, 0]

    def _fit_arrays(self):
        """Return weights and scores for reports; means over classes where there are."""
        names = list(self.member_weights_)
        weights = [np.mean(self.member_weights_[name]) for name in names]
        areas = [self.member_scores_[name] for name in names]
        return {
            "member_names": np.array(names),
            "member_weights": np.array(weights),
            "member_scores": np.array(areas),
        }

    def _member_scores(self, X):
        used = np.any([c.coef != 0.0 for c in self._combinations], axis=0)
        return self._stack.scores(X, used)

    def _decide(self, X):
        scores = self._member_scores(X)
        columns = [c(scores[:, :, k]) for k, c in enumerate(self._combinations)]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def _probabilities(self, X):
        p = expit(self._decide(X))
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p])
        return p / p.sum(axis=1, keepdims=True)

    def member_contributions(self, X):
        """Return the contribution of each member to the score of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_members) or (n_bags, n_members, n_classes)
            Weight times log-odds, in the order of `members_`, for the positive class
            (of two). Their sum and an intercept are the decision, exactly.
        """
        check_is_fitted(self)
        scores = self._member_scores(self._check_bags(X, reset=False))
        parts = [
            c.logits(scores[:, :, k]) * c.coef for k, c in enumerate(self._combinations)
        ]
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=2)

    def _scores_instances(self):
        return getattr(self, "_on_instances", self) is not None  # True if unfitted

    @available_if(_scores_instances)
    def instance_scores(self, X):
        """Return the weighted mean of the scores that members give to instances.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One score per instance, high for the positive class, or one row with a
            column per class.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return Ragged(self._on_instances(self._stack, X), X.offsets)


class BagStackingClassifier(StackedClassifier):
    r"""Combine bag classifiers by their out-of-fold scores.

    Every member scores every training bag out of fold. A Platt curve turns the scores
    of member :math:`m` into log-odds :math:`l_m`, and the stack is

    .. math:: f(B) = \sum_m w_m\, l_m(B) + b

    where :math:`w, b` is the mean of two regularized logistic regressions, one with
    non-negative weights and one without sign. Members are then refitted on all bags.
    With several classes there is one such sum for each.

    Parameters
    ----------
    estimators : list of (str, estimator), default=None
        Names and bag classifiers. By default SimpleMI and WrapperMI.
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
        Random seed of folds and members.
    verbose : int, default=0
        Shows a progress bar when positive.

    Attributes
    ----------
    members_ : dict of str to estimator or list of estimator
        The members, refitted on all training bags; a list with one for each class
        where a member knows two classes and there are more.
    member_weights_ : dict of str to float or ndarray of shape (n_classes,)
        Their weights :math:`w_m` on log-odds.
    member_scores_ : dict of str to float
        Area under the ROC curve of each member's out-of-fold scores (the mean over
        classes, each against the rest).
    oof_scores_ : ndarray of shape (n_bags, n_members) or (n_bags, n_members, n_classes)
        The out-of-fold scores.

    Notes
    -----
    `instance_scores` is a weighted mean of the scores that members give to instances,
    each in units of its spread over the training instances: 0 is the mean of these. The
    weights, not negative, are those of a logistic regression on the largest score that
    a member gives to an instance of each bag, out of fold: a member has weight on
    instances when its largest score separates positive and negative bags. If the bags
    contain no information, all members have the same weight. These weights do not
    affect the decision. The fit costs ``cv + 1`` fits of every member.

    Only ratios of weights of bags matter. Folds are made by the position of a bag and
    the random seed: another order of the training bags gives other folds, and with them
    slightly different weights of members. A bag that is given twice changes the folds
    as well: its effect is close to that of weight two, but not equal.

    Differs from [1]_: two stackers are averaged, and scores are scaled by robust Platt
    curves first.

    References
    ----------
    .. [1] Wolpert, D. H., "Stacked generalization", Neural Networks, 1992.
       :doi:`10.1016/S0893-6080(05)80023-1`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.ensemble import BagStackingClassifier
    >>> X, y = make_bags(random_state=0)
    >>> BagStackingClassifier(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "estimators": [list, None],
        **_CONSTRAINTS,
    }

    def __init__(
        self,
        estimators=None,
        *,
        cv=5,
        class_weight=None,
        pos_label=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.estimators = estimators
        self.cv = cv
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.asymmetric = _any_one_sided(self.estimators)
        return tags

    def _fit_codes(self, X, codes, weight):
        pairs = self.estimators
        if pairs is None:
            pairs = [("simple", SimpleMI()), ("wrapper", WrapperMI(threshold="zero"))]
        members = named_members(pairs, "estimators")
        self._fit_stack(members, X, codes, scaled_to_one(weight))


class BagClassifier(OutlierScoresMixin, StackedClassifier):
    r"""Classify bags with a stack of methods that needs no tuning.

    A fixed stack of members that describe bags in different ways: summary statistics
    (support vector machine, trees, boosting), Fisher vectors, earth mover's distances
    on two scales, similarities to instances (MILES), classifiers of instances (forest,
    logistic regression), boosting under the multi-instance loss, and a
    max-margin classifier of witnesses (MI-SVM); from 300 bags on also a linear MI-SVM
    and boosted trees on quantiles of the scores of boosted trees of instances. They are
    combined as in `BagStackingClassifier`:

    .. math:: f(B) = \sum_m w_m\, l_m(B) + b

    where :math:`l_m` are the scores of member :math:`m` (`members_`) as log-odds, and
    the weights :math:`w_m` (`member_weights_`) are learned from out-of-fold scores of
    the training bags (`cv`). With few bags they stay near weights that were chosen on
    other data: those of trees on statistics are four times those of the others; if rows
    are wide and sparse, those of trees and of a logistic regression on statistics of
    the original columns 32 times. With ``assumption="standard"`` no weight is
    negative. The weights of members that hardly matter are zero, and predictions do
    without them: as many as the out-of-fold log loss, with the other weights fitted
    anew, allows by growing at most 0.5% and 0.3 over all bags.

    Parameters
    ----------
    members : "default" or list of (str, estimator), default="default"
        The members. A list replaces the default members; its entries are fitted to the
        bags without preprocessing.
    assumption : {"any", "standard"}, default="any"
        "any" uses every difference between the classes, including the frequency of
        background instances. "standard" assumes that a bag is positive if and only if
        it has a positive instance: only members whose score can never fall when an
        instance is added to a bag, with weights that are not negative.
    cv : int, default=5
        Number of stratified folds; fewer when a class has fewer bags. Groups of bags
        stay together, and so do copies of a bag. Below 60 bags the default members are
        scored on two sets of folds.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive of two classes; the second of `classes_` by default.
    n_jobs : int, default=None
        Folds fitted at the same time. The result does not depend on it.
    random_state : int or RandomState, default=None
        Random seed of folds and members.
    time_budget : float, "auto" or None, default="auto"
        Seconds that `fit` should take. Where a rough estimate is above it, the members
        are scored on a quarter of the bags (at most 2,000), and the strongest that fit
        into the budget stay; below 600 bags the most expensive are dropped. With a
        number the clock is watched as well, and members for which no time is left are
        not fitted. A warning names them. "auto" is a budget of 60 s for the estimate
        alone, so that the result does not depend on the load of the computer. None sets
        no limit.
    verbose : int, default=0
        Shows a progress bar when positive.

    Attributes
    ----------
    members_, member_weights_, member_scores_ : dict
        The fitted members, their weights and their out-of-fold ROC areas.
    plan_ : dict
        What was chosen according to the size of the data: "members", "dropped" (name
        and reason), "exact_distances", "max_bag_size", "max_prototypes", "tree_draws",
        "trial" (scores of members on a part of the bags, where some had to be left
        out), "estimated_seconds" (processor seconds) and others.
    assumption_check_ : dict
        With two classes: out-of-fold predictions of the members that respect the
        standard assumption, as a stack of their own, next to those of all others.
        "disagree" is the share of bags with different predictions, "correlation" the
        rank correlation of the scores, "standard_accuracy" and "others_accuracy" the
        share of bags that each side predicts correctly, and "warn" whether a report
        should warn: more than a fifth of the predictions differ, and among these one
        group of members is correct significantly more often (sign test, 5%). If it is
        the group of the others, the classes differ in more than the presence of an
        instance. A shift after training cannot be detected here. Empty if there is
        nothing to compare.

    Notes
    -----
    Missing values are filled with the median of the column, next to a column that marks
    them; only ratios of weights of bags matter; features are standardized inside. More
    than 300 of them are projected on 100 principal axes; trees, a 1-norm SVM and, below
    300 bags of sparse rows, a logistic regression learn from statistics of the original
    ones (at most 2,000, chosen without labels). Sparse
    rows stay sparse for distances and linear members, without centering, so that the
    same bags give other scores as CSR than as dense arrays; more than 300 columns with
    less than 5% of entries that are not zero are taken as CSR. Inputs of members are
    computed once for the `cv` + 1 fits of each. Approximations replace what is
    quadratic as the data grow: sliced Wasserstein in place of exact earth mover's
    distances above roughly 800 bags of 7; above 2,000 instances a basis of 100
    instances and 1,000 prototypes, fewer from 500 bags on; above 4,000 instances or
    bags trees that sample 2,000 of them, from 1,000 bags on 100 trees in place of 200;
    at most 50,000 instances for members that learn from instances (all instances are
    scored); no members quadratic in the bags above 5,000. `plan_` lists what was done.
    1,000 bags of 7 take about 10 processor seconds, 20,000 about 100, and 400 bags of
    5,000 x 1,024 in half precision on a memory map about 150 and 2.2 GB (they are read
    in chunks; 100 columns of each instance are kept). "estimated_seconds" assumes a
    core that multiplies matrices at about 20 gigaflops.

    Folds are made by the position of a bag and the random seed: another order of the
    training bags gives other folds, and with them slightly different weights of
    members. A bag that is given twice changes the folds as well: its effect is close to
    that of weight two, but not equal.

    `instance_scores` is a weighted mean over the members that score instances, see
    `BagStackingClassifier`; if the bags contain no evidence, MI-SVM has all the weight.
    On 14 sets with known instances, their AUROC inside positive bags is at most 0.02
    below that of the best member, except on two newsgroups with 50 training bags
    (alt.atheism and talk.politics.guns: 0.03 below).

    Differs from [1]_: the members are fixed, two combinations are averaged and shrunk
    to fixed weights, and scores are scaled first, by Platt curves whose slopes are
    shrunk as well: with few bags, out-of-fold scores hardly show which member is good.

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
        **_CONSTRAINTS,
        "members": [StrOptions({"default"}), list],
        "assumption": [StrOptions({"any", "standard"})],
        "time_budget": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto"}),
            None,
        ],
    }

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
        # The default members include MILBoost, which is asymmetric.
        tags.input_tags.asymmetric = own or _any_one_sided(self.members)
        tags.input_tags.respects_standard_assumption = (
            self.assumption == "standard" if own else None
        )
        return tags

    def _reads_chunks(self, tags):
        return isinstance(self.members, str)  # rows are standardized in chunks

    def _fit_codes(self, X, codes, weight):
        budget = Budget(self.time_budget)
        standard = self.assumption == "standard"
        weight = scaled_to_one(weight)
        few = isinstance(self.members, str) and len(X) < _FEW_BAGS
        n_repeats = _REPEATS if few else 1
        members, plan = choose_members(
            self.members,
            X,
            codes,
            weight,
            partial(classification_members, standard=standard, n_jobs=self.n_jobs),
            n_classes=len(self.classes_),
            n_fits=n_repeats * self.cv + 1,
            budget=budget,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        seen = self._fit_stack(
            members,
            X,
            codes,
            weight,
            signed=not standard,
            budget=budget,
            n_repeats=n_repeats,
        )
        self._distances = TrainingDistances.fit(seen.made, members, X)
        self.plan_ = report_plan(plan, self._stack.names, "BagClassifier", budget)
        self.assumption_check_ = self._check_assumption(codes, weight)

    def _check_assumption(self, codes, weight):
        """Compare the members of both kinds, where there are two classes."""
        respects = np.array([_respects(models[0]) for models in self._stack.models])
        if len(self.classes_) > 2 or not respects.any() or respects.all():
            return {}
        return compare_sides(self.oof_scores_, respects, codes == 1, weight)

    def _fit_arrays(self):
        """Return weights and scores, and whether the two kinds of members agree."""
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


def _any_one_sided(pairs):
    """Whether one of (name, estimator) treats the positive class differently."""
    return any(
        getattr(get_tags(one).input_tags, "asymmetric", False) for _, one in pairs or ()
    )
