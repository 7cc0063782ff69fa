"""From the training bags to a solution: the choice of the solver and its problem."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.bags.segments import repeat, segment_argmax, segment_max, segment_sum
from bagwise.least_squares._safe_kernel import KernelBorder, KernelSolver
from bagwise.least_squares.safe_moments import (
    FeatureMap,
    FeatureSolver,
    IdentityFeatures,
    MomentBorder,
    MomentSystem,
    project,
)
from bagwise.least_squares.safe_problem import (
    LeastSquaresFit,
    instance_variance,
    row_namer,
    witness_weights,
)

_PATIENCE = 10
# Bags this many times as large as the median one are worth a warning.
_HUGE = 300


class BestFit(NamedTuple):
    """The best fit of an alternation and the objective after every step."""

    fitted: LeastSquaresFit
    objective: float
    path: list


def huber(residual, delta):
    """Huber's loss; `delta` infinite gives half the square."""
    size = np.abs(residual)
    if not np.isfinite(delta):
        return 0.5 * size**2
    small = 0.5 * size**2
    return np.where(size <= delta, small, delta * (size - 0.5 * delta))


def alternate(solver, y, residual, *, settings):
    """Fit one target with Huber's loss and / or the maximum of instance scores.

    Parameters
    ----------
    solver : KernelSolver or FeatureSolver
        Solves the least-squares problems.
    y : ndarray of shape (n_bags,)
        Target of each bag.
    residual : ndarray of shape (n_bags,)
        Residual weights (rho times the bag's weight).
    settings : Settings
        Their `rule` gives gamma, which may only fall from step to step, because
        smaller weights lower gamma_max.
    """
    offsets, tol, rule = solver.offsets, settings.tol, settings.rule
    pooled = settings.aggregation == "max"
    delta = settings.delta if settings.loss == "huber" else np.inf
    weight = settings.aggregation_weight(offsets)
    trust = np.ones_like(y)
    best, path, seen, stopped = None, [], set(), False
    for _ in range(settings.max_iter):
        fitted = solver.solve(weight, residual * trust, y[:, None], rule)
        if fitted.gamma < rule.cap and rule.cap < np.inf:
            best, seen = None, set()  # a new problem: earlier values are not comparable
        rule = rule.capped(fitted.gamma) if fitted.gamma > 0 else rule
        e = fitted.scores[:, 0]
        bag = segment_max(e, offsets) if pooled else segment_sum(weight * e, offsets)
        loss = residual @ huber(bag - y, delta)
        value = 0.5 * fitted.norm2[0] + loss
        value -= 0.5 * fitted.gamma * (solver.variance @ e**2)
        previous = path[-1] if path else np.inf
        path.append(float(value))
        if best is None or value < best[1]:
            best = (fitted, float(value))
        if np.isfinite(delta):
            size = np.maximum(np.abs(bag - y), np.finfo(np.float64).tiny)
            trust = np.minimum(1.0, delta / size)
        settled = abs(previous - value) <= tol * max(abs(value), 1e-300)
        if pooled:
            witnesses = segment_argmax(e, offsets)
            key = witnesses.tobytes()
            known = key in seen
            seen.add(key)
            weight = witness_weights(witnesses, offsets)
            # With squared loss, a repeated witness set means a fixed point or a cycle;
            # Huber weights still change then, so wait until nothing is gained.
            idle = len(path) - 1 - int(np.argmin(path))
            stopped = known and (settled or not np.isfinite(delta) or idle >= _PATIENCE)
        else:
            stopped = settled
        if stopped:
            break
    if not stopped:
        warnings.warn(
            f"SAFE stopped after max_iter={settings.max_iter} steps before its "
            "objective converged. Increase max_iter or tol.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return BestFit(best[0]._replace(n_iter=len(path)), best[1], path)


@dataclass
class SAFESolution:
    """What a fit found. Coefficients have one row for each output."""

    kernel_gamma: float
    core: str
    rho: float
    gamma: float
    gamma_max: float | None  # None: not needed yet, computed by `border`
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
    _warn_of_huge_bags(settings, training.X)
    settings = settings.resolved(training.X, training.weight)
    Y = training.columns @ targets.mix(training.totals)
    if not settings.uses_features(training.X):
        found = _fit_kernel(settings, training, Y)
    else:
        chosen = FeatureMap.of(settings, training.X, training.weight)
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


def _warn_of_huge_bags(settings, X):
    """Warn where one bag is so large that sums over bags are not comparable."""
    largest, typical = X.sizes.argmax(), np.median(X.sizes)
    if settings.aggregation == "sum" and X.sizes[largest] > _HUGE * typical:
        warnings.warn(
            f"bag {X.ids[largest]} has {X.sizes[largest]} instances, but half of the "
            f"bags have at most {typical:g}: sums over such different bags are not "
            "comparable. Use aggregation='mean'.",
            UserWarning,
            stacklevel=5,
        )


def solve_moments(settings, features, moments, targets):
    """Solve from moments alone, wherever they were summed."""
    rho = settings.absolute_rho(moments.relative_scale())
    system = MomentSystem(moments.bag, moments.instance, rho)
    gamma, bound = settings.rule(system.gamma_max)
    totals = moments.target[:, -1]
    theta = system.solve(moments.target.T @ targets.mix(totals), gamma)
    return SAFESolution(
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
    residual = found.rho * training.weight
    if solver.primal:
        found.coef = solver.primal_coef(found.dual_coef)
        found.features = IdentityFeatures(training.X.n_features)
        if found.gamma_max is None and solver.variance_known:
            weight = settings.aggregation_weight(training.X.offsets)
            found.gamma_max = solver.gamma_max(weight, residual)
    else:
        found.X_fit = training.X.data
        found.border = KernelBorder(settings, training.X, training.weight, residual)
    return found


def _fit_feature_alternation(chosen, training, Y):
    solver = FeatureSolver(chosen, training)
    found = _solve(chosen.settings, solver, training, Y)
    found.features = chosen.features
    if found.gamma_max is None:
        weight = chosen.settings.aggregation_weight(training.X.offsets)
        found.gamma_max = solver.gamma_max(weight, found.rho * training.weight)
    return found


def _solve(settings, solver, training, Y):
    """Ask a solver for all outputs: one problem, or an alternation for each."""
    rho = settings.absolute_rho(solver.unit)
    residual = rho * training.weight
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
    return SAFESolution(
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
    residual = found.rho * training.weight[:, None]
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
