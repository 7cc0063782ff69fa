"""Minimax relaxation over key-instance choices: active set, Newton, certificates.

The problem is (with the notation of `MIODM`)

    min over mixtures v of choices   max over delta   conj(delta) - sum_k v_k q_k / 2

where ``q_k`` is the squared norm of the weight vector of choice k. Only a few choices
carry weight: a search adds the most violated ones, a restricted solver finds the best
mixture of those at hand.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from bagwise.bags.segments import segment_argmax
from bagwise.solvers.margin_distribution import OdmLoss, solve_odm
from bagwise.solvers.pace import paced
from bagwise.solvers.simplex import simplex_quadratic

_HEAVY_STARTS = 5
_RANDOM_STARTS = 4
_MAX_ADDED = 6
_ADD_SHARE = 0.3
_STALE_ROUNDS = 5
# Weight of the squared mixture relative to the tolerance, which exceeds its effect.
_SQUARE = 0.1
# Smallest damping of a Newton step, relative to the mean curvature.
_DAMPING = 1e-5
# A trial is skipped if it differs from a failed one by a smaller fraction of the step.
_SAME = 0.2
# Squared norms with a smaller relative difference are equal up to rounding.
_EQUAL = 1e-9
# Conjugate gradient steps from the dual vector of one mixture to that of the next.
_FOLLOWING = 3


class Mixture(NamedTuple):
    """A point of the relaxation: mixture, dual vector, and their objectives."""

    choices: np.ndarray
    weight: np.ndarray
    delta: np.ndarray
    margins: np.ndarray
    norms: np.ndarray
    objective: float
    n_iter: int


class Relaxation(NamedTuple):
    """Result of the active-set method."""

    mixture: Mixture
    gap: float
    certified: bool
    converged: bool
    path: list


def scaled_bound(loss, delta, largest_norm):
    r"""Best lower bound of the relaxation along a dual vector.

    .. math::
        \max_{t \ge 0}\; \mathrm{conj}(t\delta) - \tfrac{t^2}{2}\max_k q_k

    Squared norms of all choices grow with :math:`t^2`: the most violated choice is
    the same for every :math:`t`, so that the scale is free. Never negative.
    """
    up, down = np.maximum(delta, 0.0), np.maximum(-delta, 0.0)
    linear = loss.low * up.sum() - loss.high * down.sum()
    if linear <= 0:
        return 0.0
    curvature = 2.0 * (linear - loss.conjugate(delta)) + largest_norm
    return 0.5 * linear * linear / curvature


def _follow(rows, loss, delta, last):
    r"""Bring a dual vector close to the optimum of a mixture, without a new factor.

    As long as the selected rows :math:`S` stay, the optimum solves
    :math:`(K_{SS} + R_S)\delta_S = t_S`: conjugate gradients, preconditioned by the
    factor that the last mixture had on these rows.

    Returns
    -------
    delta, margins : ndarray of shape (n_rows,)
    """
    delta, margins = delta.copy(), rows.matvec(delta)
    selected, side = last.rows, loss.partition(last.margins)
    ridge = loss.ridge(side)[selected]
    residual = loss.target(side)[selected] - ridge * delta[selected] - margins[selected]
    search, before = np.zeros_like(delta), np.inf
    for _ in range(_FOLLOWING):
        scaled = last.factor.solve(residual)
        now = residual @ scaled
        if not now > 0:
            break
        search[selected] = scaled + (now / before) * search[selected]
        change = rows.matvec(search)
        product = change[selected] + ridge * search[selected]
        step = now / (search[selected] @ product)
        delta += step * search
        margins += step * change
        residual = residual - step * product
        before = now
    return delta, margins


def _evaluate(units, loss, choices, weight, delta, last=None, limit=np.inf):
    """Solve for a fixed mixture; also margins of the choices on the selected rows.

    `last` is the result of a similar mixture.

    Returns
    -------
    result, block, norms
        The last are the squared norms of the choices. None where the objective is
        above `limit`.
    """
    rows, margins = units.mixture(choices, weight), None
    if last is not None:
        delta, margins = _follow(rows, loss, delta, last)
    result = solve_odm(rows, loss, delta, margins, limit=limit)
    if result is None:
        return None
    rows, delta = result.rows, result.delta
    if np.count_nonzero(delta) > np.count_nonzero(delta[rows]):
        products = units.products(choices, delta)
        return result, products[rows], delta @ products
    block = units.products(choices, delta, rows)
    return result, block, delta[rows] @ block


def newton_mixture(units, loss, choices, weight, delta, *, tol, max_iter=100):
    """Best mixture of the given choices by Newton's method on the simplex.

    The objective of a mixture is convex and smooth with gradient ``-q / 2`` and
    Hessian ``G'(K + R)^{-1} G`` on the selected rows, where the columns of ``G`` are
    the margins of the choices alone; the factor of the inner solve is reused.

    Choices that differ only in bags without dual weight are worth the same, so that
    many mixtures are optimal and rounding would choose between them. A square of the
    weights, far below `tol`, makes the optimum unique.
    """
    result, block, norms = _evaluate(units, loss, choices, weight, delta)
    square = _SQUARE * tol * max(1.0, abs(result.objective))
    n_iter, damping = 0, 0.0
    while n_iter < max_iter and len(choices) > 1:
        gap = 0.5 * (norms.max() - weight @ norms)
        if gap <= tol * max(1.0, abs(result.objective)):
            break
        if result.factor is None:
            break  # no row has a loss: no derivative with respect to the weights
        n_iter += 1
        # Response of the dual vector to a change of the weights.
        response = result.factor.solve(block)
        hessian = block.T @ response
        hessian = 0.5 * (hessian + hessian.T)
        hessian.flat[:: len(hessian) + 1] += square
        gradient = square * weight - 0.5 * norms
        # The curvature is valid as long as the selected rows stay the same. A step into
        # flat directions may be too long; it is damped until the objective decreases.
        typical = np.trace(hessian) / len(hessian)
        failed = None
        while True:
            damped = hessian + damping * np.eye(len(hessian))
            trial = simplex_quadratic(damped, gradient - damped @ weight, weight)
            direction = trial - weight
            expected = gradient @ direction + 0.5 * direction @ hessian @ direction
            ahead = result.delta.copy()
            ahead[result.rows] -= response @ direction
            # Near the optimum the gap is still measurable when the decrease of the
            # objective is below the rounding errors.
            noise = 1e-14 * max(1.0, abs(result.objective))
            squares = 0.5 * square * (trial @ trial - weight @ weight)
            most = result.objective - squares + 0.1 * expected
            # Most steps that are too long can be detected before they are solved.
            same = failed is not None and (
                np.abs(trial - failed).sum() <= _SAME * np.abs(failed - weight).sum()
            )
            outcome = None
            if not same:
                limit = most + 100.0 * noise
                outcome = _evaluate(units, loss, choices, trial, ahead, result, limit)
            better = outcome is not None
            if better:
                fallen = outcome[0].objective - result.objective + squares
                left = 0.5 * (outcome[2].max() - trial @ outcome[2])
                better = fallen <= 0.1 * expected + noise
                better = better and (fallen < -noise or left < gap)
            if better or damping > 1e6 * typical:
                break
            failed = failed if same else trial
            damping = max(10.0 * damping, _DAMPING * typical)
        if not better:
            break  # no further progress is possible
        damping = 0.1 * damping if damping > _DAMPING * typical else 0.0
        weight = trial
        result, block, norms = outcome
    return Mixture(
        choices, weight, result.delta, result.margins, norms, result.objective, n_iter
    )


def heaviest(weight, count):
    """Positions of the largest weights; equal ones, up to rounding, in order."""
    return np.argsort(-np.round(weight, 9), kind="stable")[:count]


def violated_choices(units, mixture, rng):
    """Search for choices with a large squared norm.

    Returns
    -------
    choices, norms : ndarray
        Candidates sorted by falling norm.
    exact : bool
        Whether the first is a global maximizer.
    """
    delta = mixture.delta
    if units.enumerable:
        choice, norm = units.enumerate_all(delta)
        return choice[None], np.array([norm]), True
    heavy = heaviest(mixture.weight, _HEAVY_STARTS)
    linear, norms = units.uncoupled(delta)
    plus = delta[: units.n_positive]
    spread = np.repeat(plus, np.diff(units.offsets))
    uncoupled = segment_argmax(
        2.0 * spread * linear + spread * spread * norms, units.offsets
    )
    starts = [*mixture.choices[heavy], uncoupled]
    first, size = units.offsets[:-1], np.diff(units.offsets)
    for _ in range(_RANDOM_STARTS):
        starts.append(first + rng.integers(size))
    choices, values = units.ascend(delta, np.array(starts))
    return *_falling(choices, values), False


def _distinct(choices):
    """Where each of the choices occurs first."""
    first = {}
    for k, choice in enumerate(choices):
        first.setdefault(choice.tobytes(), k)
    return np.array(list(first.values()))


def _falling(choices, norms):
    """Distinct choices, sorted by falling norm."""
    kept = _distinct(choices)
    # Bags without dual weight do not affect the norm, so distinct choices may have
    # equal norms up to rounding. Ties are resolved in favor of the earlier choice.
    rank = np.round(norms[kept] / max(norms.max(), 1e-300), 9)
    kept = kept[np.argsort(-rank, kind="stable")]
    return choices[kept], norms[kept]


def initial_mixture(units, loss, rng):
    """A choice found from a rough guess of the dual vector, and spanning ones."""
    delta = np.ones(units.n_rows)
    delta[units.n_positive :] = units.n_positive / units.n_negative
    guess = Mixture(
        units.offsets[:-1][None].copy(), np.ones(1), delta, None, None, np.inf, 0
    )
    choices, _, _ = violated_choices(units, guess, rng)
    choices = np.concatenate([choices[:1], units.spanning_choices(rng)])
    choices = choices[_distinct(choices)]
    weight, delta = np.ones(1), np.zeros(units.n_rows)
    if len(choices) > 1:
        # If the first choice alone is the solution, no other is added: a mixture is
        # only solved to the tolerance, and its result depends on the path.
        delta = solve_odm(units.mixture(choices[:1], weight), loss).delta
        norms = units.squared_norms(choices, [delta])
        if norms.max() <= (1.0 + _EQUAL) * norms[0, 0]:
            return choices[:1], weight, delta
        weight = np.full(len(choices), 1.0 / len(choices))
    return choices, weight, delta


def solve_relaxation(units, loss, *, tol, max_iter, rng, start=None):
    """Active-set method: add violated choices until the gap is small.

    Parameters
    ----------
    units : KernelUnits or FeatureUnits
        The rows.
    loss : OdmLoss
        Weighted loss of the rows.
    tol : float
        Accepted gap relative to ``max(1, objective)``.
    max_iter : int
        Maximum number of rounds.
    rng : numpy.random.Generator
        Random generator for the starts of the search.
    start : tuple of (choices, weight, delta), optional
        Warm start.

    Returns
    -------
    Relaxation
    """
    choices, weight, delta = start or initial_mixture(units, loss, rng)
    idle = np.zeros(len(choices), dtype=int)
    path, converged, relative = [], False, np.inf
    # Dual vectors: the average, and the one with the best bound.
    center = highest = None
    for _ in paced(range(max_iter), "the relaxation", "rounds"):
        # The mixture need not be much more accurate than the choices it consists of.
        inner = min(max(0.5 * relative, 0.1 * tol), 0.5)
        mixture = newton_mixture(units, loss, choices, weight, delta, tol=inner)
        path.append(mixture.objective)
        found, _, exact = violated_choices(units, mixture, rng)
        if center is None:
            center = mixture.delta
            duals = [center]
        else:
            # The dual vectors of successive rounds oscillate, and cuts at their average
            # are deeper (stabilized cutting planes).
            center = 0.5 * (center + mixture.delta)
            between = mixture._replace(delta=center)
            more, _, _ = violated_choices(units, between, rng)
            found = np.concatenate([found, more])
            duals = [mixture.delta, center, highest]
        # The search is local. A choice found for one dual vector is used for all of
        # them, including those of earlier rounds. Otherwise the best bound would belong
        # to the vector with the worst search.
        values = units.squared_norms(np.concatenate([mixture.choices, found]), duals)
        bounds = list(map(partial(scaled_bound, loss), duals, values.max(axis=0)))
        best = np.argmax(bounds)
        bound, highest = bounds[best], duals[best]
        found, norms = _falling(found, values[len(mixture.choices) :, 0])
        primal = 0.5 * (mixture.delta @ mixture.margins) + loss.value(mixture.margins)
        # A bound above the objective results from rounding errors or an incomplete
        # search. Both values are then uncertain by their difference.
        gap = abs(primal - bound)
        relative = gap / max(1.0, abs(mixture.objective))
        if relative <= tol:
            converged = True
            break
        violation = norms - mixture.weight @ mixture.norms
        new = found[(violation >= _ADD_SHARE * violation[0]) & (violation > 0)]
        known = (new[:, None, :] == mixture.choices[None]).all(axis=2).any(axis=1)
        new = new[~known][:_MAX_ADDED]
        if len(new) == 0:  # nothing found: only the restricted gap is known
            if inner <= 0.1 * tol:
                break
            relative = 0.0
        idle = np.where(mixture.weight > 0, 0, idle + 1)
        kept = idle < _STALE_ROUNDS
        choices = np.concatenate([mixture.choices[kept], new])
        weight = np.concatenate([mixture.weight[kept], np.zeros(len(new))])
        idle = np.concatenate([idle[kept], np.zeros(len(new), dtype=int)])
        delta = mixture.delta
    return Relaxation(mixture, gap, exact, converged, path)


_ROUNDED_STARTS = 2
# Number of random starts of the descent if labels depend on its result, and of steps
# after which only the two best starts continue.
_RANDOM_ROUNDINGS = 3
_TRIAL_STEPS = 5


def polish_choice(units, loss, choice, delta=None, *, max_iter=50):
    """Descend on the integer problem from one choice.

    Alternates between solving for the weight vector and giving every positive bag
    the instance with the least loss. The objective falls strictly, hence no choice
    recurs and the method stops.

    Returns
    -------
    Mixture
        A mixture of one choice; its objective bounds the relaxation from above.
    """
    rows = loss.subset(np.arange(units.n_positive))
    one = np.ones(1)
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        choices = choice[None]
        result = solve_odm(units.mixture(choices, one), loss, delta)
        delta = result.delta
        score = units.candidate_scores(choices, one, delta)
        penalty = rows.rowwise(score)
        better = segment_argmax(-penalty, units.offsets)
        change = penalty[better] < penalty[choice] - 1e-12
        if not change.any():
            break
        choice = np.where(change, better, choice)
    norm = result.delta @ result.margins
    return Mixture(
        choices, one, delta, result.margins, np.array([norm]), result.objective, n_iter
    )


def integer_bound(units, loss, mixture, rng=None):
    """Descend from roundings of a mixture; the best end.

    The roundings are the highest-scoring instance of each bag and the heaviest
    choices of the mixture. Where the relaxation is slack they know little: with
    `rng`, the highest scores of a model that is trained with every instance of a
    positive bag as positive, and random choices, are tried as well.
    """
    score = units.candidate_scores(mixture.choices, mixture.weight, mixture.delta)
    heavy = heaviest(mixture.weight, _ROUNDED_STARTS)
    starts = [segment_argmax(score, units.offsets)]
    starts += list(mixture.choices[heavy[mixture.weight[heavy] > 0]])
    if rng is None:
        ends = [polish_choice(units, loss, s, mixture.delta) for s in starts]
        return min(ends, key=lambda end: end.objective)
    starts += every_instance_choice(units, loss)
    first, size = units.offsets[:-1], np.diff(units.offsets)
    starts += [first + rng.integers(size) for _ in range(_RANDOM_ROUNDINGS)]
    ends = [polish_choice(units, loss, s, max_iter=_TRIAL_STEPS) for s in starts]
    ends.sort(key=lambda end: end.objective)
    ends = [polish_choice(units, loss, e.choices[0], e.delta) for e in ends[:2]]
    return min(ends, key=lambda end: end.objective)


def every_instance_choice(units, loss):
    """Best instances of a model trained on all instances; a list of one choice.

    Every instance of a positive bag is a positive row with its share of the weight of
    the bag. Empty where the units cannot afford so many rows.
    """
    rows = units.every_instance()
    if rows is None:
        return []
    size = np.diff(units.offsets)
    plus, minus = units.split(loss.weight)
    weight = np.concatenate([np.repeat(plus / size, size), minus])
    result = solve_odm(rows, OdmLoss(weight, loss.theta, loss.nu))
    return [segment_argmax(result.margins[: units.n_candidates], units.offsets)]
