"""What the page's script draws: curves, histograms, times and bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.comparison.evaluate import METRICS
from bagwise.report._bag_browser import browser_context
from bagwise.report._classes import class_counts, class_figures
from bagwise.report._curves import (
    Curve,
    calibration,
    mean_precision,
    mean_roc,
    score_histogram,
)
from bagwise.report._values import risk_groups, value_figures
from bagwise.report._view import View
from bagwise.report.numbers import plain

__all__ = ["script_data"]

MAX_CURVES = 8  # classes with curves of their own


def script_data(view: View) -> dict[str, Any]:
    """Return plain values, which the page holds as JSON."""
    comparison = view.comparison
    order = {row.method: number for number, row in enumerate(comparison.ranking)}
    methods = []
    for name in view.finished:
        row = comparison.ranking[order[name]]
        methods.append(
            {
                "name": name,
                "color": order[name],
                "mean": plain(row.mean, 6),
                "total": plain(row.fit_time + row.tune_time, 6),
                "probability": all(f.probability is not None for f in view.folds(name)),
            }
        )
    real = view.task in ("regression", "survival")
    return {
        "task": view.task,
        "metric": METRICS[comparison.metric].title,
        "unit": METRICS[comparison.metric].high == 1.0,
        "classes": view.names,
        "counts": class_counts(view).tolist(),
        "n_bags": len(view.truth),
        "positive": view.positive,
        "methods": methods,
        "curves": [] if real else _curves(view),
        "figures": {}
        if real
        else {name: class_figures(view, name) for name in view.finished},
        "values": {name: value_figures(view, name) for name in view.finished}
        if view.task == "regression"
        else {},
        "risks": {name: risk_groups(view, name) for name in view.finished}
        if view.task == "survival"
        else {},
        "browser": browser_context(view),
    }


def _curves(view: View) -> list[dict[str, Any]]:
    """Return the curves of every class that has some, the mean of all first."""
    chosen: list[int | None] = [None]
    if view.positive is None and len(view.names) <= MAX_CURVES:
        chosen += list(view.all_classes)
    found = []
    for k in chosen:
        one: dict[str, Any] = {"class": k, "roc": {}, "pr": {}}
        one |= {"calibration": {}, "histograms": {}}
        for name in view.finished:
            _put(one["roc"], name, _points(mean_roc(view, name, k)))
            _put(one["pr"], name, _points(mean_precision(view, name, k)))
            bins = calibration(view, name, k)
            if bins is not None:
                one["calibration"][name] = [
                    {key: plain(value) for key, value in b.items()} for b in bins
                ]
            histogram = score_histogram(view, name, k)
            if histogram is not None:
                one["histograms"][name] = {
                    "edges": [plain(v) for v in histogram["edges"]],
                    "rest": histogram["rest"].tolist(),
                    "own": histogram["own"].tolist(),
                    "cut": histogram["cut"],
                }
        found.append(one)
    return found


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    if value is not None:
        found[name] = value


def _points(curve: Curve | None) -> dict[str, Any] | None:
    """Return a curve without the points on its straight pieces."""
    if curve is None:
        return None
    x, y = np.round(curve.x, 3), np.round(curve.y, 3)
    same = (y[1:-1] == y[:-2]) & (y[1:-1] == y[2:])
    keep = np.concatenate([[True], ~same, [True]])
    return {
        "x": x[keep].tolist(),
        "y": y[keep].tolist(),
        "area": plain(curve.area, 4),
    }
