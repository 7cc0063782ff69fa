r"""Prediction sets and intervals with a coverage that is known.

A prediction set holds the true label of a new bag with probability :math:`1 - \alpha`.
The calibration scores come from held-out predictions of the training bags
(cross-conformal prediction, [1]_): one minus the probability of the true class, or
minus the score towards it where a model has no probabilities; in regression the
absolute error. A label belongs to the set if its score is at most the quantile

.. math:: q = \inf \Big\{t : \frac{1}{G + 1} \sum_{g=1}^{G} \frac{1}{n_g} \sum_{i \in g}
   [s_i \le t] \ge 1 - \alpha \Big\}

over the :math:`G` groups with :math:`n_g` bags each: a bag of a new group is covered
([2]_). Without groups every bag is a group of its own, and this is the quantile of
split conformal prediction. Between two scores the share is interpolated linearly, so
that few groups do not make sets larger than necessary ([3]_). The model that predicts
was fitted to all bags and the scores are those of models of the folds, so that the
coverage is not guaranteed for finite samples; the documentation shows what was
measured.

References
----------
.. [1] Vovk, V., "Cross-conformal predictors", Annals of Mathematics and Artificial
   Intelligence 74, 9-28, 2015. :doi:`10.1007/s10472-013-9368-4`
.. [2] Lee, Y., Barber, R. F. and Willett, R., "Distribution-free inference with
   hierarchical data", arXiv:2306.06342, 2023.
.. [3] Beran, R. and Hall, P., "Interpolated nonparametric prediction intervals and
   confidence intervals", Journal of the Royal Statistical Society B 55, 643-652, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import as_bags
from bagwise.inspection.scores import own_positive, predicts_values
from bagwise.io.record import require_record

__all__ = ["PredictionSets", "conformal_quantile", "prediction_sets"]

Array = NDArray[np.float64]
ALPHA = 0.1


@dataclass(frozen=True)
class PredictionSets:
    """What may be true of each bag, with a known coverage.

    Attributes
    ----------
    alpha : float
        One minus the nominal coverage.
    member : ndarray of bool of shape (n_bags, n_classes), or None
        Which classes are in the set of a bag.
    classes : ndarray of shape (n_classes,), or None
        The classes.
    low, high : ndarray of shape (n_bags,), or None
        The interval of a bag, in regression; infinite where too few bags were held out.
    """

    alpha: float
    member: NDArray[np.bool_] | None = None
    classes: NDArray[Any] | None = None
    low: Array | None = None
    high: Array | None = None

    @property
    def labels(self) -> list[tuple[Any, ...]]:
        """The classes in each set."""
        if self.member is None or self.classes is None:
            raise ValueError("a regressor has intervals, see low and high")
        return [tuple(self.classes[row].tolist()) for row in self.member]

    def covers(self, y: Any) -> NDArray[np.bool_]:
        """Return for each bag whether the set contains the truth.

        Parameters
        ----------
        y : array-like of shape (n_bags,)
            Labels or values.
        """
        y = np.asarray(y)
        if self.member is None or self.classes is None:
            return (self.low <= y) & (y <= self.high)  # type: ignore[no-any-return]
        return (self.member & (self.classes == y[:, None])).any(axis=1)


def prediction_sets(
    model: Any,
    X: Any,
    *,
    alpha: float | None = None,
    per_class: bool | None = None,
) -> PredictionSets:
    """Return the prediction set, labels or an interval, of each bag.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor with held-out predictions in its training
        record: from `compare`, or from `bagwise fit --conformal 0.1`.
    X : Bags or list of 2-D arrays
        The bags.
    alpha : float, default=None
        One minus the coverage; by default as stored with the model, or 0.1.
    per_class : bool, default=None
        Whether the coverage holds for the bags of each class (one quantile per class),
        not only on average over classes. By default as stored with the model.

    Returns
    -------
    PredictionSets
        Sets of labels, or intervals. A set may be empty: no label fits the bag.
    """
    record = require_record(model, "a prediction set", "held_out")
    stored = record.about.get("conformal") or {}
    alpha = float(stored.get("alpha", ALPHA)) if alpha is None else alpha
    if per_class is None:
        per_class = bool(stored.get("per_class", False))
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}.")
    X, held = as_bags(X), record.held_out
    groups = held.get("group")
    if "prediction" in held:
        predicted = np.asarray(model.predict(X), dtype=np.float64)
        errors = np.abs(held["prediction"] - held["truth"])
        q = conformal_quantile(errors, alpha, groups)
        return PredictionSets(alpha, low=predicted - q, high=predicted + q)
    if predicts_values(model) or held["truth"].ndim > 1:
        raise ValueError(
            "prediction sets are for classes (one label per bag) and for values; the"
            " model predicts " + ("risks" if held["truth"].ndim == 1 else "labels")
        )
    strange = _strangeness(held)
    truth = held["truth"].astype(np.int64)
    if len(strange) != len(truth) or truth.min() < 0 or truth.max() >= strange.shape[1]:
        raise ValueError("the model has neither scores nor probabilities")
    own = strange[np.arange(len(truth)), truth]
    n_classes = strange.shape[1]
    if per_class:
        q = np.array(
            [
                conformal_quantile(
                    own[truth == k],
                    alpha,
                    None if groups is None else groups[truth == k],
                )
                for k in range(n_classes)
            ]
        )
    else:
        q = np.full(n_classes, conformal_quantile(own, alpha, groups))
    classes = np.asarray(model.classes_)
    new = _strangeness(_scores(model, X, "probability" in held))
    order = np.arange(n_classes)
    if n_classes == 2:  # stored with the positive class last
        positive = classes.tolist().index(own_positive(model))
        order = np.array([1 - positive, positive])
    member = np.empty((len(X), n_classes), dtype=bool)
    member[:, order] = new <= q
    return PredictionSets(alpha, member=member, classes=classes)


def _scores(model: Any, X: Any, probability: bool) -> dict[str, Array]:
    """Return scores or probabilities as `ModelRecord.held_out` has them."""
    if probability:
        found = np.asarray(model.predict_proba(X), dtype=np.float64)
        if found.shape[1] > 2:
            return {"probability": found}
        positive = np.asarray(model.classes_).tolist().index(own_positive(model))
        return {"probability": found[:, positive]}
    score = np.asarray(model.decision_function(X), dtype=np.float64)
    if score.ndim == 1 and own_positive(model) == np.asarray(model.classes_)[0]:
        score = -score
    return {"score": score}


def _strangeness(found: dict[str, Array]) -> Array:
    """Return how little each class fits; a column for each class."""
    if "probability" in found:
        p = found["probability"]
        return 1.0 - (np.column_stack([1.0 - p, p]) if p.ndim == 1 else p)
    score = found.get("score", np.empty((0, 1)))
    return np.column_stack([score, -score]) if score.ndim == 1 else -score


def conformal_quantile(scores: Array, alpha: float, groups: Any = None) -> float:
    """Return the quantile of calibration scores that covers a bag of a new group.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Calibration scores.
    alpha : float
        One minus the coverage.
    groups : ndarray of shape (n,), optional
        The group of each; every bag is a group of its own by default.

    Returns
    -------
    float
        Infinite if there are too few groups for the coverage.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 20.0), 0.1)
    18.0
    >>> conformal_quantile(np.arange(1.0, 16.0), 0.1)  # 16 * 0.9 = 14.4
    14.4
    >>> conformal_quantile(np.arange(1.0, 9.0), 0.1)
    inf
    """
    if not len(scores):
        return np.inf
    weight = np.ones(len(scores))
    if groups is not None:
        _, codes, count = np.unique(groups, return_inverse=True, return_counts=True)
        weight = 1.0 / count[codes]
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weight[order]) / (weight.sum() + 1.0)
    wanted, rounding = 1.0 - alpha, 1e-12
    place = int(np.searchsorted(reached, wanted - rounding))
    if place == len(scores):
        return np.inf
    if reached[place] < wanted + rounding:
        return float(scores[order][place])
    return float(np.interp(wanted, reached, scores[order]))
