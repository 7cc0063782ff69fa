"""Fit one method of a run: fill gaps, scale, tune, refit.

Everything that is learned comes from the training bags alone. Within them, work that
does not depend on the candidate is done once: the scaler is fitted once for all inner
folds, and an estimator may share more (a kernel matrix, a path of solutions) by a hook.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)

from bagwise.base import bag_folds
from bagwise.base.estimator import weight_arguments
from bagwise.base.folds import most_folds
from bagwise.comparison._search import Search, ends_of, expand, resolved
from bagwise.comparison.description import build_estimator, to_plain
from bagwise.comparison.evaluate import auroc, average_precision, predictions
from bagwise.compose import EncodeColumns, OneModelPerLabel, OnInstances

__all__ = ["IMPUTE", "TunedModel", "Preparation", "fit_method", "uncalibrated"]

CALIBRATION_FOLDS = 5
LEAST_TUNED, LEAST_OF_CLASS = 80, 15
OF_TUNING = "in fits of the tuning"
SCALES = ("standard", "clipped", "minmax", "l2", "none")
IMPUTE = ("median", "mean", "most_frequent")


@dataclass
class TunedModel:
    """A fitted pipeline, the parameters chosen for it, and what it cost.

    Parameters
    ----------
    model : Pipeline
        Steps `encode` (columns that are not numbers), `impute` (where gaps are filled),
        `scale` and `model`; one such pipeline
        for each label where bags have several.
    params : dict
        The chosen parameters.
    tune_score : float or None
        Their score in the inner cross-validation; None without tuning.
    tune_time, fit_time : float
        Seconds.
    grid_ends : dict
        "lower" or "upper" for every parameter whose value is at an end of its grid.
    notes : list of str
        What was warned about while candidates were scored, in a sentence each.
    """

    model: Any
    params: dict[str, Any] = field(default_factory=dict)
    tune_score: float | None = None
    tune_time: float = 0.0
    fit_time: float = 0.0
    grid_ends: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Preparation:
    """What is done to instances before a method sees them.

    Columns that are not numbers are encoded first.

    Parameters
    ----------
    scale : {"standard", "clipped", "minmax", "l2", "none"}
        Scaler.
    impute : {"median", "mean", "most_frequent"} or None
        How missing values are filled; indicator columns are added.
    """

    scale: str = "standard"
    impute: str | None = None

    def fit(self, X: Any) -> tuple[list[tuple[str, Any]], Any]:
        """Return the fitted steps and the prepared bags."""
        steps: list[tuple[str, Any]] = []
        if X.codings:
            steps.append(("encode", EncodeColumns()))
        if self.impute is not None:
            steps.append(("impute", make_imputer(self.impute)))
        steps.append(("scale", make_scaler(self.scale, sparse=X.is_sparse)))
        for _, step in steps:
            if not isinstance(step, str):
                X = step.fit_transform(X)
        return steps, X


def make_imputer(impute: str) -> Any:
    """Return the transformer of instances that fills missing values."""
    if impute not in IMPUTE:
        raise ValueError(f"unknown impute {impute!r}; known: {', '.join(IMPUTE)}")
    filler = SimpleImputer(
        strategy=impute, add_indicator=True, keep_empty_features=True
    )
    return OnInstances(filler)


def make_scaler(scale: str, *, sparse: bool) -> Any:
    """Return the transformer of instances that `scale` names.

    "clipped" is "standard" within the range of the training instances. Sparse instances
    are never centered: both leave them as they are (they are counts or tf-idf weights
    as a rule), and "minmax" divides by the largest value.
    """
    if scale not in SCALES:
        raise ValueError(f"unknown scale {scale!r}; known: {', '.join(SCALES)}")
    if scale == "none" or (sparse and scale in ("standard", "clipped")):
        return "passthrough"
    if scale == "l2":
        return OnInstances(Normalizer())
    if scale in ("standard", "clipped"):
        return OnInstances(StandardScaler(), clip=scale == "clipped")
    return OnInstances(MaxAbsScaler() if sparse else MinMaxScaler())


def fit_method(
    estimator: Mapping[str, Any],
    X: Any,
    y: NDArray[Any],
    *,
    scale: str = "standard",
    impute: str | None = None,
    grid: Any = None,
    tuning: Mapping[str, Any] | None = None,
    random_state: int = 0,
    calibrate: bool = False,
    pos_label: Any = None,
    sample_weight: NDArray[np.float64] | None = None,
) -> TunedModel:
    """Scale, tune by inner cross-validation, and fit on all given bags.

    Parameters
    ----------
    estimator : dict
        Description of the estimator, see `describe_estimator`.
    X : Bags
        Training bags; groups that they carry stay together in inner folds.
    y : ndarray of shape (n_bags,) or (n_bags, n_labels)
        Training labels or values; several labels have a model each.
    scale : {"standard", "clipped", "minmax", "l2", "none"}
        Scaler of the instances.
    impute : {"median", "mean", "most_frequent"}, optional
        How missing values are filled.
    grid : dict or list of dict, optional
        Candidates, as for :class:`~sklearn.model_selection.GridSearchCV`.
    tuning : dict, optional
        ``{"n_splits": 3, "scoring": "accuracy"}``; no tuning when None. With
        ``"extend": True`` a grid is extended while the best value is at its end;
        ``"later"`` names parameters that are tuned after the others;
        ``"max_instances"`` limits the training bags that the candidates see.
    random_state : int
        Fixes the inner splits and the estimator.
    calibrate : bool
        Whether to turn decision values into probabilities by a sigmoid that is fitted
        to out-of-fold values of the training bags.
    pos_label : label, optional
        The positive one of two classes, for estimators that ask.
    sample_weight : ndarray of shape (n_bags,), optional
        Weights of the training bags, for estimators that take them; the preparation of
        instances and in the inner scores all bags have the same weight.

    Returns
    -------
    TunedModel
        The pipeline and the chosen parameters.
    """
    started = time.perf_counter()
    steps, prepared = Preparation(scale, impute).fit(X)
    prepare_time = time.perf_counter() - started
    model = build_estimator(estimator, random_state)
    if pos_label is not None:
        model = with_pos_label(model, pos_label)
    weights = weight_arguments(model, sample_weight)
    how = (grid, tuning, random_state, calibrate and is_classifier(model), weights)
    if y.ndim == 2 and not is_regressor(model):
        parts = [_fit_one(model, prepared, column, *how) for column in y.T]
        result = _join(parts, steps)
    else:
        result = _fit_one(model, prepared, y, *how)
        result.model = Pipeline([*steps, ("model", result.model)])
    result.fit_time += prepare_time
    return result


def with_pos_label(model: Any, pos_label: Any) -> Any:
    """Set the positive class in every part that has the parameter."""
    params = model.get_params(deep=True)
    asked = [
        name
        for name, value in params.items()
        if name.rpartition("__")[2] == "pos_label" and value is None
    ]
    return model.set_params(**dict.fromkeys(asked, pos_label))


def _join(parts: list[TunedModel], steps: list[tuple[str, Any]]) -> TunedModel:
    """Put the models of several labels together; the preparation is shared."""
    models = [Pipeline([*steps, ("model", part.model)]) for part in parts]
    scores = [part.tune_score for part in parts if part.tune_score is not None]
    named = {
        f"{name} (label {k})": value
        for k, part in enumerate(parts)
        for name, value in part.params.items()
    }
    ends = {
        f"{name} (label {k})": end
        for k, part in enumerate(parts)
        for name, end in part.grid_ends.items()
    }
    return TunedModel(
        OneModelPerLabel.of(models),
        named,
        float(np.mean(scores)) if scores else None,
        sum(part.tune_time for part in parts),
        sum(part.fit_time for part in parts),
        ends,
        list(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _fit_one(
    model: Any,
    X: Any,
    y: NDArray[Any],
    grid: Any,
    tuning: Mapping[str, Any] | None,
    random_state: int,
    calibrate: bool,
    weights: dict[str, NDArray[np.float64]],
) -> TunedModel:
    candidates = expand(grid)
    started = time.perf_counter()
    best, score = candidates[0], None
    notes: list[str] = []
    if tuning is not None and len(candidates) > 1:
        search = _search(model, X, y, tuning, random_state, weights)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            best, score = search.best(candidates, extend=bool(tuning.get("extend")))
        notes = _of_candidates(caught)
    tuned = time.perf_counter()
    chosen = resolved(best, X, random_state)
    fitted = clone(model).set_params(**chosen).fit(X, y, **weights)
    if calibrate:
        fitted = _calibrated(fitted, X, y, random_state, weights)
    return TunedModel(
        fitted,
        to_plain(chosen),
        score,
        tuned - started,
        time.perf_counter() - tuned,
        {} if score is None else ends_of(best),
        notes,
    )


def _search(
    model: Any,
    X: Any,
    y: NDArray[Any],
    tuning: Mapping[str, Any],
    random_state: int,
    weights: dict[str, NDArray[np.float64]],
) -> Search:
    """Return the search, of large data on a part of the training bags."""
    # Continuous values that happen to be whole numbers are not classes.
    table = y[:, None] if is_regressor(model) and y.ndim == 1 else y
    if y.dtype.names is not None:  # each fold gets its share of events
        table = y["event"]
    part = part_for_tuning(X, table, tuning, random_state)
    if part is not None:
        X, y, table = X[part], y[part], table[part]
        weights = {name: values[part] for name, values in weights.items()}
    splits = bag_folds(X, table, tuning["n_splits"], random_state)
    scoring, later = scorer(tuning["scoring"]), tuning.get("later", ())
    return Search(model, X, y, table, splits, scoring, random_state, weights, later)


def part_for_tuning(
    X: Any, strata: NDArray[Any], tuning: Mapping[str, Any], random_state: int
) -> NDArray[np.intp] | None:
    """Return the bags that tuning sees, or None for all.

    About as many as have the number of instances that `tuning` allows, but no fewer
    than `LEAST_TUNED`, and `LEAST_OF_CLASS` of each class; whole groups.
    """
    limit = tuning.get("max_instances")
    if limit is None or X.n_instances <= limit:
        return None
    rarest = most_folds(X, strata, X.n_bags)
    most = min(X.n_bags / LEAST_TUNED, rarest / LEAST_OF_CLASS)
    n_parts = round(min(X.n_instances / limit, most))
    if n_parts < 2:
        return None
    _, part = bag_folds(X, strata, n_parts, random_state)[0]
    return np.sort(part)


def _of_candidates(caught: list[warnings.WarningMessage]) -> list[str]:
    """Sum up the warnings of fits that were tried; the chosen one warns again."""
    counts: dict[str, int] = {}
    for one in caught:
        kind = one.category.__name__
        counts[kind] = counts.get(kind, 0) + 1
    return [f"{kind}: {n} {OF_TUNING}" for kind, n in counts.items()]


def _calibrated(
    model: Any,
    X: Any,
    y: NDArray[Any],
    random_state: int,
    weights: dict[str, NDArray[np.float64]],
) -> Any:
    """Fit the sigmoid on out-of-fold values; the model itself is that of all bags."""
    folds = bag_folds(X, y, most_folds(X, y, CALIBRATION_FOLDS), random_state)
    plain, twin = clone(model), clone(model)
    classes = np.asarray(model.classes_)
    named = {
        name: int(np.flatnonzero(classes == value)[0])
        for name, value in twin.get_params(deep=True).items()
        if name.rpartition("__")[2] == "pos_label" and value in classes.tolist()
    }
    if not named:
        return CalibratedClassifierCV(plain, cv=folds, ensemble=False).fit(
            X, y, **weights
        )
    # Out-of-fold models get indices of classes instead of labels and would not find the
    # positive class: all are fitted to indices, and the model is replaced by ours.
    twin.set_params(**named)
    wrapped = CalibratedClassifierCV(twin, cv=folds, ensemble=False)
    wrapped.fit(X, np.searchsorted(classes, y), **weights)
    (inner,) = wrapped.calibrated_classifiers_
    inner.estimator, inner.classes = model, classes
    wrapped.estimator, wrapped.classes_ = plain, classes
    return wrapped


def uncalibrated(model: Any) -> Any:
    """Return the model inside a calibrator, or the model itself."""
    inner = getattr(model, "calibrated_classifiers_", None)
    return inner[0].estimator if inner is not None and len(inner) == 1 else model


def scorer(name: str) -> Any:
    """Return the inner scorer; areas work from decision values of any kind."""
    own = {"roc_auc": roc_auc, "average_precision": mean_precision}
    own["concordance"] = concordance_score
    return own.get(name, name)


def concordance_score(model: Any, X: Any, y: NDArray[Any]) -> float:
    """Score a fitted model of survival by the order of its risks."""
    return float(model.score(X, y))


def roc_auc(model: Any, X: Any, y: NDArray[Any]) -> float:
    """Score a fitted model by AUROC, macro-averaged over more than two classes."""
    return _by_score(auroc, model, X, y)


def mean_precision(model: Any, X: Any, y: NDArray[Any]) -> float:
    """Score a fitted model by average precision, macro-averaged likewise."""
    return _by_score(average_precision, model, X, y)


def _by_score(metric: Any, model: Any, X: Any, y: NDArray[Any]) -> float:
    classes = np.asarray(model.classes_)
    found = predictions(model, X, classes)
    truth, score = np.searchsorted(classes, y), found["score"]
    if len(classes) == 2 and getattr(model, "pos_label", None) == classes[0]:
        truth, score = 1 - truth, -score
    return float(metric(truth, score))
