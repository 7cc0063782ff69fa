"""Stacking of bag classifiers: out-of-fold scores, robust scaling, two stackers."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise._compat import Interval, StrOptions
from bagwise.bags import Ragged
from bagwise.base import (
    ProbabilityMixin,
    WeightedBagClassifier,
    bag_folds,
    most_folds,
)
from bagwise.ensemble._combine import Combination


@dataclass
class Member:
    """A classifier and the view of the bags it learns from."""

    name: str
    estimator: Any
    view: str = "bags"


class PlainViews:
    """The bags themselves as the only view.

    A set of views gives, for the training bags and for others, objects that are
    indexed by bag. `columns` holds, for a view whose columns stand for training bags or
    for their instances, the training bag of each column: a member that learns from some
    bags may see only their columns.
    """

    columns: dict = {}

    def __init__(self, X):
        self.train = {"bags": X}

    def of(self, X):
        """Return the views of other bags."""
        return {"bags": X}

    def without_train(self):
        """Forget what only training needs."""
        self.train = {}
        return self


def take(views, name, columns, bags, learned_from):
    """Return rows `bags` of a view, with the columns of the bags `learned_from`."""
    rows = views[name] if bags is None else views[name][bags]
    if name not in columns or learned_from is None:
        return rows
    return rows[:, np.isin(columns[name], learned_from)]


def score_rows(model, rows):
    """Return the decision value of the positive class."""
    if hasattr(model, "decision_function"):
        return model.decision_function(rows)
    p = np.clip(model.predict_proba(rows)[:, 1], 1e-6, 1.0 - 1e-6)
    return np.log(p) - np.log1p(-p)


def _seeded(estimator, seed):
    """Clone an estimator and fix every random state in it."""
    model = clone(estimator)
    names = [
        name
        for name in model.get_params()
        if name == "random_state" or name.endswith("__random_state")
    ]
    return model.set_params(**dict.fromkeys(names, seed))


def _fit_member(member, rows, t, weight, seed):
    model = _seeded(member.estimator, seed)
    options = {}
    if not (weight == 1.0).all() and has_fit_parameter(model, "sample_weight"):
        options["sample_weight"] = weight
    return model.fit(rows, t > 0, **options)


def _out_of_fold(member, train_rows, test_rows, t, weight, seed):
    model = _fit_member(member, train_rows, t, weight, seed)
    return score_rows(model, test_rows)


class BagStackingClassifier(ProbabilityMixin, WeightedBagClassifier):
    r"""Combine bag classifiers by what they say of bags they have not seen.

    Every member scores every training bag out of fold. A Platt curve turns the scores
    of member :math:`m` into log-odds :math:`l_m`, and the stack is

    .. math:: f(B) = \sum_m w_m\, l_m(B) + b

    where :math:`w, b` is the mean of two regularised logistic regressions, one with
    non-negative weights and one without sign. Members are then refitted on all bags.

    Parameters
    ----------
    estimators : list of (str, estimator), default=None
        Names and bag classifiers. By default SimpleMI and WrapperMI.
    cv : int, default=5
        Number of stratified folds; fewer when a class has fewer bags.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    n_jobs : int, default=None
        Members and folds fitted at the same time. The result does not depend on it.
    random_state : int or RandomState, default=None
        Folds and members.
    verbose : int, default=0
        Shows a progress bar when positive.

    Attributes
    ----------
    members_ : dict of str to estimator
        The members, refitted on all training bags.
    member_weights_ : dict of str to float
        Their weights :math:`w_m` on log-odds.
    member_scores_ : dict of str to float
        Area under the ROC curve of each member's out-of-fold scores.
    oof_scores_ : ndarray of shape (n_bags, n_members)
        The out-of-fold scores.

    Notes
    -----
    `instance_scores` is the weighted mean of the log-odds that members with instance
    scores give to an instance, with the curve and the (non-negative part of the) weight
    they have as judges of bags: it ranks instances by what the stack believes, it is
    not a part of the decision. Costs ``cv + 1`` fits of every member.

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
        "cv": [Interval(Integral, 2, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimators=None,
        *,
        cv=5,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.estimators = estimators
        self.cv = cv
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- what a subclass with views of its own changes ---------------------------------

    def _make_views(self, X):
        return PlainViews(X)

    def _make_members(self, X):
        from bagwise.compose import SimpleMI, WrapperMI

        chosen = self.estimators
        if chosen is None:
            chosen = [("simple", SimpleMI()), ("wrapper", WrapperMI())]
        if not chosen or len({name for name, _ in chosen}) < len(chosen):
            raise ValueError(
                "estimators must be a list of (name, estimator) with "
                "at least one entry and no name twice."
            )
        return [Member(name, estimator) for name, estimator in chosen]

    # ----------------------------------------------------------------------------------

    def _prepare(self, X):
        # Label-free, hence once for all classes, folds and members.
        self._members = self._make_members(X)
        self.views_ = self._make_views(X)

    def _unfitted_copy(self):
        one = super()._unfitted_copy()
        if hasattr(self, "views_"):
            one._members, one.views_ = self._members, self.views_
        return one

    def _fit_binary(self, X, t, bag_weight):
        views, members = self.views_, self._members
        folds, seed = self._folds(X, t)
        tasks = [(member, train, test) for member in members for train, test in folds]
        jobs = [
            delayed(_out_of_fold)(
                member,
                take(views.train, member.view, views.columns, train, train),
                take(views.train, member.view, views.columns, test, train),
                t[train],
                bag_weight[train],
                seed,
            )
            for member, train, test in tasks
        ]
        jobs += [
            delayed(_fit_member)(
                m, take(views.train, m.view, {}, None, None), t, bag_weight, seed
            )
            for m in members
        ]
        results = self._run(jobs)
        scores = np.empty((len(t), len(members)))
        for k, (_, _, test) in enumerate(tasks):
            scores[test, k // len(folds)] = results[k]
        self.oof_scores_ = scores
        self._combination = Combination.fit(scores, t > 0, bag_weight)
        names = [m.name for m in members]
        self._views_used = [m.view for m in members]
        self.members_ = dict(zip(names, results[len(tasks) :], strict=True))
        weights = self._combination.coef
        self.member_weights_ = dict(zip(names, map(float, weights), strict=True))
        areas = [roc_auc_score(t > 0, column) for column in scores.T]
        self.member_scores_ = dict(zip(names, map(float, areas), strict=True))

    def _folds(self, X, t):
        n_splits = most_folds(X, t, self.cv)
        if n_splits < 2:
            raise ValueError(
                "stacking needs at least 2 bags (or groups) of each class, to score "
                f"bags by members that did not see them; a class has {n_splits}."
            )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return bag_folds(X, t, n_splits, random_state=seed), seed

    def _run(self, jobs):
        if not self.verbose:
            return Parallel(n_jobs=self.n_jobs)(jobs)
        from rich.progress import track

        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)
        return list(track(results, total=len(jobs), description=type(self).__name__))

    def _fit_classes(self, X, y, sample_weight):
        super()._fit_classes(X, y, sample_weight)
        self.views_.without_train()
        del self._members
        return self

    def _fit_arrays(self):
        """Return what the stack trusts; means over the classes where each has one."""
        parts = self._parts()
        names = list(parts[0].member_weights_)
        weights = [[part.member_weights_[name] for name in names] for part in parts]
        areas = [[part.member_scores_[name] for name in names] for part in parts]
        return {
            "member_names": np.array(names),
            "member_weights": np.mean(weights, axis=0),
            "member_scores": np.mean(areas, axis=0),
        }

    def _member_scores(self, views):
        columns = [
            score_rows(model, views[view])
            for model, view in zip(
                self.members_.values(), self._views_used, strict=True
            )
        ]
        return np.column_stack(columns)

    def _combine(self, views):
        return self._combination(self._member_scores(views))

    def _collect(self, method, X):
        """Compute the views of `X` once and ask every class's stack."""
        views = self.views_.of(X)
        columns = [getattr(one, method)(views) for one in self._parts()]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def _decide(self, X):
        """Return the log-odds of each bag."""
        return self._collect("_combine", X)

    def _probabilities(self, X):
        p = expit(self._decide(X))
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p])
        return p / p.sum(axis=1, keepdims=True)

    def _instance_members(self):
        """Yield (weight, scale, model, view) of the members that score instances."""
        models = list(self.members_.values())
        can = [
            k
            for k, view in enumerate(self._views_used)
            if hasattr(models[k], "instance_scores") and view not in self.views_.columns
        ]
        weights = np.maximum(self._combination.coef[can], 0.0)
        if weights.sum() <= 0:  # the stack trusts none of them more than another
            weights = np.ones(len(can))
        for k, weight in zip(can, weights / weights.sum(), strict=True):
            yield weight, self._combination.scales[k], models[k], self._views_used[k]

    def _judge_instances(self, views):
        total = 0.0
        for weight, scale, model, view in self._instance_members():
            total = total + weight * scale(model.instance_scores(views[view]).values)
        return total

    def _has_instance_members(self):
        if not (hasattr(self, "members_") or hasattr(self, "estimators_")):
            return True  # not fitted: it may have them
        return any(True for _ in self._parts()[0]._instance_members())

    @available_if(_has_instance_members)
    def instance_scores(self, X):
        """Return what the members that score instances say, weighted as judges of bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One mean log-odds per instance, or one row with a column per class.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return Ragged(self._collect("_judge_instances", X), X.offsets)
