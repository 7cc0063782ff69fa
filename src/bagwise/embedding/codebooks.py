"""Embeddings by a codebook of clusters: histograms (BoW) and residuals (miVLAD)."""

from numbers import Integral, Real

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, _fit_context
from bagwise.bags.chunks import Moments
from bagwise.bags.segments import bag_matrix, segment_sum
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.kernels.instance import row_blocks, squared_distances


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
        # Rounding noise is dropped, because whitening would amplify it.
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
        centered = data - self.mean.astype(kind, copy=False)
        return centered @ self.axes.T.astype(kind, copy=False)


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
        seen.add((row + 0.0).tobytes())  # turns -0.0 into 0.0
        if len(seen) >= enough:
            break
    return len(seen)


def power_l2(rows):
    """Signed square root, then unit length; zero rows stay zero."""
    rows = np.sign(rows) * np.sqrt(np.abs(rows))
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 0)


class BagOfWords(
    ClassNamePrefixFeaturesOutMixin, BagTransformerMixin, BaseBagEstimator
):
    r"""Describe a bag by the number of its instances in each cluster.

    With :math:`k` cluster centers :math:`c` found on the training instances,

    .. math::
        \phi_k(B) = \sqrt{\tfrac{1}{|B|} \, \#\{x \in B : k = \arg\min_l |x - c_l|\}}

    where the square root (the Hellinger map) is taken when `hellinger` is set.

    Parameters
    ----------
    n_clusters : int, default=100
        Number of clusters; no more than there are distinct instances.
    soft : bool, default=False
        Whether an instance is shared among clusters in proportion to
        :math:`e^{-|x - c_k|^2 / \sigma^2}`, with :math:`\sigma^2` the mean squared
        distance of training instances to their center.
    hellinger : bool, default=True
        Whether to take square roots.
    random_state : int or RandomState, default=None
        Start of k-means.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers.
    width_ : float
        :math:`\sigma^2` of the soft assignment.

    Notes
    -----
    Differs from [1]_: nothing but the optional soft assignment. Costs O(n_instances *
    n_clusters * n_features) per k-means step. More instances need more steps: the
    measured time grows like O(n_instances**1.6).

    CSR instances stay sparse, and have the clusters of dense ones up to rounding. Where
    instances are equally far from several clusters, as integer counts often are,
    rounding decides, and results for CSR and for dense data differ.

    References
    ----------
    .. [1] Sivic, J. and Zisserman, A., "Video Google: a text retrieval approach to
       object matching in videos", ICCV, 2003. :doi:`10.1109/ICCV.2003.1238663`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.embedding import BagOfWords
    >>> X, y = make_bags(random_state=0)
    >>> BagOfWords(8, random_state=0).fit_transform(X).shape
    (30, 8)
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "soft": ["boolean"],
        "hellinger": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_clusters=100, *, soft=False, hellinger=True, random_state=None
    ):
        self.n_clusters = n_clusters
        self.soft = soft
        self.hellinger = hellinger
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.order_invariant = False  # clusters begin at sampled rows
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Find the clusters.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        X = self._check_bags(X, reset=True)
        found = k_means(X.data, self.n_clusters, self.random_state)
        self.cluster_centers_ = found.cluster_centers_
        self.width_ = max(found.inertia_ / X.n_instances, np.finfo(np.float64).tiny)
        self.soft_, self.hellinger_ = self.soft, self.hellinger
        self._n_features_out = len(self.cluster_centers_)
        return self

    def transform(self, X):
        """Return the histogram of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_clusters)
            Histograms. With `hellinger` their squares sum to one, otherwise their
            entries.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        share = np.zeros((X.n_instances, self._n_features_out))
        for rows in row_blocks(X.n_instances, 24.0 * self._n_features_out):
            D = squared_distances(X.data[rows], self.cluster_centers_)
            if self.soft_:
                D -= D.min(axis=1, keepdims=True)
                np.exp(-D / self.width_, out=D)
                share[rows] = D / D.sum(axis=1, keepdims=True)
            else:
                share[np.arange(rows.start, rows.stop), D.argmin(axis=1)] = 1.0
        histogram = bag_matrix(X.offsets, mean=True) @ share
        return np.sqrt(histogram) if self.hellinger_ else histogram


class MiVLAD(ClassNamePrefixFeaturesOutMixin, BagTransformerMixin, BaseBagEstimator):
    r"""Describe a bag by the sums of differences from the nearest cluster centers.

    With :math:`z` the principal components of an instance and :math:`c_k` the centers
    of `n_clusters` clusters, block :math:`k` of the vector of a bag is ([1]_)

    .. math:: v_k(B) = \sum_{x \in B,\; c(x) = k} (z - c_k),

    then the signed square root of every entry, and unit length.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters; small values are best.
    energy : float, default=0.9
        Share of the variance that the principal components keep.
    random_state : int or RandomState, default=None
        Start of k-means.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_kept)
        The centers, in principal components.
    components_ : ndarray of shape (n_kept, n_features)
        The principal axes.

    Notes
    -----
    Differs from [1]_: nothing. Costs O(n_instances * n_features * n_kept): one of
    the two fastest methods at scale. Follow it with a linear classifier.

    References
    ----------
    .. [1] Wei, X.-S., Wu, J. and Zhou, Z.-H., "Scalable algorithms for multi-instance
       learning", IEEE TNNLS, 2017. :doi:`10.1109/TNNLS.2016.2519102`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.embedding import MiVLAD
    >>> X, y = make_bags(random_state=0)
    >>> MiVLAD(energy=1.0, random_state=0).fit_transform(X).shape
    (30, 10)
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "energy": [Interval(Real, 0, 1, closed="right")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_clusters=2, *, energy=0.9, random_state=None):
        self.n_clusters = n_clusters
        self.energy = energy
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.order_invariant = False  # clusters begin at sampled rows
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Find the principal axes and the clusters.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        X = self._check_bags(X, reset=True)
        self._project = EnergyProjection.of_rows(X.data, self.energy)
        self.components_ = self._project.axes
        self._codebook = k_means(
            self._project(X.data), self.n_clusters, self.random_state
        )
        self.cluster_centers_ = self._codebook.cluster_centers_
        self._n_features_out = self.cluster_centers_.size
        return self

    def transform(self, X):
        """Return the vector of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_clusters * n_kept)
            Rows of unit length.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        Z = self._project(X.data)
        nearest = self._codebook.predict(Z)
        blocks = [
            segment_sum((Z - center) * (nearest == k)[:, None], X.offsets)
            for k, center in enumerate(self.cluster_centers_)
        ]
        return power_l2(np.hstack(blocks))
