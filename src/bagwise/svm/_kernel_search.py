"""Scores of many candidates on the same folds, from one kernel matrix per kernel."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from bagwise.kernels.registry import fit_bag_kernel

KERNEL_PARAMS = ("kernel", "gamma", "kernel_params")


def candidate_scores(model, candidates, X, y, splits, scoring):
    """Return the mean score of every candidate, or None where nothing is shared.

    The matrix of the training bags is evaluated once for each setting of the kernel;
    folds take its rows and columns. What a kernel learns without labels (its width,
    say) therefore comes from all bags of `X`.

    Parameters
    ----------
    model : BagSVC
        What is tuned; unfitted.
    candidates : list of dict
        Parameters to try.
    X, y : Bags, ndarray
        Training bags and labels.
    splits : list of (train, test)
        Folds.
    scoring : str or callable
        As in scikit-learn.
    """
    probes = [clone(model).set_params(**params) for params in candidates]
    if not all(_has_matrix(probe, X) for probe in probes):
        return None
    groups: dict[str, list[int]] = {}
    for k, probe in enumerate(probes):
        setting = [getattr(probe, name) for name in KERNEL_PARAMS]
        groups.setdefault(repr(setting), []).append(k)
    found = np.empty(len(candidates))
    for mine in groups.values():
        probe = probes[mine[0]]
        K, _ = fit_bag_kernel(X, probe.kernel, probe._given_params())
        on_matrix = clone(model).set_params(
            kernel="precomputed", gamma=None, kernel_params=None
        )
        rest = [
            {n: [v] for n, v in candidates[k].items() if n not in KERNEL_PARAMS}
            for k in mine
        ]
        search = GridSearchCV(on_matrix, rest, scoring=scoring, cv=splits, refit=False)
        found[mine] = search.fit(K, y).cv_results_["mean_test_score"]
    return found


def _has_matrix(model, X):
    """Tell whether a named kernel between bags is evaluated exactly."""
    named = isinstance(model.kernel, str) and model.kernel != "precomputed"
    return named and model._n_explicit(X) is None
