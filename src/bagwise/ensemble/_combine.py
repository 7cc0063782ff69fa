"""From out-of-fold scores to one decision: Platt scaling and stacked regressions."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import expit

from bagwise.ensemble._inputs import Made

# Log-odds are clipped at this value, so that no member overrules all others.
LOGIT_LIMIT = 5.0
_SLOPE_RIDGE = 0.1
# Slope of members with a prior weight before any evidence, on standardized scores.
_SLOPE_PRIOR = {"prior": 1.0, "ridge": 3.0}
_POSITIVE_RIDGE = 10.0
_SIGNED_C = 0.1
# Members may be left out of predictions as long as the loss grows by this share and
# this number of nats: less is no evidence.
_TOLERANCE, _NATS = 0.005, 0.3
# Sum of the prior weights, if any member has a prior share.
_PRIOR_TOTAL = 2.0
# Penalty on the weights of regressors, for predictions with unit variance.
_VALUES_RIDGE = 0.01
# Ridge penalty that shrinks weights on instances to the prior, and the least weight.
_PRIOR_RIDGE, _LEAST_SHARE = 5.0, 0.001
# Training instances used to estimate the scale of a member's scores.
_SCALE_ROWS = 20_000


@dataclass
class PlattScale:
    """A monotone map from a member's scores to log-odds.

    Attributes
    ----------
    center, spread : float
        Standardize the score.
    slope, intercept : float
        Of the logistic curve on the standardized score; the slope is not negative.
    """

    center: float
    spread: float
    slope: float
    intercept: float

    @classmethod
    def fit(cls, score, positive, weight, prior=0.0, ridge=_SLOPE_RIDGE):
        """Fit the curve to labels, smoothed so that separable scores stay finite.

        The targets are (n+ + 1) / (n+ + 2) and 1 / (n- + 2) and the slope is shrunk to
        `prior`, so that the convex problem always has a minimum.
        """
        center = float(np.average(score, weights=weight))
        spread = float(np.sqrt(np.average((score - center) ** 2, weights=weight)))
        spread = spread if spread > 1e-12 * max(1.0, abs(center)) else 1.0
        z = (score - center) / spread
        n_positive = weight[positive].sum()
        n_negative = weight[~positive].sum()
        high = (n_positive + 1.0) / (n_positive + 2.0)
        low = 1.0 / (n_negative + 2.0)
        target = np.where(positive, high, low)

        def loss(theta):
            logit = theta[0] * z + theta[1]
            value = weight @ (np.logaddexp(0.0, logit) - target * logit)
            slope = weight * (expit(logit) - target)
            far = theta[0] - prior
            gradient = np.array([slope @ z + ridge * far, slope.sum()])
            return value + 0.5 * ridge * far**2, gradient

        start = np.array([1.0, np.log(n_positive + 1.0) - np.log(n_negative + 1.0)])
        found = minimize(
            loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)]
        )
        return cls(center, spread, float(found.x[0]), float(found.x[1]))

    def __call__(self, score):
        """Return the log-odds of scores, clipped."""
        logit = self.slope * (score - self.center) / self.spread + self.intercept
        return np.clip(logit, -LOGIT_LIMIT, LOGIT_LIMIT)


def logistic_stack(logits, positive, weight, *, ridge, nonnegative, prior=0.0):
    """Minimize sum_i v_i log(1 + exp(-t_i (w'l_i + b))) + ridge / 2 |w - prior|^2.

    Parameters
    ----------
    logits : ndarray of shape (n_bags, n_members)
        Log-odds of the members.
    positive : ndarray of bool of shape (n_bags,)
        The labels.
    weight : ndarray of shape (n_bags,)
        Weights v of the bags.
    ridge : float
        Strength of the penalty; the intercept is free.
    nonnegative : bool
        Whether weights below zero are forbidden.
    prior : float or ndarray of shape (n_members,), default=0.0
        The weights without evidence.

    Returns
    -------
    coef, intercept : ndarray of shape (n_members,), float
    """
    n_members = logits.shape[1]

    def loss(theta):
        w, b = theta[:-1], theta[-1]
        score = logits @ w + b
        value = weight @ (np.logaddexp(0.0, score) - positive * score)
        slope = weight * (expit(score) - positive)
        far = w - prior
        gradient = np.concatenate([logits.T @ slope + ridge * far, [slope.sum()]])
        return value + 0.5 * ridge * far @ far, gradient

    start = np.concatenate([np.full(n_members, 1.0 / n_members), [0.0]])
    low = 0.0 if nonnegative else None
    bounds = [(low, None)] * n_members + [(None, None)]
    found = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-8},
    )
    return found.x[:-1], float(found.x[-1])


@dataclass
class Combination:
    """Platt curves of the members and the mean of the two stackers.

    Attributes
    ----------
    scales : list of PlattScale
        One per member.
    coef, intercept : ndarray of shape (n_members,), float
        Mean of the weights of the non-negative and the signed stacker.
    """

    scales: list
    coef: np.ndarray
    intercept: float

    @classmethod
    def fit(cls, scores, positive, weight, *, signed=True, prior=0.0):
        """Fit to out-of-fold scores of shape (n_bags, n_members).

        Both stackers are shrunk to the weights `prior`. Without `signed` only the non-
        negative stacker is used: the decision can then only rise with the score of a
        member. With prior weights the slopes of the curves have a prior, too: with few
        bags, a member may be useful although its out-of-fold scores do not show it.
        """
        slope = _SLOPE_PRIOR if np.any(prior) else {}
        scales = [PlattScale.fit(s, positive, weight, **slope) for s in scores.T]
        made = cls(scales, np.zeros(scores.shape[1]), 0.0)
        return made.weighted(scores, positive, weight, signed=signed, prior=prior)

    def weighted(self, scores, positive, weight, *, signed=True, prior=0.0, used=None):
        """Return a combination with the same curves whose weights are fitted anew.

        Members that are not in `used`, an ndarray of bool of shape (n_members,), have
        weight zero.
        """
        used = np.ones(len(self.coef), dtype=bool) if used is None else used
        prior = np.broadcast_to(prior, used.shape)[used]
        logits = self.logits(scores)[:, used]

        def stacker(ridge, nonnegative):
            options = {"ridge": ridge, "nonnegative": nonnegative, "prior": prior}
            return np.append(*logistic_stack(logits, positive, weight, **options))

        theta = stacker(_POSITIVE_RIDGE, True)
        if signed:
            theta = 0.5 * (theta + stacker(1.0 / _SIGNED_C, False))
        coef = np.zeros(len(used))
        coef[used] = theta[:-1]
        return type(self)(self.scales, coef, float(theta[-1]))

    def loss(self, scores, positive, weight, prior=0.0):
        """Return the logistic loss of the decision, over all bags.

        For a member without weight, the penalty of its prior weight is added.
        """
        decision = self(scores)
        loss = weight @ (np.logaddexp(0.0, decision) - positive * decision)
        missing = np.broadcast_to(prior, self.coef.shape)[self.coef == 0]
        return loss + 0.5 * _POSITIVE_RIDGE * np.sum(missing**2)

    def logits(self, scores):
        """Return the members' log-odds."""
        return np.column_stack(
            [scale(c) for scale, c in zip(self.scales, scores.T, strict=True)]
        )

    def __call__(self, scores):
        """Return the log-odds of the stack, linear in the members' log-odds."""
        return self.logits(scores) @ self.coef + self.intercept


def without_negligible(combinations, scores, positives, weight, cost, **options):
    """Return combinations in which members without influence have weight zero.

    Members are tried one by one, those with a small contribution for their cost first,
    until none can be left out. One is left out if the out-of-fold log loss of those
    that remain, whose weights are fitted anew with the same priors, exceeds that of all
    members by at most 0.5% and 0.3, over all bags. Members that are left out cost what
    the penalty asks for the distance from their prior weight: few bags alone are no
    evidence against a member.

    Parameters
    ----------
    combinations : list of Combination
        One per column of scores.
    scores : ndarray of shape (n_bags, n_members, n_columns)
        Out-of-fold scores.
    positives : list of ndarray of bool of shape (n_bags,)
        The labels, for each column of scores.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.
    cost : ndarray of shape (n_members,)
        What a prediction by a member costs, in any unit.
    **options
        Further arguments of `Combination.fit`.

    Returns
    -------
    list of Combination
    """
    columns = list(zip(np.moveaxis(scores, 2, 0), positives, strict=True))
    prior = options.get("prior", 0.0)

    def total(fits):
        pairs = zip(fits, columns, strict=True)
        return sum(one.loss(*column, weight, prior) for one, column in pairs)

    logits = [c.logits(s) for c, (s, _) in zip(combinations, columns, strict=True)]
    spread = np.array([one.std(axis=0) for one in logits]) / cost
    limit = (1.0 + _TOLERANCE) * total(combinations) + _NATS
    weights = np.array([c.coef for c in combinations])
    n_used = weights.shape[1] + 1
    while n_used > np.count_nonzero(weights.any(axis=0)):
        n_used = np.count_nonzero(weights.any(axis=0))
        for member in np.argsort((np.abs(weights) * spread).max(axis=0), kind="stable"):
            used = weights.any(axis=0) & (np.arange(weights.shape[1]) != member)
            if not weights[:, member].any() or not used.any():
                continue
            fits = [
                c.weighted(*column, weight, used=used, **options)
                for c, column in zip(combinations, columns, strict=True)
            ]
            if total(fits) <= limit:
                combinations = fits
                weights = np.array([c.coef for c in combinations])
    return combinations


def prior_weights(shares):
    """Return weights in proportion to `shares`; zeros where there are none."""
    return _PRIOR_TOTAL * shares / shares.sum() if shares.any() else shares


def stack_values(predictions, target, weight, ridge=_VALUES_RIDGE):
    r"""Minimize the weighted mean squared error over weights that are not negative.

    .. math::
        \min_{w \ge 0, b} \frac{1}{\sum_i \omega_i} \sum_i \omega_i
            (w'p_i + b - y_i)^2 + \rho\, |w|^2

    Parameters
    ----------
    predictions : ndarray of shape (n_bags, n_members)
        Out-of-fold predictions :math:`p`.
    target : ndarray of shape (n_bags,)
        Values :math:`y`.
    weight : ndarray of shape (n_bags,)
        Weights :math:`\omega` of the bags.
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


def shrinkage(predictions, target, weight, folds, groups=None):
    r"""Return the factor by which a stack of regressors is shrunk to the mean.

    The weights of the stack are fitted to all folds but one and applied to that one.
    Where these predictions :math:`s_i` are correlated with the values by more than two
    standard errors, :math:`2 / \sqrt{n}` for n groups, the factor is one. Otherwise it
    is the slope of the values on them, :math:`\sum s_i y_i / \sum s_i^2`, within 0 and
    1: useless members do not make predictions worse than the mean.

    Parameters
    ----------
    predictions : ndarray of shape (n_bags, n_members)
        Out-of-fold predictions.
    target : ndarray of shape (n_bags,)
        Values.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.
    folds : list of (train, test)
        Folds of the stack.
    groups : ndarray of shape (n_bags,), default=None
        Bags of a group are not independent; by default all bags are.

    Returns
    -------
    float
    """
    stacked = np.empty(len(target))
    for train, test in folds:
        coef, constant = stack_values(predictions[train], target[train], weight[train])
        level = np.average(target[train], weights=weight[train])
        stacked[test] = predictions[test] @ coef + constant - level
    share = weight / weight.sum()
    values = target - share @ target
    both, own = share @ (stacked * values), share @ stacked**2
    spread = share @ values**2
    if not spread > 0:  # the mean is exact, and so are the members
        return 1.0
    if own <= 1e-20 * spread:  # constant up to rounding
        return 0.0
    n = len(target) if groups is None else len(np.unique(groups))
    if both > 2.0 / np.sqrt(n) * np.sqrt(own * spread):
        return 1.0
    return float(np.clip(both / own, 0.0, 1.0))


@dataclass
class InstanceCombination:
    """A weighted mean of the standardized instance scores of members.

    Attributes
    ----------
    members : list of int
        Positions in the stack of the members that score instances.
    center : ndarray of shape (n_members, n_columns)
        Means of their scores over training instances.
    slope : ndarray of shape (n_members, n_columns)
        Their weights divided by the spreads of their scores.
    """

    members: list
    center: np.ndarray
    slope: np.ndarray

    @classmethod
    def fit(cls, stack, seen, positives, weight):
        """Weigh members by their largest out-of-fold score of each bag.

        Parameters
        ----------
        stack : Stack
            The fitted members.
        seen : OutOfFold
            Their scores of training bags.
        positives : list of ndarray of bool of shape (n_bags,)
            The labels, for each column of scores.
        weight : ndarray of shape (n_bags,)
            Weights of the bags.

        Returns
        -------
        InstanceCombination or None
            None where no member scores instances.
        """
        members = [k for k, top in enumerate(seen.tops) if top is not None]
        if not members:
            return None
        prior = seen.priors[members]
        if not prior.any():
            prior = np.full(len(members), 1.0 / len(members))
        tops = np.stack([seen.tops[k] for k in members], axis=1)
        shares = [
            instance_shares(tops[:, :, k], positive, weight, prior)
            for k, positive in enumerate(positives)
        ]
        scores = stack.instance_scores(
            seen.made, members, max(1, _SCALE_ROWS // len(weight))
        )
        spread = scores.std(axis=0)
        slope = np.transpose(shares) / np.where(spread > 0, spread, 1.0)
        return cls(members, scores.mean(axis=0), slope)

    def __call__(self, stack, X):
        """Return a score per instance, or a row with a column per class."""
        scores = stack.instance_scores(Made(X), self.members) - self.center
        columns = np.einsum("ijk,jk->ik", scores, self.slope)
        return columns[:, 0] if columns.shape[1] == 1 else columns


def instance_shares(tops, positive, weight, prior):
    """Return the weights of members on instances; they sum to one.

    Weights of a logistic regression on the largest score of each bag: not negative,
    and no further from `prior` than the labels of the bags ask for.

    Parameters
    ----------
    tops : ndarray of shape (n_bags, n_members)
        The largest out-of-fold score of an instance of each bag.
    positive : ndarray of bool of shape (n_bags,)
        The labels.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.
    prior : ndarray of shape (n_members,)
        The weights without evidence.

    Returns
    -------
    ndarray of shape (n_members,)
    """
    centered = tops - np.average(tops, axis=0, weights=weight)
    spread = np.sqrt(np.average(centered**2, axis=0, weights=weight))
    coef, _ = logistic_stack(
        centered / np.where(spread > 0, spread, 1.0),
        positive,
        weight,
        ridge=_PRIOR_RIDGE,
        nonnegative=True,
        prior=prior,
    )
    share = coef + _LEAST_SHARE
    return share / share.sum()
