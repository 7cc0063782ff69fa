"""Which instances made a bag positive: scores, ranks, features and pictures."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags, as_bags
from bagwise.inspection._features import moments, top_features
from bagwise.inspection._instances import instance_scores
from bagwise.inspection._pictures import plot_bags

__all__ = ["Explanation", "explain"]


@dataclass(eq=False)
class Explanation:
    """Instance scores of some bags, and what can be shown of them.

    Attributes
    ----------
    X : Bags
        The bags.
    scores : ndarray of shape (n_instances,)
        Higher is more positive.
    labels : ndarray of shape (n_bags,)
        Predicted labels.
    bag_scores : ndarray of shape (n_bags,) or None
        Decision values.
    key : ndarray of shape (n_bags,)
        Position in its bag of the highest instance.
    images : ndarray or None
        Pictures of the instances.
    """

    X: Bags
    scores: Any
    labels: Any
    bag_scores: Any
    key: Any
    images: Any = None

    def rows(self) -> list[dict[str, Any]]:
        """Return one entry an instance: bag, position, score, rank, whether key."""
        offsets, found = self.X.offsets, []
        for i in range(len(self.X)):
            scores = self.scores[offsets[i] : offsets[i + 1]]
            ranks = np.empty(len(scores), dtype=int)
            ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
            for j, score in enumerate(scores):
                found.append(
                    {
                        "bag": np.asarray(self.X.ids[i]).tolist(),
                        "instance": j,
                        "score": float(score),
                        "rank": int(ranks[j]),
                        "key": bool(j == self.key[i]),
                        "bag_label": np.asarray(self.labels[i]).tolist(),
                    }
                )
        return found

    def top_features(self, row: int, n: int = 6) -> list[tuple[str, float, float]]:
        """Return name, value and z-score of the features that set an instance apart.

        Parameters
        ----------
        row : int
            Row of ``X.data``.
        n : int, default=6
            How many.
        """
        return top_features(self.X, row, n, *self._moments())

    def _moments(self) -> tuple[Any, Any]:
        if not hasattr(self, "_cached"):
            self._cached = moments(self.X)
        return self._cached

    def write(self, folder: str | os.PathLike[str], n_bags: int = 8) -> dict[str, Path]:
        """Write `instances.csv` and a picture of the key instances into a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        table, picture = folder / "instances.csv", folder / "key_instances.png"
        rows = self.rows()
        with table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        figure = self.plot(n_bags)
        figure.savefig(picture, dpi=120)
        return {"instances": table, "picture": picture}

    def plot(self, n_bags: int = 8, n_instances: int = 8) -> Any:
        """Plot the highest instances of the bags with the highest scores."""
        order = (
            np.argsort(-np.asarray(self.bag_scores), kind="stable")
            if self.bag_scores is not None and np.ndim(self.bag_scores) == 1
            else np.arange(len(self.X))
        )
        return plot_bags(
            self.X,
            self.scores,
            order[:n_bags],
            images=self.images,
            n_instances=n_instances,
            titles=[f"bag {self.X.ids[i]}: {self.labels[i]}" for i in order[:n_bags]],
        )


def explain(model: Any, X: Any, *, images: Any = None) -> Explanation:
    """Score the instances of bags with a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted classifier of bags that scores instances, or a pipeline of one.
    X : Bags or list of 2-D arrays
        The bags.
    images : ndarray of shape (n_instances, height, width[, 3]), optional
        Pictures of the instances.

    Returns
    -------
    Explanation
        Scores, key instances, pictures.
    """
    X = as_bags(X)
    found = instance_scores(model, X)
    if found is None:
        raise ValueError(
            f"{_describe(model)} scores whole bags only and cannot say which instance"
            " decides; choose a method that scores instances"
        )
    labels = np.asarray(model.predict(X))
    scores = np.asarray(found.values, dtype=float)
    if scores.ndim == 2:  # of each bag, the column of its predicted class
        column = np.searchsorted(model.classes_, labels)
        scores = scores[np.arange(len(scores)), column[X.bag_index]]
    offsets = X.offsets
    key = np.array(
        [int(np.argmax(scores[offsets[i] : offsets[i + 1]])) for i in range(len(X))]
    )
    decide = getattr(model, "decision_function", None)
    bag_scores = None if decide is None else np.asarray(decide(X))
    return Explanation(X, scores, labels, bag_scores, key, images)


def _describe(model: Any) -> str:
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    return type(last).__name__
