"""Similarities of bags to training instances: the embedding of MILES."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.kernels.backends import active
from bagwise.kernels.instance import resolve_gamma

GAMMA_CONSTRAINT = [
    StrOptions({"median", "scale", "auto"}),
    Interval(Real, 0, None, closed="neither"),
]


def nearest_squared(X, prototypes):
    """Squared distance of each bag to each prototype: the nearest instance counts.

    Memory is one block of instances; exponentials are left to the caller, after the
    minimum, where there are n_bags rows instead of n_instances.
    """
    return active().points_to_bags(X, prototypes)


def similarities(X, prototypes, gamma):
    """Similarity of each bag to each prototype, in the memory of the distances."""
    S = nearest_squared(X, prototypes)
    S *= -gamma
    return np.exp(S, out=S)


class PrototypeEmbedding(
    ClassNamePrefixFeaturesOutMixin, BagTransformerMixin, BaseBagEstimator
):
    r"""Describe a bag by its similarity to every training instance.

    The prototypes :math:`z_k` are the training instances, and ([1]_, Eq. (7))

    .. math:: m_k(B) = \max_{x \in B} e^{-\gamma |x - z_k|^2}.

    Parameters
    ----------
    gamma : {"median", "scale", "auto"} or float, default="median"
        The width; "median" is one over the median squared distance.
    max_prototypes : int, default=None
        Maximum number of prototypes; a random sample of the instances when there are
        more.
    random_state : int or RandomState, default=None
        Random seed of the sample.

    Attributes
    ----------
    prototypes_ : ndarray or CSR matrix of shape (n_prototypes, n_features)
        The prototypes.
    prototype_rows_ : ndarray of shape (n_prototypes,)
        Their rows among the stacked training instances.
    gamma_ : float
        The width used.

    Notes
    -----
    Repeating an instance in a bag changes nothing. Costs O(n_instances * n_prototypes *
    n_features) time and O(n_bags * n_prototypes) memory.

    Differs from [1]_: the sample of prototypes.

    References
    ----------
    .. [1] Chen, Y., Bi, J. and Wang, J. Z., "MILES: multiple-instance learning via
       embedded instance selection", IEEE TPAMI, 2006. :doi:`10.1109/TPAMI.2006.248`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.embedding import PrototypeEmbedding
    >>> X, y = make_bags(random_state=0)
    >>> PrototypeEmbedding().fit_transform(X).shape == (30, X.n_instances)
    True
    """

    _parameter_constraints: dict = {
        "gamma": GAMMA_CONSTRAINT,
        "max_prototypes": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(self, gamma="median", *, max_prototypes=None, random_state=None):
        self.gamma = gamma
        self.max_prototypes = max_prototypes
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.order_invariant = False  # a column for each row, in order
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Take the training instances as prototypes.

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
        self.gamma_ = resolve_gamma(self.gamma, X.data)
        rows = chosen_rows(X.n_instances, self.max_prototypes, self.random_state)
        self.prototype_rows_ = rows
        self.prototypes_ = X.data[rows]
        self._n_features_out = len(rows)
        return self

    def transform(self, X):
        """Return the similarities of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags, n_prototypes)
            Entries in (0, 1].
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return similarities(X, self.prototypes_, self.gamma_)


# What "auto" means: every instance, or a sample where distances would take minutes.
MANY_INSTANCES, SAMPLE = 20_000, 5_000
MOST_CONSTRAINT = [
    Interval(Integral, 1, None, closed="left"),
    StrOptions({"auto"}),
    None,
]


def chosen_rows(n_rows, most, random_state):
    """Return all row numbers, or a random sample of them in their order."""
    if most == "auto":
        most = None
        if n_rows > MANY_INSTANCES:
            most = SAMPLE
            warnings.warn(
                f"{SAMPLE} of {n_rows} instances were sampled at random as prototypes."
                " Pass a number instead of 'auto' for more or fewer.",
                UserWarning,
                stacklevel=3,
            )
    if most is None or n_rows <= most:
        return np.arange(n_rows)
    return np.sort(check_random_state(random_state).permutation(n_rows)[:most])
