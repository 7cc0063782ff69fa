"""SAFE on explicit features: moments of chunks, and what is solved from them."""

import numpy as np
from sklearn.utils import check_array, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import _check_sample_weight, _fit_context
from bagwise.kernels._instance import check_memory
from bagwise.least_squares._weights import instance_variance, row_namer
from bagwise.least_squares.safe._backends import FeatureBackend, spread_weight
from bagwise.least_squares.safe._design import aggregation_weights
from bagwise.least_squares.safe._features import (
    FourierFeatures,
    IdentityFeatures,
    LandmarkFeatures,
    draw_landmarks,
    feature_chunks,
    project,
    with_ones,
)
from bagwise.least_squares.safe._moments import MomentSystem, chunk_moments


def _can_stream(estimator):
    """Whether additive moments decide the fit; used with `available_if`."""
    if estimator._iterates:
        raise AttributeError(
            "partial_fit needs loss='squared' and aggregation 'sum', 'mean' or 'sqrt': "
            "Huber weights and witnesses change with every new bag."
        )
    explicit = estimator.n_components is not None or estimator.landmarks is not None
    if explicit or estimator.kernel == "linear":
        return True
    raise AttributeError(
        "partial_fit needs explicit features: set n_components (for instance 300), or "
        f"kernel='linear'. The exact {estimator.kernel} kernel cannot be streamed."
    )


class SAFEStreamMixin:
    """Fitting from additive moments."""

    def _choose_features(self, X, drawn=None):
        """Set `features_`; landmarks are `drawn` already, or drawn from `X`."""
        if self.landmarks is not None:
            marks = check_array(self.landmarks, accept_sparse="csr", dtype=np.float64)
            if marks.shape[1] != X.n_features:
                raise ValueError(
                    f"landmarks have {marks.shape[1]} columns, the instances have "
                    f"{X.n_features}."
                )
            self.features_ = LandmarkFeatures(marks, self._kernel_params())
        elif self.n_components is None:
            self.features_ = IdentityFeatures(X.n_features)
        elif self.approximation == "rff":
            self.features_ = FourierFeatures(
                X.n_features, self.n_components, self.kernel_gamma_, self.random_state
            )
        else:
            if drawn is None:
                n, m = X.n_instances, self.n_components
                drawn = X.data[draw_landmarks(n, m, self.random_state)]
                drawn = drawn.astype(np.float64, copy=False)
            self.features_ = LandmarkFeatures(drawn, self._kernel_params())
        p = self.features_.n_features_out + 1
        check_memory(
            24.0 * p * p,
            f"The moments of {p - 1} features",
            "Set n_components to use fewer features.",
        )

    def _degree_floor(self):
        # The degree of an instance under the RBF kernel is at least that of itself.
        approximate = not isinstance(self.features_, IdentityFeatures)
        return 1.0 if self.kernel == "rbf" and approximate else 0.0

    def _accumulate(self, X, codes, count, loss_weight, *, first=None, instance=True):
        """Moments of some bags; `first` is the total of the features, for ksc."""
        weight = self._aggregation_weight(X.offsets)
        rows = spread_weight(count, X.offsets)
        plain = bool(np.all(count == 1.0))
        total = None
        for bag, row, chunk in feature_chunks(self.features_, X):
            bags = slice(bag, bag + chunk.n_bags)
            inside = slice(row, row + chunk.n_instances)
            phi = with_ones(self.features_, chunk.data)
            if not instance:
                variance = None
            elif first is None:
                variance = 1.0 if plain else rows[inside]
            else:
                variance = instance_variance(
                    "ksc",
                    phi[:, :-1] @ first[:-1],
                    rows[inside],
                    row_namer(chunk),
                    floor=self._degree_floor(),
                )
            part = chunk_moments(
                phi,
                chunk.offsets,
                weight[inside],
                count[bags],
                loss_weight[bags],
                codes[bags],
                len(self.classes_),
                variance,
            )
            total = part if total is None else total + part
        return total

    def _feature_total(self, X, count):
        """Weighted sum of the features: the first pass of the ksc core."""
        rows = spread_weight(count, X.offsets)
        total = np.zeros(self.features_.n_features_out + 1)
        for _, row, chunk in feature_chunks(self.features_, X):
            phi = with_ones(self.features_, chunk.data)
            total += rows[row : row + chunk.n_instances] @ phi
        return total

    def _fit_features(self, X, codes, count, loss_weight):
        self._choose_features(X)
        ksc = self.core_ == "ksc"
        first = self._feature_total(X, count) if ksc else None
        if self._iterates:
            self._fit_feature_alternation(X, codes, count, loss_weight, first)
            return
        wanted = self.variance_weight > 0 or self.variance_weight_abs is not None
        try:
            moments = self._accumulate(X, codes, count, loss_weight, first=first)
        except ValueError:
            if wanted:
                raise
            # Degrees that are not positive do not matter without variance weight.
            moments = self._accumulate(X, codes, count, loss_weight, instance=False)
        self._solve_moments(moments)
        if isinstance(self.features_, IdentityFeatures):
            self._set_dual(X, codes, count, loss_weight, first)

    def _set_dual(self, X, codes, count, loss_weight, first):
        """Dual coefficients alpha = J R (y - J'e) + gamma V e of the linear kernel."""
        e = np.asarray(X.data @ self.coef_.T) + self.intercept_
        weight = aggregation_weights(self.aggregation, X.offsets)[:, None]
        gap = self._targets(codes) - self._bag_matrix(e, X.offsets)
        alpha = weight * spread_weight(
            self.rho_ * loss_weight[:, None] * gap, X.offsets
        )
        if self.variance_weight_abs_ > 0:
            rows = spread_weight(count, X.offsets)
            degrees = None if first is None else np.asarray(X.data @ first[:-1])
            v = instance_variance(self.core_, degrees, rows, row_namer(X))
            alpha += self.variance_weight_abs_ * v[:, None] * e
        self.dual_coef_ = alpha.T

    def _fit_feature_alternation(self, X, codes, count, loss_weight, first):
        rows = spread_weight(count, X.offsets)
        moments = self._accumulate(X, codes, count, loss_weight, instance=False)
        self._set_rho(moments.relative_scale())
        degrees = None
        if first is not None:
            theta = np.append(first[:-1], 0.0)[:, None]
            degrees = project(self.features_, X, theta)[:, 0]
        variance = instance_variance(
            self.core_, degrees, rows, row_namer(X), floor=self._degree_floor()
        )
        backend = FeatureBackend(self.features_, X, variance)
        self.coef_, self.intercept_ = self._solve(backend, codes, loss_weight)
        if self._gamma_max is None:
            weight = self._aggregation_weight(X.offsets)
            self._gamma_max = backend.gamma_max(weight, self.rho_ * loss_weight)

    def _solve_moments(self, moments):
        """Set the fitted attributes from moments."""
        self.moments_ = moments
        self._set_rho(moments.relative_scale())
        system = MomentSystem(moments.bag, moments.instance, self.rho_)
        self.variance_weight_abs_, self._gamma_max = self._rule()(system.gamma_max)
        right = moments.signed_targets()
        right = right[:, 1:] if len(self.classes_) == 2 else right
        theta = system.solve(right, self.variance_weight_abs_)
        self.coef_, self.intercept_ = theta[:-1].T, theta[-1]
        self.n_iter_ = 1

    def _moment_gamma_max(self):
        moments = self.moments_
        if moments.instance is None:
            raise AttributeError(
                "gamma_max_ of core='ksc' needs the degrees of all instances: it is "
                "known after fit with positive degrees, not after partial_fit."
            )
        return MomentSystem(moments.bag, moments.instance, self.rho_).gamma_max()

    def _check_stream(self):
        """Refuse what additive moments cannot give."""
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' is not known before all bags are seen; give "
                "partial_fit a dict of class weights."
            )
        weighted = self.variance_weight > 0 or self.variance_weight_abs is not None
        if self.core == "ksc" and weighted:
            raise ValueError(
                "core='ksc' with variance weight needs the degrees of all instances "
                "before the first bag. Use core='kpca', or bagwise.distributed.fit, "
                "which passes over the parts twice."
            )

    def _merge_classes(self, y, classes):
        """Extend `classes_` by new labels; moments seen so far follow."""
        check_classification_targets(y)
        new = np.unique(y) if classes is None else np.unique(classes)
        if classes is not None and not np.isin(y, new).all():
            strange = np.setdiff1d(y, new)[0]
            raise ValueError(f"y holds {strange}, which is not among classes={new}.")
        old = getattr(self, "classes_", new)
        self.classes_ = np.union1d(old, new)
        if hasattr(self, "moments_") and len(self.classes_) > len(old):
            place = np.searchsorted(self.classes_, old)
            self.moments_ = self.moments_.with_classes(place, len(self.classes_))
        return np.searchsorted(self.classes_, y)

    @available_if(_can_stream)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add bags to the training set.

        The result is that of `fit` on all bags so far, on the same features: those
        of `fit`, or of the first chunk (its kernel width, its landmarks), unless
        `gamma` and `landmarks` are given as numbers.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            More training bags.
        y : array-like of shape (n_bags,)
            Their labels. Labels not seen before become new classes.
        classes : array-like, default=None
            All labels that may come, if known.
        sample_weight : array-like of shape (n_bags,), default=None
            How often each bag counts.

        Returns
        -------
        self
        """
        started = hasattr(self, "moments_")
        self._check_options()
        self._check_stream()
        X, y = self._check_bags(X, y, reset=not started)
        if not started:
            self._forget()
            if hasattr(self, "classes_"):
                del self.classes_
        codes = self._merge_classes(y, classes)
        count = _check_sample_weight(sample_weight, np.empty((len(codes), 1)))
        if (count < 0).any():
            raise ValueError("sample_weight must not be negative.")
        if not started:
            self._choose_kernel(X, np.ones(len(codes)))
            self._choose_features(X)
        instance = self.core_ == "kpca"
        loss_weight = count * self._fixed_class_factor(codes)
        moments = self._accumulate(X, codes, count, loss_weight, instance=instance)
        self._absorb(self.moments_ + moments if started else moments)
        return self

    def _fixed_class_factor(self, codes):
        if self.class_weight is None:
            return np.ones(len(codes))
        per_class = compute_class_weight(
            self.class_weight, classes=self.classes_, y=self.classes_
        )
        return per_class[codes]

    def _absorb(self, moments):
        """Take over moments, and solve as soon as there are two classes."""
        if len(self.classes_) > 1:
            self._solve_moments(moments)
        else:
            self.moments_ = moments

    def _check_solved(self):
        if hasattr(self, "moments_") and not hasattr(self, "intercept_"):
            raise ValueError(
                f"Only one class was seen so far: {self.classes_[0]}. Pass bags of "
                "another class, or classes=, to partial_fit."
            )
        check_is_fitted(self, "intercept_")
