"""Bag of words: a histogram of clusters."""

from numbers import Integral

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, _fit_context
from bagwise.bags.segments import bag_matrix
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.embedding.codebook import k_means
from bagwise.kernels.instance import row_blocks, squared_distances


class BagOfWords(
    ClassNamePrefixFeaturesOutMixin, BagTransformerMixin, BaseBagEstimator
):
    r"""Describe a bag by how many of its instances fall into each cluster.

    With :math:`k` cluster centres :math:`c` found on the training instances,

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
        distance of training instances to their centre.
    hellinger : bool, default=True
        Whether to take square roots.
    random_state : int or RandomState, default=None
        Start of k-means.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres.
    width_ : float
        :math:`\sigma^2` of the soft assignment.

    Notes
    -----
    Differs from [1]_: nothing but the optional soft assignment. Costs O(n_instances *
    n_clusters * n_features) a k-means step. More instances need more steps: measured,
    the time grows like O(n_instances**1.6). CSR instances stay sparse.

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
        tags.input_tags.order_invariant = False  # clusters begin at drawn rows
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
            Histograms; their squares sum to one with `hellinger`, they do without.
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
