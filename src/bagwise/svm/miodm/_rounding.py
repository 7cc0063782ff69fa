"""From a mixture to one instance for each bag: descent on the integer problem."""

import numpy as np

from bagwise.bags.segments import segment_argmax
from bagwise.solvers.margin_distribution import OdmLoss, solve_odm
from bagwise.svm.miodm._solvers import Mixture, heaviest

_ROUNDED_STARTS = 2
# Random starts of the descent when labels depend on its end, and steps after which
# only the two best starts go on.
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
    `rng`, the highest scores of a machine that takes every instance of a positive bag
    for positive, and random choices, are tried as well.
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
    """Best instances of a machine trained on all instances; a list of one choice.

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
