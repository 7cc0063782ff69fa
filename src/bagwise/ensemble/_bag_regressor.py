"""BagRegressor: a stack of bag regressors that needs no tuning."""

from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.utils.metaestimators import available_if

from bagwise._compat import Interval, StrOptions
from bagwise.base import BaseBagRegressor
from bagwise.ensemble._combine import shrinkage, stack_values
from bagwise.ensemble._inputs import EncodesColumns, Made
from bagwise.ensemble._members import regression_members
from bagwise.ensemble._outliers import OutlierScoresMixin, TrainingDistances
from bagwise.ensemble._plan import choose_members, report_plan
from bagwise.ensemble._stack import Budget, fit_stack, scaled_to_one


class BagRegressor(EncodesColumns, OutlierScoresMixin, BaseBagRegressor):
    r"""Predict real values of bags with a stack of methods that needs no tuning.

    A fixed stack of members that describe bags in different ways: means and summary
    statistics (ridge, support vectors, trees, boosting), kernels between bags (earth
    mover's distances on two scales, the set kernel), a forest on instances, and linear
    models whose prediction is the largest or the smallest value of an instance. The
    stack is

    .. math:: f(B) = \sum_m w_m\, f_m(B) + b, \qquad w_m \ge 0

    where :math:`w, b` minimize the squared error of out-of-fold predictions and a small
    ridge ([1]_). If these predictions are not correlated with y, it is shrunk to the
    mean of y. With several targets, `y` of shape (n_bags, n_targets), each target has
    its own stack; distances, kernels and statistics of bags are computed once for all.

    Parameters
    ----------
    members : "default" or list of (str, estimator), default="default"
        The members. A list replaces the default members; its entries are fitted to the
        bags without preprocessing.
    cv : int, default=5
        Number of folds; fewer when there are fewer bags. Groups of bags stay together,
        and so do copies of a bag.
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
    members_ : dict of str to estimator
        The members, refitted on all training bags; of several targets, lists of one per
        target. They learn values with mean zero and variance one.
    member_weights_ : dict of str to float
        Their weights :math:`w_m`; of several targets, here and below, one number each.
    member_scores_ : dict of str to float
        Coefficient of determination of their out-of-fold predictions.
    oof_predictions_ : ndarray of shape (n_bags, n_members) or (..., n_targets)
        The out-of-fold predictions, in units of y.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant :math:`b`.
    shrinkage_ : float or ndarray of shape (n_targets,)
        Factor between 0 and 1 that the weights were multiplied with, see Notes. 0 means
        that the stack predicts the mean of y for every bag.
    plan_ : dict
        What was chosen according to the size of the data, as in `BagClassifier`.

    See Also
    --------
    bagwise.ensemble.BagClassifier : For classes.

    Notes
    -----
    Missing values, wide rows and large data are handled as in `BagClassifier`.
    `instance_scores` is the mean, weighted as in the stack, of what members predict for
    the instance, or for a bag that contains only this instance, in units of y. Costs
    ``cv + 1`` fits of every member. Only ratios of weights of bags matter. Folds are
    made by the position of a bag and the random seed, so that another order of the
    training bags gives slightly different weights of members.

    The stack is shrunk to the mean of y where its own out-of-fold predictions are
    correlated with y by less than two standard errors: by the slope of y on them,
    within 0 and 1. With ``shrinkage_ == 0`` the prediction is the mean.

    Differs from [1]_: a ridge, an intercept, and shrinkage.

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
        tags.input_tags.scale_sensitive = "no"  # each member scales its own columns
        own = isinstance(self.members, str)
        tags.input_tags.sparse = own
        tags.input_tags.allow_nan = own
        tags.input_tags.order_invariant = False  # folds are made by position
        tags.target_tags.multi_output = True
        return tags

    def _fit_bags(self, X, y, weight):
        budget = Budget(self.time_budget)
        weight = scaled_to_one(weight)
        columns = np.ascontiguousarray(y.reshape(len(y), -1).T)
        self._targets = y.shape[1:]
        # Per column, so that each target gives the same result as in a separate fit.
        center = [np.average(one, weights=weight) for one in columns]
        miss = [(one - mean) ** 2 for one, mean in zip(columns, center, strict=True)]
        spread = [np.sqrt(np.average(one, weights=weight)) or 1.0 for one in miss]
        self._center, self._spread = np.array(center), np.array(spread)
        target = (columns.T - self._center) / self._spread
        members, plan = choose_members(
            self.members,
            X,
            target,
            weight,
            partial(regression_members, n_jobs=self.n_jobs),
            n_classes=0,
            n_fits=len(columns) * (self.cv + 1),
            budget=budget,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        self._stack, seen = fit_stack(
            members,
            X,
            target,
            weight,
            n_classes=0,
            cv=self.cv,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            budget=budget,
            progress=type(self).__name__ if self.verbose else None,
        )
        pairs = list(zip(np.moveaxis(seen.scores, 2, 0), target.T, strict=True))
        fits = [stack_values(p, t, weight) for p, t in pairs]
        factor = np.array(
            [shrinkage(p, t, weight, seen.folds, X.groups) for p, t in pairs]
        )
        self._coef = factor * np.column_stack([coef for coef, _ in fits])
        constant = factor * [constant for _, constant in fits]
        self.shrinkage_ = self._of_targets(factor)
        self.intercept_ = self._of_targets(self._center + self._spread * constant)
        self._describe(seen.scores, target, weight)
        self._distances = TrainingDistances.fit(seen.made, members, X)
        self.plan_ = report_plan(plan, self._stack.names, "BagRegressor", budget)

    def _of_targets(self, values):
        """Return values of targets, the last axis; of a single target without it."""
        if self._targets:
            return values
        return float(values[0]) if values.ndim == 1 else values[..., 0]

    def _describe(self, predictions, target, weight):
        """Set the attributes with the members, their weights and scores."""
        names = self._stack.names
        self.members_ = self._stack.by_name()
        oof = self._center + self._spread * predictions
        self.oof_predictions_ = self._of_targets(oof)
        error = (predictions - target[:, None]) ** 2
        miss = np.average(error, axis=0, weights=weight)
        level = np.average(target**2, axis=0, weights=weight)
        found = 1.0 - miss / np.maximum(level, 1e-300)
        self.member_weights_ = dict(
            zip(names, map(self._of_targets, self._coef), strict=True)
        )
        self.member_scores_ = dict(
            zip(names, map(self._of_targets, found), strict=True)
        )

    def _reads_chunks(self, tags):
        return isinstance(self.members, str)  # rows are standardized in chunks

    def _predict_bags(self, X):
        return self.intercept_ + self._contributions(X).sum(axis=1)

    def _contributions(self, X):
        parts = (
            self._spread * self._coef * self._stack.scores(X, self._coef.any(axis=1))
        )
        return self._of_targets(parts)

    def member_contributions(self, X):
        """Return the contribution of each member to the prediction of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_members) or (n_bags, n_members, n_targets)
            In units of y and in the order of `members_`. Their sum and `intercept_` are
            the prediction, exactly.
        """
        return self._contributions(self._check_bags(X, reset=False))

    def _score_instances(self, X):
        members = self._stack.scoring()
        weights = self._coef[members]
        # If all weights in the stack are zero, the members have equal weights.
        weights = np.where(weights.sum(axis=0) > 0, weights, 1.0)
        found = self._stack.instance_scores(Made(X), members)
        values = (found * weights).sum(axis=1) / weights.sum(axis=0)
        return self._of_targets(self._center + self._spread * values)

    def _scores_instances(self):
        return not hasattr(self, "_stack") or bool(self._stack.scoring())

    @available_if(_scores_instances)
    def instance_scores(self, X):
        """Return the value of each instance, in units of y.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One value per instance, or one row with a column per target.
        """
        return super().instance_scores(X)
