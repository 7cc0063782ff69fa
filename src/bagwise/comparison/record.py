"""The training record of a model: what later commands need of a comparison or a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bagwise.base import bag_folds
from bagwise.base.folds import most_folds
from bagwise.comparison.catalog import Method
from bagwise.comparison.contributions import contributions
from bagwise.comparison.evaluate import GroupCounts, group_rows
from bagwise.comparison.inference import Winner
from bagwise.comparison.problem import Problem
from bagwise.comparison.ranking import Results, figure_interval, figure_of
from bagwise.comparison.run_one import versions
from bagwise.comparison.tasks import task_of
from bagwise.comparison.tuning import TunedModel, fit_method
from bagwise.inspection.shift import reference_of
from bagwise.io.record import ATTRIBUTE, ModelRecord, plain

__all__ = [
    "attach_comparison",
    "attach_fit",
    "check_alpha",
    "cross_fit",
    "task_figures",
]

MOST_HELD_OUT = 100_000
# Folds of held-out predictions. Each fold of few bags makes models clearly worse.
FOLDS, FOLDS_OF_FEW, FEW = 5, 10, 50


class Finished(Results, Protocol):
    """What a record is made from."""

    provenance: dict[str, Any]
    impute: str | None
    calibrate: bool
    conformal: dict[str, Any] | None

    @property
    def winner(self) -> Winner | None:
        """The selected method."""


def check_alpha(alpha: float | None) -> None:
    """Refuse a miscoverage that is none."""
    if alpha is not None and not 0 < alpha < 1:
        raise ValueError(
            f"conformal must be between 0 and 1 (0.1 for 90% coverage), got {alpha}"
        )


def attach_comparison(comparison: Finished, method: Method, fitted: TunedModel) -> None:
    """Attach the training record of a refitted method of a comparison.

    Parameters
    ----------
    comparison : Comparison
        The results.
    method : Method
        What was fitted.
    fitted : TunedModel
        The model of all bags.
    """
    problem, name = comparison.problem, method.name
    figures = _figures(comparison, name)
    winner = comparison.winner
    if winner is not None and winner.method == name:
        for row in figures:
            if row["name"] == comparison.metric:
                row["corrected"] = asdict(winner.corrected)
                row["candidates"] = len(winner.shares)
    about = {
        **_of_data(problem),
        **_of_method(method, fitted),
        "protocol": comparison.protocol.describe(),
        "metric": comparison.metric,
        "figures": figures,
        "impute": comparison.impute,
        "calibrated": comparison.calibrate,
        "conformal": comparison.conformal,
        "provenance": comparison.provenance,
    }
    held_out = _held_out(comparison, name)
    _attach(fitted.model, about, held_out, problem)


def attach_fit(
    problem: Problem,
    method: Method,
    fitted: TunedModel,
    *,
    conformal: dict[str, Any] | None = None,
    impute: str | None = None,
    random_state: int = 0,
) -> None:
    """Attach the training record of a model that was fitted without a comparison.

    Parameters
    ----------
    problem : Problem
        The data.
    method : Method
        What was fitted.
    fitted : TunedModel
        The model of all bags.
    conformal : dict, optional
        ``{"alpha": 0.1, "per_class": False}``: the method is then fitted five more
        times, with its chosen parameters, for held-out predictions.
    impute, random_state
        As the model was fitted.
    """
    about = {
        **_of_data(problem),
        **_of_method(method, fitted),
        "protocol": "fitted to all bags, not cross-validated",
        "metric": task_of(problem).default_metric()[0],
        "figures": [],
        "impute": impute,
        "conformal": conformal,
        "provenance": {"random_state": random_state, **versions()},
    }
    held_out: dict[str, NDArray[Any]] = {}
    if conformal is not None:
        held_out = cross_fit(problem, method, fitted, impute, random_state)
        about["protocol"] = (
            f"{_n_folds(problem)}-fold cross-validation with the parameters that were"
            " chosen on all bags (slightly optimistic)"
        )
        rows = {k: v for k, v in held_out.items() if k != "group"}
        about["figures"] = task_figures(problem, rows, held_out.get("group"))
    _attach(fitted.model, about, held_out, problem)


def _attach(model: Any, about: Any, held_out: Any, problem: Problem) -> None:
    names = problem.X.feature_names
    about["features"] = None if names is None else [str(name) for name in names]
    record = ModelRecord(plain(about), held_out, reference_of(problem.X))
    setattr(model, ATTRIBUTE, ModelRecord.from_state(record.state()))


def _of_data(problem: Problem) -> dict[str, Any]:
    X, groups = problem.X, problem.groups
    found: dict[str, Any] = {
        "data": problem.name,
        "data_hash": problem.hash(),
        "task": problem.task,
        "n_bags": len(X),
        "n_instances": X.n_instances,
        "n_features": X.n_features,
        "n_groups": None if groups is None else len(np.unique(groups.astype(str))),
        "sizes": np.quantile(X.sizes, [0, 0.5, 1]).tolist(),
    }
    if problem.task == "classification":
        labels, counts = np.unique(problem.y, return_counts=True)
        found["classes"] = [str(label) for label in labels]
        found["class_counts"] = counts.tolist()
        if problem.positive is not None:
            found["positive"] = str(labels[problem.positive])
    elif problem.task == "regression":
        found["values"] = np.quantile(problem.y, [0, 0.5, 1]).tolist()
    elif problem.task == "survival":
        found["events"] = int(problem.y["event"].sum())
        found["times"] = np.quantile(problem.y["time"], [0, 0.5, 1]).tolist()
    return found


def _of_method(method: Method, fitted: TunedModel) -> dict[str, Any]:
    return {
        "method": method.name,
        "class": method.path,
        "paper": method.paper,
        "assumption": method.assumption,
        "params": fitted.params,
        "scale": method.scale,
    }


def _figures(comparison: Finished, name: str) -> list[dict[str, Any]]:
    found = []
    for metric in task_of(comparison.problem).metrics():
        figure = figure_of(comparison, name, metric)
        if not np.isnan(figure.value):
            row = {"name": metric, **asdict(figure_interval(figure, metric))}
            found.append({**row, "n_units": figure.n_units})
    return found


def _held_out(comparison: Finished, name: str) -> dict[str, NDArray[Any]]:
    """Return the predictions of the first repeat, of many bags a random sample."""
    problem, parts, bags = comparison.problem, [], []
    for row in comparison.runs(name):
        arrays = comparison.arrays.get(row["key"], {})
        if row["repeat"] == 0 and "test" in arrays:
            test = arrays["test"].astype(np.int64)
            parts.append(task_of(problem).measured(arrays, test))
            bags.append(test)
    return _rows_of(problem, parts, bags)


def _rows_of(
    problem: Problem, parts: Sequence[Mapping[str, NDArray[Any]]], bags: Sequence[Any]
) -> dict[str, NDArray[Any]]:
    if not parts:
        return {}
    bag = np.concatenate(bags)
    # Half splits test a bag several times: only the first prediction is kept.
    first = np.unique(bag, return_index=True)[1]
    if len(first) > MOST_HELD_OUT:
        chosen = np.random.default_rng(0).permutation(len(first))[:MOST_HELD_OUT]
        first = first[np.sort(chosen)]
    names = [n for n in parts[0] if all(n in part for part in parts)]
    rows = {n: np.concatenate([part[n] for part in parts])[first] for n in names}
    rows = {n: values for n, values in rows.items() if len(values) == len(first)}
    if problem.task == "survival":
        rows["event"], rows["truth"] = rows["truth"]["event"], rows["truth"]["time"]
    if problem.groups is not None:
        text = problem.groups[bag[first]].astype(str)
        rows["group"] = np.unique(text, return_inverse=True)[1].astype(np.int64)
    return rows


def cross_fit(
    problem: Problem,
    method: Method,
    fitted: TunedModel,
    impute: str | None,
    random_state: int,
) -> dict[str, NDArray[Any]]:
    """Return held-out predictions of the method with its chosen parameters.

    Parameters
    ----------
    problem : Problem
        The data; groups are kept whole.
    method : Method
        What is fitted.
    fitted : TunedModel
        The fit to all bags, whose parameters are used.
    impute, random_state
        As it was fitted.
    """
    X, y = problem.X, problem.y
    task, parts, bags = task_of(problem), [], []
    folds = _n_folds(problem)
    grid = {name: [value] for name, value in fitted.params.items()}
    for train, test in bag_folds(X, _table(problem), folds, random_state):
        weight = problem.sample_weight
        one = fit_method(
            method.spec(),
            X[train],
            y[train],
            scale=method.scale,
            impute=impute,
            grid=grid,
            random_state=random_state,
            pos_label=problem.pos_label,
            sample_weight=None if weight is None else weight[train],
        )
        found = _turned(problem, one.model, X[test])
        parts.append(task.measured(found, test))
        bags.append(test)
    return _rows_of(problem, parts, bags)


def _table(problem: Problem) -> NDArray[Any]:
    """Return what folds are stratified by."""
    return problem.y[:, None] if problem.task == "regression" else problem.strata


def _n_folds(problem: Problem) -> int:
    """Return the number of folds: more if a class has few bags (or groups)."""
    found = most_folds(problem.X, _table(problem), FEW)
    return int(min(found, FOLDS if found >= FEW else FOLDS_OF_FEW))


def _turned(problem: Problem, model: Any, X: Any) -> dict[str, NDArray[Any]]:
    """Return predictions as runs store them, of a model of the labels themselves."""
    from bagwise.comparison.evaluate import predictions

    if problem.task != "classification":
        return task_of(problem).predict(model, X)
    return dict(predictions(model, X, np.asarray(model.classes_)))


def task_figures(
    problem: Problem, rows: Mapping[str, NDArray[Any]], groups: NDArray[Any] | None
) -> list[dict[str, Any]]:
    """Return the metrics of held-out predictions with their intervals.

    Parameters
    ----------
    problem : Problem
        The data.
    rows : dict of str to ndarray
        Held-out predictions, as in `ModelRecord.held_out`.
    groups : ndarray, optional
        Groups of the rows.
    """
    rows = dict(rows)
    if "event" in rows:
        truth = np.empty(len(rows["truth"]), dtype=problem.y.dtype)
        truth["event"], truth["time"] = rows.pop("event"), rows["truth"]
        rows["truth"] = truth
    found = []
    for metric in task_of(problem).metrics():
        if metric == "key_success":
            continue
        used, bag, own = dict(rows), np.arange(len(rows["truth"])), groups
        if metric.startswith("group_"):
            if groups is None:
                continue
            counts = GroupCounts.of(rows["truth"], groups, len(problem.classes))
            values = rows.get("probability", rows.get("score", np.empty(0)))
            threshold = 0.5 if "probability" in rows else 0.0
            grouped = group_rows(rows["truth"], values, threshold, groups)
            if grouped is None or not counts.enough:
                continue
            used, own = grouped, None
            bag = np.arange(len(used["truth"]))
        figure = contributions(metric.removeprefix("group_"), used, bag, groups=own)
        if not np.isnan(figure.value):
            row = {"name": metric, **asdict(figure_interval(figure, metric))}
            found.append({**row, "n_units": figure.n_units})
    return found
