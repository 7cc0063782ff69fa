"""Decision values of left-out bags for whole grids, from moments of explicit features.

Moments add and subtract: those of a training fold are all minus those of its test bags
wherever weights do not depend on the fold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bagwise._sizes import check_memory
from bagwise.least_squares.safe.features import features_from
from bagwise.least_squares.safe.moments import FeatureMap, MomentSystem
from bagwise.least_squares.safe.problem import Training


def moment_decisions(
    settings, training, targets, folds, gammas, rhos, shares, *, fixed
):
    """Yield [share][fold][rho] -> decisions on left-out bags for every kernel width.

    Parameters
    ----------
    settings : Settings
        Everything but the grid.
    training : Training
        All bags.
    targets : LabelTargets
        How targets follow from the columns.
    folds : list of Fold
        The splits.
    gammas, rhos, shares : sequences
        The grid.
    fixed : bool
        Whether class weights are the same in all folds.
    """
    X = training.X
    for gamma in gammas:
        one = replace(settings, gamma=gamma).resolved(X, training.count)
        chosen = FeatureMap(one, features_from(one, X))
        check_memory(
            8.0 * X.n_bags * (chosen.features.n_features_out + 1),
            f"The features of {X.n_bags} bags",
            "Set a smaller n_components.",
        )
        sums = chosen.bag_sums(X, one.aggregation_weight(X.offsets))
        needed = any(share > 0 for share in shares)
        moments = _training_moments(chosen, training, folds, needed, fixed)
        yield _fold_decisions(one, moments, targets, sums, folds, rhos, shares)


def _training_moments(chosen, training, folds, needed, fixed):
    """Moments of the training bags: all minus test where that is what they are."""
    ksc = needed and chosen.settings.core == "ksc"
    whole = None
    out = []
    for fold in folds:
        complement = len(fold.train) + len(fold.test) == training.X.n_bags
        if fixed and not ksc and complement:
            if whole is None:
                whole = chosen.moments(training, instance=needed)
            left = chosen.moments(training[fold.test], instance=needed)
            out.append(whole - left)
            continue
        part = Training(
            training.X[fold.train],
            training.columns[fold.train],
            fold.count,
            fold.loss_weight,
        )
        mine = FeatureMap(chosen.settings, chosen.features)
        if ksc:
            mine.total = mine.sum(part.X, part.count)
        out.append(mine.moments(part, instance=needed))
    return out


def _fold_decisions(settings, moments, targets, sums, folds, rhos, shares):
    out = [[[None] * len(rhos) for _ in folds] for _ in shares]
    for j, (fold, mine) in enumerate(zip(folds, moments, strict=True)):
        right = mine.target.T @ targets.mix(mine.target[:, -1])
        unit = mine.relative_scale() if settings.rho_scale == "relative" else 1.0
        for r, rho in enumerate(rhos):
            system = MomentSystem(mine.bag, mine.instance, rho / unit)
            bound = system.gamma_max() if any(share > 0 for share in shares) else 0.0
            bound = bound if np.isfinite(bound) else 0.0
            for g, share in enumerate(shares):
                theta = system.solve(right, share * bound)
                out[g][j][r] = sums[fold.test] @ theta
    return out
