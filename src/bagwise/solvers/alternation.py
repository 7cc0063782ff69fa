"""The one loop that alternates between choosing rows and a convex step."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning


@dataclass
class Path:
    """Where the loop ended.

    Attributes
    ----------
    solution : object
        The last accepted convex step.
    state : tuple of ndarray
        The rows it was solved for.
    objectives : list of float
        Objective after each accepted step; does not increase.
    n_iter : int
        Convex steps solved.
    converged : bool
        False when the cap ended the loop.
    n_unsolved : int
        Convex steps that say they did not converge.
    """

    solution: object
    state: tuple
    objectives: list
    n_iter: int
    converged: bool
    n_unsolved: int = 0


def cccp(
    solve,
    choose,
    state,
    *,
    max_iter,
    tol=1e-6,
    name="The alternation",
    solution=None,
):
    """Alternate ``solution = solve(state)`` and ``state = choose(solution)``.

    `choose` must return the state that minimises the joint objective at the solution:
    then each convex step starts no higher than the last one ended, and the recorded
    objective does not increase. The loop ends when the state repeats (the last one: a
    fixed point; an earlier one: a tie that would cycle), when the relative decrease is
    below `tol`, or, with a warning, at `max_iter`.

    Parameters
    ----------
    solve : callable
        From a state (a tuple of arrays) to an object with `objective`, and with
        `converged` where the solver can tell.
    choose : callable
        From that object to the next state.
    state : tuple of ndarray
        Where to begin.
    max_iter : int
        Cap on the convex steps.
    tol : float, default=1e-6
        Least relative decrease worth another step.
    name : str
        For the warning.
    solution : object, optional
        ``solve(state)``, where it is known.

    Returns
    -------
    Path
    """
    solution = solve(state) if solution is None else solution
    unsolved = int(not getattr(solution, "converged", True))
    objectives = [solution.objective]
    seen = {_key(state)}
    for n_iter in range(1, max_iter + 1):
        proposal = choose(solution)
        key = _key(proposal)
        if key in seen:
            return Path(solution, state, objectives, n_iter, True, unsolved)
        if n_iter == max_iter:
            break
        seen.add(key)
        new = solve(proposal)
        unsolved += not getattr(new, "converged", True)
        if new.objective > objectives[-1]:
            # Only inexact convex steps get here: what was found before is no worse.
            return Path(solution, state, objectives, n_iter + 1, True, unsolved)
        decrease = objectives[-1] - new.objective
        solution, state = new, proposal
        objectives.append(new.objective)
        if decrease <= tol * abs(new.objective):
            return Path(solution, state, objectives, n_iter + 1, True, unsolved)
    warnings.warn(
        f"{name} did not settle in max_iter={max_iter} steps; the last relative "
        "decrease of the objective is "
        f"{_last_decrease(objectives):.1e}. Raise max_iter, or tol.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return Path(solution, state, objectives, max_iter, False, unsolved)


def _key(state):
    return tuple(np.ascontiguousarray(part).tobytes() for part in state)


def _last_decrease(objectives):
    if len(objectives) < 2:
        return float("nan")
    return (objectives[-2] - objectives[-1]) / max(abs(objectives[-1]), 1e-300)
