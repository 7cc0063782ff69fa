"""Tuning with one kernel matrix for all inner folds and all values of ``C``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

__all__ = ["gram_search", "shares_gram"]

KERNEL_PARAMS = ("kernel", "gamma", "kernel_params")


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
