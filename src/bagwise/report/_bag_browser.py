"""The bags a reader can look into: some in full, which keeps the page small."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from scipy.stats import rankdata

from bagwise.inspection.features import moments, top_features
from bagwise.report._curves import instance_table
from bagwise.report._features import instance_parts
from bagwise.report._other_bags import other_bags
from bagwise.report._slide_maps import places, slide_maps
from bagwise.report._view import View

__all__ = ["browser_context"]

MAX_BAGS = 150
MAX_INSTANCES = 2_500
MAX_PER_BAG = 24
LOWEST = 8  # of these, the lowest ones of a bag that is shown as a picture
MAX_METHODS = 8
MAX_PIXELS = 900_000
N_FEATURES = 8


def browser_context(view: View) -> dict[str, Any]:
    """Return bags, their instances and what each method says about them.

    Scores are out of fold. Large data are cut down: bags that the best method gets
    wrong are kept first, then an even sample, and the others in brief; of a large bag,
    the instances the best scoring method puts on top. Bags whose instances have places
    become pictures, with the lowest instances beside the highest.
    """
    problem, X = view.problem, view.problem.X
    tables = {}
    for name in view.finished:
        table = instance_table(view, name)
        if table is not None and len(tables) < MAX_METHODS:
            tables[name] = table
    results = {name: _bag_results(view, name) for name in view.finished}
    lead = next(iter(tables.values()), None)
    bags = _choose_bags(view, results, next(iter(tables), None))
    heat = {name: _heat(table) for name, table in tables.items()}
    about = None if problem.images is not None else moments(X)
    where = places(X)
    answers = [_truth(view, i) for i in range(X.n_bags)]
    shown: list[int] = []
    entries = []
    for i in bags:
        start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
        rows = np.arange(start, stop)
        if lead is not None:
            rows = rows[np.argsort(-np.nan_to_num(lead[rows]), kind="stable")]
        low = 0
        if len(rows) > MAX_PER_BAG:
            low = LOWEST if lead is not None and where is not None else 0
            rows = np.r_[rows[: MAX_PER_BAG - low], rows[len(rows) - low :]]
        entries.append(
            {
                "i": int(i),
                "id": str(X.ids[i]),
                "is": answers[i],
                "size": stop - start,
                "results": {n: found[i] for n, found in results.items() if i in found},
                "first": len(shown),
                "count": len(rows),
                "low": low,
                "positions": [int(row - start) for row in rows],
            }
        )
        shown.extend(int(row) for row in rows)
    index = np.array(shown, dtype=np.int64)
    labels = problem.instance_labels
    return {
        "bags": entries,
        "rest": other_bags(view, bags, answers, results, tables, heat),
        "n_bags": int(X.n_bags),
        "methods": list(tables),
        "maps": slide_maps(X, bags, heat),
        "places": None if where is None else _rounded(where[index]),
        "scores": {n: [_short(v) for v in t[index]] for n, t in tables.items()},
        "heat": {
            name: [int(v) for v in np.round(np.nan_to_num(h[index]))]
            for name, h in heat.items()
        },
        "names": None
        if X.instance_ids is None
        else [str(name)[:60] for name in X.instance_ids[index]],
        "parts": {} if about is None else instance_parts(view, index),
        "truth": None if labels is None else [int(bool(v)) for v in labels[index]],
        "images": _images(problem.images, index),
        "features": None
        if about is None
        else [_features(X, int(row), about) for row in index],
    }


def _truth(view: View, i: int) -> Any:
    """Return what is known of a bag, for JSON."""
    if view.task == "survival":
        time, seen = view.truth[i], bool(view.problem.y["event"][i])
        return f"{_short(time)} ({'event' if seen else 'censored'})"
    return _answer(view, view.truth[i])


def _answer(view: View, value: Any) -> Any:
    """Return a class, a list of labels, or a value, for JSON."""
    if view.task in ("regression", "survival"):
        return _short(value)
    if view.task == "multilabel":
        return np.flatnonzero(value).tolist()
    return int(value)


def _bag_results(view: View, method: str) -> dict[int, dict[str, Any]]:
    """Return score and prediction of every test bag of the first repeat.

    Of several classes the score is that of the predicted one; real values and several
    labels have none. Of real values the tenth with the largest errors is called wrong.
    """
    found = {}
    folds = [fold for fold in view.folds(method) if fold.repeat == 0]
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
            elif view.task == "survival":  # a risk alone is neither right nor wrong
                right = True
            found[int(i)] = {"s": score, "k": _answer(view, label), "ok": right}
    return found


def _choose_bags(
    view: View, results: dict[str, dict[int, dict[str, Any]]], lead: str | None
) -> list[int]:
    X = view.problem.X
    everyone = list(range(X.n_bags))
    folds = [] if lead is None else [f for f in view.folds(lead) if f.repeat == 0]
    if any(len(fold.scored) < len(fold.test) for fold in folds):
        # Of large data, scores of some bags only were kept.
        everyone = sorted(int(i) for fold in folds for i in fold.test[fold.scored])
    limit = MAX_BAGS
    if view.finished:
        # Bags nobody tested (a train/test split) come last.
        best = results[view.finished[0]]
        wrong = [i for i in everyone if i in best and not best[i]["ok"]]
        right = [i for i in everyone if i in best and best[i]["ok"]]
    else:
        wrong, right = [], everyone
    # An even sample of both: the first ones alone may all be of one class.
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


def _heat(table: Any) -> Any:
    """Return percentiles 0 to 100 of instance scores, as one scale for all folds."""
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
    """Return the pictures as 8-bit pixels, thinned when they are large."""
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
