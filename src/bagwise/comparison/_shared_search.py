"""Tuning that shares work between candidates and inner folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

__all__ = ["gram_search", "path_search", "shares_gram", "shares_path"]

KERNEL_PARAMS = ("kernel", "gamma", "kernel_params")
PATH_PARAMS = {
    "gamma": "gammas",
    "rho": "rhos",
    "variance_weight": "variance_weights",
}


def shares_gram(model: Any) -> bool:
    """Tell whether `model` is an SVM on a named kernel between bags."""
    from bagwise import svm

    cls = getattr(svm, "BagSVC", None)
    return (
        cls is not None
        and type(model) is cls
        and isinstance(model.kernel, str)
        and model.kernel != "precomputed"
        and model.n_components is None
    )


def gram_search(
    model: Any,
    candidates: list[dict[str, list[Any]]],
    X: Any,
    y: NDArray[Any],
    splits: list[tuple[Any, Any]],
    scoring: Any,
) -> tuple[dict[str, Any], float]:
    """Return the best candidate and its score.

    The matrix of the training bags is evaluated once for each setting of the kernel;
    inner folds take its rows and columns. What a kernel learns without labels (its
    width, say) therefore comes from all training bags, never from test bags.
    """
    from bagwise.kernels._registry import fit_bag_kernel

    best: tuple[dict[str, Any], float] | None = None
    for grid in candidates:
        outer = {name: v for name, v in grid.items() if name in KERNEL_PARAMS}
        inner = {name: v for name, v in grid.items() if name not in KERNEL_PARAMS}
        for setting in ParameterGrid(outer):
            probe = clone(model).set_params(**setting)
            params = dict(probe.kernel_params or {})
            if probe.gamma is not None:
                params["gamma"] = probe.gamma
            K, _ = fit_bag_kernel(X, probe.kernel, params)
            on_matrix = clone(model).set_params(
                kernel="precomputed", gamma=None, kernel_params=None
            )
            search = GridSearchCV(
                on_matrix, inner, scoring=scoring, cv=splits, refit=False
            )
            search.fit(K, y)
            score = float(search.best_score_)
            if best is None or score > best[1] or np.isnan(best[1]):
                best = {**setting, **search.best_params_}, score
    assert best is not None
    return best


def shares_path(model: Any, candidates: list[dict[str, list[Any]]]) -> bool:
    """Tell whether `model` is SAFE and its cross-validation can share its work."""
    from bagwise import least_squares

    cls = getattr(least_squares, "SAFE", None)
    return (
        cls is not None
        and hasattr(least_squares, "SAFECV")
        and type(model) is cls
        and model.loss == "squared"
        and model.aggregation != "max"
        and model.variance_weight_abs is None
        and all(set(grid) <= {*PATH_PARAMS, "aggregation"} for grid in candidates)
    )


def path_search(
    model: Any,
    candidates: list[dict[str, list[Any]]],
    X: Any,
    y: NDArray[Any],
    splits: list[tuple[Any, Any]],
    scoring: Any,
) -> tuple[dict[str, Any], float]:
    """Return the best candidate and its score, on SAFE's paths of solutions.

    `SAFECV` gives the answer of a grid search on the same folds, with one kernel
    matrix for each width.
    """
    from bagwise.least_squares import SAFECV

    given = model.get_params(deep=False)
    taken = set(SAFECV().get_params(deep=False)) & set(given)
    common = {name: given[name] for name in taken}
    best: tuple[dict[str, Any], float] | None = None
    for grid in candidates:
        for aggregation in grid.get("aggregation", [model.aggregation]):
            axes = {
                axis: grid.get(name, [given[name]])
                for name, axis in PATH_PARAMS.items()
            }
            options = {**common, "aggregation": aggregation}
            search = SAFECV(**axes, **options, cv=splits, scoring=scoring)
            search.fit(X, y)
            score = float(search.best_score_)
            if best is None or score > best[1]:
                chosen = {k: v for k, v in search.best_params_.items() if k in grid}
                if "aggregation" in grid:
                    chosen["aggregation"] = aggregation
                best = chosen, score
    assert best is not None
    return best
