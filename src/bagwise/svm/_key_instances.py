"""What MI-ODM and KI-SVM share: fitting the relaxation and scoring instances."""

import warnings
from functools import partial
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from bagwise._compat import Interval, StrOptions
from bagwise._sizes import check_memory
from bagwise.bags import Ragged
from bagwise.bags.segments import repeat
from bagwise.base import WeightedBagClassifier
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import (
    INSTANCE_KERNELS,
    instance_kernel,
    kernel_params,
    resolve_gamma,
    row_blocks,
)
from bagwise.solvers.margin_distribution import OdmLoss, solve_odm
from bagwise.svm._key_feature_rows import feature_units
from bagwise.svm._key_kernel_rows import KernelUnits, kernel_units, mean_units
from bagwise.svm._key_relaxation import (
    Mixture,
    Relaxation,
    integer_bound,
    solve_relaxation,
)

# Up to this many negative rows, using all is cheaper than a growing set.
MAX_EAGER_NEGATIVES = 2000
_FIRST_NEGATIVES = 1000
# With more instances, n_components="auto" uses this number of components: 5,000 bags of
# 50,000 x 100 then take a minute (MIODM) or less (KISVM), and less than 1 GB.
_MOST_EXACT, _COMPONENTS = 10_000, 100
# A gap larger than this fraction of the objective says little about the optimum.
_UNKNOWN = 0.5
# Margins are of order one: smaller differences of scores carry no information.
_CONSTANT = 1e-6


class NegativePool:
    """Kernel blocks over a growing set of negative instances.

    Parameters
    ----------
    positive, negative : array or CSR of shape (n, n_features)
        All instances of the positive and of the negative bags.
    offsets : ndarray
        Where each positive bag starts.
    kernel : callable
        Kernel matrix of two sets of rows.
    first : int, optional
        Number of negatives to start with (1,000), spread evenly over the rows.
    """

    def __init__(self, positive, negative, offsets, kernel, first=None):
        self.positive, self.negative, self.kernel = positive, negative, kernel
        self.offsets = offsets
        n = negative.shape[0]
        first = _FIRST_NEGATIVES if first is None else first
        self.active = np.unique(np.linspace(0, n - 1, min(first, n)).astype(np.intp))
        rows = negative[self.active]
        self.units = kernel_units(positive, rows, offsets, kernel)

    @property
    def waiting(self):
        """Negatives that have not joined."""
        return np.setdiff1d(np.arange(self.negative.shape[0]), self.active)

    def rows(self):
        """Row numbers of the units in the full problem."""
        p = self.units.n_positive
        return np.concatenate([np.arange(p), p + self.active])

    def margins(self, mixture, waiting):
        """Margins of waiting negatives under a mixture, block by block."""
        units = self.units
        plus, minus = units.split(mixture.delta)
        held = units.held(mixture.choices, mixture.weight, plus)
        chosen, joined = np.flatnonzero(held), np.flatnonzero(minus)
        positive = self.positive[chosen]
        negative = self.negative[self.active[joined]]
        out = np.empty(len(waiting))
        for block in row_blocks(len(waiting), 16.0 * (len(chosen) + len(joined))):
            rows = self.negative[waiting[block]]
            out[block] = self.kernel(rows, negative) @ minus[joined]
            out[block] -= self.kernel(rows, positive) @ held[chosen]
        return out

    def missing_loss(self, mixture, loss):
        """Loss of the waiting negatives; `loss` covers the full problem."""
        waiting = self.waiting
        outside = loss.subset(self.units.n_positive + waiting)
        return outside.value(self.margins(mixture, waiting))

    def join(self, new):
        """Add negatives; old blocks are copied, only new kernel values computed."""
        old, n = self.units, self.units.n_negative
        m = n + len(new)
        check_memory(
            16.0 * m * m,
            f"The kernel between {m} negative instances",
            'Set n_components for a reduced basis, or use level="bag".',
        )
        old.release()
        rows = self.negative[new]
        knn = np.empty((m, m))
        knn[:n, :n] = old.knn
        old.knn = None
        knn[n:, :n] = self.kernel(rows, self.negative[self.active])
        knn[:n, n:] = knn[n:, :n].T
        knn[n:, n:] = self.kernel(rows, rows)
        kpn = np.hstack([old.kpn, self.kernel(self.positive, rows)])
        self.active = np.concatenate([self.active, new])
        self.units = KernelUnits(old.kpp, kpn, knn, self.offsets)


def solve_with_pool(pool, loss, solve, *, tol, **settings):
    """Solve the relaxation over all negatives of a pool.

    `loss` covers the rows of the full problem, and `solve` is `solve_relaxation` or
    takes the same arguments. Rows left out have no dual weight: their loss is exactly
    what they add to the gap.
    """
    start, path = None, []
    while True:
        part = loss.subset(pool.rows())
        found = solve(pool.units, part, tol=tol, start=start, **settings)
        path += found.path
        mixture, waiting = found.mixture, pool.waiting
        outside = loss.subset(pool.units.n_positive + waiting)
        margins = pool.margins(mixture, waiting)
        missing = outside.value(margins)
        gap = found.gap + missing
        scale = max(1.0, abs(mixture.objective))
        if missing <= 0.1 * tol * scale:
            converged = found.converged or gap <= tol * scale
            return Relaxation(mixture, gap, found.certified, converged, path)
        weighted = outside.weight * outside.rowwise(margins)
        order = np.argsort(-weighted, kind="stable")
        violated = order[: np.count_nonzero(weighted)]
        most = max(_FIRST_NEGATIVES, len(pool.active))
        new = waiting[violated[:most]]
        pool.join(new)
        delta = np.concatenate([mixture.delta, np.zeros(len(new))])
        start = (mixture.choices, mixture.weight, delta)


class _SolvedUnits(NamedTuple):
    """Units of the solved problem and which negatives they hold."""

    units: object
    active: np.ndarray
    pool: NegativePool | None = None

    @property
    def numbers(self):
        """Row numbers in the full problem."""
        p = self.units.n_positive
        return np.concatenate([np.arange(p), p + self.active])


class KeyInstanceSVM(WeightedBagClassifier):
    """Base of the classifiers that mix choices of key instances.

    A subclass gives `_margin_loss` (the two shape parameters of the loss) and
    `_bag_cost` (the weight of each bag's rows).
    """

    _parameter_constraints: dict = {
        "level": [StrOptions({"instance", "bag"})],
        "kernel": [StrOptions(set(INSTANCE_KERNELS))],
        "gamma": [
            StrOptions({"scale", "auto", "median"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "n_components": [
            None,
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "threshold": [StrOptions({"zero", "train", "cv"})],
        "polish": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.respects_standard_assumption = True
        tags.input_tags.asymmetric = True
        return tags

    def _margin_loss(self):
        """Return theta and nu."""
        raise NotImplementedError

    def _bag_cost(self, t, bag_weight):
        """Return the weight of the rows of each bag."""
        raise NotImplementedError

    def _fit_binary(self, X, t, bag_weight):
        plus, minus, loss, rows, found, rng = self._fit_relaxation(X, t, bag_weight)
        rounded = integer_bound(
            rows.units,
            loss.subset(rows.numbers),
            found.mixture,
            rng if self.polish else None,
        )
        if rows.pool is not None:  # excluded negatives may have a loss
            missing = rows.pool.missing_loss(rounded, loss)
            rounded = rounded._replace(objective=rounded.objective + missing)
        self._keep_certificates(found, rounded)
        mixture = rounded if self.polish else found.mixture
        self._keep_mixture(mixture, rows, plus, minus)

    def _fitted_to_fold(self, X, t, bag_weight, train):
        """Keep the kernel and the mixture of choices; only the dual vector is new."""
        one = self._unfitted_copy()
        for name in ("gamma_", "kernel_params_", "basis_"):
            setattr(one, name, getattr(self, name))
        kept = np.isin(np.flatnonzero(t > 0), train)
        X, t, bag_weight = X[train], t[train], bag_weight[train]
        plus, minus, loss = one._parts_and_loss(X, t, bag_weight)
        choices = self.assignments_[:, kept] + plus.offsets[:-1]
        solve = partial(_solve_mixture, choices, self.assignment_weight_)
        rows, found = one._solve(plus, minus, loss, None, solve)
        one._keep_mixture(found.mixture, rows, plus, minus)
        return one

    def _fit_relaxation(self, X, t, bag_weight):
        """Solve the relaxation; return what the rest of the fit needs."""
        if not (t > 0).any() or not (t < 0).any():
            raise ValueError("there must be a positive and a negative bag.")
        rng = _generator(self.random_state)
        plus, minus, loss = self._parts_and_loss(X, t, bag_weight)
        self.gamma_ = resolve_gamma(self.gamma, X.data, repeat(bag_weight, X.offsets))
        self.kernel_params_ = kernel_params(self, self.gamma_)
        self.basis_ = self._reduced_basis(X, rng)
        rows, found = self._solve(plus, minus, loss, rng)
        self._warn_if_not_converged(found)
        return plus, minus, loss, rows, found, rng

    def _parts_and_loss(self, X, t, bag_weight):
        """Return the positive and the negative bags, and the loss of their rows."""
        plus, minus = X[t > 0], X[t < 0]
        cost = self._bag_cost(t, bag_weight)
        negative_cost = cost[t < 0]
        if self.level == "instance":
            negative_cost = repeat(negative_cost, minus.offsets)
        weight = np.concatenate([cost[t > 0], negative_cost])
        return plus, minus, OdmLoss(weight, *self._margin_loss())

    def _keep_mixture(self, mixture, rows, plus, minus):
        self._warn_if_constant(mixture, rows.units)
        self._keep_assignments(mixture, plus)
        self._keep_expansion(mixture, rows, plus, minus)

    def _reduced_basis(self, X, rng):
        """Return features whose inner products are the kernel, or None."""
        n_components = self.n_components
        if n_components == "auto":
            many = self.kernel != "linear" and X.n_instances > _MOST_EXACT
            n_components = _COMPONENTS if many else None
        if self.kernel != "linear" and n_components is None:
            return None
        basis = fit_basis(
            X.data,
            **self.kernel_params_,
            n_components=n_components,
            random_state=int(rng.integers(2**31 - 1)),
        )
        return basis.without_rows()

    def _solve(self, plus, minus, loss, rng, solve=solve_relaxation):
        """Choose the representation of the rows, then solve the relaxation."""
        settings = {"tol": self.tol, "max_iter": self.max_iter, "rng": rng}
        means = minus.offsets if self.level == "bag" else None
        positive, negative = _as_float64(plus.data), _as_float64(minus.data)
        bias = float(self.fit_intercept)
        kernel = partial(_biased_kernel, bias, self.kernel_params_)
        if self.basis_ is not None:
            units = feature_units(
                _as_float64(self.basis_.transform(positive)),
                _as_float64(self.basis_.transform(negative)),
                plus.offsets,
                means,
                bias,
            )
        elif means is not None:
            units = mean_units(positive, negative, plus.offsets, means, kernel)
        elif negative.shape[0] <= MAX_EAGER_NEGATIVES:
            units = kernel_units(positive, negative, plus.offsets, kernel)
        else:
            pool = NegativePool(positive, negative, plus.offsets, kernel)
            found = solve_with_pool(pool, loss, solve, **settings)
            return _SolvedUnits(pool.units, pool.active, pool), found
        found = solve(units, loss, **settings)
        return _SolvedUnits(units, np.arange(units.n_negative)), found

    def _keep_certificates(self, found, rounded):
        objective = found.mixture.objective
        self.objective_ = objective
        self.objective_path_ = np.array(found.path)
        self.n_iter_ = len(found.path)
        self.duality_gap_ = found.gap
        self.gap_certified_ = found.certified
        self.integer_objective_ = rounded.objective
        # The optimum of the relaxation is at least objective - gap.
        self.relaxation_ratio_ = max(objective - found.gap, 0.0) / rounded.objective

    def _warn_if_not_converged(self, found):
        objective, n_iter = found.mixture.objective, len(found.path)
        relative = found.gap / max(abs(objective), np.finfo(float).tiny)
        if not found.converged or relative > _UNKNOWN:
            help_ = "Increase max_iter" if not found.converged else "Lower tol"
            warnings.warn(
                f"{type(self).__name__} stopped after {n_iter} rounds with a "
                f"relative duality gap of {relative:.1e} (tol={self.tol:g}). {help_}; "
                "the gap is also large if features are not standardized.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _warn_if_constant(self, mixture, units):
        """Warn where all instances have the same score."""
        scores = units.candidate_scores(mixture.choices, mixture.weight, mixture.delta)
        scores = np.concatenate([scores, -mixture.margins[units.n_positive :]])
        if np.ptp(scores) < _CONSTANT:
            warnings.warn(
                f"the optimum is constant: {type(self).__name__} gives every bag about "
                f"the score {scores[0]:.3g}. Increase the weight of the loss, or "
                "standardize the features.",
                UserWarning,
                stacklevel=6,
            )

    def _keep_assignments(self, mixture, plus):
        carried = mixture.weight > 0
        order = np.argsort(-mixture.weight[carried], kind="stable")
        choices = mixture.choices[carried][order]
        self.assignments_ = choices - plus.offsets[:-1]
        self.assignment_weight_ = mixture.weight[carried][order]
        shares = np.zeros(plus.n_instances)
        for choice, share in zip(choices, self.assignment_weight_, strict=True):
            shares[choice] += share
        self.key_weight_ = Ragged(shares, plus.offsets)

    def _keep_expansion(self, mixture, rows, plus, minus):
        """Store f(x) = sum_t coef_t k(x_t, x), or its weight vector."""
        on_plus, on_active = rows.units.split(mixture.delta)
        on_minus = np.zeros(len(minus) if self.level == "bag" else minus.n_instances)
        on_minus[rows.active] = -on_active
        if self.level == "bag":
            on_minus = repeat(on_minus / minus.sizes, minus.offsets)
        held = self.key_weight_.values * repeat(on_plus, plus.offsets)
        self.intercept_ = self.fit_intercept * (held.sum() + on_minus.sum())
        if self.basis_ is not None:
            self.coef_ = self._direction(plus, held) + self._direction(minus, on_minus)
            return
        used_plus, used_minus = np.flatnonzero(held), np.flatnonzero(on_minus)
        self.dual_coef_ = np.concatenate([held[used_plus], on_minus[used_minus]])
        parts = [plus.data[used_plus], minus.data[used_minus]]
        stack = partial(sparse.vstack, format="csr") if plus.is_sparse else np.vstack
        self.support_instances_ = stack(parts)

    def _direction(self, X, coef):
        """Weight vector of an expansion in the reduced basis."""
        total = np.zeros(self.basis_.rank)
        for rows in row_blocks(X.n_instances, 16.0 * self.basis_.rank):
            total += self.basis_.transform(X.data[rows]).T @ coef[rows]
        return total

    def _score_instances(self, X):
        if self.basis_ is not None:
            scores = np.empty(X.n_instances)
            for rows in row_blocks(X.n_instances, 16.0 * self.basis_.rank):
                scores[rows] = self.basis_.transform(X.data[rows]) @ self.coef_
            return scores + self.intercept_
        support, scores = self.support_instances_, np.empty(X.n_instances)
        for rows in row_blocks(X.n_instances, 16.0 * support.shape[0]):
            block = instance_kernel(X.data[rows], support, **self.kernel_params_)
            scores[rows] = block @ self.dual_coef_
        return scores + self.intercept_


def _solve_mixture(choices, weight, units, loss, *, start=None, **_):
    """Solve for the dual vector of a given mixture, as `solve_relaxation` does."""
    delta = None if start is None else start[2]
    found = solve_odm(units.mixture(choices, weight), loss, delta)
    mixture = Mixture(
        choices, weight, found.delta, found.margins, None, found.objective, found.n_iter
    )
    return Relaxation(mixture, found.gap, False, True, [found.objective])


def _biased_kernel(bias, params, a, b):
    block = instance_kernel(a, b, **params)
    block += bias
    return block


def _generator(random_state):
    """Return a generator from scikit-learn's kinds of random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


def _as_float64(data):
    return data.astype(np.float64, copy=False)
