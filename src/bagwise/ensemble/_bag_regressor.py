"""BagRegressor: one line, no tuning, for real values."""

from numbers import Integral, Real

import numpy as np
from scipy.optimize import nnls
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from bagwise._compat import Interval, StrOptions
from bagwise.base import BaseBagRegressor, most_folds
from bagwise.ensemble._members import (
    Clock,
    Member,
    PlainViews,
    Values,
    fit_members,
    scaled_to_one,
    stack_folds,
)
from bagwise.ensemble._plan import Size, make_plan, view_seconds
from bagwise.ensemble._regression_plan import regression_members, regression_seconds
from bagwise.ensemble._views import DefaultViews

_AUTO_SECONDS = 60.0
# Penalty on the weights of the members, for predictions of variance one.
_RIDGE = 0.01
# The set kernel looks at all pairs of instances.
_MAX_PAIRS_ROWS = 5_000


class BagRegressor(BaseBagRegressor):
    r"""Predict real values of bags without choosing or tuning anything.

    A fixed stack of members that look at bags in different ways: means and summary
    statistics (ridge, support vectors, trees, boosting), kernels between bags (earth
    mover's distances on two scales, the set kernel), a forest on instances, and linear
    models that take the largest or the smallest value of an instance. The stack is

    .. math:: f(B) = \sum_m w_m\, f_m(B) + b, \qquad w_m \ge 0

    where :math:`w, b` minimise the squared error of out-of-fold predictions and a small
    ridge ([1]_).

    Parameters
    ----------
    members : "default" or list of (str, estimator), default="default"
        The members; a list takes the place of the default ones, and every entry learns
        from the bags as they are.
    cv : int, default=5
        Number of folds; fewer when there are fewer bags. Groups of bags stay together,
        and so do copies of a bag.
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
    members_ : dict of str to estimator
        The members, refitted on all training bags. They learn values with mean zero
        and variance one.
    member_weights_ : dict of str to float
        Their weights :math:`w_m`.
    member_scores_ : dict of str to float
        Coefficient of determination of their out-of-fold predictions.
    oof_predictions_ : ndarray of shape (n_bags, n_members)
        The out-of-fold predictions, in units of y.
    intercept_ : float
        The constant :math:`b`.
    plan_ : dict
        What was chosen by the size of the data, as in `BagClassifier`.

    See Also
    --------
    bagwise.ensemble.BagClassifier : For classes.

    Notes
    -----
    Missing values, wide rows and large data are handled as in `BagClassifier`.
    `instance_scores` is the mean, weighted as in the stack, of what members say of a
    bag that holds the instance alone or of the instance itself, in units of y. Costs
    ``cv + 1`` fits of every member. Weights of bags count by their ratios alone.
    Differs from [1]_: a ridge and a constant.

    References
    ----------
    .. [1] Breiman, L., "Stacked regressions", Machine Learning, 1996.
       :doi:`10.1007/BF00117832`

    Examples
    --------
    >>> from bagwise import BagRegressor
    >>> from bagwise.datasets import make_regression_bags
    >>> X, y = make_regression_bags(60, kind="mean", random_state=0)
    >>> BagRegressor(random_state=0).fit(X[:40], y[:40]).score(X[40:], y[40:]) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "members": [StrOptions({"default"}), list],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "time_budget": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto"}),
            None,
        ],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        members="default",
        *,
        cv=5,
        n_jobs=None,
        random_state=None,
        time_budget="auto",
        verbose=0,
    ):
        self.members = members
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.time_budget = time_budget
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.units = "free"  # each member speaks for itself
        own = isinstance(self.members, str)
        tags.input_tags.sparse = own
        tags.input_tags.allow_nan = own
        tags.input_tags.order_invariant = False  # folds are cut by position
        return tags

    def _fit_bags(self, X, y, weight):
        weight = scaled_to_one(weight)
        # Values that happen to be whole numbers are no classes: a table has none.
        table = y[:, None]
        n_splits = most_folds(X, table, self.cv)
        if n_splits < 2:
            of_what = "bags" if X.groups is None else "groups"
            raise ValueError(
                f"BagRegressor needs at least 2 {of_what}, to score bags by members "
                f"that did not see them (n_samples = {len(X)})."
            )
        seconds = _AUTO_SECONDS if self.time_budget == "auto" else self.time_budget
        clock = Clock(None if self.time_budget == "auto" else seconds)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        folds = stack_folds(X, table, n_splits, seed)
        self._centre = float(np.average(y, weights=weight))
        spread = np.sqrt(np.average((y - self._centre) ** 2, weights=weight))
        self._spread = float(spread) or 1.0
        target = (y - self._centre) / self._spread
        members, plan = self._choose(X, seconds)
        if plan is None:
            self.views_ = PlainViews(X)
        else:
            names = {m.view for m in members}
            self.views_ = DefaultViews(
                X, names, plan, n_jobs=self.n_jobs, random_state=0
            )
        scores, _, models = fit_members(
            members,
            self.views_,
            Values(target),
            folds,
            weight,
            seed,
            n_jobs=self.n_jobs,
            clock=clock,
            track=self._track,
            costs=None if plan is None else plan.costs,
        )
        kept = [m for m in members if m.name in models]
        self._report(plan, kept, seconds)
        self.members_ = {m.name: models[m.name][0] for m in kept}
        self._views_used = [m.score_view for m in kept]
        raw = np.column_stack([scores[m.name][:, 0] for m in kept])
        coef, constant = stack_values(raw, target, weight)
        self.member_weights_ = dict(zip(self.members_, map(float, coef), strict=True))
        self.intercept_ = self._centre + self._spread * constant
        self.oof_predictions_ = self._centre + self._spread * raw
        miss = np.average((raw - target[:, None]) ** 2, axis=0, weights=weight)
        found = 1.0 - miss / max(np.average(target**2, weights=weight), 1e-300)
        self.member_scores_ = dict(zip(self.members_, map(float, found), strict=True))
        self.views_.without_train()

    def _reads_pieces(self, tags):
        return isinstance(self.members, str)  # rows are standardised piece by piece

    def _choose(self, X, seconds):
        """Return the members and the plan; None for members of the user's own."""
        if not isinstance(self.members, str):
            names = [name for name, _ in self.members]
            if not names or len(set(names)) < len(names):
                raise ValueError(
                    "members must be a list of (name, estimator) with at least one "
                    "entry and no name twice."
                )
            return [Member(name, estimator) for name, estimator in self.members], None
        size = Size.of(X)
        plan = make_plan(size)
        if X.n_instances > _MAX_PAIRS_ROWS:
            why = f"it looks at all pairs of {X.n_instances} instances"
            plan.dropped["set kernel"] = why
        if "statistics SVC" in plan.dropped:
            plan.dropped["statistics SVR"] = plan.dropped.pop("statistics SVC")
        members = regression_members(plan)
        fits = self.cv + 1
        cost = {m.name: regression_seconds(m.name, size, plan, fits) for m in members}
        plan.keep_within(cost, seconds, view_seconds(size))
        return [m for m in members if m.name in plan.members], plan

    def _report(self, plan, kept, seconds):
        """Set `plan_`, and warn when time was short."""
        names = [m.name for m in kept]
        if plan is None:
            self.plan_ = {"members": names, "dropped": {}}
            return
        plan.settle(names, "BagRegressor", seconds)
        self.plan_ = plan.to_dict()

    def _track(self, members):
        if not self.verbose:
            return members
        from rich.progress import track

        return track(members, description=type(self).__name__)

    def _predict_bags(self, X):
        return self.intercept_ + self.member_contributions(X).sum(axis=1)

    def member_contributions(self, X):
        """Return what each member adds to the prediction of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_members)
            In units of y and in the order of `members_`. Their sum and `intercept_` are
            the prediction, exactly.
        """
        views = self.views_.of(self._check_bags(X, reset=False))
        columns = [
            weight * model.predict(views[view])
            for weight, model, view in self._weighted()
        ]
        return self._spread * np.column_stack(columns)

    def _weighted(self):
        return zip(
            self.member_weights_.values(),
            self.members_.values(),
            self._views_used,
            strict=True,
        )

    def _judges(self):
        """Return (weight, model, view) of the members that score instances."""
        return [
            (weight, model, view)
            for weight, model, view in self._weighted()
            if hasattr(model, "instance_scores") and view not in self.views_.columns
        ]

    def _score_instances(self, X):
        views, judges = self.views_.of(X), self._judges()
        weights = np.array([weight for weight, _, _ in judges])
        if weights.sum() <= 0:  # the stack trusts none of them more than another
            weights = np.ones(len(judges))
        values = np.zeros(X.n_instances)
        for share, (_, model, view) in zip(weights, judges, strict=True):
            values += share * model.instance_scores(views[view]).values
        return self._centre + self._spread * values / weights.sum()

    def _has_judges(self):
        return not hasattr(self, "members_") or bool(self._judges())

    @available_if(_has_judges)
    def instance_scores(self, X):
        """Return the value of each instance, in units of y.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One value per instance.
        """
        return super().instance_scores(X)


def stack_values(predictions, target, weight, ridge=_RIDGE):
    r"""Minimise the weighted mean squared error over weights that are not negative.

    .. math::
        \min_{w \ge 0, b} \frac{1}{\sum_i \omega_i} \sum_i \omega_i
            (w'p_i + b - y_i)^2 + \rho\, |w|^2

    Parameters
    ----------
    predictions : ndarray of shape (n_bags, n_members)
        Out-of-fold predictions :math:`p`.
    target : ndarray of shape (n_bags,)
        Values.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.
    ridge : float
        The penalty :math:`\rho`.

    Returns
    -------
    coef, intercept : ndarray of shape (n_members,), float
    """
    share = weight / weight.sum()
    level, mean = share @ target, share @ predictions
    root = np.sqrt(share)[:, None]
    n_members = predictions.shape[1]
    A = np.vstack([root * (predictions - mean), np.sqrt(ridge) * np.eye(n_members)])
    b = np.concatenate([root[:, 0] * (target - level), np.zeros(n_members)])
    coef, _ = nnls(A, b)
    return coef, float(level - coef @ mean)
