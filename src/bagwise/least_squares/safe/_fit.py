"""How SAFE is fitted at once: weights, kernel, and the choice of a solver."""

import numpy as np
from sklearn.utils import compute_class_weight

from bagwise._compat import _check_sample_weight
from bagwise.bags import Bags
from bagwise.bags.segments import segment_sum
from bagwise.kernels._instance import check_memory, instance_kernel, row_blocks
from bagwise.least_squares._weights import (
    instance_variance,
    row_namer,
    weighted_gamma,
)
from bagwise.least_squares.safe._alternate import alternate
from bagwise.least_squares.safe._backends import (
    GammaRule,
    KernelBackend,
    spread_weight,
)
from bagwise.least_squares.safe._design import BagDesign, aggregation_weights
from bagwise.least_squares.safe._features import IdentityFeatures
from bagwise.least_squares.safe._kernel_system import (
    DenseOmega,
    KernelSystem,
    LinearOmega,
)
from bagwise.least_squares.safe._moments import spread_unit

# A linear kernel is solved over its columns up to this many, if bags have more rows.
_MOST_COLUMNS = 2000


class SAFEFitMixin:
    """Fitting from all bags at once."""

    def _check_options(self):
        if self.variance_weight_abs is not None and self.variance_weight > 0:
            raise ValueError(
                "Give variance_weight (relative) or variance_weight_abs, not both."
            )
        if self.approximation == "rff" and self.kernel != "rbf":
            if self.n_components is not None:
                raise ValueError(
                    "approximation='rff' is for kernel='rbf', got kernel="
                    f"{self.kernel!r}. Use approximation='nystroem'."
                )

    def _forget(self):
        """Remove what an earlier fit of another kind left behind."""
        for name in (
            *("X_fit_", "dual_coef_", "coef_", "features_", "moments_"),
            *("objective_", "objective_path_", "intercept_", "_fit_offsets"),
        ):
            if hasattr(self, name):
                delattr(self, name)
        self._gamma_max = None

    def _weigh(self, X, codes, sample_weight):
        """Multiplicities and residual weights; bags of weight zero are dropped."""
        count = _check_sample_weight(sample_weight, np.empty((len(codes), 1)))
        if (count < 0).any():
            bag = int(np.flatnonzero(count < 0)[0])
            raise ValueError(
                f"sample_weight must not be negative, got {count[bag]} for bag {bag}."
            )
        used = count > 0
        if not used.all():
            X, codes, count = X[used], codes[used], count[used]
        missing = np.setdiff1d(np.arange(len(self.classes_)), codes)
        if missing.size:
            raise ValueError(
                f"class {self.classes_[missing[0]]} has no bag with a positive "
                "sample_weight."
            )
        return X, codes, count, count * self._class_factor(codes, count)

    def _class_factor(self, codes, count):
        if self.class_weight is None:
            return np.ones(len(codes))
        if self.class_weight == "balanced":  # counts bags as often as they weigh
            total = np.bincount(codes, weights=count, minlength=len(self.classes_))
            per_class = total.sum() / (len(self.classes_) * total)
        else:
            per_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_[codes]
            )
        return per_class[codes]

    def _choose_kernel(self, X, count):
        data = X.data
        if self.kernel == "linear":
            self.kernel_gamma_ = 1.0
        else:
            per_row = spread_weight(count, X.offsets)
            self.kernel_gamma_ = weighted_gamma(self.gamma, data, per_row)
        explicit = self.n_components is not None or self.landmarks is not None
        self.core_ = self.core
        if self.core == "auto":
            self.core_ = "ksc" if self.kernel == "rbf" and not explicit else "kpca"

    def _kernel_params(self):
        return {
            "kernel": self.kernel,
            "gamma": self.kernel_gamma_,
            "degree": self.degree,
            "coef0": self.coef0,
        }

    def _uses_features(self, X):
        if self.n_components is not None or self.landmarks is not None:
            return True
        if self.kernel != "linear" or self.solver == "ldl":
            return False
        return X.n_features <= min(_MOST_COLUMNS, X.n_instances)

    def _targets(self, codes):
        """Targets -1 / +1: one column for two classes, else one per class."""
        first = 1 if len(self.classes_) == 2 else 0
        wanted = np.arange(first, len(self.classes_))
        return np.where(codes[:, None] == wanted, 1.0, -1.0)

    def _rule(self):
        return GammaRule(self.variance_weight, self.variance_weight_abs)

    @property
    def _iterates(self):
        return self.loss == "huber" or self.aggregation == "max"

    def _aggregation_weight(self, offsets):
        # A maximum is a one-hot mean; the mean has the same sum of weights, one.
        name = "mean" if self.aggregation == "max" else self.aggregation
        return aggregation_weights(name, offsets)

    def _set_rho(self, unit):
        self.rho_ = self.rho / unit if self.rho_scale == "relative" else self.rho

    def _omega(self, X):
        data = X.data.astype(np.float64, copy=False)
        if self.kernel == "linear" and self.solver != "ldl":
            return LinearOmega(data)
        n = X.n_instances
        check_memory(
            8.0 * n * n,
            f"The kernel matrix of {n} instances",
            "Set n_components (for instance 300) to use explicit features.",
        )
        return DenseOmega(instance_kernel(data, **self._kernel_params()))

    def _fit_kernel(self, X, codes, count, loss_weight):
        omega = self._omega(X)
        rows = spread_weight(count, X.offsets)
        degrees = omega @ rows
        total = rows.sum()
        weight = self._aggregation_weight(X.offsets)
        sizes = segment_sum(weight, X.offsets)
        self._set_rho(
            spread_unit(
                float(count @ sizes**2) / count.sum(),
                float(rows @ omega.diagonal()) / total,
                float(rows @ degrees) / total**2,
            )
        )
        variance = self._variance_or_none(X, degrees, rows)
        backend = KernelBackend(
            omega,
            X.offsets,
            rows if variance is None else variance,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self.dual_coef_, self.intercept_ = self._solve(backend, codes, loss_weight)
        if isinstance(omega, LinearOmega):
            self.coef_ = np.asarray(omega.data.T @ self.dual_coef_.T).T
            self.features_ = IdentityFeatures(X.n_features)
            if self._gamma_max is None and variance is not None:
                self._gamma_max = self._border(
                    omega, X.offsets, variance, self.rho_ * loss_weight
                )
        else:
            self.X_fit_ = X.data
            # What gamma_max_ needs when it is asked for later.
            self._fit_offsets, self._fit_count = X.offsets, count
            self._fit_residual = self.rho_ * loss_weight

    def _variance_or_none(self, X, degrees, rows):
        """V; at variance weight zero nothing is refused, because V is not used."""
        if self.variance_weight == 0 and self.variance_weight_abs is None:
            if self.core_ == "ksc" and not np.all(degrees > 0):
                return None
        return instance_variance(self.core_, degrees, rows, row_namer(X))

    def _solve(self, backend, codes, loss_weight):
        """Solve for all outputs; sets the attributes that all solvers share."""
        Y = self._targets(codes)
        residual = self.rho_ * loss_weight
        if self._iterates:
            fits = self._alternate(backend, Y, residual)
        else:
            weight = aggregation_weights(self.aggregation, backend.offsets)
            fits = [backend.solve(weight, residual, Y, self._rule())]
        self.n_iter_ = max(one.n_iter for one in fits)
        bounds = [one.gamma_max for one in fits if one.gamma_max is not None]
        self._gamma_max = float(min(bounds)) if bounds else None
        self.variance_weight_abs_ = float(min(one.gamma for one in fits))
        coef = np.hstack([one.coef for one in fits]).T
        intercept = np.concatenate([one.intercept for one in fits])
        return coef, intercept

    def _alternate(self, backend, Y, residual):
        runs = [
            alternate(
                backend,
                column,
                residual,
                self._rule(),
                aggregation=self.aggregation,
                delta=self.delta if self.loss == "huber" else np.inf,
                tol=self.tol,
                max_iter=self.max_iter,
            )
            for column in Y.T
        ]
        self.objective_ = np.array([run.objective for run in runs])
        self.objective_path_ = [run.path for run in runs]
        return [run.fitted for run in runs]

    def _compute_gamma_max(self):
        """Border of convexity when the fit itself did not need it."""
        if hasattr(self, "moments_"):
            return self._moment_gamma_max()
        X = Bags(self.X_fit_, self._fit_offsets)
        omega = self._omega(X)
        rows = spread_weight(self._fit_count, X.offsets)
        variance = instance_variance(self.core_, omega @ rows, rows, row_namer(X))
        return self._border(omega, X.offsets, variance, self._fit_residual)

    def _border(self, omega, offsets, variance, residual):
        weight = self._aggregation_weight(offsets)
        design = BagDesign(offsets, weight, residual, variance)
        return KernelSystem(omega, design).gamma_max()

    def _kernel_scores(self, X):
        train = self.X_fit_.astype(np.float64, copy=False)
        out = np.empty((X.n_instances, self.dual_coef_.shape[0]))
        for block in row_blocks(X.n_instances, 8.0 * train.shape[0]):
            part = X.data[block].astype(np.float64, copy=False)
            K = instance_kernel(part, train, **self._kernel_params())
            out[block] = K @ self.dual_coef_.T + self.intercept_
        return out
