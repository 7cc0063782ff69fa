"""The alternations of PC-SVM on a reduced basis: MI-SVM, then with constraints."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.bags.segments import segment_max, segment_mean
from bagwise.solvers.coordinate_ascent import DualSolution, coordinate_ascent
from bagwise.solvers.face_newton import FaceNewton
from bagwise.solvers.smo import smo
from bagwise.svm._base import Layout, cccp
from bagwise.svm._pcsvm_projection import Spread

ROUNDING = 1e-9
_ATTEMPTS = 4
_MOST_ROWS = 4_000  # rows of a step whose products are copied from the full matrix


@dataclass
class Step:
    """A point of the alternation.

    Attributes
    ----------
    w, b : ndarray, float
        Weights of the basis, and the bias.
    witnesses : ndarray of int
        Row of the best instance of each positive bag, at this point.
    objective : float
        Value of the problem at this point, with these witnesses.
    solved : DualSolution
        The convex step that led here.
    """

    w: np.ndarray
    b: float
    witnesses: np.ndarray
    objective: float
    solved: DualSolution


@dataclass
class Constraints:
    """The bags that can bind: a_i |w|^2 <= w'C_i w with a_i = o_i - n_i delta > 0."""

    spread: Spread
    a: np.ndarray

    @classmethod
    def of(cls, spread, delta):
        """Keep the bags with a_i > 0; return them, and which they are."""
        a = spread.total - spread.sizes * delta
        tight = a > 1e-12 * spread.total.max()
        return cls(spread.subset(tight), a[tight]), np.flatnonzero(tight)

    def balls(self, w):
        """Linearise the right side at w: the balls of one convex step."""
        return self.a, *self.spread.tangent(w)

    def hold(self, w, slack=ROUNDING):
        """Whether all hold at w, up to rounding; none is taken to hold at 0."""
        left = self.a * (w @ w)
        right = self.spread.captured(w) + slack * left
        return bool(w.any() and (left <= right).all())

    def start(self, w, direction):
        """Move w to where all hold, no further than needed on the way to `direction`.

        The constraints do not see the length or the sign. The sign is the nearer one.
        The length is that of `w`: balls grow with it, and from a short vector the
        first steps are short.
        """
        length = np.linalg.norm(w)
        if length == 0:
            return direction
        unit = w / length
        target = direction if unit @ direction >= 0 else -direction
        share = _bisect(
            lambda t: self.hold((1.0 - t) * target + t * unit, slack=-ROUNDING)
        )
        point = (1.0 - share) * target + share * unit
        return point * (length / np.linalg.norm(point))


def _bisect(holds, n_halvings=40):
    """Return a share in [0, 1) for which `holds`, as large as halving finds; or 0."""
    low, high = 0.0, 1.0
    for _ in range(n_halvings):
        middle = 0.5 * (low + high)
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


class ConstrainedSVM:
    """The hinge rows of MI-SVM.

    Parameters
    ----------
    Z : ndarray of shape (n_instances, rank)
        Coordinates of the training instances.
    gram : ndarray of shape (n_instances, n_instances) or None
        Their inner products, where they fit: most steps are many times faster on
        them.
    layout : Layout
        Which of them are in positive bags.
    C, intercept : float
        Of the estimator.
    slack : {"bag", "instance"}
        Whether the instances of a negative bag share a slack.
    max_iter : int
        Maximum number of convex steps.
    tol : float
        Tolerance of a convex step; the alternation ends at a tenth of it.
    name : str
        For warnings.
    """

    def __init__(
        self,
        Z,
        layout: Layout,
        *,
        gram,
        C,
        intercept,
        slack,
        max_iter,
        tol,
        name,
    ):
        self.Z = Z
        self.layout = layout
        self.intercept = intercept
        self.max_iter = max_iter
        self.tol = tol
        self.name = name
        n_negative, n_positive = len(layout.negative), layout.n_positive_bags
        self.sign = np.r_[-np.ones(n_negative), np.ones(n_positive)]
        self.group = None
        weight = layout.negative_caps()
        if slack == "bag":
            weight = layout.negative_weight
            own = len(weight) + np.arange(n_positive)
            self.group = np.r_[layout.negative_group, own]
        self.cap = C * np.r_[weight, layout.positive_weight]
        self.gram, self._biased = gram, None
        self._beta = self._mu = None  # for warm starts
        self._rows = self._K = None  # rows of the last step, and their products

    def convex_step(self, Z, index, balls=None, tol=None):
        """Solve one convex step on rows of Z; no `index`: on all of them."""
        options = {
            "cap": self.cap,
            "bias_scale": self.intercept,
            "group": self.group,
            "balls": balls,
        }
        tol = self.tol if tol is None else tol
        if self.gram is not None:
            solved = self._step_on_products(index, balls, tol)
            if solved is not None:
                return solved
        solved = coordinate_ascent(
            Z,
            index,
            self.sign,
            beta=self._beta,
            mu=None if balls is None else self._mu,
            tol=tol,
            max_passes=3_000 if tol >= 1e-3 else 30_000,
            **options,
        )
        self._beta = solved.beta
        if balls is not None:
            self._mu = solved.mu
        return solved

    def _step_on_products(self, index, balls, tol):
        """Solve a step on inner products, or return None.

        Without `index`, on the negative instances and the means of the positive bags.
        """
        if self.group is None and len(self.sign) <= _MOST_ROWS:
            solved = self._newton_step(index, balls, tol)
            if solved is not None:
                return solved
        return self._kernel_step(index, 0.1 * tol) if balls is None else None

    def _newton_step(self, index, balls, tol):
        """Solve a step to rounding; None where that did not end well."""
        with_balls = None
        if balls is not None:
            a, G, q = balls
            with_balls = a, (self.Z @ G.T)[index], G @ G.T, q
        problem = FaceNewton(
            self._products(index),
            self.sign,
            cap=self.cap,
            bias_scale=self.intercept,
            balls=with_balls,
        )
        mu = None if balls is None else self._mu
        point, n_rounds, violation = problem.solve(self._beta, mu, tol)
        self._beta = point.beta
        if balls is not None:
            self._mu = point.mu
        if violation >= tol:
            return None
        v = self._combine(self.sign * point.beta, index)
        if balls is not None:
            v += 2.0 * (point.mu @ G)
        w, b = v / (2.0 * point.kappa), self.intercept * point.total
        slack = self._slack(point.scores + b)
        primal = 0.5 * (point.squared + b * point.total) + self.cap @ slack
        return DualSolution(
            w, b, point.beta, point.mu, n_rounds, violation, True, primal, point.value
        )

    def _products(self, index):
        """Inner products of the rows of a step."""
        if index is not None:
            rows, K = self._rows, self._K
            if rows is None:
                K = self.gram[np.ix_(index, index)]
            elif (changed := np.flatnonzero(index != rows)).size:  # new witnesses
                K[changed] = self.gram[np.ix_(index[changed], index)]
                K[:, changed] = K[changed].T
            self._rows, self._K = index, K
            return K
        negative, cut = self.layout.negative, len(self.layout.negative)
        means = self.layout.means(len(self.gram))
        cross = np.asarray(means @ self.gram)
        K = np.empty((len(self.sign), len(self.sign)))
        K[:cut, :cut] = self.gram[np.ix_(negative, negative)]
        K[cut:, :cut] = cross[:, negative]
        K[:cut, cut:] = K[cut:, :cut].T
        K[cut:, cut:] = means @ cross.T
        return K

    def _kernel_step(self, index, tol):
        """Solve a step without balls, also with shared slacks."""
        if self._biased is None:
            # A penalized intercept adds a constant to the kernel.
            self._biased = self.gram + self.intercept
        layout, more, points = self.layout, None, index
        if index is None:
            means = layout.means(len(self.gram))
            cross = np.asarray(means @ self._biased)
            more = (cross, np.asarray(means @ cross.T))
            added = len(self.gram) + np.arange(layout.n_positive_bags)
            points = np.r_[layout.negative, added]
        beta, _, n_iter, violation = smo(
            self._biased,
            self.sign,
            cap=self.cap,
            index=points,
            more=more,
            group=self.group,
            bias=np.zeros(len(self.sign)),
            beta=self._beta,
            tol=tol,
        )
        self._beta = beta
        signed = self.sign * beta
        w, total = self._combine(signed, index), float(signed.sum())
        b = self.intercept * total
        scores = self.Z @ w + b
        if index is None:
            slack = self._slack(np.r_[scores[layout.negative], means @ scores])
        else:
            slack = self._slack(scores[index])
        norm = 0.5 * (w @ w + b * total)
        primal, dual = norm + self.cap @ slack, beta.sum() - norm
        return DualSolution(
            w, b, beta, np.zeros(0), n_iter, violation, violation < tol, primal, dual
        )

    def _combine(self, signed, index):
        """Sum the rows of a step with these weights."""
        if index is None:  # positive bags are means of their instances
            layout, cut = self.layout, len(self.layout.negative)
            shares = np.asarray(layout.means(len(self.Z)).T @ signed[cut:])
            shares[layout.negative] = signed[:cut]
        else:
            shares = np.bincount(index, signed, len(self.Z))
        held = np.flatnonzero(shares)
        return shares[held] @ self.Z[held]

    def _slack(self, scores):
        """Slacks of the rows, or of the groups, with these scores."""
        slack = np.maximum(0.0, 1.0 - self.sign * scores)
        if self.group is None:
            return slack
        edges = np.searchsorted(self.group, np.arange(len(self.cap) + 1))
        return segment_max(slack, edges)

    def at(self, w, b, solved):
        """Evaluate the problem at a point."""
        scores = self.Z @ w + b
        witnesses = self.layout.witnesses(scores)
        rows = np.r_[self.layout.negative, witnesses]
        slack = self._slack(scores[rows])
        B = self.intercept
        penalty = 0.5 * b * b / B if B else 0.0
        value = 0.5 * (w @ w) + penalty + self.cap @ slack
        return Step(w, b, witnesses, float(value), solved)

    def first_scores(self):
        """Scores of the SVM with the mean of each positive bag in its place."""
        layout = self.layout
        if self.gram is not None:
            solved = self._step_on_products(None, None, self.tol)
        else:
            means = segment_mean(self.Z[layout.positive], layout.positive_offsets)
            solved = self.convex_step(np.vstack([self.Z[layout.negative], means]), None)
        return self.Z @ solved.w + solved.b

    def mi_svm(self, witnesses):
        """Alternate without constraints."""

        def solve(state):
            solved = self.convex_step(self.Z, np.r_[self.layout.negative, state[0]])
            return self.at(solved.w, solved.b, solved)

        return self._alternate(solve, lambda step: (step.witnesses,), (witnesses,))

    def constrained(self, constraints, w):
        """Alternate witnesses, tangents and convex steps from a feasible w.

        The set of each convex step holds the point before and lies inside the true
        set: with exact steps all points are feasible and the objective does not rise.
        """
        point = self.at(w, 0.0, None)

        def solve(state):
            nonlocal point
            point = self._feasible_step(constraints, point)
            return point

        return self._alternate(
            solve, lambda step: (step.witnesses, step.w), (point.witnesses, w)
        )

    def _feasible_step(self, constraints, old):
        """Take one step, exact enough to be feasible and not to rise."""
        index = np.r_[self.layout.negative, old.witnesses]
        balls = constraints.balls(old.w)
        tol = self.tol
        for _ in range(_ATTEMPTS):
            solved = self.convex_step(self.Z, index, balls, tol)
            new = self.at(*self._pull_back(constraints, old, solved), solved)
            if new.objective <= old.objective:
                return new
            tol *= 0.1  # the objective rose in an inexact step: reduce tol
        rise = (new.objective - old.objective) / abs(old.objective)
        if rise > 1e-6:
            warnings.warn(
                f"{self.name}: a convex step raised the objective by {rise:.1e} of its "
                "value, also with a tighter tolerance; the point before it is kept. "
                "Rescale the features, or lower C.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return new

    @staticmethod
    def _pull_back(constraints, old, solved):
        """Return the last feasible point between the old and the new one.

        An inexact step may leave the true set by its tolerance; the old point is in it.
        """
        if constraints.hold(solved.w):
            return solved.w, solved.b
        share = _bisect(
            lambda t: constraints.hold((1.0 - t) * old.w + t * solved.w), 30
        )
        return (
            (1.0 - share) * old.w + share * solved.w,
            (1.0 - share) * old.b + share * solved.b,
        )

    def _alternate(self, solve, choose, state):
        return cccp(
            solve,
            choose,
            state,
            max_iter=self.max_iter,
            tol=0.1 * self.tol,
            name=self.name,
        )
