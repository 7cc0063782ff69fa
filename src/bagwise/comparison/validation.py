"""`evaluate`: a frozen model on labeled bags that it has never seen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.metrics import roc_curve

from bagwise.base.survival import kaplan_meier, log_rank
from bagwise.comparison.clinical import (
    calibration_bins,
    calibration_line,
    decision_curve,
    operating_point,
    threshold_for,
)
from bagwise.comparison.contributions import Contributions, contributions
from bagwise.comparison.evaluate import METRICS, GroupCounts, group_rows, predictions
from bagwise.comparison.evaluation import (
    LABELS,
    Evaluation,
    compare_with_expected,
)
from bagwise.comparison.inference import Difference, Interval, unreliable
from bagwise.comparison.problem import Problem, as_problem
from bagwise.comparison.ranking import figure_interval, paired_difference
from bagwise.inspection.scores import bags_for, own_positive, predicts_values
from bagwise.io import load
from bagwise.io.record import record_of, require_record

__all__ = ["Evaluation", "evaluate"]

Arrays = dict[str, NDArray[Any]]
MOST_LEVELS = 50
MOST_POINTS = 600
RISKS = ("low risk", "middle risk", "high risk")
# Metrics of subgroups, by task.
IN_SUBGROUPS = {
    "classification": ("accuracy", "auroc"),
    "multilabel": ("accuracy", "auroc"),
    "regression": ("mae", "r2"),
    "survival": ("concordance",),
}


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    by: Mapping[str, Any] | None = None,
    threshold: float | None = None,
    sensitivity: float | None = None,
    against: Any = None,
    name: str | None = None,
    **columns: Any,
) -> Evaluation:
    """Evaluate a fixed model on bags that were not used for its fit.

    Nothing is fitted or chosen on these bags.

    Parameters
    ----------
    model : path or estimator
        A model file, or a fitted model. Models of `compare` and `fit` have a training
        record, with which figures are compared.
    X : Bags, list of 2-D arrays, path or Problem
        The bags, a file, or the name of a data set.
    y : array-like of shape (n_bags,), optional
        Labels, values, or events and times; of a file its label column.
    groups : str or array-like of shape (n_bags,), optional
        Bags that belong together (the slides of a patient). Intervals use groups then.
    by : dict of str to array-like of shape (n_bags,), optional
        Figures of subgroups: a name and one entry per bag.
    threshold : float, optional
        With two classes, bags with at least this probability (score, if the model has
        no probabilities) are predicted positive. By default the threshold of the model.
    sensitivity : float, optional
        Choose the threshold that reaches this sensitivity on held-out training bags.
    against : path or estimator, optional
        Another model to compare with, by a paired test.
    name : str, optional
        Name of the data.
    **columns
        Columns of a file, see :func:`bagwise.read_bags`.

    Returns
    -------
    Evaluation
        Metrics with intervals, calibration, operating point, subgroups.

    Examples
    --------
    >>> import bagwise
    >>> from bagwise.compose import SimpleMI
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(80, random_state=0)
    >>> found = bagwise.evaluate(SimpleMI().fit(X[:40], y[:40]), X[40:], y[40:])
    >>> [row["name"] for row in found.figures][:2]
    ['accuracy', 'auroc']
    """
    model, other = _loaded(model), None if against is None else _loaded(against)
    task = _task(model)
    problem = _problem(model, X, y, task, groups=groups, name=name, **columns)
    record = record_of(model)
    about = {} if record is None else record.about
    rows = _rows(model, problem, task)
    codes = None if problem.groups is None else problem.groups.astype(str)
    moved, chosen = None, "the threshold of the model, fixed in training"
    two = task == "classification" and len(model.classes_) == 2
    if threshold is not None or sensitivity is not None:
        if not two:
            raise ValueError("a threshold is for models of two classes")
        moved, chosen = _threshold(model, threshold, sensitivity)
        values = rows.get("probability", rows["score"])
        rows["label"] = (values >= moved).astype(np.int64)
    figures = _figures(rows, task, codes)
    if moved is not None:  # group labels have their own threshold
        figures = [row for row in figures if row["name"] != "group_accuracy"]
    compare_with_expected(figures, about, skip_labels=moved is not None)
    notes = _notes(problem, rows, task, about)
    found: dict[str, Any] = {}
    if task == "classification":
        classes = _class_names(model)
        found |= {"classes": classes, "confusion": _confusion(rows, len(classes))}
        found["calibration"] = _calibration(rows, codes)
        if two:
            found["positive"] = classes[1]
            found["operating"] = _operating(rows, codes, moved, chosen)
            found["curve"] = _roc(rows)
            if "probability" in rows:
                found["decision"] = decision_curve(rows["truth"], rows["probability"])
    elif task == "regression":
        found["calibration"] = _value_calibration(rows, codes)
        found["curve"] = _points(rows)
    elif task == "survival":
        found["risks"], note = _risks(rows, record)
        notes += note
    if other is not None:
        skip = LABELS if moved is not None else ()
        found["against"] = _against(other, rows, problem, task, codes, skip)
    if by:
        found["subgroups"] = _subgroups(rows, by, task, codes)
    return Evaluation(
        problem.name,
        task,
        len(problem.X),
        None if codes is None else len(np.unique(codes)),
        figures,
        about=about,
        notes=notes,
        **found,
    )


# Data and predictions -----------------------------------------------------------------


def _loaded(model: Any) -> Any:
    return load(model) if isinstance(model, str | os.PathLike) else model


def _task(model: Any) -> str:
    if is_regressor(model):
        return "regression"
    if predicts_values(model):
        return "survival"
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise ValueError(f"{type(model).__name__} is not fitted")
    several = isinstance(classes, list) or np.ndim(classes) > 1
    return "multilabel" if several or _labels_apart(model) else "classification"


def _labels_apart(model: Any) -> bool:
    return type(model).__name__ == "OneModelPerLabel"


def _problem(model: Any, X: Any, y: Any, task: str, **given: Any) -> Problem:
    """Return the bags with labels; that labels lack a class is no mistake here."""
    wanted = "classification" if task == "multilabel" else task
    kept = {k: v for k, v in given.items() if v is not None}
    if isinstance(X, Problem):
        if X.task not in (task, wanted):
            raise ValueError(f"the model predicts {task}, and the data are {X.task}")
        problem = X
        if "groups" in kept:
            problem = replace(X, X=X.X.with_groups(kept["groups"]))
    else:
        problem = as_problem(X, y, task=wanted, **kept)
    problem = replace(problem, X=bags_for(model, problem.X))
    width = getattr(model, "n_features_in_", problem.X.n_features)
    if width != problem.X.n_features:
        raise ValueError(
            f"the bags have {problem.X.n_features} features, and the model was fitted"
            f" with {width}; `bagwise check` names the columns that differ"
        )
    return problem


def _class_names(model: Any) -> list[str]:
    """Return the classes, of two the positive one last."""
    names = [str(label) for label in np.asarray(model.classes_).tolist()]
    if own_positive(model) is not None:
        positive = np.asarray(model.classes_).tolist().index(own_positive(model))
        return names if positive == 1 else names[::-1]
    return names


def _codes(model: Any, problem: Problem) -> NDArray[np.int64]:
    """Return the number of the class of every bag, of two 1 for the positive one."""
    classes = np.asarray(model.classes_).tolist()
    text = {str(label): k for k, label in enumerate(classes)}
    exact = {label: k for k, label in enumerate(classes)}
    codes = np.empty(len(problem.y), dtype=np.int64)
    for i, label in enumerate(np.asarray(problem.y).tolist()):
        k = exact.get(label, text.get(str(label)))
        if k is None:
            shown = ", ".join(map(repr, classes[:6]))
            raise ValueError(
                f"bag {problem.X.ids[i]!s} has the label {label!r}, and the classes of"
                f" the model are {shown}; exclude such bags"
            )
        codes[i] = k
    if len(classes) == 2 and own_positive(model) == classes[0]:
        codes = 1 - codes
    return codes


def _rows(model: Any, problem: Problem, task: str) -> Arrays:
    """Return predictions and truth, of two classes toward the positive one."""
    X = problem.X
    if task == "regression":
        predicted = np.asarray(model.predict(X), dtype=np.float64)
        return {"truth": problem.targets, "prediction": predicted}
    if task == "survival":
        risk = np.asarray(model.predict(X), dtype=np.float64)
        return {"truth": np.asarray(problem.y), "score": risk}
    if task == "multilabel":
        parts = [predictions(one, X, np.arange(2)) for one in model.estimators_]
        if np.shape(problem.y) != (len(X), len(parts)):
            raise ValueError(f"y must have {len(parts)} columns, one for each label")
        names = [n for n in parts[0] if all(n in part for part in parts)]
        found = {n: np.column_stack([part[n] for part in parts]) for n in names}
        return {**found, "truth": np.asarray(problem.y, dtype=np.int64)}
    truth = _codes(model, problem)
    classes = np.asarray(model.classes_)
    found = dict(predictions(model, X, classes))
    found["label"] = found["label"].astype(np.int64)
    if len(classes) == 2 and own_positive(model) == classes[0]:
        found["score"] = -found["score"]
        found["label"] = 1 - found["label"]
        if "probability" in found:
            found["probability"] = 1.0 - found["probability"]
    return {**found, "truth": truth}


# Figures ------------------------------------------------------------------------------


def _contributions(
    rows: Arrays, metric: str, groups: Any, kept: Any = None
) -> Contributions | None:
    """Return a metric of the predictions, None where it is not defined."""
    if kept is not None:
        rows = {name: values[kept] for name, values in rows.items()}
        groups = None if groups is None else groups[kept]
    n = len(rows["truth"])
    if metric == "r2" and not (n and np.ptp(rows["truth"]) > 0):
        return None
    if not metric.startswith("group_"):
        return contributions(metric, rows, np.arange(n), groups=groups, fixed=True)
    if groups is None or rows["truth"].ndim > 1:
        return None
    n_classes = int(max(rows["truth"].max(), 1)) + 1
    if not GroupCounts.of(rows["truth"], groups, n_classes).enough:
        return None
    probability = "probability" in rows
    values = rows["probability" if probability else "score"]
    grouped = group_rows(rows["truth"], values, 0.5 if probability else 0.0, groups)
    if grouped is None:
        return None
    bag = np.arange(len(grouped["truth"]))
    return contributions(metric.removeprefix("group_"), grouped, bag, fixed=True)


def _figures(rows: Arrays, task: str, groups: Any) -> list[dict[str, Any]]:
    found = []
    for metric in METRICS.values():
        if task not in metric.tasks or metric.name == "key_success":
            continue
        figure = _contributions(rows, metric.name, groups)
        if figure is None or np.isnan(figure.value):
            continue
        row: dict[str, Any] = {"name": metric.name, "title": metric.title}
        row |= asdict(figure_interval(figure, metric.name))
        found.append({**row, "n_units": figure.n_units})
    return found


def _notes(
    problem: Problem, rows: Arrays, task: str, about: dict[str, Any]
) -> list[str]:
    notes = []
    n_groups = None
    if problem.groups is not None:
        n_groups = len(np.unique(problem.groups.astype(str)))
    reason = unreliable(len(problem.X), n_groups)
    if reason:
        notes.append(f"Intervals are unreliable: {reason}.")
    if task == "classification" and len(np.unique(rows["truth"])) < 2:
        notes.append("All bags are of one class: AUROC and others are not defined.")
    if not about:
        notes.append(
            "The model has no training record, and figures are not compared with"
            " cross-validation."
        )
    elif about.get("data_hash") == problem.hash():
        notes.append(
            "These are the bags that the model was fitted to: all figures are much too "
            "optimistic."
        )
    if about.get("n_groups") and problem.groups is None:
        notes.append(
            "The training bags have groups and these bags have none: if some belong"
            " together, intervals are too narrow. Name the groups (--group)."
        )
    return notes


# Two classes --------------------------------------------------------------------------


def _threshold(
    model: Any, threshold: float | None, sensitivity: float | None
) -> tuple[float, str]:
    if threshold is not None and sensitivity is not None:
        raise ValueError("threshold and sensitivity exclude each other")
    name = "probability" if hasattr(model, "predict_proba") else "score"
    if threshold is not None:
        if name == "probability" and not 0 <= threshold <= 1:
            raise ValueError(
                f"threshold is a probability between 0 and 1, got {threshold}"
            )
        if not np.isfinite(threshold):
            raise ValueError(f"threshold must be a finite score, got {threshold}")
        return float(threshold), "as given"
    if not 0 < sensitivity <= 1:  # type: ignore[operator]
        raise ValueError(
            f"sensitivity must be above 0 and at most 1, got {sensitivity}"
        )
    held = require_record(model, "a target sensitivity", "held_out").held_out
    if name not in held:
        raise ValueError(f"the held-out predictions of the model have no {name}")
    found = threshold_for(held["truth"], held[name], float(sensitivity or 0.0))
    n = int(np.sum(held["truth"] == 1))
    return found, f"sensitivity {sensitivity:g} on {n} held-out positive training bags"


def _operating(
    rows: Arrays, groups: Any, moved: float | None, chosen: str
) -> dict[str, Any]:
    truth, label = rows["truth"], rows["label"]
    shares = operating_point(truth, label, groups)
    counts = {
        "true positive": int(np.sum((truth == 1) & (label == 1))),
        "false positive": int(np.sum((truth == 0) & (label == 1))),
        "false negative": int(np.sum((truth == 1) & (label == 0))),
        "true negative": int(np.sum((truth == 0) & (label == 0))),
    }
    on = "probability" if "probability" in rows else "score"
    return {
        "threshold": moved,
        "on": on,
        "how": chosen,
        "shares": {name: asdict(one) for name, one in shares.items()},
        "counts": counts,
    }


def _confusion(rows: Arrays, n: int) -> list[list[int]]:
    counts = np.zeros((n, n), dtype=np.int64)
    np.add.at(counts, (rows["truth"], rows["label"]), 1)
    return counts.tolist()


def _roc(rows: Arrays) -> dict[str, Any] | None:
    truth, score = rows["truth"], rows.get("score", np.empty(0))
    if len(np.unique(truth)) < 2 or len(score) != len(truth):
        return None
    x, y, _ = roc_curve(truth, score)
    if len(x) > MOST_POINTS:
        at = np.linspace(0, len(x) - 1, MOST_POINTS).astype(int)
        x, y = x[at], y[at]
    return {"x": x.tolist(), "y": y.tolist()}


def _calibration(rows: Arrays, groups: Any) -> dict[str, Any] | None:
    if "probability" not in rows:
        return None
    p, truth = rows["probability"], rows["truth"]
    if p.ndim == 1:
        lines = calibration_line(truth, p, groups, values_are="probability")
        of = "the positive class"
        bins = calibration_bins(truth == 1, p)
    else:
        own = p[np.arange(len(p)), rows["label"]]
        bins, of, lines = (
            calibration_bins(truth == rows["label"], own),
            "the predicted class",
            {},
        )
    return {"of": of, "bins": bins, **{k: asdict(v) for k, v in lines.items()}}


# Values and times ---------------------------------------------------------------------


def _value_calibration(rows: Arrays, groups: Any) -> dict[str, Any]:
    lines = calibration_line(
        rows["truth"], rows["prediction"], groups, values_are="value"
    )
    return {"of": "values", "bins": [], **{k: asdict(v) for k, v in lines.items()}}


def _points(rows: Arrays) -> dict[str, Any]:
    at = np.arange(len(rows["truth"]))
    if len(at) > MOST_POINTS:
        at = np.linspace(0, len(at) - 1, MOST_POINTS).astype(int)
    order = np.argsort(rows["truth"], kind="stable")[at]
    return {"x": rows["prediction"][order].tolist(), "y": rows["truth"][order].tolist()}


def _risks(rows: Arrays, record: Any) -> tuple[dict[str, Any], list[str]]:
    """Return Kaplan-Meier curves of groups of risk, whose limits training has fixed."""
    risk, truth = rows["score"], rows["truth"]
    known = None if record is None else record.held_out.get("score")
    note = []
    if known is None:
        known = risk
        note.append(
            "The limits of the risk groups are thirds of these bags: the model has no"
            " held-out risks of training bags."
        )
    limits = np.quantile(known, [1 / 3, 2 / 3])
    code = np.searchsorted(limits, risk, side="right")
    event, time = truth["event"], truth["time"]
    ticks = np.linspace(0.0, float(time.max()), 6)
    curves = []
    for k, name in enumerate(RISKS):
        own = code == k
        if not own.any():
            continue
        x, share = kaplan_meier(event[own], time[own])
        curves.append(
            {
                "name": name,
                "n": int(own.sum()),
                "events": int(event[own].sum()),
                "x": x.tolist(),
                "y": share.tolist(),
                "at_risk": [int((time[own] >= t).sum()) for t in ticks],
            }
        )
    statistic, p = log_rank(event, time, code)
    return {
        "limits": limits.tolist(),
        "ticks": ticks.tolist(),
        "curves": curves,
        "log_rank": {"statistic": statistic, "p": p},
    }, note


# Another model, and subgroups ---------------------------------------------------------


def _against(
    other: Any,
    rows: Arrays,
    problem: Problem,
    task: str,
    groups: Any,
    skipped: tuple[str, ...],
) -> dict[str, Any]:
    if _task(other) != task:
        raise ValueError(f"the models predict different things: {task}, {_task(other)}")
    theirs = _rows(other, _problem(other, problem, None, task), task)
    if not np.array_equal(theirs["truth"], rows["truth"]):
        raise ValueError("the models have different classes or positive classes")
    variance = float(np.var(rows["truth"])) if task == "regression" else 1.0
    tests = []
    for metric in METRICS.values():
        if task not in metric.tasks or metric.name in ("key_success", *skipped):
            continue

        def figure(found: Arrays, name: str) -> Contributions | None:
            return _contributions(found, name, groups)

        test = _paired(metric.name, rows, theirs, figure, variance)
        if test is not None:
            shown = _contributions(theirs, metric.name, groups)
            mean = figure_interval(shown, metric.name)  # type: ignore[arg-type]
            row = {"name": metric.name, "title": metric.title, "other": asdict(mean)}
            tests.append({**row, **asdict(test)})
    found = record_of(other)
    name = None if found is None else found.about.get("method")
    return {"method": name or "the other model", "tests": tests}


def _paired(
    name: str, rows: Arrays, theirs: Arrays, figure: Any, variance: float
) -> Difference | None:
    tested = "rmse" if name == "r2" else name  # as in a ranking
    one, two = figure(rows, tested), figure(theirs, tested)
    if one is None or two is None or np.isnan(one.value + two.value):
        return None
    return paired_difference(name, one, two, variance)


def _subgroups(
    rows: Arrays, by: Mapping[str, Any], task: str, groups: Any
) -> list[dict[str, Any]]:
    n = len(rows["truth"])
    found = []
    for name, values in by.items():
        levels = np.asarray(values).astype(str)
        if levels.shape != (n,):
            raise ValueError(f"by[{name!r}] needs one entry for each of {n} bags")
        known = np.unique(levels)
        if len(known) > MOST_LEVELS:
            raise ValueError(
                f"{name!r} has {len(known)} different values, and subgroups are for at"
                f" most {MOST_LEVELS}"
            )
        for level in known:
            kept = levels == level
            row: dict[str, Any] = {"by": name, "level": str(level)}
            row["n_bags"] = int(kept.sum())
            if task == "classification":
                row["n_positive"] = int(np.sum(rows["truth"][kept] == 1))
            for metric in IN_SUBGROUPS[task]:
                figure = _contributions(rows, metric, groups, kept)
                row[metric] = asdict(Interval(np.nan, np.nan, np.nan))
                if figure is not None and not np.isnan(figure.value):
                    row[metric] = asdict(figure_interval(figure, metric))
            found.append(row)
    return found
