"""What the codebook embeddings share: a projection, and the power normalisation."""

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.cluster import KMeans

from bagwise.solvers.moments import Moments


class EnergyProjection:
    """Principal axes that hold a share of the variance.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Subtracted from every row.
    power : ndarray
        Variances along the axes, from the largest.
    axes : ndarray of shape (len(power), n_features)
        The axes.
    energy : float
        Share of the variance to keep, in (0, 1].
    """

    def __init__(self, mean, power, axes, energy):
        self.mean = mean
        power = np.maximum(power, 0.0)
        total = power.sum()
        # Directions of rounding noise would be blown up by whoever whitens them.
        kept = int((power > 1e-10 * power[0]).sum()) if total > 0 else 1
        share = np.cumsum(power) / (total or 1.0)
        kept = max(1, min(kept, int(np.searchsorted(share, energy - 1e-12)) + 1))
        axes = axes[:kept]
        largest = np.abs(axes).argmax(axis=1)
        signs = np.sign(axes[np.arange(kept), largest])
        self.axes = axes * np.where(signs == 0, 1.0, signs)[:, None]
        self.variance = float(power[:kept].mean())

    @classmethod
    def of_rows(cls, data, energy):
        """Find the axes of rows in memory."""
        if data.shape[0] >= data.shape[1]:
            return cls.of_moments(Moments.of(data), energy)
        mean = data.mean(axis=0, dtype=np.float64)
        _, s, axes = scipy.linalg.svd(data - mean, full_matrices=False)
        return cls(mean, s**2 / len(data), axes, energy)

    @classmethod
    def of_moments(cls, found, energy):
        """Find the axes from `Moments`, wherever their rows are."""
        power, axes = scipy.linalg.eigh(found.scatter / found.weight)
        return cls(found.mean, power[::-1], axes[:, ::-1].T, energy)

    def __call__(self, data, *, single=False):
        """Project instances; with `single`, those of single precision stay in it."""
        kind = np.float32 if single and data.dtype == np.float32 else np.float64
        centred = data - self.mean.astype(kind, copy=False)
        return centred @ self.axes.T.astype(kind, copy=False)


def k_means(data, n_clusters, random_state):
    """Cluster the rows, with no more clusters than there are distinct rows."""
    if n_clusters > 1:
        limit = min(n_clusters, data.shape[0])
        n_clusters = distinct_rows(data, limit)
    return KMeans(n_clusters, n_init=1, random_state=random_state).fit(data)


def distinct_rows(data, enough):
    """Count distinct rows, looking no further than needed."""
    seen = set()
    for i in range(data.shape[0]):
        row = data[[i]]
        row = row.toarray() if sp.issparse(row) else row
        seen.add((row + 0.0).tobytes())  # minus zero is zero
        if len(seen) >= enough:
            break
    return len(seen)


def power_l2(rows):
    """Signed square root, then unit length; zero rows stay zero."""
    rows = np.sign(rows) * np.sqrt(np.abs(rows))
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 0)
