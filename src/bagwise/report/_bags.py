"""The bag browser: bags with their instances, scores, features and images."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bagwise.bags import Bags
from bagwise.inspection.features import feature_name, moments, top_features
from bagwise.inspection.heatmap import rasterize, spacing
from bagwise.report.view import View, plain

__all__ = [
    "browser_context",
    "instance_table",
    "percentiles",
    "sampled_by_row",
    "slide_maps",
    "slopes_by_bag",
]

MAX_BAGS = 150  # bags shown in full
MAX_INSTANCES = 2_500  # instances of the bags shown in full
MAX_PER_BAG = 24
LOWEST = 8  # number of lowest instances among these, for a bag that is shown as a map
MAX_METHODS = 8
MAX_PIXELS = 900_000
N_FEATURES = 8
N_PARTS = 8
MAX_PART_METHODS = 4
MAX_RESULTS = 240_000  # predictions of other bags, over all methods
MAX_SHOWN = 24_000  # instances of other bags
UNTESTED = 2
MAX_BYTES = 2_400_000  # size of all maps of a page
LEAST_CELLS, MOST_CELLS = 2_500, 60_000  # number of cells of one map

Results = Mapping[str, Mapping[int, Mapping[str, Any]]]
Tables = Mapping[str, NDArray[Any]]


def browser_context(view: View) -> dict[str, Any]:
    """Return bags, their instances, and the predictions of each method.

    Scores are out of fold. Some bags are shown in full: at most half of them wrongly
    predicted by the best method, the others an even sample. A large bag is reduced to
    the instances with the highest scores by the best method with instance scores. Bags
    with coordinates also have a map, and their instances with the lowest scores. The
    other bags are listed in brief.
    """
    X = view.problem.X
    tables = _score_tables(view)
    heat = {name: percentiles(table) for name, table in tables.items()}
    results = {name: _bag_results(view, name) for name in view.finished}
    targets = [_target(view, i) for i in range(X.n_bags)]
    bags = _choose_bags(view, results, next(iter(tables), None))
    entries, index = _entries(view, bags, next(iter(tables.values()), None))
    for entry in entries:
        i = entry["i"]
        entry["is"] = targets[i]
        entry["results"] = {n: found[i] for n, found in results.items() if i in found}
    return {
        "bags": entries,
        "rest": other_bags(view, bags, targets, results, tables, heat),
        "n_bags": int(X.n_bags),
        "methods": list(tables),
        "maps": slide_maps(X, bags, heat),
        "scores": {n: [_short(v) for v in t[index]] for n, t in tables.items()},
        "heat": {
            name: [int(v) for v in np.round(np.nan_to_num(h[index]))]
            for name, h in heat.items()
        },
        **_instance_details(view, index),
    }


def _score_tables(view: View) -> dict[str, NDArray[np.float64]]:
    """Return the instance scores of the best methods that have some."""
    tables: dict[str, NDArray[np.float64]] = {}
    for name in view.finished:
        table = instance_table(view, name)
        if table is not None and len(tables) < MAX_METHODS:
            tables[name] = table
    return tables


def _entries(
    view: View, bags: Sequence[int], lead: NDArray[Any] | None
) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """Return id, size and shown instances of some bags, and the rows of the instances.

    `lead` are the scores by which the instances of a large bag are chosen.
    """
    X = view.problem.X
    n_low = LOWEST if lead is not None and places(X) is not None else 0
    entries, index = [], [np.empty(0, dtype=np.int64)]
    for i in bags:
        start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
        rows = np.arange(start, stop)
        if lead is not None:
            rows = rows[np.argsort(-np.nan_to_num(lead[rows]), kind="stable")]
        low = n_low if len(rows) > MAX_PER_BAG else 0
        if len(rows) > MAX_PER_BAG:
            rows = np.r_[rows[: MAX_PER_BAG - low], rows[len(rows) - low :]]
        entries.append(
            {
                "i": int(i),
                "id": str(X.ids[i]),
                "size": stop - start,
                "first": sum(len(own) for own in index),
                "count": len(rows),
                "low": low,
                "positions": (rows - start).tolist(),
            }
        )
        index.append(rows)
    return entries, np.concatenate(index)


def _instance_details(view: View, index: NDArray[np.int64]) -> dict[str, Any]:
    """Return names, labels, coordinates, and images or features of the instances."""
    problem, X = view.problem, view.problem.X
    labels, where = problem.instance_labels, places(X)
    found: dict[str, Any] = {
        "names": instance_names(X, index),
        "truth": None if labels is None else [int(bool(v)) for v in labels[index]],
        "places": None if where is None else _rounded(where[index]),
        "images": _images(problem.images, index),
        "features": None,
        "parts": {},
    }
    if problem.images is None:
        spread = moments(X)
        found["features"] = [_features(X, int(row), spread) for row in index]
        found["parts"] = instance_parts(view, index)
    return found


def instance_names(X: Bags, rows: NDArray[np.int64]) -> list[str] | None:
    """Return names of instances, with their types, or None if they have neither."""
    parts = [part for part in (X.instance_ids, X.instance_types) if part is not None]
    if not parts:
        return None
    columns = [[str(name)[:60] for name in part[rows]] for part in parts]
    return [" · ".join(names) for names in zip(*columns, strict=True)]


def _target(view: View, i: int) -> Any:
    """Return the true class, labels, value or time of a bag, for JSON."""
    if view.task == "survival":
        time, event = view.truth[i], bool(view.problem.y["event"][i])
        return f"{_short(time)} ({'event' if event else 'censored'})"
    return _plain_target(view, view.truth[i])


def _plain_target(view: View, value: Any) -> Any:
    """Return a class, a list of labels, or a value, for JSON."""
    if view.task in ("regression", "survival"):
        return _short(value)
    if view.task == "multilabel":
        return np.flatnonzero(value).tolist()
    return int(value)


def _bag_results(view: View, method: str) -> dict[int, dict[str, Any]]:
    """Return score and prediction of every test bag of the first repeat.

    With several classes the score is that of the predicted class; in regression and
    with several labels there is none. In regression the 10% of the bags with the
    largest errors count as wrong.
    """
    found = {}
    folds = view.first_repeat(method)
    limit = np.inf
    if view.task == "regression" and folds:
        errors = np.concatenate([np.abs(fold.label - fold.truth) for fold in folds])
        limit = float(np.quantile(errors, 0.9))
    for fold in folds:
        for place, i in enumerate(fold.test):
            label, truth, score = fold.label[place], fold.truth[place], None
            if fold.score is not None and view.task == "classification":
                value = fold.score[place]
                score = _short(value[int(label)] if np.ndim(value) else value)
            right = bool(np.all(label == truth))
            if view.task == "regression":
                right = bool(abs(label - truth) <= limit)
            elif view.task == "survival":  # a risk is neither right nor wrong
                right = True
            found[int(i)] = {"s": score, "k": _plain_target(view, label), "ok": right}
    return found


def _choose_bags(
    view: View, results: dict[str, dict[int, dict[str, Any]]], lead: str | None
) -> list[int]:
    X = view.problem.X
    everyone = list(range(X.n_bags))
    folds = [] if lead is None else view.first_repeat(lead)
    if any(len(fold.scored) < len(fold.test) for fold in folds):
        # With large data, instance scores are stored for some bags only.
        everyone = sorted(int(i) for fold in folds for i in fold.test[fold.scored])
    limit = MAX_BAGS
    if view.finished:
        # Bags that were never tested (train/test split) are not shown.
        best = results[view.finished[0]]
        wrong = [i for i in everyone if i in best and not best[i]["ok"]]
        right = [i for i in everyone if i in best and best[i]["ok"]]
    else:
        wrong, right = [], everyone
    # Sample evenly: the first bags may all be of one class.
    wrong = _even(wrong, limit // 2)
    right = _even(right, limit - len(wrong))
    chosen = sorted({*wrong, *right})
    total = int(np.minimum(X.sizes[chosen], MAX_PER_BAG).sum())
    if total > MAX_INSTANCES:
        chosen = _even(chosen, max(1, len(chosen) * MAX_INSTANCES // total))
    return chosen


def _even(values: list[int], n: int) -> list[int]:
    if len(values) <= n:
        return values
    picks = np.unique(np.linspace(0, len(values) - 1, n).astype(int))
    return [values[k] for k in picks]


def percentiles(table: Any) -> Any:
    """Return percentiles of instance scores among all instances, from 0 to 100."""
    heat = np.full(len(table), np.nan)
    known = ~np.isnan(table)
    if known.any():
        heat[known] = 100 * (rankdata(table[known]) - 0.5) / known.sum()
    return heat


def _rounded(places: Any) -> list[list[float]]:
    return [[float(f"{v:.7g}") for v in place] for place in places.tolist()]


def _short(value: float) -> float | None:
    number = float(value)
    return float(f"{number:.4g}") if np.isfinite(number) else None


def _features(X: Any, row: int, about: Any) -> list[list[Any]]:
    found = top_features(X, row, N_FEATURES, *about)
    return [[name[:60], _short(value), round(z, 2)] for name, value, z in found]


def _images(images: Any, index: Any) -> dict[str, Any] | None:
    """Return the images as 8-bit pixels, with fewer pixels if they are large."""
    if images is None:
        return None
    height, width = images.shape[1:3]
    step = 1
    channels = images.shape[3] if images.ndim == 4 else 1
    while len(index) * (height // step) * (width // step) * channels > MAX_PIXELS:
        step += 1
    chosen = np.asarray(images[index][:, ::step, ::step], dtype=np.float64)
    low, high = float(np.min(chosen)), float(np.max(chosen))
    span = high - low if high > low else 1.0
    if images.dtype == np.uint8:
        low, span = 0.0, 255.0
    pixels = np.round(255 * (chosen - low) / span).astype(np.uint8)
    return {
        "height": int(pixels.shape[1]),
        "width": int(pixels.shape[2]),
        "channels": int(channels),
        "pixels": base64.b64encode(pixels.tobytes()).decode("ascii"),
    }


def instance_table(view: View, method: str) -> NDArray[np.float64] | None:
    """Return the out-of-fold score of every instance; NaN where there is none.

    With two classes, scores are for the positive class; with more, for the predicted
    class of the bag; with several labels, the highest over labels. In regression they
    are in units of the target.
    """
    X = view.problem.X
    values = np.full(X.n_instances, np.nan)
    found = False
    for fold in view.folds(method):
        if fold.instances is None or fold.repeat != 0:
            continue
        found, start = True, 0
        for place in fold.scored:
            i = fold.test[place]
            first, last = int(X.offsets[i]), int(X.offsets[i + 1])
            part = fold.instances[start : start + last - first]
            if part.ndim == 2:
                one = fold.label.ndim == 1
                part = part[:, fold.label[place]] if one else part.max(axis=1)
            values[first:last] = part
            start += last - first
    return values if found else None


def instance_parts(view: View, index: Any) -> dict[str, dict[str, Any]]:
    """Return the largest contributions of features to instance scores, by method.

    Contributions to linear scores are exact and available for all instances; sampled
    ones only for the instances of a few bags. "rows" holds name, value and contribution
    of the features of each instance, "scale" the largest absolute contribution.

    Parameters
    ----------
    view : View
        The comparison.
    index : ndarray of int
        Rows of the shown instances.
    """
    X = view.problem.X
    if X.is_sparse:
        return {}
    mean = moments(X)[0]
    bag = X.bag_index
    found: dict[str, dict[str, Any]] = {}
    for name in view.finished:
        slope_of = slopes_by_bag(view, name)
        sampled = {} if slope_of else sampled_by_row(view, name)
        if (slope_of or sampled) and len(found) < MAX_PART_METHODS:
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


def slopes_by_bag(view: View, method: str) -> dict[int, Any]:
    """Return, for each bag, the slope of the model that was not fitted to it."""
    arrays, found = view.comparison.arrays, {}
    for row in view.comparison.runs(method):
        own = arrays[row["key"]]
        if row["repeat"] == 0 and "feature_slope" in own:
            found |= dict.fromkeys(
                np.asarray(own["test"]).tolist(), own["feature_slope"]
            )
    return found


def sampled_by_row(view: View, method: str) -> dict[int, Any]:
    """Return sampled contributions by row, from models not fitted to the bag."""
    arrays, offsets, found = view.comparison.arrays, view.problem.X.offsets, {}
    for row in view.comparison.runs(method):
        own = arrays[row["key"]]
        if row["repeat"] == 0 and "feature_parts" in own:
            bags = np.asarray(own["test"])[own["part_bags"]]
            rows = np.concatenate([np.arange(*offsets[[i, i + 1]]) for i in bags])
            found |= dict(zip(rows.tolist(), own["feature_parts"], strict=True))
    return found


def packed(values: Any) -> dict[str, str]:
    """Return numbers as bytes: integers in as few as possible, others in four.

    Parameters
    ----------
    values : array-like
        Non-negative integers, or real numbers, which may be NaN.

    Returns
    -------
    dict
        "type" (u1, u2, u4 or f4, little-endian) and "bytes" in base64.
    """
    array = np.asarray(values)
    kind = "f4"
    if array.dtype.kind in "biu":
        most = int(array.max()) if array.size else 0
        kind = "u1" if most < 2**8 else "u2" if most < 2**16 else "u4"
    data = array.astype(f"<{kind}").tobytes()
    return {"type": kind, "bytes": base64.b64encode(data).decode("ascii")}


def other_bags(
    view: View,
    shown: Sequence[int],
    targets: Sequence[Any],
    results: Results,
    tables: Tables,
    heat: Tables,
) -> dict[str, Any] | None:
    """Return the bags that are not shown in full.

    Each has its id, target, predictions, and as many of the instances with the highest
    scores as the size of the page allows; no images and no features.

    Parameters
    ----------
    view : View
        The comparison.
    shown : sequence of int
        Bags shown in full.
    targets : sequence
        The target of every bag: a number, a text or a list.
    results : dict
        Predictions by method and bag.
    tables, heat : dict of ndarray of shape (n_instances,)
        Scores and their percentiles, by method.

    Returns
    -------
    dict or None
        Packed columns; None if every bag is shown in full.
    """
    X = view.problem.X
    left = np.setdiff1d(np.arange(X.n_bags), np.asarray(shown, dtype=np.int64))
    most = MAX_RESULTS // max(1, len(results))
    if len(left) > most:
        left = left[np.unique(np.linspace(0, len(left) - 1, most).astype(int))]
    if not len(left):
        return None
    rows, counts = _top_rows(X, left, next(iter(tables.values()), None))
    labels = view.problem.instance_labels
    plain_ids = np.array_equal(X.ids, np.arange(X.n_bags))
    starts = np.repeat(X.offsets[left], counts)
    return {
        "bags": packed(left),
        "ids": None if plain_ids else [str(X.ids[i])[:200] for i in left],
        "is": _column([targets[i] for i in left]),
        "sizes": packed(X.sizes[left]),
        "counts": packed(counts),
        "positions": packed(rows - starts),
        "results": {name: _results(found, left) for name, found in results.items()},
        "scores": {name: packed(table[rows]) for name, table in tables.items()},
        "heat": {
            name: packed(np.round(np.nan_to_num(h[rows])).astype(np.int64))
            for name, h in heat.items()
        },
        "names": instance_names(X, rows),
        "truth": None if labels is None else packed(labels[rows].astype(bool)),
    }


def _top_rows(X: Any, bags: NDArray[Any], lead: Any) -> tuple[Any, Any]:
    """Return the rows of the instances with the highest scores, and their counts."""
    sizes = X.sizes[bags]
    room = 0
    if lead is not None:  # without scores there is no highest instance
        known = np.array([not np.isnan(lead[X.offsets[i]]) for i in bags])
        sizes = np.where(known, sizes, 0)
        for each in range(1, MAX_PER_BAG + 1):
            if np.minimum(sizes, each).sum() > MAX_SHOWN:
                break
            room = each
    counts = np.minimum(sizes, room)
    parts = [np.empty(0, dtype=np.int64)]
    for i, count in zip(bags, counts, strict=True):
        if count:
            inside = np.arange(X.offsets[i], X.offsets[i + 1])
            parts.append(inside[np.argsort(-lead[inside], kind="stable")[:count]])
    return np.concatenate(parts), counts


def _results(found: Mapping[int, Any], bags: NDArray[Any]) -> dict[str, Any]:
    """Return predictions, scores, and whether they are right (2: never tested)."""
    known = next(iter(found.values()), {"k": 0})
    nothing = {"s": None, "k": type(known["k"])(), "ok": UNTESTED}
    rows = [found.get(int(i), nothing) for i in bags]
    scores = [np.nan if row["s"] is None else row["s"] for row in rows]
    return {
        "k": _column([row["k"] for row in rows]),
        "s": None if np.isnan(scores).all() else packed(scores),
        "ok": packed([int(row["ok"]) for row in rows]),
    }


def _column(values: list[Any]) -> Any:
    """Pack numbers; lists and texts stay unchanged."""
    plain = all(isinstance(value, int | float) for value in values)
    return packed(values) if plain else values


def places(X: Bags) -> NDArray[np.float64] | None:
    """Return x and y of every instance, or None without coordinates."""
    if X.coords is None or X.coords.shape[1] < 2:
        return None
    return np.asarray(X.coords[:, :2], dtype=np.float64)


def slide_maps(
    X: Bags, bags: Sequence[int], heat: Mapping[str, NDArray[Any]]
) -> dict[str, Any] | None:
    """Return a map of every bag and method: bytes, row by row, as base64.

    A byte of 0 is a cell without instances; 1 to 255 encode the mean percentile (among
    the instances of all bags) of the instances in the cell. The resolution decreases
    with the number of maps; if even coarse maps are too many, the last bags have none.

    Parameters
    ----------
    X : Bags
        All bags.
    bags : sequence of int
        The shown bags.
    heat : dict of ndarray of shape (n_instances,)
        Percentiles of the scores by method, NaN without a score.

    Returns
    -------
    dict or None
        "frames" (width, height, left, top and side of a cell for each bag, or None)
        and "cells" (by method, one text for each bag, or None). None without
        coordinates or scores.
    """
    where = places(X)
    if where is None or not heat or not len(bags):
        return None
    share = MAX_BYTES // (len(heat) * len(bags))
    most = int(np.clip(share, LEAST_CELLS, MOST_CELLS))
    left = MAX_BYTES
    frames: list[Any] = []
    cells: dict[str, list[str | None]] = {name: [] for name in heat}
    for i in bags:
        rows = slice(int(X.offsets[i]), int(X.offsets[i + 1]))
        size = _side(where[rows], most)
        frame = None
        for name, values in heat.items():
            text = None
            if left > 0 and not np.isnan(values[rows]).any():
                raster, extent = rasterize(values[rows], where[rows], size)
                text = _packed(raster)
                left -= raster.size
                height, width = raster.shape
                frame = [width, height, extent[0], extent[3], size]
            cells[name].append(text)
        frames.append(frame)
    return {"frames": frames, "cells": cells} if any(frames) else None


def _side(where: NDArray[np.float64], most: int) -> float:
    """Return the side of cells: that of an instance, or larger for fewer cells."""
    size = spacing(where)
    span = np.ptp(where, axis=0)
    while np.prod(np.floor(span / size) + 1.0) > most:
        cells = float(np.prod(np.floor(span / size) + 1.0))
        size *= max(1.02, float(np.sqrt(cells / most)))
    return float(size)


def _packed(raster: NDArray[np.float64]) -> str:
    known = ~np.isnan(raster)
    out = np.zeros(raster.shape, dtype=np.uint8)
    out[known] = 1 + np.round(2.54 * np.clip(raster[known], 0.0, 100.0))
    return base64.b64encode(out.tobytes()).decode("ascii")
