"""What sets an instance apart: its most unusual features."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.bags.chunks import Chunks

__all__ = ["moments", "top_features"]


def moments(X: Bags) -> tuple[Any, Any]:
    """Return mean and standard deviation of every feature over all instances.

    Missing values do not count.
    """
    if X.is_sparse:
        data = X.data
        mean = np.asarray(data.mean(axis=0)).ravel()
        square = np.asarray(data.multiply(data).mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    else:
        count, mean, squares = _moments_in_pieces(X)
        spread = np.sqrt(squares / np.maximum(count, 1))
    return mean, np.where(spread > 0, spread, 1.0)


def _moments_in_pieces(X: Bags) -> tuple[Any, Any, Any]:
    """Return counts, means and sums of squared deviations of the columns.

    Pieces are joined by their own means, so that no large squares are subtracted, and
    half precision is never summed.
    """
    count, mean, squares = np.zeros((3, X.n_features))
    for piece in Chunks(X):
        data = piece.X.data
        gaps = np.isnan(data)
        own = (~gaps).sum(axis=0)
        filled = np.where(gaps, 0.0, data)
        centre = filled.sum(axis=0, dtype=np.float64) / np.maximum(own, 1)
        rest = np.where(gaps, 0.0, filled - centre)
        total = np.maximum(count + own, 1)
        squares += (rest**2).sum(axis=0, dtype=np.float64)
        squares += (centre - mean) ** 2 * count * own / total
        mean += (centre - mean) * own / total
        count += own
    return count, mean, squares


def top_features(
    X: Bags, row: int, n: int, mean: Any, spread: Any
) -> list[tuple[str, float, float]]:
    """Return name, value and z-score of the `n` most unusual features of a row."""
    found = X.take_rows(np.array([row]))
    values = found.toarray().ravel() if X.is_sparse else found[0]
    z = np.nan_to_num((values - mean) / spread)  # what is missing is not unusual
    first = np.argsort(-np.abs(z), kind="stable")[:n]
    names = X.feature_names
    return [
        (str(names[j]) if names is not None else f"x{j}", float(values[j]), float(z[j]))
        for j in first
    ]
