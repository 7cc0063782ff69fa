"""Mean soft cluster memberships of a bag: the first stage of SKSC + LS-SVM."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise.bags.segments import segment_mean
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.least_squares import KernelSpectralClustering


class SoftKSCEmbedding(BagTransformerMixin, BaseBagEstimator):
    r"""Embed a bag by the mean membership of its instances in clusters.

    .. math::
        v_q(B) = \frac{1}{|B|} \sum_{x \in B} m_q(x), \qquad q = 1, \dots, k

    where :math:`m_q` is the soft membership in cluster q of
    :class:`~bagwise.least_squares.KernelSpectralClustering` with k = `n_clusters`,
    fitted on all instances. Followed by :class:`~bagwise.least_squares.LSSVC` it is
    the two-stage method SKSC + LS-SVM that [1]_ compares SAFE with.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters, the words of the vocabulary.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        Kernel of instances.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Width of the kernel.
    n_components : int, default=None
        Number of Nystroem landmarks that replace the exact kernel.
    random_state : int, RandomState or None, default=None
        Random seed of the landmarks.

    Attributes
    ----------
    clustering_ : KernelSpectralClustering
        The vocabulary.

    Notes
    -----
    Differs from [1]_: nothing but the choices that are documented in
    :class:`~bagwise.least_squares.KernelSpectralClustering`. The labels are not used.
    Cost: that of the clustering, n**2 without `n_components`.

    References
    ----------
    .. [1] Langone, R. and Suykens, J. A. K., "Supervised aggregated feature learning
       for multiple instance classification", Information Sciences, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.embedding import SoftKSCEmbedding
    >>> X = [np.array([[0.0], [0.1]]), np.array([[5.0], [5.1]])]
    >>> SoftKSCEmbedding(2).fit_transform(X).argmax(axis=1).shape
    (2,)
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions({"rbf", "linear", "poly"})],
        "gamma": [
            StrOptions({"scale", "auto", "median"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        kernel="rbf",
        gamma="scale",
        n_components=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        # Means do not change, and degrees change by one factor. Landmarks are random.
        tags.input_tags.duplicate_invariant = (
            True if self.n_components is None else None
        )
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Cluster the instances of all bags.

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
        self.clustering_ = KernelSpectralClustering(
            self.n_clusters,
            kernel=self.kernel,
            gamma=self.gamma,
            n_components=self.n_components,
            random_state=self.random_state,
        ).fit(X.data)
        return self

    def transform(self, X):
        """Return the mean memberships of bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_clusters)
            One row per bag; rows sum to one.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return segment_mean(self.clustering_.memberships(X.data), X.offsets)

    def get_feature_names_out(self, input_features=None):
        """Return names of the columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            "softkscembedding0", and so on.
        """
        check_is_fitted(self)
        found = len(self.clustering_.codebook_)
        names = [f"softkscembedding{i}" for i in range(found)]
        return np.asarray(names, dtype=object)
