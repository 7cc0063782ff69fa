"""What is measured on the test bags of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bagwise.inspection import instance_scores

__all__ = ["METRICS", "Metric", "auroc", "predictions"]

Array = NDArray[np.float64]


class Metric:
    """A figure of the results table.

    Parameters
    ----------
    name, title : str
        Column and heading.
    higher : bool
        Whether larger is better.
    """

    def __init__(self, name: str, title: str, *, higher: bool) -> None:
        self.name, self.title, self.higher = name, title, higher

    def __repr__(self) -> str:
        """Show the name."""
        return f"Metric({self.name!r})"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "Accuracy", higher=True),
        Metric("auroc", "AUROC", higher=True),
        Metric("balanced_accuracy", "Balanced accuracy", higher=True),
        Metric("log_loss", "Log loss", higher=False),
        Metric("key_success", "Key-instance success", higher=True),
    )
}

SCORING = {
    "accuracy": "accuracy",
    "auroc": "roc_auc",
    "balanced_accuracy": "balanced_accuracy",
    "log_loss": "accuracy",
    "key_success": "accuracy",
}
"""Inner scorer used when a metric decides the ranking."""


def predictions(model: Any, X: Any, classes: NDArray[Any]) -> dict[str, Array]:
    """Return decision values and, where the model has them, probabilities.

    Both have one column per class when there are more than two, and one column (the
    positive class, the second) for two.
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


def bag_metrics(
    truth: NDArray[Any],
    label: NDArray[Any],
    score: Array,
    probability: Array | None,
    n_classes: int,
) -> dict[str, float | None]:
    """Return the metrics of bag predictions; None (not NaN) where undefined.

    `truth` and `label` hold class indices.
    """
    hit = truth == label
    recalls = [hit[truth == k].mean() for k in range(n_classes) if (truth == k).any()]
    loss = None
    if probability is not None:
        p = probability
        full = np.column_stack([1 - p, p]) if p.ndim == 1 else p
        chosen = full[np.arange(len(truth)), truth.astype(int)]
        loss = float(-np.log(np.clip(chosen, 1e-15, 1.0)).mean())
    area = auroc(truth, score)
    return {
        "accuracy": float(hit.mean()),
        "auroc": None if np.isnan(area) else area,
        "balanced_accuracy": float(np.mean(recalls)),
        "log_loss": loss,
    }


def score_instances(model: Any, X: Any) -> Array | None:
    """Return one score per instance, or None when the method does not score them.

    Of more than two classes there is a column for each.
    """
    values = instance_scores(model, X)
    return None if values is None else np.asarray(values.values, dtype=np.float64)
