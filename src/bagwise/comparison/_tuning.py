"""Fit one method of a run: scale, tune, refit.

Scaler and tuning see the training bags alone. Within them, work that does not depend
on the candidate is done once: the scaler is fitted once for all inner folds, and an
estimator may share more (a kernel matrix, a path of solutions) by a hook.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)

from bagwise.base import bag_folds, most_folds
from bagwise.comparison._description import build_estimator, build_value, to_plain
from bagwise.comparison._evaluate import auroc, predictions
from bagwise.compose import OnInstances
from bagwise.kernels import resolve_gamma

__all__ = ["Fitted", "fit_method", "uncalibrated"]

CALIBRATION_FOLDS = 5
SCALES = ("standard", "minmax", "l2", "none")


@dataclass
class Fitted:
    """A fitted pipeline, the parameters chosen for it, and what it cost."""

    model: Pipeline
    params: dict[str, Any] = field(default_factory=dict)
    tune_score: float | None = None
    tune_time: float = 0.0
    fit_time: float = 0.0


def make_scaler(scale: str, *, sparse: bool) -> Any:
    """Return the transformer of instances that `scale` names.

    Sparse instances are never centred: "standard" leaves them as they are (they are
    counts or tf-idf weights as a rule), and "minmax" divides by the largest value.
    """
    if scale not in SCALES:
        raise ValueError(f"unknown scale {scale!r}; known: {', '.join(SCALES)}")
    if scale == "none" or (sparse and scale == "standard"):
        return "passthrough"
    if scale == "l2":
        return OnInstances(Normalizer())
    if scale == "standard":
        return OnInstances(StandardScaler())
    return OnInstances(MaxAbsScaler() if sparse else MinMaxScaler())


def fit_method(
    estimator: Mapping[str, Any],
    X: Any,
    y: NDArray[Any],
    *,
    scale: str = "standard",
    grid: Any = None,
    tuning: Mapping[str, Any] | None = None,
    seed: int = 0,
    calibrate: bool = False,
) -> Fitted:
    """Scale, tune by inner cross-validation, and fit on all given bags.

    Parameters
    ----------
    estimator : dict
        Description of the estimator, see `describe_estimator`.
    X : Bags
        Training bags.
    y : ndarray of shape (n_bags,)
        Training labels.
    scale : {"standard", "minmax", "l2", "none"}
        Scaler of the instances.
    grid : dict or list of dict, optional
        Candidates, as for :class:`~sklearn.model_selection.GridSearchCV`.
    tuning : dict, optional
        ``{"n_splits": 3, "scoring": "accuracy"}``; no tuning when None.
    seed : int
        Fixes the inner splits and the estimator.
    calibrate : bool
        Whether to turn decision values into probabilities by a sigmoid that is fitted
        to out-of-fold values of the training bags.

    Returns
    -------
    Fitted
        The pipeline (`scale`, `model`) and the chosen parameters.
    """
    started = time.perf_counter()
    scaler = make_scaler(scale, sparse=X.is_sparse)
    scaled = X if isinstance(scaler, str) else scaler.fit_transform(X)
    scale_time = time.perf_counter() - started
    candidates = list(ParameterGrid(_candidates(grid, scaled, seed)))
    if tuning is None or len(candidates) < 2:
        started = time.perf_counter()
        model = build_estimator(estimator, seed)
        chosen = candidates[0]
        model = model.set_params(**chosen).fit(scaled, y)
        fit_time = time.perf_counter() - started + scale_time
        result = Fitted(model, to_plain(chosen), None, 0.0, fit_time)
    else:
        result = _search(estimator, candidates, scaled, y, tuning, seed)
        result.fit_time += scale_time
    if calibrate and is_classifier(result.model):
        started = time.perf_counter()
        result.model = _calibrated(result.model, scaled, y, seed)
        result.fit_time += time.perf_counter() - started
    steps = [("scale", scaler), ("model", result.model)]
    result.model = Pipeline(steps)
    return result


def _calibrated(model: Any, X: Any, y: NDArray[Any], seed: int) -> Any:
    """Fit the sigmoid on out-of-fold values; the model itself is that of all bags."""
    folds = bag_folds(X, y, most_folds(X, y, CALIBRATION_FOLDS), seed)
    wrapped = CalibratedClassifierCV(clone(model), cv=folds, ensemble=False)
    return wrapped.fit(X, y)


def uncalibrated(model: Any) -> Any:
    """Return the model inside a calibrator, or the model itself."""
    inner = getattr(model, "calibrated_classifiers_", None)
    return inner[0].estimator if inner is not None and len(inner) == 1 else model


def _candidates(grid: Any, X: Any, seed: int) -> list[dict[str, list[Any]]]:
    grids = [grid] if isinstance(grid, Mapping) else list(grid or [{}])
    return [
        {
            name: [build_value(_width(value, X), seed) for value in values]
            for name, values in each.items()
        }
        for each in grids
    ]


def _width(value: Any, X: Any) -> Any:
    """Resolve ``{"gamma": "scale", "times": 4}`` on the (scaled) training bags."""
    if isinstance(value, Mapping) and set(value) == {"gamma", "times"}:
        return float(value["times"] * resolve_gamma(value["gamma"], X.data))
    return value


def _search(
    estimator: Mapping[str, Any],
    candidates: list[dict[str, Any]],
    X: Any,
    y: NDArray[Any],
    tuning: Mapping[str, Any],
    seed: int,
) -> Fitted:
    splitter = StratifiedKFold(tuning["n_splits"], shuffle=True, random_state=seed)
    splits = list(splitter.split(np.zeros(len(y)), y))
    model = build_estimator(estimator, seed)
    started = time.perf_counter()
    scores = score_candidates(
        model, candidates, X, y, splits, scorer(tuning["scoring"])
    )
    best = int(np.nanargmax(scores))
    tuned = time.perf_counter()
    model = clone(model).set_params(**candidates[best]).fit(X, y)
    return Fitted(
        model,
        to_plain(candidates[best]),
        float(scores[best]),
        tuned - started,
        time.perf_counter() - tuned,
    )


def score_candidates(
    model: Any,
    candidates: list[dict[str, Any]],
    X: Any,
    y: NDArray[Any],
    splits: list[tuple[Any, Any]],
    scoring: Any,
) -> NDArray[np.float64]:
    """Return the mean score of every candidate over the folds, NaN where it failed.

    An estimator that can share work between candidates has a method
    ``_score_candidates`` with these arguments; where it returns None, or is missing,
    every candidate is fitted on every fold.

    Parameters
    ----------
    model : estimator
        What is tuned; unfitted.
    candidates : list of dict
        Parameters to try.
    X, y : Bags, ndarray
        Bags and labels.
    splits : list of (train, test)
        Folds.
    scoring : str or callable
        As in scikit-learn.
    """
    if hasattr(model, "_score_candidates"):
        shared = model._score_candidates(candidates, X, y, splits, scoring)
        if shared is not None:
            return np.asarray(shared, dtype=np.float64)
    grid = [{name: [value] for name, value in one.items()} for one in candidates]
    search = GridSearchCV(model, grid, scoring=scoring, cv=splits, refit=False)
    try:
        search.fit(X, y)
    except ValueError as error:
        text = str(error).strip()
        if "fits failed" not in text:
            raise
        last = text.splitlines()[-1]
        raise ValueError(f"every candidate of the grid failed, with {last}") from error
    return np.asarray(search.cv_results_["mean_test_score"], dtype=np.float64)


def scorer(name: str) -> Any:
    """Return the inner scorer; "roc_auc" works from decision values of any kind."""
    return roc_auc if name == "roc_auc" else name


def roc_auc(model: Any, X: Any, y: NDArray[Any]) -> float:
    """Score a fitted model by AUROC, macro-averaged over more than two classes."""
    classes = np.asarray(model.classes_)
    found = predictions(model, X, classes)
    truth = np.searchsorted(classes, y)
    return auroc(truth, found["score"])
