"""Explicit features of instances: the data, Nystroem landmarks, random cosines."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, check_random_state

from bagwise._sizes import check_memory
from bagwise.kernels.basis import fit_basis

# Rows of features worked on at a time: large enough for full speed of the matrix
# products, small enough to stay near the caches.
_CHUNK_BYTES = 2**24


class IdentityFeatures:
    """The linear kernel: the features are the columns themselves."""

    def __init__(self, n_features):
        self.n_features_out = n_features

    def fill(self, data, out):
        """Write the features of `data` into `out`."""
        out[:] = data.toarray() if sp.issparse(data) else data


class LandmarkFeatures:
    """Nystroem features k(x, landmarks) T, whitened by eigenvectors.

    Directions with an eigenvalue below 1e-10 of the largest are dropped.
    """

    def __init__(self, landmarks, kernel_params):
        basis = fit_basis(landmarks, method="eigh", **kernel_params)
        self.basis = basis.without_rows()
        # Eigenvectors have no sign of their own; fix it, so that coefficients do not
        # depend on the last bit of the kernel width.
        T = self.basis.projection
        top = np.abs(T).argmax(axis=0)
        self.basis.projection = T * np.sign(T[top, np.arange(T.shape[1])])
        self.n_features_out = self.basis.rank

    def fill(self, data, out):
        """Write the features of `data` into `out`."""
        out[:] = self.basis.transform(data)


class FourierFeatures:
    """Random Fourier features sqrt(2/m) cos(x'W + c) of the RBF kernel."""

    def __init__(self, n_features, n_components, gamma, random_state):
        rng = check_random_state(random_state)
        self.n_features_out = n_components
        self.frequencies = np.sqrt(2.0 * gamma) * rng.standard_normal(
            (n_features, n_components)
        )
        self.phases = rng.uniform(0.0, 2.0 * np.pi, n_components)

    def fill(self, data, out):
        """Write the features of `data` into `out`."""
        out[:] = data @ self.frequencies
        out += self.phases
        np.cos(out, out=out)
        out *= np.sqrt(2.0 / self.n_features_out)


def draw_landmarks(n_instances, n_components, random_state):
    """Row numbers of the landmarks, sorted; all rows when there are too few."""
    rng = check_random_state(random_state)
    return np.sort(rng.permutation(n_instances)[:n_components])


def choose_features(settings, n_features, draw):
    """Return the explicit features that resolved settings ask for.

    Parameters
    ----------
    settings : Settings
        With a known width.
    n_features : int
        Number of columns of the instances.
    draw : callable
        Called without arguments, gives the rows that `draw_landmarks` chose; only
        when landmarks have to be drawn.
    """
    if settings.landmarks is not None:
        marks = check_array(settings.landmarks, accept_sparse="csr", dtype=np.float64)
        if marks.shape[1] != n_features:
            raise ValueError(
                f"landmarks have {marks.shape[1]} columns, the instances have "
                f"{n_features}."
            )
        features = LandmarkFeatures(marks, settings.kernel_params)
    elif settings.n_components is None:
        features = IdentityFeatures(n_features)
    elif settings.approximation == "rff":
        features = FourierFeatures(
            n_features, settings.n_components, settings.gamma, settings.random_state
        )
    else:
        marks = draw().astype(np.float64, copy=False)
        features = LandmarkFeatures(marks, settings.kernel_params)
    p = features.n_features_out + 1
    check_memory(
        24.0 * p * p,
        f"The moments of {p - 1} features",
        "Set n_components to use fewer features.",
    )
    return features


def features_from(settings, X):
    """Explicit features whose landmarks, if any, are drawn from the bags `X`."""
    n, m = X.n_instances, settings.n_components
    return choose_features(
        settings,
        X.n_features,
        lambda: X.take_rows(draw_landmarks(n, m, settings.random_state)),
    )


def with_ones(features, data):
    """Features of `data` with a last column of ones, for the intercept."""
    data = data.astype(np.float64, copy=False)
    out = np.empty((data.shape[0], features.n_features_out + 1))
    features.fill(data, out[:, :-1])
    out[:, -1] = 1.0
    return out


def feature_chunks(features, X):
    """Yield pieces of the bags of bounded size, as (first bag, first row, bags)."""
    rows = max(256, _CHUNK_BYTES // (8 * (features.n_features_out + 1)))
    bag = row = 0
    for chunk in X.iter_chunks(rows):
        yield bag, row, chunk
        bag += chunk.n_bags
        row += chunk.n_instances


def project(features, X, theta):
    """Instance scores: features times `theta` (last row: intercepts), by chunks."""
    scores = np.empty((X.n_instances, theta.shape[1]))
    for _, row, chunk in feature_chunks(features, X):
        scores[row : row + chunk.n_instances] = with_ones(features, chunk.data) @ theta
    return scores


def linear_scores(X, coef, intercept):
    """Instance scores of the linear kernel; dense data are converted by chunks."""
    if X.is_sparse:
        return np.asarray(X.data @ coef.T) + intercept
    return project(IdentityFeatures(X.n_features), X, np.vstack([coef.T, intercept]))
