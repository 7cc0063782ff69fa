"""From the training bags to a solution: which solver, and what it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.bags.segments import repeat, segment_sum
from bagwise.least_squares.safe._alternate import alternate
from bagwise.least_squares.safe._kernel import KernelBorder, KernelSolver
from bagwise.least_squares.safe.features import IdentityFeatures, project
from bagwise.least_squares.safe.moments import (
    FeatureMap,
    FeatureSolver,
    MomentBorder,
    MomentSystem,
)
from bagwise.least_squares.weights import instance_variance, row_namer


@dataclass
class Solution:
    """What a fit found. Coefficients have one row for each output."""

    kernel_gamma: float
    core: str
    rho: float
    gamma: float
    gamma_max: float | None  # None: not needed so far, `border` knows it
    n_iter: int
    intercept: np.ndarray
    coef: np.ndarray | None = None
    dual_coef: np.ndarray | None = None
    features: Any = None
    X_fit: Any = None
    moments: Any = None
    border: Any = None
    objective: np.ndarray | None = None
    objective_path: list | None = None


def fit_bags(settings, training, targets):
    """Fit on bags that are all at hand.

    Parameters
    ----------
    settings : Settings
        The parameters.
    training : Training
        Bags, columns and weights.
    targets : LabelTargets or ValueTargets
        How targets follow from the columns.
    """
    settings = settings.resolved(training.X, training.count)
    Y = training.columns @ targets.mix(training.totals)
    if not settings.uses_features(training.X):
        found = _fit_kernel(settings, training, Y)
    else:
        chosen = FeatureMap.of(settings, training.X, training.count)
        if settings.iterates:
            found = _fit_feature_alternation(chosen, training, Y)
        else:
            moments = chosen.moments_if_possible(training)
            found = solve_moments(settings, chosen.features, moments, targets)
            if isinstance(chosen.features, IdentityFeatures):
                found.dual_coef = _linear_dual(chosen, found, training, targets, Y)
            return found
    found.intercept = found.intercept + targets.shift(training.totals)
    return found


def solve_moments(settings, features, moments, targets):
    """Solve from moments alone, wherever they were summed."""
    rho = settings.absolute_rho(moments.relative_scale())
    system = MomentSystem(moments.bag, moments.instance, rho)
    gamma, bound = settings.rule(system.gamma_max)
    totals = moments.target[:, -1]
    theta = system.solve(moments.target.T @ targets.mix(totals), gamma)
    return Solution(
        settings.gamma,
        settings.core,
        rho,
        gamma,
        bound,
        1,
        theta[-1] + targets.shift(totals),
        coef=theta[:-1].T,
        features=features,
        moments=moments,
        border=MomentBorder(moments, rho),
    )


def _fit_kernel(settings, training, Y):
    solver = KernelSolver(settings, training)
    found = _solve(settings, solver, training, Y)
    found.dual_coef = found.coef
    found.coef = None
    residual = found.rho * training.loss_weight
    if solver.primal:
        found.coef = solver.primal_coef(found.dual_coef)
        found.features = IdentityFeatures(training.X.n_features)
        if found.gamma_max is None and solver.variance_known:
            weight = settings.aggregation_weight(training.X.offsets)
            found.gamma_max = solver.gamma_max(weight, residual)
    else:
        found.X_fit = training.X.data
        found.border = KernelBorder(settings, training.X, training.count, residual)
    return found


def _fit_feature_alternation(chosen, training, Y):
    solver = FeatureSolver(chosen, training)
    found = _solve(chosen.settings, solver, training, Y)
    found.features = chosen.features
    if found.gamma_max is None:
        weight = chosen.settings.aggregation_weight(training.X.offsets)
        found.gamma_max = solver.gamma_max(weight, found.rho * training.loss_weight)
    return found


def _solve(settings, solver, training, Y):
    """Ask a solver for all outputs: one problem, or an alternation for each."""
    rho = settings.absolute_rho(solver.unit)
    residual = rho * training.loss_weight
    objective = path = None
    if settings.iterates:
        runs = [
            alternate(solver, column, residual, settings=settings) for column in Y.T
        ]
        objective = np.array([run.objective for run in runs])
        path = [run.path for run in runs]
        fits = [run.fitted for run in runs]
    else:
        weight = settings.aggregation_weight(training.X.offsets)
        fits = [solver.solve(weight, residual, Y, settings.rule)]
    bounds = [one.gamma_max for one in fits if one.gamma_max is not None]
    return Solution(
        settings.gamma,
        settings.core,
        rho,
        float(min(one.gamma for one in fits)),
        float(min(bounds)) if bounds else None,
        max(one.n_iter for one in fits),
        np.concatenate([one.intercept for one in fits]),
        coef=np.hstack([one.coef for one in fits]).T,
        objective=objective,
        objective_path=path,
    )


def _linear_dual(chosen, found, training, targets, Y):
    """Dual coefficients alpha = J R (y - J'e) + gamma V e of the linear kernel."""
    X = training.X
    b = found.intercept - targets.shift(training.totals)
    e = project(chosen.features, X, np.vstack([found.coef.T, b]))
    weight = chosen.settings.aggregation_weight(X.offsets)[:, None]
    gap = Y - segment_sum(weight * e, X.offsets)
    residual = found.rho * training.loss_weight[:, None]
    alpha = weight * repeat(residual * gap, X.offsets)
    if found.gamma > 0:
        degrees = None
        if chosen.total is not None:
            theta = np.append(chosen.total[:-1], 0.0)[:, None]
            degrees = project(chosen.features, X, theta)[:, 0]
        v = instance_variance(
            chosen.settings.core, degrees, training.rows, row_namer(X)
        )
        alpha += found.gamma * v[:, None] * e
    return alpha.T
