"""miVLAD: sums of the differences between instances and their cluster centre."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, _fit_context
from bagwise.bags.segments import segment_sum
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.embedding.codebook import EnergyProjection, k_means, power_l2


class MiVLAD(ClassNamePrefixFeaturesOutMixin, BagTransformerMixin, BaseBagEstimator):
    r"""Describe a bag by what its instances add to each cluster centre.

    With :math:`z` the principal components of an instance and :math:`c_k` the centres
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
        The centres, in principal components.
    components_ : ndarray of shape (n_kept, n_features)
        The principal axes.

    Notes
    -----
    Differs from [1]_: nothing known. Costs O(n_instances * n_features * n_kept): one of
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
        tags.input_tags.order_invariant = False  # clusters begin at drawn rows
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
            segment_sum((Z - centre) * (nearest == k)[:, None], X.offsets)
            for k, centre in enumerate(self.cluster_centers_)
        ]
        return power_l2(np.hstack(blocks))
