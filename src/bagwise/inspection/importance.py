"""Importance of instances for the score of a bag, and its faithfulness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import check_random_state

from bagwise.bags import Bags, Ragged, as_bags
from bagwise.inspection.pictures import for_class
from bagwise.inspection.scores import (
    MAX_ROWS,
    bag_scores,
    bags_for,
    instance_scores,
    own_positive,
    positive_class,
    predicts_values,
    ragged_arange,
    row_bags,
    score_in_chunks,
    scored_class,
)

__all__ = [
    "IMPORTANCE_METHODS",
    "Faithfulness",
    "faithfulness",
    "gap_verdict",
    "instance_importance",
    "mean_interval",
]

IMPORTANCE_METHODS = ("native", "single", "leave_out", "add_to")
ORDERS = ("most", "least", "random")

Array = NDArray[np.float64]


def instance_importance(
    model: Any,
    X: Any,
    method: str = "single",
    *,
    pos_label: Any = None,
    reference: Any = None,
    max_rows: int = MAX_ROWS,
) -> Ragged:
    r"""Measure how much each instance matters for the score of its bag, for any model.

    With the score :math:`f(B)` of a bag (decision value, or prediction of a regressor),
    the importance of an instance :math:`x` of a bag :math:`B` is

    - ``"native"``: the model's own `instance_scores`;
    - ``"single"``: :math:`f(\{x\})`, the score of a bag with this instance only;
    - ``"leave_out"``: :math:`f(B) - f(B \setminus \{x\})`, the drop without it;
    - ``"add_to"``: :math:`f(R \cup \{x\}) - f(R)`, the gain of a reference bag
      :math:`R`, which is `reference`.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags, or a pipeline or search of one.
    X : Bags or list of 2-D arrays
        The bags.
    method : {"single", "native", "leave_out", "add_to"}, default="single"
        The definition of importance; see above.
    pos_label : label, default=None
        Class for which values are high. By default the positive class of two classes,
        and with more classes all of them, one column each.
    reference : 2-D array, default=None
        A bag for "add_to". By default, of the bags with a negative score (all bags for
        a regressor), the one with the median score. With "leave_out", nothing is left
        of a bag with one instance: its score is compared with that of this bag.
    max_rows : int, default=131072
        Maximum number of rows in one prediction; bounds the memory.

    Returns
    -------
    Ragged
        One value per instance, or one row with a column per class.

    Notes
    -----
    With :math:`n_i` instances in bag :math:`i`, "single" predicts
    :math:`\sum n_i` rows, as many as one prediction of `X`; "leave_out" predicts
    :math:`\sum n_i (n_i - 1)` rows, quadratic in the size of a bag; "add_to"
    :math:`(|R| + 1) \sum n_i`. All are split into predictions of `max_rows`
    rows at most.

    Each definition has a limit. "single" puts an instance in a bag unlike the training
    bags, and ignores effects that need two instances. "leave_out" ignores redundant
    instances: if either of two instances is enough to make the bag positive, both get
    zero (their Shapley values would be half of the score each). `faithfulness` measures
    which definition suits a model.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.inspection import instance_importance
    >>> from bagwise.svm import BagSVC
    >>> X, y = make_bags(random_state=0)
    >>> model = BagSVC(kernel="emd").fit(X, y)
    >>> instance_importance(model, X, "leave_out")
    Ragged(n_bags=30, n_instances=156, sizes 3/5/8 (min/median/max))
    """
    if method not in IMPORTANCE_METHODS:
        raise ValueError(
            f"unknown method {method!r}; choose one of {', '.join(IMPORTANCE_METHODS)}."
        )
    if max_rows < 1:
        raise ValueError(f"max_rows must be at least 1, got {max_rows}.")
    X = bags_for(model, X)
    if method == "native":
        return Ragged(_native(model, X, pos_label), X.offsets)
    if method == "single":
        parts = row_bags(X).iter_chunks(max_rows)
        found = np.concatenate([bag_scores(model, p, pos_label) for p in parts])
        return Ragged(found, X.offsets)
    whole = bag_scores(model, X, pos_label)
    if method == "leave_out":
        return Ragged(
            _leave_out(model, X, whole, pos_label, reference, max_rows), X.offsets
        )
    if whole.ndim == 1:
        bag = _reference(X, whole, reference, predicts_values(model))
        return Ragged(_add_to(model, X, bag, pos_label, max_rows), X.offsets)
    columns = [
        _add_to(model, X, _reference(X, column, reference, False), label, max_rows)
        for label, column in zip(model.classes_, whole.T, strict=True)
    ]
    return Ragged(np.column_stack(columns), X.offsets)


def _native(model: Any, X: Bags, pos_label: Any) -> Array:
    found = instance_scores(model, X)
    if found is None:
        raise ValueError(
            "the model has no native instance scores, it scores whole bags only. Use "
            "method='single', 'leave_out' or 'add_to', which need predictions only."
        )
    values = np.asarray(found.values, dtype=np.float64)
    column, _ = positive_class(model, pos_label)
    if values.ndim == 2:
        return values if pos_label is None else values[:, column]
    if pos_label is None or predicts_values(model):
        return values
    return values if pos_label == own_positive(model) else -values


def _leave_out(
    model: Any, X: Bags, whole: Array, pos_label: Any, reference: Any, max_rows: int
) -> Array:
    bag = X.bag_index
    first = X.offsets[:-1][bag]
    place = np.arange(X.n_instances) - first
    sizes = X.sizes[bag] - 1
    found = np.empty((X.n_instances, *whole.shape[1:]))
    some = np.flatnonzero(sizes > 0)

    def rows_of(chunk: slice) -> NDArray[np.int64]:
        left_out = some[chunk]
        within = ragged_arange(sizes[left_out])
        gap = np.repeat(place[left_out], sizes[left_out])
        start = np.repeat(first[left_out], sizes[left_out])
        return start + within + (within >= gap)

    if some.size:
        rest = score_in_chunks(model, X, sizes[some], rows_of, pos_label, max_rows)
        found[some] = whole[bag[some]] - rest
    alone = np.flatnonzero(sizes == 0)
    if alone.size:
        columns = whole[:, None] if whole.ndim == 1 else whole
        levels = [
            _score_of(model, X, _reference(X, c, reference, predicts_values(model)), k)
            for k, c in _labeled(model, columns, pos_label, whole.ndim)
        ]
        level = np.array(levels) if whole.ndim == 2 else levels[0]
        found[alone] = whole[bag[alone]] - level
    return found


def _labeled(model: Any, columns: Array, pos_label: Any, ndim: int) -> Any:
    if ndim == 1:
        return [(pos_label, columns[:, 0])]
    return list(zip(model.classes_, columns.T, strict=True))


def _score_of(model: Any, X: Bags, bag: Any, pos_label: Any) -> float:
    one = Bags(bag, [0, bag.shape[0]], feature_names=X.feature_names, codings=X.codings)
    return float(bag_scores(model, one, pos_label)[0])


def _reference(X: Bags, score: Array, reference: Any, regressor: bool) -> Any:
    """Return the rows of the reference bag."""
    if reference is not None:
        bag = as_bags([reference])
        if bag.n_features != X.n_features:
            raise ValueError(
                f"the reference bag has {bag.n_features} features, but X has "
                f"{X.n_features}."
            )
        return bag.data
    negative = np.flatnonzero(score <= 0)
    pool = negative if negative.size and not regressor else np.arange(len(X))
    order = pool[np.argsort(score[pool], kind="stable")]
    return X[int(order[(len(order) - 1) // 2])]


def _add_to(
    model: Any, X: Bags, reference: Any, pos_label: Any, max_rows: int
) -> Array:
    joined = Bags.concatenate(
        [
            X,
            Bags(
                reference,
                [0, reference.shape[0]],
                feature_names=X.feature_names,
                codings=X.codings,
            ),
        ]
    )
    n, m = X.n_instances, reference.shape[0]
    own = np.arange(n, n + m)
    level = _score_of(model, X, reference, pos_label)

    def rows_of(chunk: slice) -> NDArray[np.int64]:
        added = np.arange(n)[chunk]
        block = np.broadcast_to(own, (len(added), m))
        return np.column_stack([block, added]).ravel()

    sizes = np.full(n, m + 1)
    return score_in_chunks(model, joined, sizes, rows_of, pos_label, max_rows) - level


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Change of scores when instances are removed in the order of their importance.

    Areas are means of the change of the score over the share of instances removed, from
    none to all but one, in units of the standard deviation of the bag scores (with
    several classes, the root mean square of the standard deviations).

    Attributes
    ----------
    areas : dict of str to ndarray of shape (n_bags,)
        Area of each bag with the "most" important instances removed first, the
        "least" important first, and in "random" order.
    most, least : tuple of float
        Mean and interval of ``random - most`` and of ``least - random``: how much
        faster the score decreases, and how much longer it stays, than in random order.
        Positive values indicate a faithful importance.
    gap : tuple of float
        Mean and interval of ``least - most``.
    share : ndarray of shape (n_points,)
        Shares of instances removed.
    curves : dict of str to ndarray of shape (n_points,)
        Mean change of the score at those shares.
    n_bags : int
        Number of bags with at least two instances; the others are excluded.
    confidence : float
        Level of the intervals.
    pos_label : label or None
        The class for which the score is high; None if it is the predicted one of
        several classes, or for a regressor.
    """

    areas: dict[str, Array]
    most: tuple[float, float, float]
    least: tuple[float, float, float]
    gap: tuple[float, float, float]
    share: Array
    curves: dict[str, Array]
    n_bags: int
    confidence: float
    pos_label: Any = None

    @property
    def verdict(self) -> str:
        """Faithful, misleading, or not different from random order, by `gap`."""
        return gap_verdict(self.gap)

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, intervals and number of bags as plain values."""
        return {
            "verdict": self.verdict,
            "n_bags": self.n_bags,
            **{name: list(getattr(self, name)) for name in ("gap", "most", "least")},
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot the three mean curves.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to plot on; new ones by default.

        Returns
        -------
        matplotlib axes
            The axes.
        """
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(5, 3.4), layout="tight").subplots()
        colors = {"most": "#d9480f", "least": "#1c7ed6", "random": "#868e96"}
        for name in ORDERS:
            text = f"{name} important first" if name != "random" else "random order"
            ax.plot(self.share, self.curves[name], label=text, color=colors[name])
        ax.set_xlabel("share of the instances removed")
        ax.set_ylabel(
            f"mean change of the bag score{for_class(self.pos_label)}\n"
            "(standard deviations of bag scores)"
        )
        mean, low, high = self.gap
        ax.set_title(
            f"Importance is {self.verdict}\ngap least - most {mean:.2f}, "
            f"{self.confidence:.0%} interval {low:.2f} to {high:.2f}",
            fontsize=9,
        )
        ax.legend(fontsize=8)
        return ax

    def __repr__(self) -> str:
        """Show the verdict and the intervals."""
        lines = [f"Faithfulness: {self.verdict} ({self.n_bags} bags)"]
        what = {
            "gap": "least first - most first",
            "most": "random - most first",
            "least": "least first - random",
        }
        for name, text in what.items():
            mean, low, high = getattr(self, name)
            lines.append(f"  {text:<25} {mean:6.3f} [{low:.3f}, {high:.3f}]")
        return "\n".join(lines)


def faithfulness(
    model: Any,
    X: Any,
    importance: Ragged,
    *,
    pos_label: Any = None,
    n_points: int = 11,
    n_random: int = 5,
    confidence: float = 0.95,
    random_state: Any = 0,
    max_rows: int = MAX_ROWS,
) -> Faithfulness:
    r"""Measure whether the score depends on the instances with high importance.

    Instances are removed from each bag, the most important first, and the rest of the
    bag is scored. If the importances are faithful to the model, the score decreases
    faster than in random order, and slower if the least important are removed first.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags.
    X : Bags or list of 2-D arrays
        The bags.
    importance : Ragged
        One value per instance, as `instance_importance` gives, or one row with a column
        per class.
    pos_label : label, default=None
        Class for which the importances are high. By default the positive class of two
        classes; with more classes, the predicted class of each bag.
    n_points : int, default=11
        Points of a curve; a bag with fewer instances has one point per instance.
    n_random : int, default=5
        Random orders per bag.
    confidence : float, default=0.95
        Level of the intervals (Student's t over bags).
    random_state : int, RandomState instance or None, default=0
        Random seed of the random orders.
    max_rows : int, default=131072
        Maximum number of rows in one prediction.

    Returns
    -------
    Faithfulness
        With `verdict`, the intervals `gap` (``least - most``), `most` and `least`, the
        `areas` of the bags, the mean `curves`, and a method ``plot``.

    Notes
    -----
    Ties are broken at random, so a constant importance is equivalent to a random
    order. Predicts about ``(2 + n_random) * n_points / 2`` times the rows of `X`.

    Faithfulness is agreement with the model, not with the truth: a wrong model may be
    explained faithfully. The importance "leave_out" has an advantage, since the first
    step of a curve is its definition.

    Examples
    --------
    >>> from bagwise.compose import WrapperMI
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.inspection import faithfulness, instance_importance
    >>> X, y = make_bags(random_state=0)
    >>> model = WrapperMI().fit(X, y)
    >>> faithfulness(model, X, instance_importance(model, X)).verdict
    'faithful'
    """
    X = bags_for(model, X)
    values = _values(model, X, importance, pos_label)
    if n_points < 2 or n_random < 1:
        raise ValueError("n_points must be at least 2 and n_random at least 1.")
    rng = check_random_state(random_state)
    whole = bag_scores(model, X, pos_label)
    column = whole.argmax(axis=1) if whole.ndim == 2 else None
    # With several classes, the spread of each class over bags: the scores of the
    # predicted classes alone may all be alike.
    spread = float(np.sqrt(np.mean(np.var(whole, axis=0))))
    used = np.flatnonzero(X.sizes > 1)
    if not used.size:
        raise ValueError(
            "every bag contains one instance only: there is nothing to remove."
        )
    plan = _Plan(X, used, values, column, n_points, n_random, rng)
    scores = score_in_chunks(model, X, plan.sizes, plan.rows_of, pos_label, max_rows)
    if column is not None:
        scores = scores[np.arange(len(scores)), column[plan.bag]]
        whole = whole[np.arange(len(whole)), column]
    scale = spread if spread > 0 else 1.0
    change = (scores - whole[plan.bag]) / scale
    areas, curves, share = plan.summarize(change)
    between = {
        "most": areas["random"] - areas["most"],
        "least": areas["least"] - areas["random"],
        "gap": areas["least"] - areas["most"],
    }
    return Faithfulness(
        areas,
        *(
            mean_interval(between[name], confidence)
            for name in ("most", "least", "gap")
        ),
        share=share,
        curves=curves,
        n_bags=len(used),
        confidence=confidence,
        pos_label=scored_class(model, pos_label),
    )


def _values(model: Any, X: Bags, importance: Any, pos_label: Any) -> Array:
    if not isinstance(importance, Ragged):
        raise TypeError(
            f"importance must be a Ragged, got {type(importance).__name__}. Use "
            "Ragged(values, X.offsets)."
        )
    if not np.array_equal(importance.offsets, X.offsets):
        raise ValueError(
            f"importance ({importance.n_bags} bags, {importance.n_instances} instances)"
            f" does not have the offsets of X ({len(X)} bags, {X.n_instances} "
            "instances)."
        )
    values = np.asarray(importance.values, dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError("importance contains NaN.")
    column, _ = positive_class(model, pos_label)
    if values.ndim == 2 and column is not None:
        values = values[:, column]
    return values


class _Plan:
    """The rows that remain in each bag, for every order and point of a curve."""

    def __init__(
        self,
        X: Bags,
        used: NDArray[np.int64],
        values: Array,
        column: Any,
        n_points: int,
        n_random: int,
        rng: Any,
    ) -> None:
        self.used, self.n_random, self.n_points = used, n_random, n_points
        self.left: list[NDArray[np.int64]] = []
        bag, self.removed = [], []
        for i in used:
            start, size = int(X.offsets[i]), int(X.sizes[i])
            own = values[start : start + size]
            if own.ndim == 2:
                own = own[:, column[i]]
            shuffled = rng.permutation(size)
            falling = shuffled[np.argsort(-own[shuffled], kind="stable")]
            points = np.linspace(0, size - 1, min(size, n_points))
            counts = np.round(points).astype(int)
            orders = [falling, falling[::-1]]
            orders += [rng.permutation(size) for _ in range(n_random)]
            for order in orders:
                self.left.extend(start + np.sort(order[k:]) for k in counts)
            bag.append(np.full(len(orders) * len(counts), i))
            self.removed.append(counts / (size - 1))
        self.bag = np.concatenate(bag)
        self.sizes = np.array([len(rows) for rows in self.left])

    def rows_of(self, chunk: slice) -> NDArray[np.int64]:
        return np.concatenate(self.left[chunk])

    def summarize(self, change: Array) -> tuple[dict[str, Array], Any, Array]:
        """Return the areas of bags, the mean curves and the shares of instances."""
        share = np.linspace(0, 1, self.n_points)
        areas = {name: np.empty(len(self.used)) for name in ORDERS}
        curves = {name: np.zeros(self.n_points) for name in ORDERS}
        start = 0
        for k, removed in enumerate(self.removed):
            block = change[start : start + (2 + self.n_random) * len(removed)]
            start += len(block)
            lines = block.reshape(2 + self.n_random, len(removed))
            means = (lines[0], lines[1], lines[2:].mean(axis=0))
            for name, line in zip(ORDERS, means, strict=True):
                areas[name][k] = float((line[1:] + line[:-1]) @ np.diff(removed) / 2)
                curves[name] += np.interp(share, removed, line) / len(self.used)
        return areas, curves, share


def gap_verdict(gap: tuple[float, float, float]) -> str:
    """Return the verdict for mean and interval of ``least - most``."""
    _, low, high = gap
    if low > 0:
        return "faithful"
    return "misleading" if high < 0 else "not different from random order"


def mean_interval(
    values: Array, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the mean and its interval by Student's t."""
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return mean, float("-inf"), float("inf")
    half = student.ppf(0.5 + confidence / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return mean, mean - float(half), mean + float(half)
