"""What the classifier and the regressor share: a stream, fitted attributes, scores."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise.bags.segments import segment_max, segment_sum
from bagwise.base import BaseBagEstimator
from bagwise.least_squares.safe._kernel import kernel_scores
from bagwise.least_squares.safe.features import (
    IdentityFeatures,
    features_from,
    linear_scores,
    project,
)
from bagwise.least_squares.safe.fit import solve_moments
from bagwise.least_squares.safe.moments import FeatureMap
from bagwise.least_squares.safe.problem import Settings

# Fitted attribute -> field of a solution; what a solution lacks is removed.
_ATTRIBUTES = {
    "kernel_gamma_": "kernel_gamma",
    "core_": "core",
    "rho_": "rho",
    "variance_weight_abs_": "gamma",
    "n_iter_": "n_iter",
    "intercept_": "intercept",
    "coef_": "coef",
    "dual_coef_": "dual_coef",
    "features_": "features",
    "X_fit_": "X_fit",
    "moments_": "moments",
    "objective_": "objective",
    "objective_path_": "objective_path",
}


def can_stream(estimator):
    """Whether additive moments decide the fit; used with `available_if`."""
    settings = Settings.of(estimator)
    if settings.iterates:
        raise AttributeError(
            "partial_fit needs loss='squared' and aggregation 'sum', 'mean' or 'sqrt': "
            "Huber weights and witnesses change with every new bag."
        )
    if settings.explicit or settings.kernel == "linear":
        return True
    raise AttributeError(
        "partial_fit needs explicit features: set n_components (for instance 300), or "
        f"kernel='linear'. The exact {settings.kernel} kernel cannot be streamed."
    )


class BaseSAFE(BaseBagEstimator):
    """Least squares on sums over bags, fitted by `fit_bags` or from moments."""

    def _forget(self):
        """Remove what an earlier fit left behind."""
        for name in (*_ATTRIBUTES, "_gamma_max", "_border"):
            if hasattr(self, name):
                delattr(self, name)

    def _take(self, solution):
        """Set the fitted attributes."""
        self._forget()
        for name, field in _ATTRIBUTES.items():
            value = getattr(solution, field)
            if value is not None:
                setattr(self, name, value)
        self._gamma_max, self._border = solution.gamma_max, solution.border

    def _extend(self, training, targets, *, solve=True):
        """Add the moments of more bags and solve; features stay what they were."""
        settings = Settings.of(self)
        if settings.core == "ksc" and settings.rule.needed:
            raise ValueError(
                "core='ksc' with variance weight needs the degrees of all instances "
                "before the first bag. Use core='kpca', or bagwise.distributed.fit, "
                "which passes over the parts twice."
            )
        started = hasattr(self, "moments_")
        if started:
            settings = settings.with_kernel(self.kernel_gamma_, self.core_)
            features = self.features_
        else:
            settings = settings.resolved(training.X, np.ones(training.X.n_bags))
            features = features_from(settings, training.X)
        moments = FeatureMap(settings, features).moments(
            training, instance=settings.core == "kpca"
        )
        if started:
            moments = self.moments_ + moments
        if solve:
            self._take(solve_moments(settings, features, moments, targets))
        else:
            self.kernel_gamma_, self.core_ = settings.gamma, settings.core
            self.features_, self.moments_ = features, moments

    @property
    def gamma_max_(self):
        """Border of convexity for the training bags."""
        check_is_fitted(self, "intercept_")
        if self._gamma_max is None:
            if self._border is None:
                raise AttributeError(
                    "gamma_max_ of core='ksc' is not defined: degrees of instances "
                    "are not positive. Use core='kpca'."
                )
            self._gamma_max = self._border.gamma_max()
        return self._gamma_max

    def _instance_matrix(self, X):
        """Scores of all instances, one column for each output."""
        if hasattr(self, "X_fit_"):
            kernel = Settings.of(self).with_kernel(self.kernel_gamma_).kernel_params
            return kernel_scores(
                X, self.X_fit_, kernel, self.dual_coef_, self.intercept_
            )
        if isinstance(self.features_, IdentityFeatures):
            return linear_scores(X, self.coef_, self.intercept_)
        return project(self.features_, X, np.vstack([self.coef_.T, self.intercept_]))

    def _bag_matrix(self, e, offsets):
        """Scores of bags, from those of their instances."""
        if self.aggregation == "max":
            return segment_max(e, offsets)
        weight = Settings.of(self).aggregation_weight(offsets)
        return segment_sum(weight[:, None] * e, offsets)

    @staticmethod
    def _output(matrix):
        """Return one column as a vector."""
        return matrix[:, 0] if matrix.shape[1] == 1 else matrix
