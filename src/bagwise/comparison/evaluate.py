"""What is measured on the test bags of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import average_precision_score

from bagwise.inspection import instance_scores

__all__ = [
    "METRICS",
    "Metric",
    "auroc",
    "average_precision",
    "bag_metrics",
    "GroupCounts",
    "group_labels",
    "group_metrics",
    "predictions",
    "value_metrics",
]

Array = NDArray[np.float64]
CLASSES = ("classification", "multilabel")


@dataclass(frozen=True)
class Metric:
    """A figure of the results table.

    Parameters
    ----------
    name, title : str
        Column and heading.
    higher : bool
        Whether larger is better.
    tasks : tuple of str
        Where it is defined.
    low, high : float
        Its range.
    squared : bool
        Whether folds are averaged, and methods compared, by its square, as errors add
        up in squares.
    scoring : str
        What tuning maximizes when this figure decides the ranking.
    """

    name: str
    title: str
    higher: bool
    tasks: tuple[str, ...] = CLASSES
    low: float = 0.0
    high: float = 1.0
    squared: bool = False
    scoring: str = "accuracy"

    @property
    def in_text(self) -> str:
        """The heading inside a sentence."""
        return self.title if self.title[:2].isupper() else self.title.lower()

    def show(self, value: float) -> str:
        """Write a figure: three decimals, or four digits where it has no bound.

        Parameters
        ----------
        value : float
            The figure; empty for NaN and infinity.

        Examples
        --------
        >>> METRICS["accuracy"].show(0.9), METRICS["rmse"].show(0.0000321)
        ('0.900', '3.21e-05')
        """
        if not np.isfinite(value):
            return ""
        return f"{value:.3f}" if self.high == 1.0 else f"{value:.4g}"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "Accuracy", higher=True),
        Metric("auroc", "AUROC", higher=True, scoring="roc_auc"),
        Metric(
            "average_precision",
            "Average precision",
            higher=True,
            scoring="average_precision",
        ),
        Metric(
            "balanced_accuracy",
            "Balanced accuracy",
            higher=True,
            scoring="balanced_accuracy",
        ),
        Metric("log_loss", "Log loss", higher=False, high=np.inf),
        Metric("key_success", "Key-instance success", True, CLASSES[:1]),
        Metric("group_accuracy", "Accuracy per group", True, CLASSES[:1]),
        Metric("group_auroc", "AUROC per group", True, CLASSES[:1], scoring="roc_auc"),
        Metric(
            "r2",
            "R2",
            higher=True,
            tasks=("regression",),
            low=-np.inf,
            scoring="neg_mean_squared_error",
        ),
        Metric(
            "rmse",
            "RMSE",
            higher=False,
            tasks=("regression",),
            high=np.inf,
            squared=True,
            scoring="neg_mean_squared_error",
        ),
        Metric(
            "mae",
            "MAE",
            higher=False,
            tasks=("regression",),
            high=np.inf,
            scoring="neg_mean_absolute_error",
        ),
        Metric(
            "spearman",
            "Spearman",
            higher=True,
            tasks=("regression",),
            low=-1.0,
            scoring="neg_mean_squared_error",
        ),
        Metric(
            "concordance",
            "Concordance index",
            higher=True,
            tasks=("survival",),
            scoring="concordance",
        ),
    )
}


def predictions(model: Any, X: Any, classes: NDArray[Any]) -> dict[str, Array]:
    """Return decision values and, where the model has them, probabilities.

    Both have one column per class when there are more than two, and one column (the
    second class) for two. `label` holds class indices.
    """
    found: dict[str, Array] = {}
    if hasattr(model, "predict_proba"):
        probability = np.asarray(model.predict_proba(X), dtype=np.float64)
        found["probability"] = probability[:, 1] if len(classes) == 2 else probability
    if hasattr(model, "decision_function"):
        score = np.asarray(model.decision_function(X), dtype=np.float64)
        found["score"] = score
    elif "probability" in found:
        p = found["probability"]
        found["score"] = p - 0.5 if len(classes) == 2 else p
    label = np.asarray(model.predict(X))
    found["label"] = np.searchsorted(classes, label).astype(np.float64)
    if "score" not in found:
        found["score"] = found["label"] - 0.5 if len(classes) == 2 else np.empty(0)
    return found


def auroc(truth: NDArray[Any], score: Array) -> float:
    """Return the area under the ROC curve; several columns: mean of one-vs-rest.

    `truth` holds class indices. NaN when a class is missing, as in a test set of one
    bag.
    """
    if score.ndim == 2:
        values = [auroc(truth == k, score[:, k]) for k in range(score.shape[1])]
        return float(np.mean(values)) if values else float("nan")
    positive = truth.astype(bool)
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative or len(score) != len(positive):
        return float("nan")
    ranks = rankdata(score)  # mean ranks count a tie as one half
    total = float(ranks[positive].sum()) - n_positive * (n_positive + 1) / 2
    return total / (n_positive * n_negative)


def average_precision(truth: NDArray[Any], score: Array) -> float:
    """Return the average precision; several columns: mean of one-vs-rest.

    `truth` holds class indices. NaN when a class is missing.
    """
    if score.ndim == 2:
        columns = range(score.shape[1])
        values = [average_precision(truth == k, score[:, k]) for k in columns]
        return float(np.mean(values)) if values else float("nan")
    positive = truth.astype(bool)
    if positive.all() or not positive.any() or len(score) != len(positive):
        return float("nan")
    return float(average_precision_score(positive, score))


def bag_metrics(
    truth: NDArray[Any],
    label: NDArray[Any],
    score: Array,
    probability: Array | None,
    n_classes: int,
) -> dict[str, float | None]:
    """Return the metrics of bag predictions; None (not NaN) where undefined.

    `truth` and `label` hold class indices; of two classes, 1 is the positive one.
    """
    hit = truth == label
    recalls = [hit[truth == k].mean() for k in range(n_classes) if (truth == k).any()]
    loss = None
    if probability is not None:
        p = probability
        full = np.column_stack([1 - p, p]) if p.ndim == 1 else p
        chosen = full[np.arange(len(truth)), truth.astype(int)]
        loss = float(-np.log(np.clip(chosen, 1e-15, 1.0)).mean())
    return {
        "accuracy": float(hit.mean()),
        "auroc": _defined(auroc(truth, score)),
        "average_precision": _defined(average_precision(truth, score)),
        "balanced_accuracy": float(np.mean(recalls)),
        "log_loss": loss,
    }


def group_labels(
    truth: NDArray[Any], groups: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the class of each group, and the number of the group of each bag.

    The class of a group is that of its bags; -1 if its bags are of several classes.
    """
    _, codes = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    lowest = np.full(codes.max() + 1, np.iinfo(np.int64).max)
    highest = np.full(codes.max() + 1, -1)
    np.minimum.at(lowest, codes, truth.astype(np.int64))
    np.maximum.at(highest, codes, truth.astype(np.int64))
    return np.where(lowest == highest, lowest, -1), codes


@dataclass(frozen=True)
class GroupCounts:
    """How many groups of test bags count in the metrics per group.

    Attributes
    ----------
    n : int
        Groups of the test bags.
    counted : int
        Those whose bags are all of one class; the others have no label.
    enough : bool
        Whether metrics per group are shown: at least 10 groups and half of all groups
        count, and at least 3 of each class.
    """

    n: int
    counted: int
    enough: bool

    @classmethod
    def of(
        cls, truth: NDArray[Any], groups: NDArray[Any], n_classes: int
    ) -> GroupCounts:
        """Count the groups of test bags with the classes `truth`."""
        labels, _ = group_labels(truth, groups)
        of_class = np.bincount(labels[labels >= 0], minlength=n_classes)
        n, counted = len(labels), int(of_class.sum())
        enough = counted >= 10 and 2 * counted >= n and int(of_class.min()) >= 3
        return cls(n, counted, enough)


def group_rows(
    truth: NDArray[Any], values: Array, threshold: float, groups: NDArray[Any]
) -> dict[str, NDArray[Any]] | None:
    """Return label, mean score and prediction of every group of one class.

    None where no group counts. `bag` is a number for each name of a group.
    """
    if len(values) != len(truth):
        return None
    labels, codes = group_labels(truth, groups)
    counted = labels >= 0
    if not counted.any():
        return None
    count = np.bincount(codes)
    columns = values if values.ndim == 2 else values[:, None]
    means = np.column_stack([np.bincount(codes, c) / count for c in columns.T])
    labels, means = labels[counted], means[counted]
    if values.ndim == 2:
        predicted = means.argmax(axis=1)
    else:
        means = means[:, 0]
        predicted = (means > threshold).astype(int)
    names = np.unique(np.asarray(groups).astype(str))[counted]
    return {"truth": labels, "score": means, "label": predicted, "bag": names}


def group_metrics(
    truth: NDArray[Any],
    score: Array,
    probability: Array | None,
    groups: NDArray[Any],
) -> dict[str, float | None]:
    """Return the metrics of groups.

    The score of a group is the mean over its bags, of probabilities if there are any
    and of decision values otherwise. Its label is that of its bags; groups with bags of
    several classes are excluded.
    """
    values = score if probability is None else probability
    threshold = 0.0 if probability is None else 0.5
    rows = group_rows(truth, values, threshold, groups)
    if rows is None:
        return {"group_accuracy": None, "group_auroc": None}
    return {
        "group_accuracy": float((rows["label"] == rows["truth"]).mean()),
        "group_auroc": _defined(auroc(rows["truth"], rows["score"])),
    }


def value_metrics(
    truth: Array, predicted: Array, variance: float
) -> dict[str, float | None]:
    r"""Return the metrics of predicted real values; None where undefined.

    .. math:: R^2 = 1 - \frac{\frac1n \sum_i (\hat y_i - y_i)^2}{v}

    where :math:`v` is `variance`, that of `y` over all bags: all folds share it, so
    that their mean is one minus the mean squared error in units of it.
    """
    error = float(np.mean((predicted - truth) ** 2))
    # The order of fewer than three bags, or of constant values, is not defined.
    ordered = len(truth) > 2 and np.ptp(truth) > 0 and np.ptp(predicted) > 0
    return {
        "r2": 1.0 - error / variance,
        "rmse": float(np.sqrt(error)),
        "mae": float(np.mean(np.abs(predicted - truth))),
        "spearman": float(spearmanr(truth, predicted)[0]) if ordered else None,
    }


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else value


def score_instances(model: Any, X: Any) -> Array | None:
    """Return one score per instance, or None when the method does not score them.

    Of more than two classes there is a column for each.
    """
    values = instance_scores(model, X)
    return None if values is None else np.asarray(values.values, dtype=np.float64)
