"""Turn a comparison into the plain values a report shows.

Templates only lay out what is here: `report_context` returns strings, numbers, lists
and dicts, nothing else, so that it can be tested and written as JSON.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.ranking import explain_test
from bagwise.report._classes import class_counts, constant_answer, group_counts
from bagwise.report._curves import member_table
from bagwise.report._explanations import explanation_table
from bagwise.report._features import feature_charts
from bagwise.report._script_data import script_data
from bagwise.report._view import View
from bagwise.report.numbers import (
    figure,
    memory,
    p_value,
    place,
    round_axis,
    seconds,
)

__all__ = ["report_context"]


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
    view = View(comparison)
    return {
        "title": comparison.problem.name,
        "summary": comparison.summary(),
        "metric": metric.title,
        "metric_text": _in_text(metric.title),
        "metric_reason": comparison.metric_reason,
        "left": comparison.n_left,
        "weights": comparison.provenance.get("weights", ""),
        "dot": "the figure over all test bags"
        if view.pooled
        else "the mean over folds",
        "finished": bool(view.finished),
        "facts": _facts(view),
        "classes": _class_counts(view),
        "task": view.task,
        "positive": None if view.positive is None else view.names[view.positive],
        "ranking": _ranking(view),
        "ranking_columns": _columns(comparison),
        "axis": _axis(comparison),
        "test_note": explain_test(comparison),
        "choices": [
            {"name": c.method.name, "chosen": c.chosen, "reason": c.reason}
            for c in comparison.choices
        ],
        "asked": all(choice.reason == "as asked" for choice in comparison.choices),
        "groups": _groups(view),
        "stacks": _stacks(view),
        "explanations": _explanations(view),
        "features": feature_charts(view),
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
        "data": script_data(view),
    }


def _in_text(title: str) -> str:
    """Write a title in the middle of a sentence: capitals of acronyms stay."""
    return title if title[1:2].isupper() or title[1:2].isdigit() else title.lower()


def _facts(view: View) -> list[dict[str, str]]:
    comparison, X = view.comparison, view.problem.X
    sizes = X.sizes
    ok = [row for row in comparison.rows if row["status"] == "ok"]
    kind = "sparse" if X.is_sparse else str(X.dtype)
    groups = getattr(X, "groups", None)
    what = "labels" if view.task == "multilabel" else "classes"
    detail = f"{len(view.names)} {what}"
    if view.task == "regression":
        low, high = float(view.truth.min()), float(view.truth.max())
        detail = f"values from {low:.4g} to {high:.4g}"
    if view.task == "survival":
        seen = int(view.problem.y["event"].sum())
        detail = f"{seen:,} events, {len(view.truth) - seen:,} censored"
    if groups is not None:
        n_groups = len(np.unique(np.asarray(groups).astype(str)))
        detail += f", {n_groups:,} groups kept together"
    return [
        _fact("Bags", f"{X.n_bags:,}", detail),
        _fact(
            "Instances",
            f"{X.n_instances:,}",
            _sizes(sizes),
        ),
        _fact("Features", f"{X.n_features:,}", kind),
        _fact("Methods", str(len(comparison.methods)), f"{len(ok):,} finished runs"),
        _fact(
            "Protocol",
            comparison.protocol.describe().replace(" cross-validation", ""),
            "tuned inside each training fold" if comparison.tuning else "not tuned",
        ),
    ]


def _sizes(sizes: Any) -> str:
    if sizes.min() == sizes.max():
        return f"{sizes.min():,} in every bag"
    return f"{sizes.min():,} to {sizes.max():,} a bag, median {np.median(sizes):g}"


def _fact(name: str, value: str, detail: str) -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}


def _class_counts(view: View) -> list[dict[str, Any]]:
    """Return how many bags each class has."""
    counts = class_counts(view)
    return [
        {
            "name": name,
            "bags": f"{int(n):,}",
            "share": round(100 * int(n) / len(view.truth), 2),
            "percent": f"{100 * int(n) / len(view.truth):.1f}%",
            "positive": k == view.positive,
        }
        for k, (name, n) in enumerate(zip(view.names, counts, strict=True))
    ]


def _columns(comparison: Comparison) -> list[dict[str, str]]:
    """Return the further columns of the ranking: those with any value."""
    found = []
    for name, metric in METRICS.items():
        if name == comparison.metric or name.startswith("group_"):
            continue  # groups have a table of their own
        values = [getattr(row, name) for row in comparison.ranking]
        if np.isfinite(values).any():
            found.append({"name": name, "title": metric.title})
    return found


def _ranking(view: View) -> list[dict[str, Any]]:
    comparison = view.comparison
    axis, columns = _axis(comparison), _columns(comparison)
    show = METRICS[comparison.metric].show
    base = {method.name for method in comparison.methods if method.baseline}
    rows = []
    for number, row in enumerate(comparison.ranking):
        interval = ""
        if np.isfinite([row.low, row.high]).all():
            interval = f"{show(row.low)} to {show(row.high)}"
        rows.append(
            {
                "rank": row.rank,
                "color": number,
                "method": row.method,
                "baseline": row.method in base,
                "mean": show(row.mean),
                "interval": interval,
                "left": place(row.low, axis),
                "right": place(row.high, axis),
                "at": place(row.mean, axis),
                "p": p_value(row.p_holm),
                "verdict": row.verdict,
                "failed": row.n_failed,
                "constant": constant_answer(view, row.method),
                "n_folds": row.n_folds,
                "cells": [
                    METRICS[c["name"]].show(getattr(row, c["name"])) for c in columns
                ],
                "fit": seconds(row.fit_time),
                "tune": seconds(row.tune_time),
                "predict": seconds(row.predict_time),
                "memory": memory(row.peak_memory),
            }
        )
    # The baseline first, whatever its rank: the others are read against it.
    return sorted(rows, key=lambda line: not line["baseline"])


def _axis(comparison: Comparison) -> dict[str, Any]:
    """Return the common axis of the interval plots."""
    values = [
        float(value)
        for row in comparison.ranking
        for value in (row.low, row.mean, row.high)
        if np.isfinite(value)
    ]
    metric = METRICS[comparison.metric]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    bounds = (metric.low, metric.high)
    return round_axis(max(bounds[0], low), min(bounds[1], high), bounds=bounds)


def _groups(view: View) -> dict[str, Any] | None:
    """Return the table of figures per group, in words."""
    counts = group_counts(view)
    rows = [row for row in view.comparison.ranking if row.n_folds]
    known = [row for row in rows if np.isfinite(row.group_accuracy)]
    if counts is None or view.task != "classification":
        return None
    return {
        "n": f"{counts[0]:,}",
        "mixed": counts[1],
        "rows": [
            {
                "method": row.method,
                "accuracy": figure(row.group_accuracy),
                "auroc": figure(row.group_auroc),
                "interval": _group_interval(view, row.method),
            }
            for row in known
        ],
    }


def _group_interval(view: View, method: str) -> str:
    found = view.comparison.group_interval(method)
    if not np.isfinite([found.low, found.high]).all():
        return ""
    return f"{figure(found.low)} to {figure(found.high)}"


def _stacks(view: View) -> list[dict[str, Any]]:
    """Return the members of every stack, placed on an axis of weights."""
    stacks = []
    for name in view.finished:
        table = member_table(view, name)
        if table is None:
            continue
        ends = [0.0, *(m["low"] for m in table), *(m["high"] for m in table)]
        axis = round_axis(min(ends), max(ends))
        members = [
            {
                "name": member["name"],
                "weight": f"{member['weight']:.2f}",
                "auroc": figure(member["auroc"]),
                "folds": member["folds"],
                "at": place(member["weight"], axis),
                "left": place(member["low"], axis),
                "right": place(member["high"], axis),
            }
            for member in table
        ]
        told = view.comparison.disagreement(name)
        text = told.get("text", "")
        stacks.append(
            {
                "method": name,
                "axis": axis,
                "members": members,
                "warn": told.get("warn", False),
                "check": text[:1].upper() + text[1:],
            }
        )
    return stacks


def _explanations(view: View) -> list[dict[str, str]]:
    """Return what is known of explanations; nothing where nothing was measured."""
    rows = explanation_table(view)
    measured = (row["assumption"] != "not measured" or row["verdict"] for row in rows)
    return rows if any(measured) else []


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
        ends = comparison.grid_ends(row.method)
        found.append(
            {"method": row.method, "names": names, "folds": lines, "ends": ends}
        )
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
