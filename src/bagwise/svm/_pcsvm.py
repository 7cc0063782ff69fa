"""PC-SVM: MI-SVM whose positive bags must spread along the normal."""

import warnings
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_memory as check_cache

from bagwise._compat import HasMethods, Interval, StrOptions
from bagwise._sizes import memory_budget
from bagwise.bags.segments import repeat, segment_mean
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import instance_kernel, kernel_params, resolve_gamma
from bagwise.kernels.reuse import reused
from bagwise.solvers.hinge import BasisSpace
from bagwise.svm._base import KERNEL_CONSTRAINTS, KernelBagSVM, Layout
from bagwise.svm._pcsvm_projection import Spread, delta_range
from bagwise.svm._pcsvm_steps import ROUNDING, ConstrainedSVM, Constraints

# Above this ratio of instances to coordinates, steps in coordinates are cheaper.
_GRAM_LIMIT = 10
# Maximum number of instances for the exact kernel, whose factorization takes minutes.
_EXACT_LIMIT = 20_000


def _fits(n):
    """Whether steps may hold matrices of all inner products."""
    return 3.0 * 8.0 * n * n <= memory_budget()


def _is_linear(data, kernel):
    """Whether features serve as coordinates: not where they are sparse or many."""
    n, d = data.shape
    return kernel == "linear" and d <= n and not sp.issparse(data)


def _make_basis(data, options, matrix):
    """Coordinates of the instances, from their inner products where these are known."""
    method = "auto"
    if options["kernel"] == "linear" and not _is_linear(data, "linear"):
        method = "cholesky"
    basis = fit_basis(data, method=method, matrix=matrix, **options)
    basis.Z = np.ascontiguousarray(basis.Z, dtype=np.float64)
    return basis


def _find_range(spread, longest):
    """Range of delta on the positive bags; None where no bag spreads at all.

    `longest` is the largest squared length of their instances.
    """
    # A smaller spread is rounding error: all instances are equal.
    return delta_range(spread) if spread.delta_max > 1e-14 * longest else None


class PCSVM(KernelBagSVM):
    r"""MI-SVM with projection constraints on the positive bags.

    The instances of a positive bag should differ *along the normal* of the hyperplane,
    where the witness differs from the others. With :math:`J_i` the summed squared
    distances of the :math:`n_i` instances of bag i to their projections on the line
    along :math:`f` through their mean ([1]_, Eqs. (8), (12), (13)):

    .. math::
        \min_{f, b} \; & \tfrac12 \|f\|^2 + \frac{b^2}{2 B}
          + C \sum_{i \in I^+} w_i \big(1 - \max_j f(x_{ij}) - b\big)_+
          + C \sum_{i \in I^-} w_i\, \ell_i \\
        & \text{s.t.} \quad J_i(f) / n_i \le \delta \;\; (i \in I^+)

    where :math:`C` is `C`, :math:`B` is `intercept`, :math:`\delta` is placed by
    `rho` or given as `delta`, and :math:`\ell_i` is the summed hinge loss of the
    instances of a negative bag or the largest of them, as `slack` says.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    rho : float, default=0.1
        Position of :math:`\delta`: ``delta_max_ - rho * (delta_max_ - delta_min_)``.
        With 0 no constraint is active and the result is MI-SVM. The closer to 1 (which
        is excluded), the larger the spread of the bags.
    delta : float, default=None
        An absolute :math:`\delta` in place of `rho`.
    slack : {"instance", "bag"}, default="instance"
        Whether the loss of a negative bag is the sum over its instances, as in [1]_, or
        that of its highest instance, as in :class:`MISVM` by default.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    intercept : float, default=1.0
        :math:`B`. With 0 there is no intercept; with 100 it is hardly regularized.
    n_components : int, default=None
        Size of a Nystroem basis. None takes the exact kernel by pivoted Cholesky, which
        is refused beyond 20,000 instances. A linear kernel does not use it.
    memory : str, joblib.Memory or None, default=None
        Caches the basis and the range of :math:`\delta`, which do not depend on `C`,
        `rho` or `delta`: a grid over those computes them once per training set.
    threshold : {"train", "cv", "zero"}, default="train"
        Decision threshold: where a sigmoid fitted to training scores, or to out-of-fold
        scores (up to 5 more fits), equals one half, or zero as in the paper, which is
        biased.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    max_iter : int, default=200
        Maximum number of convex steps.
    tol : float, default=1e-3
        Tolerance of a convex step, tightened where a step is not a descent. The
        alternation ends when the objective falls by less than a tenth of it.
    random_state : int, RandomState or None, default=None
        Random seed of the Nystroem basis.

    Attributes
    ----------
    delta_, delta_min_, delta_max_ : float
        :math:`\delta`; the smallest feasible value that a search found (an upper
        estimate: the smallest one is a non-convex problem of its own); the value from
        which no constraint is active.
    delta_lower_bound_ : float
        No :math:`\delta` below this is feasible.
    projection_variance_ : ndarray of shape (n_bags,)
        Variance of each training bag along the unit normal.
    active_constraints_ : ndarray of int
        Training bags whose constraint has a positive multiplier.
    witnesses_ : ndarray of shape (n_positive_bags,)
        Row, in the stacked training instances, of each positive bag's witness.
    intercept_ : float
        :math:`b`.
    coef_ : ndarray of shape (n_features,)
        Weights of the features (linear kernel).
    support_vectors_, dual_coef_ : ndarray
        The expansion of :math:`f` (other kernels), over all points of the basis.
    objective_, objective_path_ : float, ndarray
        Objective at the end, and after each step; it does not increase.
    duality_gap_ : float
        Of the last convex step.
    n_iter_ : int
        Convex steps of the last alternation: of the constrained one, if a constraint is
        active.

    Notes
    -----
    Differs from [1]_: the constraint is :math:`a_i \|w\|^2 \le w'C_i w` in a reduced
    basis, with :math:`C_i` the scatter of bag i, :math:`o_i` its trace and
    :math:`a_i = o_i - n_i \delta`. It is made convex by linearizing its right side
    alone, which keeps more of the feasible set than Eq. (19) does whenever
    :math:`n_i \delta \ge \lambda_{\max}(C_i)`; every step is then a hinge problem with
    balls, solved by coordinate ascent. The intercept is optional, and `rho` places
    :math:`\delta` in its useful interval, which is narrow and depends on the kernel.
    The fit starts from the MI-SVM solution, moved to the nearest feasible point found,
    and all later points are feasible. The objective can end below that of MI-SVM, with
    other witnesses.

    With n instances and rank r, the basis costs O(n r^2), a pass of a convex step
    O(n r), and memory is O(n r).

    References
    ----------
    .. [1] Han, Y., Tao, Q., Wang, J., "Avoiding false positive in multi-instance
       learning", NIPS, 2010.

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
        "slack": [StrOptions({"bag", "instance"})],
        "intercept": [Interval(Real, 0, None, closed="left")],
        "memory": [None, str, HasMethods(["cache"])],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        rho=0.1,
        delta=None,
        slack="instance",
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        intercept=1.0,
        n_components=None,
        memory=None,
        threshold="train",
        class_weight=None,
        pos_label=None,
        max_iter=200,
        tol=1e-3,
        random_state=None,
    ):
        self.C = C
        self.rho = rho
        self.delta = delta
        self.slack = slack
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.intercept = intercept
        self.n_components = n_components
        self.memory = memory
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _prepare(self, X, weight):
        self._refuse_many(X.n_instances)
        # Independent of the labels, hence computed once for all classes.
        data = X.data if X.dtype == np.float64 else X.data.astype(np.float64)
        self.gamma_ = resolve_gamma(self.gamma, data, repeat(weight, X.offsets))
        self.kernel_params_ = kernel_params(self, self.gamma_)
        options = {
            **self.kernel_params_,
            "n_components": self.n_components,
            "random_state": self.random_state,
        }
        self._matrix = None
        exact = self.n_components is None and not _is_linear(data, self.kernel)
        if exact and _fits(X.n_instances):
            self._matrix = instance_kernel(data, **self.kernel_params_)
        self._basis = self._once(_make_basis, data, options, self._matrix)

    def _once(self, function, *args):
        """Call a function whose result other fits of a grid share."""
        ignore = ["matrix"] if function is _make_basis else []
        if self.memory is None:
            return reused(function, *args, ignore=ignore)
        return check_cache(self.memory).cache(function, ignore=ignore)(*args)

    def _refuse_many(self, n_instances):
        """Refuse, before any work, sizes that would take hours."""
        exact = self.n_components is None or self.n_components >= n_instances
        if exact and self.kernel != "linear" and n_instances > _EXACT_LIMIT:
            raise ValueError(
                f"the exact kernel of {n_instances:,} instances takes hours (its cost "
                f"grows with the cube; the limit is {_EXACT_LIMIT:,}). Set "
                'n_components=300 for a Nystroem basis, or kernel="linear".'
            )

    def _unfitted_copy(self):
        one = super()._unfitted_copy()
        one.gamma_, one._basis = self.gamma_, self._basis
        one.kernel_params_ = self.kernel_params_
        one._matrix = self._matrix
        return one

    def _fit_classes(self, X, y, sample_weight):
        super()._fit_classes(X, y, sample_weight)
        for one in [self, *vars(self).get("estimators_", ())]:
            for name in ("_basis", "_matrix"):  # prediction does not need them
                vars(one).pop(name, None)
        return self

    def _fit_binary(self, X, t, bag_weight):
        layout = Layout.of(X, t, bag_weight)
        Z = self._basis.Z
        own = Z[layout.positive]
        spread = Spread.of(own, layout.positive_offsets)
        longest = float(np.einsum("ij,ij->i", own, own).max())
        found = self._once(_find_range, spread, longest)
        alternation = ConstrainedSVM(
            Z,
            layout,
            gram=self._gram(),
            C=self.C,
            intercept=self.intercept,
            slack=self.slack,
            max_iter=self.max_iter,
            tol=self.tol,
            name=type(self).__name__,
        )
        scores = self._start_scores(BasisSpace(Z), layout, alternation.first_scores())
        path = alternation.mi_svm(layout.witnesses(scores))
        active = np.zeros(0, dtype=np.intp)
        if found is None:
            self._say_void()
        else:
            w = path.solution.w
            if self.delta is not None and self.delta < found.delta_min and w.any():
                # Repeat the search from the MI-SVM solution before raising an error.
                found = delta_range(spread, starts=[w])
            self.delta_ = self._place(found)
            constraints, bags = Constraints.of(spread, self.delta_)
            if len(bags) and not constraints.hold(w):
                start = constraints.start(w, found.direction)
                path = alternation.constrained(constraints, start)
                mu = path.solution.solved.mu
                active = bags[mu > 1e-6 * mu.max(initial=0.0)]
        self.active_constraints_ = np.flatnonzero(t > 0)[active]
        self._keep(X, path)

    def _gram(self):
        """Inner products of the instances, or None where coordinates are cheaper."""
        Z = self._basis.Z
        n, rank = Z.shape
        if n > _GRAM_LIMIT * min(rank, n) or not _fits(n):
            return None
        return Z @ Z.T if self._matrix is None else self._matrix

    def _say_void(self):
        """Warn that no positive bag spreads, where a constraint was asked for."""
        if self.rho > 0 or self.delta is not None:
            warnings.warn(
                "every positive bag has a single instance, or equal ones: the "
                "projection constraint has no effect, and the model equals MI-SVM.",
                UserWarning,
                stacklevel=2,
            )
        self.delta_ = 0.0 if self.delta is None else float(self.delta)
        self.delta_min_ = self.delta_max_ = self.delta_lower_bound_ = 0.0

    def _place(self, found):
        """Return the delta that the parameters ask for, or say why there is none."""
        self.delta_max_ = found.delta_max
        self.delta_lower_bound_ = found.lower_bound
        self.delta_min_ = found.delta_min
        if self.delta is None:
            return found.delta_max - self.rho * (found.delta_max - found.delta_min)
        if self.delta < found.delta_min * (1.0 - ROUNDING):
            sure = " (none exists)" if self.delta < found.lower_bound else ""
            raise ValueError(
                f"delta={self.delta:g} is infeasible: no direction was found{sure} "
                f"below {found.delta_min:.6g}. The useful range is "
                f"{found.delta_min:.6g} to {found.delta_max:.6g}; rho places delta "
                "inside it."
            )
        return float(self.delta)

    def _keep(self, X, path):
        """Set what prediction needs, and what tells about the fit."""
        step, basis = path.solution, self._basis
        for name in ("coef_", "support_vectors_", "dual_coef_", "estimators_"):
            vars(self).pop(name, None)  # set by another fit
        self.intercept_ = float(step.b)
        expanded = basis.landmarks is not None
        weights = basis.expand(step.w) if expanded else step.w
        if self.kernel == "linear":
            self.coef_ = basis.landmarks.T @ weights if expanded else weights
        else:
            self.support_vectors_, self.dual_coef_ = basis.landmarks, weights
        self.witnesses_ = step.witnesses
        self.objective_path_ = np.array(path.objectives)
        self.objective_ = path.objectives[-1]
        self.n_iter_ = path.n_iter
        self.duality_gap_ = float(step.solved.primal - step.solved.dual)
        values = basis.Z @ step.w
        along = values - repeat(segment_mean(values, X.offsets), X.offsets)
        squared = max(float(step.w @ step.w), np.finfo(float).tiny)
        self.projection_variance_ = segment_mean(along**2, X.offsets) / squared
        self._say_doubts(step, values)

    def _say_doubts(self, step, values):
        name = type(self).__name__
        gap = self.duality_gap_ / max(abs(step.solved.primal), 1e-300)
        if not step.solved.converged and gap > self.tol:
            warnings.warn(
                f"{name}: the last convex step stopped at its iteration limit with a "
                f"relative duality gap of {gap:.1e}. Rescale the features, or lower C "
                "or intercept.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if np.ptp(values) < 1e-5:
            warnings.warn(
                f"the optimum is constant: {name} gives every bag the same score. "
                "Raise C, or set class_weight='balanced'.",
                UserWarning,
                stacklevel=2,
            )

    def _function(self, A):
        if not hasattr(self, "support_vectors_"):
            return np.asarray(A @ self.coef_)
        K = instance_kernel(A, self.support_vectors_, **self.kernel_params_)
        return K @ self.dual_coef_
