"""What the SVMs for bags share: alternation, kernel, layout of rows, prediction."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from bagwise._compat import Interval, StrOptions
from bagwise._sizes import check_memory, memory_budget
from bagwise.bags.chunks import Chunks, RowsOnDisk, larger_than_chunk
from bagwise.bags.segments import repeat, segment_argmax
from bagwise.base import WeightedBagClassifier
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import (
    INSTANCE_KERNELS,
    instance_kernel,
    kernel_params,
    resolve_gamma,
    row_blocks,
)
from bagwise.solvers.hinge import _MAX_RANK, BasisSpace, GramSpace
from bagwise.solvers.pace import paced


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
        False if the loop ended at the maximum number of steps.
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

    `choose` must return the state that minimizes the joint objective at the solution:
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
        Maximum number of convex steps.
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
    for n_iter in paced(range(1, max_iter + 1), name, "rounds"):
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
            # Only inexact convex steps get here: the previous solution is no worse.
            return Path(solution, state, objectives, n_iter + 1, True, unsolved)
        decrease = objectives[-1] - new.objective
        solution, state = new, proposal
        objectives.append(new.objective)
        if decrease <= tol * abs(new.objective):
            return Path(solution, state, objectives, n_iter + 1, True, unsolved)
    warnings.warn(
        f"{name} did not converge in max_iter={max_iter} steps; the last relative "
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


# Up to this number of rows a Gram matrix is cheaper than steps on very long rows.
_GRAM_LIMIT = 10_000
_CONSTANT = 1e-6
# Fewer instances on disk are loaded into memory.
_STORED_FROM = 20_000
# Rows are centered if the distance of their mean from the origin exceeds this multiple
# of their own length. They are rescaled if their length is outside these limits.
_FAR = 10.0
_SHORT, _LONG = 1e-2, 1e3

KERNEL_CONSTRAINTS: dict = {
    "C": [Interval(Real, 0, None, closed="neither")],
    "kernel": [StrOptions(set(INSTANCE_KERNELS))],
    "gamma": [
        StrOptions({"scale", "auto", "median"}),
        Interval(Real, 0, None, closed="neither"),
    ],
    "degree": [Interval(Real, 0, None, closed="neither")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "threshold": [StrOptions({"zero", "train", "cv"})],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "random_state": ["random_state"],
}


@dataclass
class Layout:
    """Instances of the two kinds of bags.

    Attributes
    ----------
    negative, positive : ndarray of int
        Rows of the instances of negative and of positive bags.
    negative_group : ndarray of int
        Number 0, 1, ... of the negative bag behind each of `negative`.
    positive_offsets : ndarray of int
        Where each positive bag begins in `positive`.
    negative_weight, positive_weight : ndarray
        Weight of each negative and of each positive bag.
    """

    negative: np.ndarray
    positive: np.ndarray
    negative_group: np.ndarray
    positive_offsets: np.ndarray
    negative_weight: np.ndarray
    positive_weight: np.ndarray

    @classmethod
    def of(cls, X, t, bag_weight):
        """Sort the instances of `X` by the sign `t` of their bag."""
        is_positive = t > 0
        row_positive = is_positive[X.bag_index]
        negative = np.flatnonzero(~row_positive)
        sizes = X.sizes[is_positive]
        return cls(
            negative,
            np.flatnonzero(row_positive),
            np.repeat(np.arange((~is_positive).sum()), X.sizes[~is_positive]),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.asarray(bag_weight[~is_positive], dtype=np.float64),
            np.asarray(bag_weight[is_positive], dtype=np.float64),
        )

    @property
    def n_positive_bags(self):
        """Number of positive bags."""
        return len(self.positive_weight)

    def witnesses(self, scores):
        """Row of the highest score of each positive bag."""
        return self.positive[
            segment_argmax(scores[self.positive], self.positive_offsets)
        ]

    def means(self, n_points):
        """CSR weights that average each positive bag (n_positive_bags, n_points)."""
        sizes = np.diff(self.positive_offsets)
        values = np.repeat(1.0 / sizes, sizes)
        return sp.csr_array(
            (values, self.positive, self.positive_offsets),
            shape=(len(sizes), n_points),
        )

    def negative_caps(self):
        """Weight of each negative instance."""
        return self.negative_weight[self.negative_group]

    def positive_caps(self):
        """Weight of each positive-bag instance."""
        return np.repeat(self.positive_weight, np.diff(self.positive_offsets))


def _score_piece(piece, model):
    return model._function(piece.X.data)


class KernelBagSVM(WeightedBagClassifier):
    """Base class of SVMs with a function ``f(x) + b`` of the instances."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.respects_standard_assumption = True
        tags.input_tags.asymmetric = True
        return tags

    def _make_space(self, X, bag_weight, *, shift=True):
        """Return the training instances as points of the feature space.

        With `shift`, a linear kernel may be moved to the mean of the instances and to
        their unit of length: a free bias takes up the first, and the second is undone
        in the solution, so that the problem stays the same and keeps its digits.
        """
        for name in ("basis_", "coef_", "support_", "support_vectors_", "dual_coef_"):
            if hasattr(self, name):  # set by a fit with another kernel
                delattr(self, name)
        if self.kernel == "linear" and larger_than_chunk(X):
            if X.n_instances > _STORED_FROM and X.n_features <= _MAX_RANK:
                self.gamma_ = 1.0
                self.kernel_params_ = kernel_params(self, self.gamma_)
                return BasisSpace(RowsOnDisk(X))
            X = X.in_memory()
        data = X.data if X.dtype == np.float64 else X.data.astype(np.float64)
        rows = repeat(bag_weight, X.offsets)
        self.gamma_ = resolve_gamma(self.gamma, data, rows)
        self.kernel_params_ = kernel_params(self, self.gamma_)
        n, d = data.shape
        gram_bytes = 2.0 * 8.0 * n * n  # the matrix and what it is computed from
        if self.kernel == "linear":
            data, place = _well_placed(data) if shift else (data, {})
            fits = n <= _GRAM_LIMIT and gram_bytes <= memory_budget()
            if d <= min(n, _MAX_RANK) or not fits:
                return BasisSpace(data, **place)
            return GramSpace(instance_kernel(data, kernel="linear"), **place)
        if self.n_components is not None and self.n_components < n:
            basis = fit_basis(
                data,
                method="nystroem",
                n_components=self.n_components,
                random_state=self.random_state,
                **self.kernel_params_,
            )
            self.basis_ = basis.without_rows()
            return BasisSpace(basis.Z)
        check_memory(
            gram_bytes,
            f"Training on the kernel matrix of {n} instances",
            "Set n_components to use a Nystroem basis, or kernel='linear'.",
        )
        return GramSpace(instance_kernel(data, **self.kernel_params_))

    def _store(self, X, space, solution, combinations=None):
        """Keep what prediction needs.

        `combinations` are the weights of points appended to the instances.
        """
        self.intercept_ = float(solution.b)
        coef = solution.coef
        # Margins are of order one: smaller differences carry no information.
        if np.ptp(solution.scores) < _CONSTANT:
            warnings.warn(
                f"the optimum is constant: {type(self).__name__} gives every bag the "
                f"score {self.intercept_:.3g}. Increase C, or choose another kernel "
                "width.",
                UserWarning,
                stacklevel=5,
            )
        if isinstance(space, BasisSpace):
            self.coef_ = coef
            if space.center is not None:
                self.intercept_ -= float(space.center @ coef)
            return
        if combinations is not None and len(coef) > X.n_instances:
            n = X.n_instances
            coef = coef[:n] + combinations.T @ coef[n:]
        if self.kernel == "linear":
            self.coef_ = np.asarray(X.data.T @ coef)
            if space.center is not None:
                self.coef_ -= space.center * coef.sum()
                self.intercept_ -= float(space.center @ self.coef_)
            return
        self.support_ = np.flatnonzero(coef)
        self.support_vectors_ = X.data[self.support_]
        self.dual_coef_ = coef[self.support_]

    def _score_instances(self, X):
        scores = np.empty(X.n_instances)
        if hasattr(self, "support_vectors_"):
            width = self.support_vectors_.shape[0]
        else:
            width = self.coef_.shape[0]
        if larger_than_chunk(X):
            scores = np.concatenate(Chunks(X).each(_score_piece, self))
            return scores + self.intercept_
        for rows in row_blocks(X.n_instances, 24.0 * max(width, X.n_features)):
            scores[rows] = self._function(X.data[rows])
        return scores + self.intercept_

    def _function(self, A):
        if hasattr(self, "basis_"):
            return self.basis_.transform(A) @ self.coef_
        if not hasattr(self, "support_vectors_"):
            return np.asarray(A @ self.coef_)
        if not len(self.support_):
            return np.zeros(A.shape[0])
        K = instance_kernel(A, self.support_vectors_, **self.kernel_params_)
        return K @ self.dual_coef_

    def _start_scores(self, space, layout, scores):
        """Scores that can rank instances, also where the first model is constant.

        Means inside the hull of the negative instances give ``f = 0``, and rounding
        would choose the witnesses; the direction between the two means does it then.
        """
        if np.ptp(scores) > 1e-3:
            return scores
        weights = np.zeros(len(scores))
        low, high = layout.negative_caps(), layout.positive_caps()
        weights[layout.negative] = -low / low.sum()
        weights[layout.positive] = high / high.sum()
        across = space.direction(weights)
        return scores.mean() + 0.1 * across / max(np.abs(across).max(), 1e-300)

    def _alternate(self, solve, choose, state, solution=None, tol=None):
        """Run the CCCP loop and return its path."""
        return cccp(
            solve,
            choose,
            state,
            max_iter=self.max_iter,
            tol=1e-2 * self.tol if tol is None else tol,
            name=type(self).__name__,
            solution=solution,
        )

    def _say_unsolved(self, solution, n_unsolved=1, n_steps=1):
        """Warn, once, that convex steps were not solved, and what helps."""
        gap = solution.gap / max(abs(solution.objective), np.finfo(float).tiny)
        which = (
            "the convex problem was not solved: its objective"
            if n_steps == 1
            else f"{n_unsolved} of {n_steps} convex steps were not solved: the last "
            "objective"
        )
        warnings.warn(
            f"{type(self).__name__}: {which} is only known to be within {gap:.1e} of "
            "its value (duality_gap_). Standardize the features "
            "(bagwise.compose.OnInstances(StandardScaler())), or lower C.",
            ConvergenceWarning,
            stacklevel=6,
        )

    def _record_step(self, solution, *before):
        """Set the attributes of a fit by one convex step, after those `before`."""
        self.objective_ = solution.objective
        self.duality_gap_ = float(solution.gap)
        steps = [*before, solution]
        unsolved = sum(not step.converged for step in steps)
        if unsolved:
            self._say_unsolved(solution, unsolved, len(steps))

    def _record(self, path):
        """Set the attributes of an iterative fit."""
        if path.n_unsolved:
            self._say_unsolved(path.solution, path.n_unsolved, path.n_iter)
        self.objective_path_ = np.array(path.objectives)
        self.objective_ = path.objectives[-1]
        self.n_iter_ = path.n_iter
        self.duality_gap_ = float(path.solution.gap)


def _well_placed(data):
    """Return rows near the origin and of ordinary length; and their center and unit.

    Rows that are so already are returned as they are, and sparse ones are not moved.
    """
    center = None
    if sp.issparse(data):
        squared = data.multiply(data).sum() / data.shape[0]
    else:
        center = data.mean(axis=0)
        squared = 0.0
        for rows in row_blocks(data.shape[0], 8.0 * data.shape[1]):
            squared += ((data[rows] - center) ** 2).sum() / data.shape[0]
        if center @ center <= _FAR**2 * squared:
            center = None
    length = float(np.sqrt(squared))
    unit = 1.0 if length == 0.0 or _SHORT < length < _LONG else length
    if center is not None:
        data = data - center
    if unit != 1.0:
        data = data / unit
    return data, {"unit": unit, "center": center}
