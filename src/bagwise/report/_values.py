"""Predicted real values against the truth, and risks against what happened."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.report._view import View
from bagwise.report.numbers import plain

__all__ = ["out_of_fold", "risk_groups", "value_figures"]

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


def risk_groups(view: View, method: str) -> list[dict[str, Any]]:
    """Return the share without event over time, of thirds of the bags by risk.

    Risks of two folds are those of two models, so that each fold is cut in thirds on
    its own. Kaplan and Meier's estimate, as the corners of its steps.
    """
    parts: list[list[NDArray[Any]]] = [[], [], []]
    for fold in view.folds(method):
        if fold.repeat == 0:
            order = np.argsort(fold.label, kind="stable")
            for part, places in zip(parts, np.array_split(order, 3), strict=True):
                part.append(fold.test[places])
    found = []
    for name, pieces in zip(("low", "middle", "high"), parts, strict=True):
        bags = np.concatenate(pieces)
        if not len(bags):
            continue
        seen, time = view.problem.y["event"][bags], view.truth[bags]
        x, share = kaplan_meier(seen, time)
        found.append(
            {
                "name": f"{name} risk",
                "x": [_digits(v) for v in x],
                "y": [_digits(v) for v in share],
                "n": len(bags),
                "events": int(seen.sum()),
            }
        )
    return found


def kaplan_meier(
    event: NDArray[Any], time: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the corners of the estimated share without event, from time zero on."""
    times = np.unique(time[event])
    at_risk = np.array([(time >= t).sum() for t in times])
    falls = np.array([(event & (time == t)).sum() for t in times])
    share = np.cumprod(1.0 - falls / at_risk) if len(times) else np.empty(0)
    x = np.concatenate([[0.0], np.repeat(times, 2), [time.max()]])
    before = np.concatenate([[1.0], share])
    return x, np.repeat(before, 2)


def _digits(value: Any) -> float | None:
    number = plain(value, 300)
    return None if number is None else float(f"{number:.5g}")
