"""PC-SVM: MI-SVM whose positive bags must spread along the normal."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_memory as check_cache

from bagwise._base import WeightedBagClassifier
from bagwise._compat import HasMethods, Interval, StrOptions
from bagwise.bags.segments import repeat, segment_mean
from bagwise.kernels._basis import fit_basis
from bagwise.kernels._instance import resolve_gamma, row_blocks
from bagwise.svm._base import KERNEL_CONSTRAINTS, Layout
from bagwise.svm._cccp import cccp
from bagwise.svm._conic import conic_step
from bagwise.svm._dual_coordinate import dual_coordinate
from bagwise.svm._projection import Spread, delta_range

_STRICT = 1e-9


@dataclass
class _Step:
    """A convex step that was taken: weights, bias, objective, multipliers."""

    w: np.ndarray
    b: float
    objective: float
    beta: np.ndarray | None
    mu: np.ndarray | None


def _basis_and_range(data, positive, offsets, options):
    """What does not depend on C: the basis, and the range of delta."""
    method = "auto"
    wide = data.shape[1] > data.shape[0]
    if options["kernel"] == "linear" and (not isinstance(data, np.ndarray) or wide):
        method = "eigh" if data.shape[0] <= 3000 else "cholesky"
    basis = fit_basis(data, method=method, **options)
    basis.Z = np.ascontiguousarray(basis.Z, dtype=np.float64)
    spread = Spread.of(basis.Z[positive], offsets)
    if spread.delta_max <= 0:
        return basis, spread, None
    return basis, spread, delta_range(spread)


class PCSVM(WeightedBagClassifier):
    r"""MI-SVM with projection constraints on the positive bags.

    The instances of a positive bag should differ *along the normal* of the hyperplane,
    where the witness is told from the rest. With
    :math:`J_i` the squared distances of bag i to its projection on the line along
    :math:`f` through its mean ([1]_, Eqs. (6), (12), (13)):

    .. math::
        \min_{f, b} \; \tfrac12 \|f\|^2 + \frac{b^2}{2 B}
          + C \sum_{i \in I^+} w_i \big(1 - \max_j f(x_{ij}) - b\big)_+
          + C \sum_{i \in I^-} w_i \sum_j \big(1 + f(x_{ij}) + b\big)_+
        \quad \text{s.t.} \quad J_i(f) / n_i \le \delta \;\; (i \in I^+)

    where :math:`C` is `C`, :math:`B` is `intercept` and :math:`\delta` is placed by
    `rho` or given as `delta`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    rho : float, default=0.1
        Where :math:`\delta` lies: ``delta_max_ - rho * (delta_max_ - delta_min_)``.
        With 0 no constraint binds and the result is MI-SVM.
    delta : float, default=None
        An absolute :math:`\delta` in place of `rho`.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Of the polynomial kernel.
    intercept : float, default=1.0
        :math:`B`. 0 leaves the bias out; infinity leaves it free, which needs
        ``solver="clarabel"``.
    n_components : int, default=None
        Size of a Nystroem basis. By default the exact kernel (pivoted Cholesky above
        3,000 instances).
    solver : {"dual", "clarabel"}, default="dual"
        Dual coordinate ascent, or a general conic solver as an independent check.
    memory : str, joblib.Memory or None, default=None
        Caches the basis and the range of :math:`\delta`, which do not depend on `C`,
        `rho` or `delta`: a grid over those computes them once per training set.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    max_iter : int, default=50
        Cap on the convex steps.
    tol : float, default=1e-3
        Tolerance of a convex step, tightened where a step is not a descent.
    random_state : int, RandomState or None, default=None
        The Nystroem basis.

    Attributes
    ----------
    delta_, delta_min_, delta_max_ : float
        :math:`\delta`; a feasible value that a search found (the smallest one is a
        non-convex problem of its own); the value from which no constraint binds.
    delta_lower_bound_ : float
        No :math:`\delta` below this is feasible.
    projection_variance_ : ndarray of shape (n_bags,)
        Variance of each training bag along the unit normal.
    active_constraints_ : ndarray
        Training bags whose constraint holds with equality.
    witnesses_ : ndarray of shape (n_positive_bags,)
        Row, in the stacked training instances, of each positive bag's witness.
    coef_, intercept_ : ndarray, float
        Weights of the reduced basis, and the bias.
    objective_, objective_path_ : float, ndarray
        Objective at the end, and after each step; it does not increase.
    n_iter_ : int
        Convex steps of the constrained problem.

    Notes
    -----
    Differs from [1]_: the constraint :math:`a_i |w|^2 \le w'C_i w` with
    :math:`a_i = o_i - n_i \delta` is made convex by linearising its right side alone,
    which keeps more of the feasible set than Eq. (19) does whenever
    :math:`n_i \delta \ge \lambda_{\max}(C_i)`; every step is then a hinge problem with
    balls, solved by coordinate ascent. The bias is an option, and :math:`\delta` is
    relative, since the useful interval is narrow and depends on the kernel. Iterates
    stay feasible. The objective can end below that of MI-SVM: other witnesses.

    With n instances of which N are hinge rows and rank r, the basis costs O(n r^2), a
    pass of a convex step O(N r).

    References
    ----------
    .. [1] "Multi-instance learning with projection constraints: PC-SVM". See also
       Andrews, S., Tsochantaridis, I. and Hofmann, T., "Support vector machines for
       multiple-instance learning", NIPS, 2002.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.svm import PCSVM
    >>> X, y = make_bags(random_state=0)
    >>> model = PCSVM(C=10.0).fit(X, y)
    >>> bool(model.delta_min_ < model.delta_ < model.delta_max_)
    True
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "rho": [Interval(Real, 0, 1, closed="left")],
        "delta": [Interval(Real, 0, None, closed="left"), None],
        "intercept": [Interval(Real, 0, None, closed="both")],
        "solver": [StrOptions({"dual", "clarabel"})],
        "memory": [None, str, HasMethods(["cache"])],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        rho=0.1,
        delta=None,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        intercept=1.0,
        n_components=None,
        solver="dual",
        memory=None,
        class_weight=None,
        max_iter=50,
        tol=1e-3,
        random_state=None,
    ):
        self.C = C
        self.rho = rho
        self.delta = delta
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.intercept = intercept
        self.n_components = n_components
        self.solver = solver
        self.memory = memory
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit_binary(self, X, t, bag_weight):
        if np.isinf(self.intercept) and self.solver == "dual":
            raise ValueError(
                "a free bias (intercept=inf) needs solver='clarabel'; coordinate "
                "ascent takes a penalised one (intercept=100 is nearly free)."
            )
        data = X.data if X.dtype == np.float64 else X.data.astype(np.float64)
        layout = Layout.of(X, t, bag_weight)
        self.gamma_ = resolve_gamma(self.gamma, data)
        options = {
            "kernel": self.kernel,
            "gamma": self.gamma_,
            "degree": self.degree,
            "coef0": self.coef0,
            "n_components": self.n_components,
            "random_state": self.random_state,
        }
        shared = check_cache(self.memory).cache(_basis_and_range)
        basis, spread, found = shared(
            data, layout.positive, layout.positive_offsets, options
        )
        problem = _Problem(self, basis.Z, layout)
        start = problem.mi_svm()
        if found is None:
            if self.rho > 0 or self.delta is not None:
                warnings.warn(
                    "every positive bag has a single instance, or equal ones: the "
                    "projection constraint is void, and this is MI-SVM.",
                    UserWarning,
                    stacklevel=4,
                )
            self.delta_ = self.delta_min_ = self.delta_max_ = 0.0
            self.delta_lower_bound_ = 0.0
            path, mu, bound = start, None, np.zeros(0, dtype=int)
        else:
            self.delta_ = self._place(found)
            path, mu, bound = self._constrain(problem, start, spread, found)
        self._store(X, basis, layout, path, mu, bound, np.flatnonzero(t > 0))

    def _place(self, found):
        """Return the delta that the parameters ask for, or say why there is none."""
        self.delta_min_ = found.delta_min
        self.delta_max_ = found.delta_max
        self.delta_lower_bound_ = found.lower_bound
        if self.delta is None:
            return found.delta_max - self.rho * (found.delta_max - found.delta_min)
        if self.delta < found.delta_min:
            sure = " (none exists)" if self.delta < found.lower_bound else ""
            raise ValueError(
                f"delta={self.delta:g} is infeasible: no direction was found{sure} "
                f"below {found.delta_min:.6g}. The useful range is "
                f"{found.delta_min:.6g} to {found.delta_max:.6g}; rho places delta "
                "inside it."
            )
        return float(self.delta)

    def _constrain(self, problem, start, spread, found):
        """Run the constrained alternation from the MI-SVM solution."""
        a = spread.total - spread.sizes * self.delta_
        tight = a > 1e-12 * spread.total.max()
        w = start.solution.w
        inside = w @ w > 0 and spread.residual(w).max() <= self.delta_ * (1 + _STRICT)
        if not tight.any() or inside:
            return start, None, np.zeros(0, dtype=int)
        bound = np.flatnonzero(tight)
        balls = _Balls(spread.subset(tight), a[tight])
        path = problem.constrained(balls, _feasible_start(w, found.direction, balls))
        return path, path.solution.mu, bound

    def _store(self, X, basis, layout, path, mu, bound, positive_bags):
        step = path.solution
        self.basis_ = basis.without_rows()
        self.coef_ = step.w
        self.intercept_ = float(step.b)
        self.objective_path_ = np.array(path.objectives)
        self.objective_ = float(path.objectives[-1])
        self.n_iter_ = path.n_iter
        values = basis.Z @ step.w
        self.witnesses_ = layout.witnesses(values)
        length = max(float(np.linalg.norm(step.w)), 1e-300)
        along = (values - repeat(segment_mean(values, X.offsets), X.offsets)) / length
        self.projection_variance_ = segment_mean(along**2, X.offsets)
        active = np.zeros(0, dtype=int) if mu is None else bound[mu > 0]
        self.active_constraints_ = positive_bags[active]

    def _score_instances(self, X):
        scores = np.empty(X.n_instances)
        width = max(self.coef_.shape[0], X.n_features)
        for rows in row_blocks(X.n_instances, 24.0 * width):
            scores[rows] = self.basis_.transform(X.data[rows]) @ self.coef_
        return scores + self.intercept_


@dataclass
class _Balls:
    """The bags that can bind, with a_i = o_i - n_i delta > 0."""

    spread: Spread
    a: np.ndarray

    def at(self, w):
        """Linearise at w: the balls of one convex step."""
        G, q = self.spread.tangent(w)
        return self.a, G, q

    def holds(self, w, slack=_STRICT):
        """Whether a_i |w|^2 <= w'C_i w for all bags, up to rounding."""
        left = self.a * (w @ w)
        return bool((left <= self.spread.captured(w) + slack * abs(left)).all())


def _feasible_start(w, direction, balls):
    """Move from the MI-SVM direction to a feasible one, no further than needed."""
    length = np.linalg.norm(w)
    if length == 0:
        return direction
    unit = w / length
    # w and -w are both feasible: the nearer one.
    target = direction if unit @ direction >= 0 else -direction
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if balls.holds((1.0 - middle) * unit + middle * target, slack=-_STRICT):
            high = middle
        else:
            low = middle
    point = (1.0 - high) * unit + high * target
    # The scale is free, and balls grow with it: a short vector makes a poor start.
    return point * (length / np.linalg.norm(point))


class _Problem:
    """The hinge rows of MI-SVM with instance slack, on a basis."""

    def __init__(self, model, Z, layout):
        self.model = model
        self.Z = Z
        self.layout = layout
        n_negative, n_positive = len(layout.negative), layout.n_positive_bags
        self.sign = np.r_[-np.ones(n_negative), np.ones(n_positive)]
        self.cap = model.C * np.r_[layout.negative_caps(), layout.positive_weight]
        self.beta = self.mu = None

    def objective(self, w, b, witnesses):
        """Value of the problem with fixed witnesses."""
        rows = np.r_[self.layout.negative, witnesses]
        slack = np.maximum(0.0, 1.0 - self.sign * (self.Z[rows] @ w + b))
        B = self.model.intercept
        penalty = 0.0 if B in (0.0, np.inf) else 0.5 * b * b / B
        return 0.5 * w @ w + penalty + self.cap @ slack

    def step(self, Z, represent, balls, tol):
        """Solve one convex step with `represent` for the positive bags."""
        index = np.r_[self.layout.negative, represent]
        if self.model.solver == "clarabel":
            w, b, _ = conic_step(
                Z,
                index,
                self.sign,
                cap=self.cap,
                bias_scale=self.model.intercept,
                balls=balls,
            )
            return w, b, None if balls is None else _multipliers(balls, w)
        warm_mu = self.mu if balls is not None and self.mu is not None else None
        solved = dual_coordinate(
            Z,
            index,
            self.sign,
            cap=self.cap,
            bias_scale=self.model.intercept,
            balls=balls,
            beta=self.beta,
            mu=warm_mu,
            tol=tol,
        )
        self.beta = solved.beta
        if balls is not None:
            self.mu = solved.mu
        return solved.w, solved.b, solved.mu if balls is not None else None

    def witnesses(self, w):
        return self.layout.witnesses(self.Z @ w)

    def mi_svm(self):
        """Alternate without constraints, from the means of the positive bags."""
        means = segment_mean(self.Z[self.layout.positive], self.layout.positive_offsets)
        wide = np.vstack([self.Z, means])
        added = len(self.Z) + np.arange(len(means))
        tol = self.model.tol
        w, _, _ = self.step(wide, added, None, tol)

        def solve(state):
            w, b, _ = self.step(self.Z, state[0], None, tol)
            return _Step(w, b, self.objective(w, b, state[0]), self.beta, None)

        return self._alternate(
            solve, lambda s: (self.witnesses(s.w),), (self.witnesses(w),)
        )

    def constrained(self, balls, start):
        """Alternate witnesses, tangents and convex steps from a feasible point."""
        model = self.model
        known = {"b": 0.0}

        def solve(state):
            chosen, w_old = state
            before = self.objective(w_old, known["b"], chosen)
            tol = model.tol
            for _ in range(3):
                w, b, mu = self.step(self.Z, chosen, balls.at(w_old), tol)
                w, b = _pull_back(balls, w_old, known["b"], w, b)
                value = self.objective(w, b, chosen)
                if value <= before:
                    break
                tol *= 0.1  # an inexact step rose: solve it better
            known["b"] = b
            return _Step(w, b, value, self.beta, mu)

        def choose(step):
            return self.witnesses(step.w), step.w

        state = (self.witnesses(start), start)
        return self._alternate(solve, choose, state)

    def _alternate(self, solve, choose, state):
        return cccp(
            solve,
            choose,
            state,
            max_iter=self.model.max_iter,
            tol=1e-4,
            name=type(self.model).__name__,
        )


def _pull_back(balls, w_old, b_old, w, b):
    """Return the last feasible point of the segment from the old to the new one.

    An inexact step may leave the true set by its tolerance; the old point is in it.
    """
    if balls.holds(w):
        return w, b
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if balls.holds((1.0 - middle) * w_old + middle * w):
            low = middle
        else:
            high = middle
    return (1.0 - low) * w_old + low * w, (1.0 - low) * b_old + low * b


def _multipliers(balls, w):
    """Mark the balls that hold with equality."""
    a, G, q = balls
    value = a * (w @ w) - 2.0 * G @ w + q
    return (np.abs(value) <= 1e-6 * (np.abs(q) + a * (w @ w))).astype(float)
