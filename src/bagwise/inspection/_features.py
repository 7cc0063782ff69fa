"""What sets an instance apart: its most unusual features."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.bags import Bags

__all__ = ["moments", "top_features"]


def moments(X: Bags) -> tuple[Any, Any]:
    """Return mean and standard deviation of every feature over all instances.

    Missing values do not count.
    """
    data = X.data
    if X.is_sparse:
        mean = np.asarray(data.mean(axis=0)).ravel()
        square = np.asarray(data.multiply(data).mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    else:
        gaps = np.isnan(data)
        count = np.maximum((~gaps).sum(axis=0), 1)
        filled = np.where(gaps, 0.0, data)
        mean = filled.sum(axis=0) / count
        spread = np.sqrt((np.where(gaps, 0.0, filled - mean) ** 2).sum(axis=0) / count)
    return mean, np.where(spread > 0, spread, 1.0)


def top_features(
    X: Bags, row: int, n: int, mean: Any, spread: Any
) -> list[tuple[str, float, float]]:
    """Return name, value and z-score of the `n` most unusual features of a row."""
    values = X.data[[row]].toarray().ravel() if X.is_sparse else X.data[row]
    z = np.nan_to_num((values - mean) / spread)  # what is missing is not unusual
    first = np.argsort(-np.abs(z), kind="stable")[:n]
    names = X.feature_names
    return [
        (str(names[j]) if names is not None else f"x{j}", float(values[j]), float(z[j]))
        for j in first
    ]
