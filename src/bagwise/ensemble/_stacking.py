"""Stacking of bag classifiers: out-of-fold scores, robust scaling, two stackers."""

from numbers import Integral

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions
from bagwise.bags import Ragged
from bagwise.base import (
    MulticlassBagClassifier,
    ProbabilityMixin,
    most_folds,
)
from bagwise.compose import SimpleMI, WrapperMI
from bagwise.ensemble._combine import Combination, instance_shares
from bagwise.ensemble._members import (
    Classes,
    Clock,
    Member,
    PlainViews,
    fit_members,
    scaled_to_one,
    stack_folds,
)
from bagwise.kernels.emd import thin_bags

# Training instances that show the scale of a member's scores.
_SCALE_ROWS = 20_000


class BagStackingClassifier(ProbabilityMixin, MulticlassBagClassifier):
    r"""Combine bag classifiers by what they say of bags they have not seen.

    Every member scores every training bag out of fold. A Platt curve turns the scores
    of member :math:`m` into log-odds :math:`l_m`, and the stack is

    .. math:: f(B) = \sum_m w_m\, l_m(B) + b

    where :math:`w, b` is the mean of two regularised logistic regressions, one with
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
        Folds and members.
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
    each in units of its spread over the training instances: 0 is the mean of these.
    The weights, not negative, are those of a logistic regression on the largest score
    that a member gives to an instance of each bag, out of fold: a member is trusted on
    instances when its best one tells the bags apart. Where bags tell nothing, members
    share the say. It is not a part of the decision. Costs ``cv + 1`` fits of every
    member. Weights of bags count by their ratios alone.

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
        "pos_label": "no_validation",
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
        tags.input_tags.units = "free"  # each member speaks for itself
        tags.input_tags.one_sided = any(
            getattr(get_tags(one).input_tags, "one_sided", False)
            for _, one in self.estimators or ()
        )
        tags.input_tags.order_invariant = False  # folds are cut by position
        return tags

    # How the parameter with the members is called.
    _list_name = "estimators"

    # -- what a subclass with views of its own changes ---------------------------------

    def _make_views(self, X, members):
        return PlainViews(X)

    def _make_members(self, X):
        chosen = self.estimators
        if chosen is None:
            chosen = [("simple", SimpleMI()), ("wrapper", WrapperMI(threshold="zero"))]
        if not chosen or len({name for name, _ in chosen}) < len(chosen):
            raise ValueError(
                f"{self._list_name} must be a list of (name, estimator) with at least "
                "one entry and no name twice."
            )
        return [Member(name, estimator) for name, estimator in chosen]

    def _make_clock(self):
        return Clock(None)

    def _costs(self):
        return None

    def _combine(self, scores, positive, weight):
        return Combination.fit(scores, positive, weight)

    # ----------------------------------------------------------------------------------

    def _fit_codes(self, X, codes, weight):
        clock = self._make_clock()
        weight = scaled_to_one(weight)
        members = self._make_members(X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        folds = stack_folds(X, codes, self._n_splits(X, codes), seed)
        self.views_ = self._make_views(X, members)
        task = Classes(codes, len(self.classes_))
        scores, tops, models = fit_members(
            members,
            self.views_,
            task,
            folds,
            weight,
            seed,
            n_jobs=self.n_jobs,
            clock=clock,
            track=self._track,
            costs=self._costs(),
        )
        fitted = [m for m in members if m.name in models]
        self._finish(fitted, scores, models)
        self._weigh(task, weight)
        self._weigh_instances(task, fitted, tops, weight)
        self.views_.without_train()

    def _n_splits(self, X, codes):
        n_splits = most_folds(X, codes, self.cv)
        if n_splits < 2:
            of_what = "bags" if X.groups is None else "groups"
            raise ValueError(
                f"stacking needs at least 2 {of_what} of each class, to score bags by "
                f"members that did not see them; a class has {n_splits}."
            )
        return n_splits

    def _track(self, members):
        if not self.verbose:
            return members
        from rich.progress import track

        return track(members, description=type(self).__name__)

    def _finish(self, members, scores, models):
        """Keep what was fitted."""
        self._models = [models[m.name] for m in members]
        self._views_used = [m.score_view for m in members]
        self._names = [m.name for m in members]
        self._raw = np.stack([scores[m.name] for m in members], axis=1)

    def _weigh(self, task, weight):
        """Fit one combination per class."""
        raw, names = self._raw, self._names
        del self._raw
        self._combinations, areas = [], []
        for k in range(task.n_columns):
            positive = task.codes == (1 if task.n_columns == 1 else k)
            self._combinations.append(self._combine(raw[:, :, k], positive, weight))
            areas.append([roc_auc_score(positive, c) for c in raw[:, :, k].T])
        self.oof_scores_ = raw[:, :, 0] if task.n_columns == 1 else raw
        several = task.n_columns > 1
        weights = np.array([c.coef for c in self._combinations])
        self.members_ = {
            name: found if len(found) > 1 else found[0]
            for name, found in zip(names, self._models, strict=True)
        }
        self.member_weights_ = {
            name: weights[:, j] if several else float(weights[0, j])
            for j, name in enumerate(names)
        }
        means = np.mean(areas, axis=0)
        self.member_scores_ = dict(zip(names, map(float, means), strict=True))

    def _fit_arrays(self):
        """Return what the stack trusts; means over classes where each has weights."""
        names = list(self.member_weights_)
        weights = [np.mean(self.member_weights_[name]) for name in names]
        areas = [self.member_scores_[name] for name in names]
        return {
            "member_names": np.array(names),
            "member_weights": np.array(weights),
            "member_scores": np.array(areas),
        }

    def _member_scores(self, views):
        task = Classes(None, len(self.classes_))
        return np.stack(
            [
                task.scores(models, views[view])
                for models, view in zip(self._models, self._views_used, strict=True)
            ],
            axis=1,
        )

    def _decide(self, X):
        scores = self._member_scores(self.views_.of(X))
        columns = [c(scores[:, :, k]) for k, c in enumerate(self._combinations)]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def _probabilities(self, X):
        p = expit(self._decide(X))
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p])
        return p / p.sum(axis=1, keepdims=True)

    def member_contributions(self, X):
        """Return what each member adds to the score of each bag.

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
        X = self._check_bags(X, reset=False)
        scores = self._member_scores(self.views_.of(X))
        parts = [
            c.logits(scores[:, :, k]) * c.coef for k, c in enumerate(self._combinations)
        ]
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=2)

    # -- instances ---------------------------------------------------------------------

    def _weigh_instances(self, task, members, tops, weight):
        """Find the members that score instances, and what each has to say."""
        found = [tops[m.name] for m in members]
        self._judges = [k for k, one in enumerate(found) if one is not None]
        if not self._judges:
            return
        trust = np.array([members[k].trust for k in self._judges])
        if not trust.any():
            trust = np.full(len(trust), 1.0 / len(trust))
        table = np.stack([found[k] for k in self._judges], axis=1)
        shares = []
        for k in range(task.n_columns):
            positive = task.codes == (1 if task.n_columns == 1 else k)
            shares.append(instance_shares(table[:, :, k], positive, weight, trust))
        self._scale_instances(shares)

    def _instance_columns(self, views):
        """Return (n_instances, n_judges, n_columns) scores of instances."""
        found = []
        for k in self._judges:
            rows = views[self._views_used[k]]
            columns = [one.instance_scores(rows).values for one in self._models[k]]
            several = columns[0].ndim == 2
            found.append(columns[0] if several else np.column_stack(columns))
        return np.stack(found, axis=1)

    def _scale_instances(self, shares):
        """Give every judge its share and the scale of its scores in training."""
        most = max(1, _SCALE_ROWS // len(self.oof_scores_))
        used = {self._views_used[k] for k in self._judges}
        thin = {name: thin_bags(self.views_.train[name], most) for name in used}
        scores = self._instance_columns(thin)
        spread = scores.std(axis=0)
        self._instance_centre = scores.mean(axis=0)
        self._instance_slope = np.transpose(shares) / np.where(spread > 0, spread, 1.0)

    def _judge(self, X):
        scores = self._instance_columns(self.views_.of(X)) - self._instance_centre
        columns = np.einsum("ijk,jk->ik", scores, self._instance_slope)
        return columns[:, 0] if columns.shape[1] == 1 else columns

    def _has_judges(self):
        return bool(getattr(self, "_judges", True))  # unfitted: it may have them

    @available_if(_has_judges)
    def instance_scores(self, X):
        """Return what the members that score instances say, weighted.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One mean score per instance, high for the positive class, or one row with a
            column per class.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return Ragged(self._judge(X), X.offsets)
