"""The tables of the report, as plain values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.ranking import RankRow
from bagwise.inspection.features import feature_name, moments
from bagwise.inspection.importance import gap_verdict, mean_interval
from bagwise.inspection.types import type_table
from bagwise.report._bags import instance_table
from bagwise.report._curves import class_counts
from bagwise.report.view import (
    View,
    figure,
    memory,
    p_value,
    place,
    round_axis,
    seconds,
)

__all__ = [
    "class_table",
    "explanation_table",
    "facts",
    "feature_charts",
    "group_table",
    "metric_axis",
    "metric_columns",
    "notes",
    "params_table",
    "ranking_table",
    "stack_tables",
    "type_tables",
]

N_BARS = 12
N_TYPES, N_TYPE_METHODS = 40, 4
_TONES = {"faithful": "good", "misleading": "bad"}
_SHORT_VERDICTS = {"not significantly different": "not significant"}
_VERDICT_TONES = {"best": "good", "worse": "dim", "untested": "dim"}  # all others: near


def facts(view: View) -> list[dict[str, str]]:
    """Return sizes of the data, methods and protocol, each with a detail."""
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
        detail += f", {n_groups:,} groups"
    return [
        _fact("Bags", f"{X.n_bags:,}", detail),
        _fact(
            "Instances",
            f"{X.n_instances:,}",
            _sizes(sizes),
        ),
        _fact("Features", f"{X.n_features:,}", kind),
        _fact(
            "Methods",
            str(len(comparison.methods)),
            f"{len(ok):,} finished runs (one per fold)",
        ),
        _fact(
            "Protocol",
            comparison.protocol_text.replace(" cross-validation", ""),
            "parameters tuned within each training fold"
            if comparison.tuning
            else "default parameters",
        ),
    ]


def _sizes(sizes: Any) -> str:
    if sizes.min() == sizes.max():
        return f"{sizes.min():,} per bag"
    return f"{sizes.min():,} to {sizes.max():,} per bag, median {np.median(sizes):g}"


def _fact(name: str, value: str, detail: str) -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}


def class_table(view: View) -> list[dict[str, Any]]:
    """Return the number and the share of bags of each class."""
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


def metric_columns(comparison: Comparison) -> list[dict[str, str]]:
    """Return the other metrics of the ranking that have a value for any method."""
    found = []
    for name, metric in METRICS.items():
        if name == comparison.metric or name.startswith("group_"):
            continue  # groups have a separate table
        values = [getattr(row, name) for row in comparison.ranking]
        if np.isfinite(values).any():
            found.append({"name": name, "title": metric.title})
    return found


def ranking_table(view: View) -> list[dict[str, Any]]:
    """Return the rows of the ranking; the baseline comes first."""
    comparison = view.comparison
    axis, columns = metric_axis(comparison), metric_columns(comparison)
    show = METRICS[comparison.metric].show
    base = {method.name for method in comparison.methods if method.baseline}
    rows = []
    for number, row in enumerate(comparison.ranking):
        interval = ""
        if np.isfinite([row.low, row.high]).all():
            interval = f"{show(row.low)} to {show(row.high)}"
        tuned = any(run["params"] for run in comparison.runs(row.method))
        rows.append(
            {
                "rank": row.rank,
                "color": number,
                "method": row.method,
                "baseline": row.method in base,
                "group": figure(row.group_auroc),
                "group_interval": _group_interval(row),
                "mean": show(row.mean),
                "interval": interval,
                "left": place(row.low, axis),
                "right": place(row.high, axis),
                "at": place(row.mean, axis),
                "p": p_value(row.p_holm),
                **_effect(row, show),
                "verdict": row.verdict,
                "verdict_text": _SHORT_VERDICTS.get(row.verdict, row.verdict),
                "failed": row.n_failed,
                "tone": _VERDICT_TONES.get(row.verdict, "near"),
                "constant": constant_prediction(view, row.method),
                "n_folds": row.n_folds,
                "cells": [
                    METRICS[c["name"]].show(getattr(row, c["name"])) for c in columns
                ],
                "fit": seconds(row.fit_time),
                "tune": seconds(row.tune_time) if tuned else "",
                "predict": seconds(row.predict_time),
                "memory": memory(row.peak_memory),
            }
        )
    # Other methods are compared with the baseline, so it comes first.
    return sorted(rows, key=lambda line: not line["baseline"])


def _effect(row: RankRow, show: Callable[[float], str]) -> dict[str, str]:
    """Return by how much the best method is better, with the 95% interval."""
    interval = ""
    if np.isfinite([row.effect_low, row.effect_high]).all():
        interval = f"{show(row.effect_low)} to {show(row.effect_high)}"
    return {"effect": show(row.effect), "effect_interval": interval}


def metric_axis(comparison: Comparison) -> dict[str, Any]:
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


def group_table(view: View) -> dict[str, Any] | None:
    """Return the metrics per group, with how many groups count; None without groups."""
    counts = view.comparison.group_counts
    if counts is None:
        return None
    rows = [row for row in view.comparison.ranking if row.n_folds and counts.enough]
    return {
        "n": f"{counts.n:,}",
        "counted": f"{counts.counted:,}",
        "rows": [
            {
                "method": row.method,
                "accuracy": figure(row.group_accuracy),
                "auroc": figure(row.group_auroc),
                "interval": _group_interval(row),
            }
            for row in rows
            if np.isfinite(row.group_accuracy)
        ],
    }


def _group_interval(row: RankRow) -> str:
    if not np.isfinite([row.group_low, row.group_high]).all():
        return ""
    return f"{figure(row.group_low)} to {figure(row.group_high)}"


def stack_tables(view: View) -> list[dict[str, Any]]:
    """Return the members of every stack, with their weights on a common axis."""
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
        check = view.comparison.disagreement(name)
        text = check.get("text", "")
        stacks.append(
            {
                "method": name,
                "axis": axis,
                "members": members,
                "warn": check.get("warn", False),
                "check": text[:1].upper() + text[1:],
            }
        )
    return stacks


def constant_prediction(view: View, method: str) -> str | None:
    """Return the prediction that a method gives for every test bag, if there is one."""
    folds = view.folds(method)
    if not folds:
        return None
    first = folds[0].label[0]
    if not all((fold.label == first).all() for fold in folds):
        return None
    if view.task in ("regression", "survival"):
        return f"{float(first):.4g}"
    if view.task == "multilabel":
        labels = [view.names[k] for k in np.flatnonzero(first)]
        return ", ".join(labels) or "no label"
    return view.names[int(first)]


def member_table(view: View, method: str) -> list[dict[str, Any]] | None:
    """Return the members of a stack, averaged over folds; None for other methods.

    Returns
    -------
    list of dict, or None
        "name", "weight" (on the member's log-odds), "low" and "high" (smallest and
        largest over folds), "auroc" (out of fold) and "folds" (number of folds with
        the member), in the order of decreasing weights.
    """
    weights: dict[str, list[float]] = {}
    areas: dict[str, list[float]] = {}
    for row in view.comparison.runs(method):
        arrays = view.comparison.arrays[row["key"]]
        if "member_names" not in arrays:
            return None
        for k, name in enumerate(arrays["member_names"]):
            weights.setdefault(str(name), []).append(float(arrays["member_weights"][k]))
            areas.setdefault(str(name), []).append(float(arrays["member_scores"][k]))
    if not weights:
        return None
    table = [
        {
            "name": name,
            "weight": float(np.mean(values)),
            "low": min(values),
            "high": max(values),
            "auroc": float(np.mean(areas[name])),
            "folds": len(values),
        }
        for name, values in weights.items()
    ]
    return sorted(table, key=lambda member: -member["weight"])


def explanation_table(view: View) -> list[dict[str, str]]:
    """Return one row for each finished method.

    "assumption" is the measured assumption; "verdict", "gap" and "interval" describe
    the faithfulness of instance scores on test bags; "key" is the key-instance success.
    Empty if nothing was measured.
    """
    ranked = {row.method: row for row in view.comparison.ranking}
    methods = {method.name: method for method in view.comparison.methods}
    rows = []
    for name in view.finished:
        line = methods[name].assumption.partition(": ")[2]
        row = {"method": name, "assumption": line, "verdict": "", "tone": ""}
        row |= {"gap": "", "interval": "", "key": figure(ranked[name].key_success)}
        gaps = _gaps(view, name)
        if len(gaps) > 1:
            row |= _verdict(gaps)
        rows.append(row)
    measured = (row["assumption"] != "not measured" or row["verdict"] for row in rows)
    return rows if any(measured) else []


def type_tables(view: View) -> list[dict[str, Any]]:
    """Return the types of instances with shares and scores, for the best methods.

    Empty if the instances have no types, or no method scores them.
    """
    X = view.problem.X
    if X.instance_types is None:
        return []
    positive = None if view.positive is None else view.truth == view.positive
    found = []
    for name in view.finished:
        scores = instance_table(view, name)
        if scores is None or len(found) == N_TYPE_METHODS:
            continue
        rows = type_table(X, scores, positive)
        shown = [
            {
                "type": row["type"][:60],
                "count": f"{int(row['count']):,}",
                **{
                    part: f"{100 * row[part]:.1f}%" if np.isfinite(row[part]) else ""
                    for part in ("share", "positive", "negative", "top")
                },
                "percentile": f"{row['percentile']:.0f}",
            }
            for row in rows[:N_TYPES]
        ]
        found.append({"method": name, "rows": shown, "left": len(rows) - len(shown)})
    return found


def _gaps(view: View, method: str) -> Any:
    arrays = view.comparison.arrays
    found = [
        arrays[row["key"]]["faithfulness"]
        for row in view.comparison.runs(method)
        if "faithfulness" in arrays[row["key"]]
    ]
    return np.concatenate(found) if found else np.empty(0)


def _verdict(gaps: Any) -> dict[str, str]:
    found = mean_interval(gaps)
    verdict = gap_verdict(found)
    mean, low, high = found
    return {
        "verdict": verdict,
        "tone": _TONES.get(verdict, "dim"),
        "gap": f"{mean:.2f}",
        "interval": f"{low:.2f} to {high:.2f}",
    }


def feature_charts(view: View) -> list[dict[str, Any]]:
    """Return the most important features of each method.

    Permutation importance if it was measured; otherwise, for linear instance scores,
    the absolute weights of standardized features. Mean, minimum and maximum over folds.
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
            table, about = falls, _permutation_text(view)
        else:
            table = np.abs(slopes) * moments(X)[1]
            about = "absolute weight in the instance score, per standard deviation"
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


def _permutation_text(view: View) -> str:
    """Return what permutation importance decreases; as the runs have chosen it."""
    if view.task == "survival":
        return "decrease of the concordance index when the feature is permuted"
    if view.task == "regression":
        return "decrease of R2 when the feature is permuted"
    metric = "AUROC" if view.positive is not None else "accuracy"
    return f"decrease of {metric} when the feature is permuted"


def _stored(view: View, method: str, what: str) -> Any:
    arrays = view.comparison.arrays
    found = [
        arrays[row["key"]][what]
        for row in view.comparison.runs(method)
        if what in arrays[row["key"]]
    ]
    return np.array(found, dtype=np.float64) if found else None


def params_table(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the tuned parameters of each method in every fold."""
    found = []
    for row in comparison.ranking:
        runs = comparison.runs(row.method)
        names = sorted({name for run in runs for name in run["params"]})
        if not names:
            continue
        lines = [
            {
                "fold": f"{run['repeat'] + 1}.{run['fold'] + 1}",
                "values": [_short(run["params"].get(name)) for name in names],
            }
            for run in runs[:100]
        ]
        ends = comparison.grid_ends(row.method)
        found.append(
            {"method": row.method, "names": names, "folds": lines, "ends": ends}
        )
    return found


def _short(value: Any) -> str:
    """Format a parameter with at most 60 characters."""
    if isinstance(value, dict) and "class" in value:
        return str(value["class"]).rpartition(".")[2]
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def notes(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the warnings of each method with the number of runs that raised them.

    Those that differ by numbers alone are one; of them the first is shown.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in comparison.rows:
        plain = {re.sub(r"[-+]?\d[\d.,e+-]*", "#", note): note for note in row["notes"]}
        for kind, note in plain.items():
            new = {"method": row["method"], "note": note, "count": 0}
            found.setdefault((row["method"], kind), new)["count"] += 1
    return [found[key] for key in sorted(found)]
