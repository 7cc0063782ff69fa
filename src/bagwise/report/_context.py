"""Turn a comparison into the plain values a report shows.

Templates only lay out what is here: `report_context` returns strings, numbers, lists
and dicts, nothing else, so that it can be tested and written as JSON.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bagwise.comparison._comparison import Comparison
from bagwise.comparison._evaluate import METRICS
from bagwise.comparison._ranking import explain_test
from bagwise.report._bag_browser import browser_context
from bagwise.report._curves import (
    calibration,
    mean_roc,
    member_table,
    score_histogram,
)

__all__ = ["report_context"]

VERDICTS = {
    "best": "best",
    "not told apart": "not told apart",
    "worse": "worse",
    "untested": "untested",
}


def report_context(comparison: Comparison) -> dict[str, Any]:
    """Return everything the report shows.

    Parameters
    ----------
    comparison : Comparison
        The results.

    Returns
    -------
    dict
        Plain values; ``["data"]`` is what the page's script reads.
    """
    metric = METRICS[comparison.metric]
    finished = [row.method for row in comparison.ranking if row.n_folds]
    return {
        "title": comparison.problem.name,
        "summary": comparison.summary() if finished else "No method finished.",
        "metric": metric.title,
        "metric_reason": comparison.metric_reason,
        "facts": _facts(comparison),
        "ranking": _ranking(comparison),
        "ranking_columns": _columns(comparison),
        "axis": _axis(comparison),
        "test_note": explain_test(comparison),
        "choices": [
            {"name": c.method.name, "chosen": c.chosen, "reason": c.reason}
            for c in comparison.choices
        ],
        "asked": all(choice.reason == "as asked" for choice in comparison.choices),
        "stacks": _stacks(comparison, finished),
        "params": _params(comparison),
        "failures": [
            {
                "method": row["method"],
                "where": f"repeat {row['repeat'] + 1}, fold {row['fold'] + 1}",
                "error": row["error"],
                "traceback": row["traceback"],
            }
            for row in comparison.failures[:50]
        ],
        "n_failures": len(comparison.failures),
        "notes": _notes(comparison),
        "provenance": _provenance(comparison),
        "references": _references(comparison),
        "data": _script_data(comparison, finished),
    }


def _facts(comparison: Comparison) -> list[dict[str, str]]:
    problem = comparison.problem
    X, classes = problem.X, problem.classes
    counts = [int((problem.y == label).sum()) for label in classes]
    pairs = zip(classes, counts, strict=True)
    split = ", ".join(f"{label}: {n}" for label, n in pairs)
    sizes = X.sizes
    ok = [row for row in comparison.rows if row["status"] == "ok"]
    kind = "sparse" if X.is_sparse else str(X.dtype)
    return [
        _fact("Bags", f"{X.n_bags:,}", split if len(classes) <= 4 else ""),
        _fact(
            "Instances",
            f"{X.n_instances:,}",
            f"{sizes.min()} to {sizes.max()} a bag, median {np.median(sizes):g}",
        ),
        _fact("Features", f"{X.n_features:,}", kind),
        _fact("Methods", str(len(comparison.methods)), f"{len(ok):,} finished runs"),
        _fact(
            "Protocol",
            comparison.protocol.describe().replace(" cross-validation", ""),
            "tuned inside each training fold" if comparison.tuning else "not tuned",
        ),
    ]


def _fact(name: str, value: str, detail: str) -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}


def _columns(comparison: Comparison) -> list[dict[str, str]]:
    """Return the further columns of the ranking: those with any value."""
    found = []
    for name, metric in METRICS.items():
        values = [getattr(row, name) for row in comparison.ranking]
        if name != comparison.metric and not all(np.isnan(value) for value in values):
            found.append({"name": name, "title": metric.title})
    return found


def _ranking(comparison: Comparison) -> list[dict[str, Any]]:
    axis = _axis(comparison)
    span = axis["high"] - axis["low"]

    def place(value: float) -> float | None:
        if np.isnan(value):
            return None
        share = 100 * (value - axis["low"]) / span
        return round(float(min(100.0, max(0.0, share))), 2)

    columns = _columns(comparison)
    rows = []
    for number, row in enumerate(comparison.ranking):
        missing = np.isnan(row.mean)
        interval = "" if np.isnan(row.low) else f"{row.low:.3f} to {row.high:.3f}"
        rows.append(
            {
                "rank": row.rank,
                "color": number,
                "method": row.method,
                "mean": "" if missing else f"{row.mean:.3f}",
                "interval": interval,
                "left": place(row.low),
                "right": place(row.high),
                "at": place(row.mean),
                "p": "" if np.isnan(row.p_holm) else _p(row.p_holm),
                "verdict": VERDICTS[row.verdict],
                "failed": row.n_failed,
                "n_folds": row.n_folds,
                "cells": [_number(getattr(row, c["name"])) for c in columns],
                "fit": seconds(row.fit_time),
                "tune": seconds(row.tune_time),
                "predict": seconds(row.predict_time),
                "memory": memory(row.peak_memory),
            }
        )
    return rows


def _stacks(comparison: Comparison, finished: list[str]) -> list[dict[str, Any]]:
    """Return the members of every stack, placed on an axis of weights."""
    stacks = []
    for name in finished:
        table = member_table(comparison, name)
        if table is None:
            continue
        ends = [0.0, *(m["low"] for m in table), *(m["high"] for m in table)]
        axis = _round_axis(min(ends), max(ends))
        span = axis["high"] - axis["low"]
        members = [
            {
                "name": member["name"],
                "weight": f"{member['weight']:.2f}",
                "auroc": _number(member["auroc"]),
                "folds": member["folds"],
                "at": round(100 * (member["weight"] - axis["low"]) / span, 2),
                "left": round(100 * (member["low"] - axis["low"]) / span, 2),
                "right": round(100 * (member["high"] - axis["low"]) / span, 2),
            }
            for member in table
        ]
        stacks.append({"method": name, "axis": axis, "members": members})
    return stacks


def _axis(comparison: Comparison) -> dict[str, Any]:
    """Return the common axis of the interval plots."""
    values = [
        value
        for row in comparison.ranking
        for value in (row.low, row.mean, row.high)
        if not np.isnan(value)
    ]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if METRICS[comparison.metric].higher:  # all of these lie between 0 and 1
        low, high = max(0.0, low), min(1.0, high)
    return _round_axis(low, high)


def _round_axis(low: float, high: float) -> dict[str, Any]:
    """Return an axis with round ends that holds both values."""
    span = max(high - low, 0.02)
    step = next(
        s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if span / s <= 5.5
    )
    low = float(np.floor(low / step + 1e-9) * step)
    high = float(np.ceil(high / step - 1e-9) * step)
    ticks = np.arange(low, high + step / 2, step)
    return {
        "low": low,
        "high": high,
        "ticks": [
            {"at": round(100 * (t - low) / (high - low), 2), "text": f"{t:g}"[:5]}
            for t in np.round(ticks, 6).tolist()
        ],
    }


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float) -> str:
    """Write a time with two digits and its unit."""
    if np.isnan(value):
        return ""
    if value < 0.9995:
        return f"{1000 * value:.3g} ms" if value >= 0.001 else "< 1 ms"
    return f"{value:.3g} s" if value < 90 else f"{value / 60:.1f} min"


def memory(value: float) -> str:
    """Write a number of bytes with its unit."""
    if np.isnan(value):
        return ""
    return f"{value / 1e6:.0f} MB" if value < 1e9 else f"{value / 1e9:.1f} GB"


def _params(comparison: Comparison) -> list[dict[str, Any]]:
    """Return for each tuned method the parameters chosen in every fold."""
    found = []
    for row in comparison.ranking:
        runs = comparison.runs(row.method)
        names = sorted({name for run in runs for name in run["params"]})
        if not names:
            continue
        lines = [
            {
                "fold": f"{run['repeat'] + 1}.{run['fold'] + 1}",
                "values": [short(run["params"].get(name)) for name in names],
            }
            for run in runs[:100]
        ]
        found.append({"method": row.method, "names": names, "folds": lines})
    return found


def short(value: Any) -> str:
    """Write a parameter in few characters."""
    if isinstance(value, dict) and "class" in value:
        return str(value["class"]).rpartition(".")[2]
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _notes(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the warnings of each method with the number of runs that had them."""
    counts: dict[tuple[str, str], int] = {}
    for row in comparison.rows:
        for note in row["notes"]:
            key = (row["method"], note)
            counts[key] = counts.get(key, 0) + 1
    return [
        {"method": method, "note": note, "count": count}
        for (method, note), count in sorted(counts.items())
    ]


def _provenance(comparison: Comparison) -> list[dict[str, str]]:
    values = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in comparison.provenance.items()
    }
    return [{"name": key.replace("_", " "), "value": values[key]} for key in values]


def _references(comparison: Comparison) -> list[dict[str, str]]:
    return [
        {"method": method.name, "paper": method.paper, "class": method.path}
        for method in comparison.methods
    ]


def _script_data(comparison: Comparison, finished: list[str]) -> dict[str, Any]:
    """Return what the script draws: curves, histograms, times and bags."""
    order = {row.method: number for number, row in enumerate(comparison.ranking)}
    methods, roc, reliability, histograms = [], {}, {}, {}
    for name in finished:
        row = comparison.ranking[order[name]]
        total = row.fit_time + row.tune_time
        methods.append(
            {
                "name": name,
                "color": order[name],
                "mean": _round(row.mean),
                "low": _round(row.low),
                "high": _round(row.high),
                "fit": _round(row.fit_time, 6),
                "total": _round(total, 6),
            }
        )
        curve = mean_roc(comparison, name)
        if curve is not None:
            roc[name] = {
                "fpr": [_round(v, 3) for v in curve.fpr],
                "tpr": [_round(v, 3) for v in curve.tpr],
                "auc": _round(curve.auc),
            }
        bins = calibration(comparison, name)
        if bins is not None:
            reliability[name] = [
                {key: _round(value) for key, value in one.items()} for one in bins
            ]
        histogram = score_histogram(comparison, name)
        if histogram is not None:
            histograms[name] = {
                "edges": [_round(v) for v in histogram["edges"]],
                "negative": [int(v) for v in histogram["negative"]],
                "positive": [int(v) for v in histogram["positive"]],
            }
    labels = [str(label) for label in comparison.problem.classes]
    return {
        "metric": METRICS[comparison.metric].title,
        "higher": METRICS[comparison.metric].higher,
        "classes": labels,
        "methods": methods,
        "roc": roc,
        "calibration": reliability,
        "histograms": histograms,
        "browser": browser_context(comparison, finished),
    }


def _round(value: float, digits: int = 4) -> float | None:
    number = float(value)
    return None if np.isnan(number) else round(number, digits)
