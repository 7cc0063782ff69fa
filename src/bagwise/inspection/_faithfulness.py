"""Whether importances of instances tell the truth about a model: deletion curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import check_random_state

from bagwise.bags import Bags, Ragged, as_bags
from bagwise.inspection.names import for_class
from bagwise.inspection.scores import (
    MAX_ROWS,
    bag_scores,
    positive_class,
    score_in_chunks,
    spoken_for,
)

__all__ = ["Faithfulness", "faithfulness"]

Array = NDArray[np.float64]
ORDERS = ("most", "least", "random")


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """What happens to scores when instances are removed in the order of importance.

    Areas are means of the score over the share of instances removed, from none to all
    but one, in units of the standard deviation of the scores of the bags (of several
    classes, the root mean square of theirs).

    Attributes
    ----------
    areas : dict of str to ndarray of shape (n_bags,)
        Area of each bag with the "most" important removed first, the "least" important
        first, and in "random" order.
    most, least : tuple of float
        Mean and interval of ``random - most`` and of ``least - random``: how much
        faster the score falls, and how much longer it stays, than by chance. Positive
        is faithful.
    gap : tuple of float
        Mean and interval of ``least - most``.
    share : ndarray of shape (n_points,)
        Shares of instances removed.
    curves : dict of str to ndarray of shape (n_points,)
        Mean change of the score at those shares.
    n_bags : int
        Bags with at least two instances, which are the ones that count.
    confidence : float
        Level of the intervals.
    pos_label : label or None
        The class that the score speaks for; None where that is the predicted one of
        several, or a value.
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
        """Say "faithful", "not told from random order" or "misleading", by `gap`."""
        _, low, high = self.gap
        if low > 0:
            return "faithful"
        return "misleading" if high < 0 else "not told from random order"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "verdict": self.verdict,
            "n_bags": self.n_bags,
            **{name: list(getattr(self, name)) for name in ("gap", "most", "least")},
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the three mean curves.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; new ones by default.

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
        ax.set_xlabel("share of instances removed")
        speaks = for_class(self.pos_label)
        ax.set_ylabel(f"change of the bag score{speaks}\n(standard deviations)")
        ax.set_title(f"{self.verdict}: gap {self.gap[0]:.2f}", fontsize=10)
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
    r"""Measure whether important instances are those that the score depends on.

    Instances are removed from each bag, the most important first, and the score of what
    is left is asked for. If the importances are right, the score falls faster than in
    random order, and stays longer when the least important go first.

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
        Class that the importances speak for. By default the positive class of two; of
        more classes, for each bag the one that is predicted.
    n_points : int, default=11
        Points of a curve; a smaller bag has as many as instances.
    n_random : int, default=5
        Random orders of each bag.
    confidence : float, default=0.95
        Level of the intervals (Student's t over bags).
    random_state : int, RandomState instance or None, default=0
        Fixes the random orders.
    max_rows : int, default=131072
        Most rows of one prediction.

    Returns
    -------
    Faithfulness
        Areas, intervals, curves and a verdict.

    Notes
    -----
    Ties are broken at random, so that an importance that knows nothing counts as random
    order. Predicts about ``(2 + n_random) * n_points / 2`` times the rows of `X`.

    It measures agreement with the model, not with the truth: a model that is wrong may
    be explained faithfully. Importance "leave_out" is tested by what it asks and has an
    advantage at the first step.

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
    X = as_bags(X)
    values = _values(model, X, importance, pos_label)
    if n_points < 2 or n_random < 1:
        raise ValueError("n_points must be at least 2 and n_random at least 1.")
    rng = check_random_state(random_state)
    whole = bag_scores(model, X, pos_label)
    column = whole.argmax(axis=1) if whole.ndim == 2 else None
    # Of several classes the spread of each over bags: where every bag is sure of its
    # class, scores of predicted classes are all alike.
    spread = float(np.sqrt(np.mean(np.var(whole, axis=0))))
    used = np.flatnonzero(X.sizes > 1)
    if not used.size:
        raise ValueError("every bag holds one instance: nothing can be removed.")
    plan = _Plan(X, used, values, column, n_points, n_random, rng)
    scores = score_in_chunks(model, X, plan.sizes, plan.rows_of, pos_label, max_rows)
    if column is not None:
        scores = scores[np.arange(len(scores)), column[plan.bag]]
        whole = whole[np.arange(len(whole)), column]
    scale = spread if spread > 0 else 1.0
    change = (scores - whole[plan.bag]) / scale
    areas, curves, share = plan.summarise(change)
    between = {
        "most": areas["random"] - areas["most"],
        "least": areas["least"] - areas["random"],
        "gap": areas["least"] - areas["most"],
    }
    return Faithfulness(
        areas,
        *(_interval(between[name], confidence) for name in ("most", "least", "gap")),
        share=share,
        curves=curves,
        n_bags=len(used),
        confidence=confidence,
        pos_label=spoken_for(model, pos_label),
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
            f" is not cut like X ({len(X)} bags, {X.n_instances} instances)."
        )
    values = np.asarray(importance.values, dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError("importance contains NaN.")
    column, _ = positive_class(model, pos_label)
    if values.ndim == 2 and column is not None:
        values = values[:, column]
    return values


class _Plan:
    """Which rows are left in each bag to be scored, for every order and point."""

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

    def summarise(self, change: Array) -> tuple[dict[str, Array], Any, Array]:
        """Return areas of bags and mean curves from the change of every score."""
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


def _interval(values: Array, confidence: float) -> tuple[float, float, float]:
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return mean, float("-inf"), float("inf")
    half = student.ppf(0.5 + confidence / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return mean, mean - float(half), mean + float(half)
