"""What each feature adds to a score: exact where scores are sums, sampled elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from bagwise.bags import Bags, as_bags
from bagwise.bags.segments import bag_matrix
from bagwise.inspection._instances import instance_scores
from bagwise.inspection.groups import feature_groups
from bagwise.inspection.scores import bag_scores, own_positive, row_bags, spoken_for

__all__ = ["FeatureContributions", "feature_contributions"]

Array = NDArray[np.float64]
EXACT = 1e-8  # relative; closer than this, a score is taken for a sum
EXACT_SINGLE = 1e-5  # of rows in single precision, whose scores are no finer
PAIRS = 16  # of instances, for a first look
PROBES = 1_000  # features that are asked for in one prediction


@dataclass(frozen=True, eq=False)
class FeatureContributions:
    """Parts of scores that belong to features.

    Attributes
    ----------
    values : ndarray of shape (n, n_groups)
        One row per instance, or per bag. ``values.sum(axis=1) + base`` is `scores`.
    base : float
        Score where every feature has its baseline value.
    scores : ndarray of shape (n,)
        What is explained.
    names : list of str
        The features, or groups of them.
    level : {"instance", "bag"}
        What a row is.
    kind : {"linear", "additive", "sampled"}
        "linear" and "additive" parts are exact, found to be so on these data;
        "sampled" ones are Shapley values over some orders of the features.
    X : Bags
        The bags.
    pos_label : label or None
        The class that high scores speak for; None where values are predicted.
    """

    values: Array
    base: Any
    scores: Array
    names: list[str]
    level: str
    kind: str
    X: Bags
    pos_label: Any = None

    @property
    def exact(self) -> bool:
        """Whether the parts do not depend on the orders that were drawn."""
        return self.kind != "sampled"

    def of_bag(self, bag: int) -> Array:
        """Return the rows of one bag.

        Parameters
        ----------
        bag : int
            Its place.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            One row for each instance, or one for the bag.
        """
        if self.level == "bag":
            return self.values[[bag]]
        return self.values[self.X.offsets[bag] : self.X.offsets[bag + 1]]

    def mean_size(self) -> Array:
        """Return the mean absolute part of each feature: a global importance."""
        return np.abs(self.values).mean(axis=0)

    def __repr__(self) -> str:
        """Show the kind and the largest parts."""
        size = self.mean_size()
        first = np.argsort(-size, kind="stable")[:5]
        top = ", ".join(f"{self.names[j]} {size[j]:.3g}" for j in first)
        return f"FeatureContributions({self.level}, {self.kind}; mean size: {top})"


def feature_contributions(
    model: Any,
    X: Any,
    *,
    level: str = "instance",
    pos_label: Any = None,
    baseline: Any = None,
    groups: Mapping[str, Any] | None = None,
    n_permutations: int = 10,
    random_state: Any = 0,
) -> FeatureContributions:
    r"""Split scores into what each feature adds.

    The score :math:`f(x)` is written as :math:`f(b) + \sum_j \phi_j(x)`, where
    :math:`b` is a baseline. Features are switched from the baseline to their value one
    after the other, and :math:`\phi_j` is the mean change at the turn of feature
    :math:`j` over `n_permutations` orders (Shapley values by sampling [1]_). Where the
    score is a sum of functions of single features every order gives the same, and the
    parts are exact. Where it is linear, they are read from ``n_features + 1``
    predictions.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags.
    X : Bags or list of 2-D arrays
        The bags.
    level : {"instance", "bag"}, default="instance"
        Explain the score of each instance (the model's own, or of a bag that holds the
        instance alone), or of each bag, whose instances are switched together.
    pos_label : label, default=None
        Class that scores are high for; must be given for more than two classes.
    baseline : array-like of shape (n_features,), default=None
        Values that count as nothing; the means over the instances of `X`, zero for
        sparse data.
    groups : dict of str to list, default=None
        Features that are switched together.
    n_permutations : int, default=10
        Orders; every second one is the reverse of the one before.
    random_state : int, RandomState instance or None, default=0
        Fixes the orders.

    Returns
    -------
    FeatureContributions
        The parts, the base, and whether they are exact.

    Notes
    -----
    Whether a model is linear or additive is not taken on trust: the parts found that
    way must give the scores of all rows of `X`, and both of the first two orders the
    same parts, up to rounding. The general way predicts `X` about
    ``n_permutations * n_groups`` times.

    References
    ----------
    .. [1] Castro, J., Gomez, D. and Tejada, J., "Polynomial calculation of the Shapley
       value based on sampling", Computers & Operations Research, 2009.
       :doi:`10.1016/j.cor.2008.04.004`

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.inspection import feature_contributions
    >>> from bagwise.linear_model import MILogisticRegression
    >>> X, y = make_bags(random_state=0)
    >>> model = MILogisticRegression(random_state=0).fit(X, y)
    >>> parts = feature_contributions(model, X)
    >>> total = parts.values.sum(axis=1) + parts.base
    >>> parts.kind, bool(np.allclose(total, parts.scores))
    ('linear', True)
    """
    if level not in ("instance", "bag"):
        raise ValueError(f"level must be 'instance' or 'bag', got {level!r}.")
    if n_permutations < 2:
        raise ValueError(f"n_permutations must be at least 2, got {n_permutations}.")
    X = as_bags(X)
    names, columns = feature_groups(X, groups)
    names, columns = _with_rest(X, names, columns)
    base_row = _baseline(X, baseline)
    score = _Score(model, X, level, pos_label)
    scores = score(X)
    found = _linear(X, score, scores, base_row, columns)
    if found is not None:
        values, base, kind = *found, "linear"
    else:
        walk = _Walk(X, score, scores, base_row, columns)
        values, kind = walk.parts(n_permutations, check_random_state(random_state))
        base = walk.base
    label = spoken_for(model, pos_label)
    return FeatureContributions(values, base, scores, names, level, kind, X, label)


def linear_slope(model: Any, X: Bags) -> Array | None:
    """Return the slope of linear instance scores; None where they are not linear.

    Parameters
    ----------
    model : estimator
        A fitted model of two classes, or a regressor, that scores instances.
    X : Bags
        Bags on which the linear scores are compared with those of the model.
    """
    if len(getattr(model, "classes_", ())) > 2:
        return None
    score = _Score(model, X, "instance", None)
    found = _affine(X, score, score(X), _baseline(X, None))
    return None if found is None else found[1]


def linear_contributions(model: Any, X: Bags) -> FeatureContributions | None:
    """Return the exact parts of linear instance scores; None where they are not.

    Parameters
    ----------
    model : estimator
        A fitted model of two classes, or a regressor, that scores instances.
    X : Bags
        The bags.
    """
    if len(getattr(model, "classes_", ())) > 2:
        return None
    names, columns = feature_groups(X, None)
    base = _baseline(X, None)
    score = _Score(model, X, "instance", None)
    scores = score(X)
    found = _linear(X, score, scores, base, columns)
    if found is None:
        return None
    label = spoken_for(model)
    return FeatureContributions(*found, scores, names, "instance", "linear", X, label)


def _with_rest(X: Bags, names: list[str], columns: list[Any]) -> Any:
    """Add a group of all features that no group names, so that parts still sum up."""
    rest = np.setdiff1d(np.arange(X.n_features), np.concatenate(columns))
    if not rest.size:
        return names, columns
    return [*names, "other features"], [*columns, rest]


def _baseline(X: Bags, baseline: Any) -> Array:
    if baseline is None:
        if X.is_sparse:
            return np.zeros(X.n_features)
        return np.asarray(X.data.mean(axis=0, dtype=np.float64))
    row = np.asarray(baseline, dtype=np.float64)
    if row.shape != (X.n_features,):
        raise ValueError(
            f"baseline must have one value for each of the {X.n_features} features, "
            f"got shape {row.shape}."
        )
    return row


class _Score:
    """From bags to the scores that are explained, one per instance or per bag."""

    def __init__(self, model: Any, X: Bags, level: str, pos_label: Any) -> None:
        self.model, self.level, self.pos_label = model, level, pos_label
        self.native = level == "instance" and instance_scores(model, X[:1]) is not None
        self.classes = np.asarray(getattr(model, "classes_", ())).tolist()
        if len(self.classes) > 2 and pos_label is None:
            raise ValueError(
                f"there are {len(self.classes)} classes: name one of {self.classes} as "
                "pos_label."
            )
        other = pos_label is not None and pos_label != own_positive(model)
        self.sign = -1.0 if other and len(self.classes) == 2 else 1.0

    def __call__(self, bags: Bags) -> Array:
        if self.level == "bag":
            return bag_scores(self.model, bags, self.pos_label)
        if not self.native:
            return bag_scores(self.model, row_bags(bags), self.pos_label)
        found = instance_scores(self.model, bags)
        values = np.asarray(found.values, dtype=np.float64)  # type: ignore[union-attr]
        if values.ndim == 2:
            return values[:, self.classes.index(self.pos_label)]
        return self.sign * values


def _linear(
    X: Bags, score: _Score, scores: Array, base: Array, columns: Any
) -> tuple[Array, float] | None:
    """Return exact parts of an affine score, or None when it is none."""
    found = _affine(X, score, scores, base)
    if found is None:
        return None
    start, slope, rows = found
    parts = [rows[:, own] @ slope[own] - base[own] @ slope[own] for own in columns]
    return np.column_stack(parts), start


def _affine(
    X: Bags, score: _Score, scores: Array, base: Array
) -> tuple[float, Array, Any] | None:
    """Return level, slope and rows of an affine score, or None when it is none."""
    rows = X.data
    if score.level == "bag":  # affine in the mean of the instances
        rows = bag_matrix(X.offsets, mean=True) @ X.data
    size = max(1.0, float(np.abs(scores).max()))
    if not _halfway(X, score, size):
        return None
    start, slope = _probe(X, score, base)
    told = rows @ slope - float(base @ slope) + start
    if not np.abs(told - scores).max() <= _exact(X) * size:
        return None
    return start, slope, rows


def _exact(X: Bags) -> float:
    """Return how close scores of these rows can come to a sum."""
    return EXACT if X.data.dtype == np.float64 else EXACT_SINGLE


def _halfway(X: Bags, score: _Score, size: float) -> bool:
    """Whether scores half way between instances are half way: a cheap first look."""
    n = min(PAIRS, X.n_instances)
    places = np.linspace(0, X.n_instances - 1, n).astype(int)
    # In double precision, or half way would be half way up to rounding only.
    few = X.data[places].astype(np.float64)
    left, right = few, few[::-1]
    middle = (left + right) * 0.5
    stack = sp.vstack if X.is_sparse else np.vstack
    rows = stack([left, right, middle])
    bags = Bags(rows, np.arange(3 * n + 1), feature_names=X.feature_names)
    a, b, c = np.split(score(bags), 3)
    return bool(np.abs(0.5 * (a + b) - c).max() <= _exact(X) * size)


def _probe(X: Bags, score: _Score, base: Array) -> tuple[float, Array]:
    """Return the score at the baseline and its slope along each feature."""
    d = X.n_features
    step = np.ones(d)
    if not X.is_sparse:  # a step of the size of the data: neither lost nor too long
        spread = np.asarray(X.data, dtype=np.float64).std(axis=0)
        step = np.where(spread > 0, spread, 1.0)

    def ask(rows: Any) -> Array:
        rows = sp.csr_matrix(rows) if X.is_sparse else rows
        offsets = np.arange(rows.shape[0] + 1)
        return score(Bags(rows, offsets, feature_names=X.feature_names))

    start = float(ask(base[None])[0])
    slope = np.empty(d)
    for first in range(0, d, PROBES):
        block = slice(first, min(first + PROBES, d))
        moves = sp.eye(d, format="csr")[block]
        if X.is_sparse and not base.any():
            rows = moves
        else:
            rows = base + moves.toarray() * step
        slope[block] = (ask(rows) - start) / step[block]
    return start, slope


class _Walk:
    """Switch features from the baseline to their values, group after group."""

    def __init__(
        self, X: Bags, score: _Score, scores: Array, base: Array, columns: Any
    ) -> None:
        self.X, self.score, self.scores, self.columns = X, score, scores, columns
        self.data = X.data.toarray() if X.is_sparse else np.asarray(X.data)
        self.blank = np.tile(base.astype(self.data.dtype), (X.n_instances, 1))
        self.sparse = X.is_sparse
        self.start = self._ask(self.blank)
        # Bags of different sizes may have different scores even at the baseline.
        self.base = float(self.start[0]) if np.ptp(self.start) == 0 else self.start

    def _ask(self, rows: Array) -> Array:
        rows = sp.csr_matrix(rows) if self.sparse else rows
        return self.score(self.X.with_data(rows, feature_names=self.X.feature_names))

    def _one(self, order: Any) -> Array:
        rows = self.blank.copy()
        parts = np.zeros((len(self.scores), len(self.columns)))
        before = self.start
        for k, group in enumerate(order):
            own = self.columns[group]
            rows[:, own] = self.data[:, own]
            last = k == len(order) - 1
            after = self.scores if last else self._ask(rows)
            parts[:, group] = after - before
            before = after
        return parts

    def parts(self, n_permutations: int, rng: Any) -> tuple[Array, str]:
        n = len(self.columns)
        order = rng.permutation(n)
        first, second = self._one(order), self._one(order[::-1])
        size = max(1.0, float(np.abs(self.scores).max()))
        if np.abs(first - second).max() <= _exact(self.X) * size:
            return first, "additive"
        total = first + second
        for k in range(2, n_permutations):
            order = rng.permutation(n) if k % 2 == 0 else order[::-1]
            total += self._one(order)
        return total / n_permutations, "sampled"
