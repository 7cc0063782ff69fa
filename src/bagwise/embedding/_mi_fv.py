"""miFV: Fisher vectors of bags under a Gaussian mixture."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, _fit_context
from bagwise.bags.chunks import Chunks, Moments, larger_than_chunk
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.embedding._loops import fisher_sums
from bagwise.embedding.codebooks import EnergyProjection, distinct_rows, power_l2


class MiFV(ClassNamePrefixFeaturesOutMixin, BagTransformerMixin, BaseBagEstimator):
    r"""Describe a bag by its Fisher vector under a Gaussian mixture.

    A mixture of `n_components` Gaussians with diagonal covariances is fitted to the
    principal components :math:`z` of the training instances. With posteriors
    :math:`q_k`, the blocks of a bag are ([1]_, [2]_)

    .. math::
        \frac{1}{|B| \sqrt{\pi_k}} \sum_{x \in B} q_k \frac{z - \mu_k}{\sigma_k},
        \qquad
        \frac{1}{|B| \sqrt{2 \pi_k}} \sum_{x \in B} q_k
            \Big(\frac{(z - \mu_k)^2}{\sigma_k^2} - 1\Big),

    then the signed square root of every entry, and unit length.

    Parameters
    ----------
    n_components : int, default=2
        Number of Gaussians; small values are best.
    energy : float, default=0.9
        Share of the variance that the principal components keep. With 1, directions of
        noise are whitened as well, which reduces the accuracy.
    max_samples : int or None, default=100_000
        The mixture is fitted on a random sample of at most this many instances;
        None takes all. The principal axes always come from all instances.
    random_state : int or RandomState, default=None
        Start of the mixture, and the sample.

    Attributes
    ----------
    mixture_ : GaussianMixture
        The mixture, in principal components.
    components_ : ndarray of shape (n_kept, n_features)
        The principal axes.

    Notes
    -----
    Differs from [1]_: the mixture sees a sample of very large data. Costs
    O(n_instances * n_components * n_kept) after one pass for the principal axes: one of
    the two fastest methods at scale. Memory maps larger than memory are read in chunks.
    Follow it with a linear classifier.

    References
    ----------
    .. [1] Wei, X.-S., Wu, J. and Zhou, Z.-H., "Scalable algorithms for multi-instance
       learning", IEEE TNNLS, 2017. :doi:`10.1109/TNNLS.2016.2519102`
    .. [2] Sanchez, J., Perronnin, F., Mensink, T. and Verbeek, J., "Image
       classification with the Fisher vector", IJCV, 2013.
       :doi:`10.1007/s11263-013-0636-x`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.embedding import MiFV
    >>> X, y = make_bags(random_state=0)
    >>> MiFV(energy=1.0, random_state=0).fit_transform(X).shape
    (30, 20)
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "energy": [Interval(Real, 0, 1, closed="right")],
        "max_samples": [Interval(Integral, 2, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self, n_components=2, *, energy=0.9, max_samples=100_000, random_state=None
    ):
        self.n_components = n_components
        self.energy = energy
        self.max_samples = max_samples
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.order_invariant = False  # clusters begin at sampled rows
        tags.input_tags.chunked = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit the principal axes and the mixture.

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
        if larger_than_chunk(X):
            found = Chunks(X).sum(_covariance, X.dtype == np.float16)
            project = EnergyProjection.of_moments(found, self.energy)
        else:
            project = EnergyProjection.of_rows(X.data, self.energy)
        rows = self._sample_rows(X.n_instances)
        sample = X.in_memory().data if rows is None else X.take_rows(rows)
        self._fit_mixture(project, sample)
        return self

    def _sample_rows(self, n_instances):
        """Return the rows that the mixture sees, sorted; None for all of them."""
        if self.max_samples is None or n_instances <= self.max_samples:
            return None
        rng = check_random_state(self.random_state)
        return np.sort(rng.permutation(n_instances)[: self.max_samples])

    def _fit_mixture(self, project, sample):
        """Set everything fitted, from the principal axes and instances in memory."""
        self._project = project
        self.components_ = project.axes
        n_distinct = distinct_rows(sample, self.n_components)
        # The floor of the variances must follow the units of the data.
        floor = 1e-4 * project.variance or 1e-10
        self.mixture_ = GaussianMixture(
            n_distinct,
            covariance_type="diag",
            reg_covar=floor,
            max_iter=500,
            random_state=self.random_state,
        ).fit(project(sample))
        self._n_features_out = 2 * self.mixture_.means_.size

    def transform(self, X):
        """Return the Fisher vector of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, 2 * n_components * n_kept)
            Rows of unit length.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        if larger_than_chunk(X):
            return np.concatenate(Chunks(X).each(_transform, self))
        return power_l2(self._fisher(X))

    def _fisher(self, X):
        """Return the blocks before the power normalization."""
        mixture = self.mixture_
        scale = 1.0 / np.sqrt(mixture.covariances_)
        level = np.log(mixture.weights_) + np.log(scale).sum(axis=1)
        sums = np.zeros((len(X), 2 * len(level), scale.shape[1]))
        Z = np.ascontiguousarray(self._project(X.data, single=True))
        fisher_sums(Z, X.offsets, mixture.means_, scale, level, sums)
        sums[:, 0::2] /= np.sqrt(mixture.weights_)[:, None]
        sums[:, 1::2] /= np.sqrt(2.0 * mixture.weights_)[:, None]
        return sums.reshape(len(X), -1) / X.sizes[:, None]


def _covariance(piece, single):
    return Moments.of(piece.X.data, single=single)


def _transform(piece, model):
    return power_l2(model._fisher(piece.X))
