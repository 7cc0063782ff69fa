"""Which features matter, over all bags and inside single instances."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.inspection.features import feature_name, moments
from bagwise.report._view import View
from bagwise.report.numbers import place, plain, round_axis

__all__ = ["feature_charts", "instance_parts"]

N_BARS = 12
N_PARTS = 8
MAX_METHODS = 4


def feature_charts(view: View) -> list[dict[str, Any]]:
    """Return bars of the most important features of each method that has figures.

    Permuted features where they were measured; else, for methods whose instance scores
    are linear, the mean size of each feature's part of the score. Dots are means over
    folds, bars run from the smallest to the largest fold.
    """
    X = view.problem.X
    charts = []
    for name in view.finished:
        falls, slopes = _stored(view, name, "feature_falls"), None
        if falls is None:
            slopes = _stored(view, name, "feature_slope")
        if falls is None and slopes is None:
            continue
        if falls is not None:
            table, about = falls, "fall of AUROC (accuracy, R2) when permuted"
        else:
            table = np.abs(slopes) * moments(X)[1]
            about = "part of the instance score, for one standard deviation"
        mean = table.mean(axis=0)
        first = np.argsort(-mean, kind="stable")[:N_BARS]
        low, high = table.min(axis=0), table.max(axis=0)
        axis = round_axis(min(0.0, float(low[first].min())), float(high[first].max()))
        bars = [
            {
                "name": feature_name(X, int(j))[:60],
                "value": f"{mean[j]:.3g}",
                "at": place(float(mean[j]), axis),
                "left": place(float(low[j]), axis),
                "right": place(float(high[j]), axis),
            }
            for j in first
        ]
        charts.append({"method": name, "about": about, "axis": axis, "bars": bars})
    return charts


def instance_parts(view: View, index: Any) -> dict[str, dict[str, Any]]:
    """Return the largest parts of instance scores, by method.

    Parts of linear scores are exact and there for every instance, sampled ones for
    those of a few bags, where features were permuted.

    "rows" holds name, value and part of the features of each instance, "scale" the
    largest part of all.

    Parameters
    ----------
    view : View
        The comparison.
    index : ndarray of int
        Rows of the instances that are shown.
    """
    X = view.problem.X
    if X.is_sparse:
        return {}
    mean = moments(X)[0]
    bag = X.bag_index
    found: dict[str, dict[str, Any]] = {}
    for name in view.finished:
        slope_of = _slopes_by_bag(view, name)
        sampled = {} if slope_of else _sampled_by_row(view, name)
        if (slope_of or sampled) and len(found) < MAX_METHODS:
            rows = [
                _parts(X, int(row), slope_of.get(int(bag[row])), mean, sampled)
                for row in index
            ]
            sizes = [abs(part[2] or 0.0) for row in rows for part in row]
            found[name] = {"rows": rows, "scale": max(sizes, default=0.0) or 1.0}
    return found


def _parts(X: Any, row: int, slope: Any, mean: Any, sampled: Any) -> list[Any]:
    if slope is None and row not in sampled:
        return []
    values = X.take_rows(np.array([row]))[0]
    parts = sampled[row] if slope is None else slope * (values - mean)
    first = np.argsort(-np.abs(parts), kind="stable")[:N_PARTS]
    return [
        [feature_name(X, int(j))[:60], plain(values[j], 4), plain(parts[j], 4)]
        for j in first
    ]


def _stored(view: View, method: str, what: str) -> Any:
    arrays = view.comparison.arrays
    found = [
        arrays[row["key"]][what]
        for row in view.comparison.runs(method)
        if what in arrays[row["key"]]
    ]
    return np.array(found, dtype=np.float64) if found else None


def _slopes_by_bag(view: View, method: str) -> dict[int, Any]:
    """Return the slope of the model that has not seen the bag."""
    arrays, found = view.comparison.arrays, {}
    for row in view.comparison.runs(method):
        own = arrays[row["key"]]
        if row["repeat"] == 0 and "feature_slope" in own:
            found |= dict.fromkeys(
                np.asarray(own["test"]).tolist(), own["feature_slope"]
            )
    return found


def _sampled_by_row(view: View, method: str) -> dict[int, Any]:
    """Return sampled parts of instances, by a model that has not seen their bag."""
    arrays, offsets, found = view.comparison.arrays, view.problem.X.offsets, {}
    for row in view.comparison.runs(method):
        own = arrays[row["key"]]
        if row["repeat"] == 0 and "feature_parts" in own:
            bags = np.asarray(own["test"])[own["part_bags"]]
            rows = np.concatenate([np.arange(*offsets[[i, i + 1]]) for i in bags])
            found |= dict(zip(rows.tolist(), own["feature_parts"], strict=True))
    return found
