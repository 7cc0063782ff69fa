"""Contributions to a score: of features, and of the members of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from bagwise.bags import Bags
from bagwise.bags.segments import bag_matrix
from bagwise.inspection.features import feature_groups
from bagwise.inspection.scores import (
    bag_position,
    bag_scores,
    bags_for,
    instance_scores,
    last_step,
    needs_one_column,
    own_positive,
    positive_class,
    predicts_values,
    row_bags,
    scored_class,
)

__all__ = [
    "FeatureContributions",
    "MemberContributions",
    "feature_contributions",
    "linear_contributions",
    "linear_slope",
    "member_contributions",
    "sampled_parts",
]

Array = NDArray[np.float64]
EXACT = 1e-8  # relative tolerance below which a score counts as a sum
EXACT_SINGLE = 1e-5  # the same for rows in single precision
PAIRS = 16  # pairs of instances for a first test of linearity
SAMPLED_ORDERS = 4  # orders of features that are sampled for a plot
PROBES = 1_000  # features per prediction


@dataclass(frozen=True, eq=False)
class FeatureContributions:
    """Contributions of features to scores.

    Attributes
    ----------
    values : ndarray of shape (n, n_groups)
        One row per instance, or per bag; ``values.sum(axis=1) + base`` is `scores`.
    base : float
        Score where every feature has its baseline value.
    scores : ndarray of shape (n,)
        The scores that are explained.
    names : list of str
        The features, or groups of features.
    level : {"instance", "bag"}
        What a row refers to.
    kind : {"linear", "additive", "sampled"}
        "linear" and "additive" contributions are exact on these data; "sampled" ones
        are Shapley values over a sample of orders of the features.
    X : Bags
        The bags.
    pos_label : label or None
        The class for which scores are high; None for a regressor.
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
        """Whether contributions do not depend on the sampled orders."""
        return self.kind != "sampled"

    def of_bag(self, bag: Any) -> Array:
        """Return the contributions of one bag.

        Parameters
        ----------
        bag : int or id
            Its position in `X`, or its id.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            One row per instance, or a single one for the bag.
        """
        bag = bag_position(self.X, bag)
        if self.level == "bag":
            return self.values[[bag]]
        return self.values[self.X.offsets[bag] : self.X.offsets[bag + 1]]

    def mean_absolute(self) -> Array:
        """Return the mean absolute contribution of each feature."""
        return np.abs(self.values).mean(axis=0)

    def __repr__(self) -> str:
        """Return the kind and the largest contributions."""
        size = self.mean_absolute()
        first = np.argsort(-size, kind="stable")[:5]
        top = ", ".join(f"{self.names[j]} {size[j]:.3g}" for j in first)
        return f"FeatureContributions({self.level}, {self.kind}; mean absolute: {top})"


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
    r"""Split scores into contributions of features.

    The score :math:`f(x)` is written as :math:`f(b) + \sum_j \phi_j(x)`, where
    :math:`b` is the `baseline`. Features are changed from the baseline to their values
    one after the other, and :math:`\phi_j` is the mean change of the score at feature
    :math:`j` over `n_permutations` orders (Shapley values by sampling [1]_). If the
    score is a sum of functions of single features, every order gives the same result
    and the contributions are exact. If it is linear, ``n_features + 1`` predictions are
    enough.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags.
    X : Bags or list of 2-D arrays
        The bags.
    level : {"instance", "bag"}, default="instance"
        Explain the score of each instance (the model's own, or that of a bag with this
        instance only), or of each bag, whose instances are changed together.
    pos_label : label, default=None
        Class for which scores are high; required with more than two classes.
    baseline : array-like of shape (n_features,), default=None
        Reference values of the features. By default the means over the instances of
        `X`, and zero for sparse data.
    groups : dict of str to list, default=None
        Features that are changed together.
    n_permutations : int, default=10
        Number of orders; every second one is the reverse of the previous one.
    random_state : int, RandomState instance or None, default=0
        Random seed of the orders.

    Returns
    -------
    FeatureContributions
        `values` (one row per instance or bag), `base`, `scores`, `names` and `kind`
        ("linear", "additive" or "sampled"); methods ``of_bag`` and
        ``mean_absolute``.

    Notes
    -----
    Linearity and additivity are tested: linear contributions must reproduce the scores
    of all rows of `X`, and additive ones must agree between the first two orders, up to
    rounding. The sampled contributions need about ``n_permutations * n_groups``
    predictions of `X`.

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
    X = bags_for(model, X)
    names, columns = feature_groups(X, groups)
    names, columns = _with_rest(X, names, columns)
    base_row = _baseline(X, baseline)
    score = _Score(model, X, level, pos_label)
    scores = score(X)
    found = _linear(X, score, scores, base_row, columns)
    if found is not None:
        values, base, kind = *found, "linear"
    else:
        switching = _Switching(X, score, scores, base_row, columns)
        values, kind = switching.parts(n_permutations, check_random_state(random_state))
        base = switching.base
    label = scored_class(model, pos_label)
    return FeatureContributions(values, base, scores, names, level, kind, X, label)


def linear_slope(model: Any, X: Bags) -> Array | None:
    """Return the slope of linear instance scores, or None if they are not linear.

    Parameters
    ----------
    model : estimator
        A fitted model of two classes, or a regressor, that scores instances.
    X : Bags
        Bags on which linearity is tested.
    """
    if len(getattr(model, "classes_", ())) > 2:
        return None
    score = _Score(model, X, "instance", None)
    found = _affine(X, score, score(X), _baseline(X, None))
    return None if found is None else found[1]


def linear_contributions(model: Any, X: Bags) -> FeatureContributions | None:
    """Return the contributions to linear instance scores; None if not linear.

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
    label = scored_class(model)
    return FeatureContributions(*found, scores, names, "instance", "linear", X, label)


def sampled_parts(
    model: Any, X: Bags, scores: Array, bags: Any, n_instances: int, pos_label: Any
) -> SimpleNamespace:
    """Return sampled contributions to the highest instance scores of some bags.

    Parameters
    ----------
    model : estimator
        A fitted model.
    X : Bags
        The bags.
    scores : ndarray of shape (n_instances,)
        Instance scores.
    bags : sequence of int
        Positions of bags.
    n_instances : int
        Number of instances of each.
    pos_label : label or None
        The class for which scores are high.

    Returns
    -------
    SimpleNamespace
        `values`, a dict by row of ``X.data``, and `names` of the features.
    """
    rows = []
    for i in bags:
        start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
        order = np.argsort(-scores[start:stop], kind="stable")[:n_instances]
        rows.append(start + np.sort(order))
    chosen = np.concatenate(rows)
    found = feature_contributions(
        model,
        Bags(
            X.take_rows(chosen),
            np.append(0, np.cumsum([len(part) for part in rows])),
            feature_names=X.feature_names,
        ),
        pos_label=pos_label,
        baseline=_baseline(X, None),
        n_permutations=SAMPLED_ORDERS,
    )
    values = dict(zip(chosen.tolist(), found.values, strict=True))
    return SimpleNamespace(values=values, names=found.names)


def _with_rest(X: Bags, names: list[str], columns: list[Any]) -> Any:
    """Add a group of all other features, so that contributions sum to the score."""
    rest = np.setdiff1d(np.arange(X.n_features), np.concatenate(columns))
    if not rest.size:
        return names, columns
    return [*names, "other features"], [*columns, rest]


def _baseline(X: Bags, baseline: Any) -> Array:
    if baseline is None:
        if X.is_sparse:
            return np.zeros(X.n_features)
        row = np.asarray(X.data.mean(axis=0, dtype=np.float64))
        for j, coding in X.codings.items():
            if coding.values is not None:  # the most frequent code
                row[j] = np.bincount(X.data[:, j].astype(np.int64)).argmax()
        return row
    row = np.asarray(baseline, dtype=np.float64)
    if row.shape != (X.n_features,):
        raise ValueError(
            f"baseline must have one value for each of the {X.n_features} features, "
            f"got shape {row.shape}."
        )
    return row


class _Score:
    """Map bags to the scores that are explained, one per instance or per bag."""

    def __init__(self, model: Any, X: Bags, level: str, pos_label: Any) -> None:
        self.model, self.level, self.pos_label = model, level, pos_label
        self.native = level == "instance" and instance_scores(model, X[:1]) is not None
        self.classes = np.asarray(getattr(model, "classes_", ())).tolist()
        if len(self.classes) > 2 and pos_label is None:
            raise ValueError(
                f"there are {len(self.classes)} classes: pass one of {self.classes} as "
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
    """Return contributions to an affine score, or None if it is not affine."""
    found = _affine(X, score, scores, base)
    if found is None:
        return None
    start, slope, rows = found
    parts = [rows[:, own] @ slope[own] - base[own] @ slope[own] for own in columns]
    return np.column_stack(parts), start


def _affine(
    X: Bags, score: _Score, scores: Array, base: Array
) -> tuple[float, Array, Any] | None:
    """Return level, slope and rows of an affine score, or None if it is not affine."""
    if X.codings:  # codes have no order
        return None
    rows = X.data
    if score.level == "bag":  # affine in the mean of the instances
        rows = bag_matrix(X.offsets, mean=True) @ X.data
    size = max(1.0, float(np.abs(scores).max()))
    if not _linear_at_midpoints(X, score, size):
        return None
    start, slope = _probe(X, score, base)
    expected = rows @ slope - float(base @ slope) + start
    if not np.abs(expected - scores).max() <= _exact(X) * size:
        return None
    return start, slope, rows


def _exact(X: Bags) -> float:
    """Return the tolerance for the precision of the rows."""
    return EXACT if X.data.dtype == np.float64 else EXACT_SINGLE


def _linear_at_midpoints(X: Bags, score: _Score, size: float) -> bool:
    """Test linearity at midpoints of pairs of instances, a cheap first test."""
    n = min(PAIRS, X.n_instances)
    places = np.linspace(0, X.n_instances - 1, n).astype(int)
    # In double precision, so that the midpoints are exact.
    few = X.data[places].astype(np.float64)
    left, right = few, few[::-1]
    middle = (left + right) * 0.5
    stack = sp.vstack if X.is_sparse else np.vstack
    rows = stack([left, right, middle])
    bags = Bags(
        rows, np.arange(3 * n + 1), feature_names=X.feature_names, codings=X.codings
    )
    a, b, c = np.split(score(bags), 3)
    return bool(np.abs(0.5 * (a + b) - c).max() <= _exact(X) * size)


def _probe(X: Bags, score: _Score, base: Array) -> tuple[float, Array]:
    """Return the score at the baseline and its slope along each feature."""
    d = X.n_features
    step = np.ones(d)
    if not X.is_sparse:  # steps scaled to the data, for accuracy
        spread = np.asarray(X.data, dtype=np.float64).std(axis=0)
        step = np.where(spread > 0, spread, 1.0)

    def ask(rows: Any) -> Array:
        rows = sp.csr_matrix(rows) if X.is_sparse else rows
        offsets = np.arange(rows.shape[0] + 1)
        return score(
            Bags(rows, offsets, feature_names=X.feature_names, codings=X.codings)
        )

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


class _Switching:
    """Switch features from the baseline to their values, one group after another."""

    def __init__(
        self, X: Bags, score: _Score, scores: Array, base: Array, columns: Any
    ) -> None:
        self.X, self.score, self.scores, self.columns = X, score, scores, columns
        self.data = X.data.toarray() if X.is_sparse else np.asarray(X.data)
        self.blank = np.tile(base.astype(self.data.dtype), (X.n_instances, 1))
        self.sparse = X.is_sparse
        self.start = self._ask(self.blank)
        # The score at the baseline may depend on the size of a bag.
        self.base = float(self.start[0]) if np.ptp(self.start) == 0 else self.start

    def _ask(self, rows: Array) -> Array:
        rows = sp.csr_matrix(rows) if self.sparse else rows
        return self.score(
            self.X.with_data(
                rows, feature_names=self.X.feature_names, codings=self.X.codings
            )
        )

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


@dataclass(frozen=True, eq=False)
class MemberContributions:
    """Contributions of the members of a stack to the scores of bags.

    Attributes
    ----------
    names : list of str
        The members.
    values : ndarray of shape (n_bags, n_members)
        Weight times log-odds of each member, for the class with high scores.
    intercept : float
        Remainder: ``values.sum(axis=1) + intercept`` is `scores`.
    scores : ndarray of shape (n_bags,)
        Scores of the bags.
    """

    names: list[str]
    values: NDArray[np.float64]
    intercept: float
    scores: NDArray[np.float64]

    def to_dict(self) -> dict[str, list[float]]:
        """Return one list of values per member."""
        return {n: v.tolist() for n, v in zip(self.names, self.values.T, strict=True)}


def member_contributions(
    model: Any, X: Any, *, pos_label: Any = None
) -> MemberContributions | None:
    """Split the scores of bags into contributions of the members of a stack.

    Parameters
    ----------
    model : estimator
        A fitted `BagClassifier` or `BagStackingClassifier`, or a pipeline of one.
    X : Bags or list of 2-D arrays
        The bags.
    pos_label : label, default=None
        Class for which scores are high; required with more than two classes.

    Returns
    -------
    MemberContributions or None
        `names`, `values` (one row per bag, one column per member), `intercept` and
        `scores`; exact. None if the model is not a stack.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.ensemble import BagStackingClassifier
    >>> from bagwise.inspection import member_contributions
    >>> X, y = make_bags(random_state=0)
    >>> found = member_contributions(BagStackingClassifier(random_state=0).fit(X, y), X)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.intercept, found.scores))
    True
    """
    X = bags_for(model, X)
    inner, inside = last_step(model, X)
    if not hasattr(inner, "member_contributions"):
        return None
    parts = np.asarray(inner.member_contributions(inside), dtype=np.float64)
    column, sign = positive_class(inner, pos_label)
    if parts.ndim == 3:
        if column is None:
            what = "targets" if predicts_values(inner) else "classes"
            raise needs_one_column(inner, f"there are {parts.shape[2]} {what}")
        parts = parts[:, :, column]
    elif pos_label is not None:
        own = positive_class(inner)
        parts = parts if own == (column, sign) else -parts
    scores = bag_scores(inner, inside, pos_label)
    left = scores - parts.sum(axis=1)
    names = list(inner.members_)
    return MemberContributions(names, parts, float(np.median(left)), scores)
