r"""Huber loss and maximum aggregation, by a sequence of least-squares problems.

Huber's loss with threshold :math:`\delta` is majorised at the residuals r by squares
with weights :math:`t_k = \min(1, \delta / |r_k|)`: each step decreases the objective.
The maximum of a bag is replaced by the score of its present witness, which is not a
majoriser: the objective may rise and witnesses may cycle, and the best is kept.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.bags.segments import segment_argmax, segment_max, segment_sum
from bagwise.least_squares.safe.problem import Fitted, witness_weights

_PATIENCE = 10


class Alternation(NamedTuple):
    """The best fit of an alternation and the objective after every step."""

    fitted: Fitted
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
            best, seen = None, set()  # another problem: earlier values do not compare
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
            # With squares a witness set seen before means a fixed point or a cycle;
            # Huber weights still move then, so wait until nothing is gained.
            idle = len(path) - 1 - int(np.argmin(path))
            stopped = known and (settled or not np.isfinite(delta) or idle >= _PATIENCE)
        else:
            stopped = settled
        if stopped:
            break
    if not stopped:
        warnings.warn(
            f"SAFE stopped after max_iter={settings.max_iter} steps before its "
            "objective settled. Increase max_iter or tol.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return Alternation(best[0]._replace(n_iter=len(path)), best[1], path)
