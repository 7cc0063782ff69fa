"""Predicted real values: against the truth, and what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.report._numbers import plain
from bagwise.report._view import View

__all__ = ["out_of_fold", "value_figures"]

MAX_POINTS = 600
WITHIN = 0.9  # share of the bags between the two lines


def out_of_fold(view: View, method: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the test bags of the first repeat and what was predicted for them."""
    folds = [fold for fold in view.folds(method) if fold.repeat == 0]
    bags = np.concatenate([fold.test for fold in folds])
    return bags, np.concatenate([fold.label for fold in folds])


def value_figures(view: View, method: str) -> dict[str, Any]:
    """Return points to draw, and how far predictions are from the truth.

    ``"within"`` is the distance from the truth that 90% of the test bags keep to. Of
    many bags an even sample by their true value is drawn; figures are of all.
    """
    bags, predicted = out_of_fold(view, method)
    truth = view.truth[bags]
    error = predicted - truth
    order = np.argsort(truth, kind="stable")
    if len(order) > MAX_POINTS:
        order = order[np.linspace(0, len(order) - 1, MAX_POINTS).astype(int)]
    sizes, ids = view.problem.X.sizes, view.problem.X.ids
    return {
        "truth": [_digits(v) for v in truth[order]],
        "predicted": [_digits(v) for v in predicted[order]],
        "sizes": [int(sizes[i]) for i in bags[order]],
        "ids": [str(ids[i])[:60] for i in bags[order]],
        "within": _digits(np.quantile(np.abs(error), WITHIN)),
        "bias": _digits(error.mean()),
        "n": len(bags),
    }


def _digits(value: Any) -> float | None:
    number = plain(value, 300)
    return None if number is None else float(f"{number:.5g}")
