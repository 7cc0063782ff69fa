"""SimpleMI: one vector per bag and any scikit-learn classifier."""

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags

from bagwise._compat import HasMethods, StrOptions
from bagwise.bags.chunks import Chunks, larger_than_a_piece
from bagwise.bags.segments import (
    bag_matrix,
    segment_max,
    segment_mean,
    segment_min,
    segment_moments,
)
from bagwise.compose.embedded import EmbeddedClassifier

POOLINGS = ("mean", "max", "min", "minmax", "midpoint", "mean+std", "statistics")


def mostly_zero(X):
    """Whether bags are sparse, and not only stored so."""
    return X.is_sparse and X.data.nnz < 0.5 * X.n_instances * X.n_features


def pool(X, pooling="mean"):
    """Summarise every bag by one vector.

    Parameters
    ----------
    X : Bags
        The bags, dense or CSR.
    pooling : str or callable
        What is taken of each feature: "mean", "max", "min", "minmax", "midpoint",
        "mean+std" or "statistics". "minmax" and "mean+std" give two columns per
        feature, "midpoint" is (min + max) / 2, "statistics" is mean, standard
        deviation, minimum, maximum and the log of the bag's size. A callable gets the
        `Bags` and returns one row per bag.

    Returns
    -------
    array or CSR matrix of shape (n_bags, n_columns)
        CSR for sparse bags, except for what a callable returns.
    """
    if callable(pooling):
        rows = pooling(X)
        if getattr(rows, "ndim", None) != 2 or rows.shape[0] != len(X):
            raise ValueError(
                "the pooling function must return one row for each of the "
                f"{len(X)} bags, got shape {getattr(rows, 'shape', None)}."
            )
        return rows
    if larger_than_a_piece(X):
        return np.concatenate(Chunks(X).each(_pool_piece, pooling))
    reduce = _reduce_sparse if X.is_sparse else _reduce_dense
    if pooling == "statistics":
        size = np.log(X.sizes)[:, None]
        size = sp.csr_array(size) if X.is_sparse else size
        return _columns(pool(X, "mean+std"), reduce(X, "min"), reduce(X, "max"), size)
    if pooling == "minmax":
        return _columns(reduce(X, "min"), reduce(X, "max"))
    if pooling == "midpoint":
        return 0.5 * (reduce(X, "min") + reduce(X, "max"))
    if pooling == "mean+std":
        mean = reduce(X, "mean")
        if X.is_sparse:
            return _columns(mean, _sparse_spread(X, mean))
        centred = X.data - mean[X.bag_index]
        return _columns(mean, np.sqrt(segment_mean(centred**2, X.offsets)))
    return reduce(X, pooling)


def _pool_piece(piece, pooling):
    """Pool bags that are small enough, with sums in double precision."""
    X = piece.X
    if pooling in ("mean", "mean+std", "statistics"):
        mean, std = segment_moments(X.data, X.offsets, spread=pooling != "mean")
        if pooling == "mean":
            return mean
        if pooling == "mean+std":
            return _columns(mean, std)
        ends = [_reduce_dense(X, op).astype(np.float64) for op in ("min", "max")]
        return _columns(mean, std, *ends, np.log(X.sizes)[:, None])
    named = {"minmax": ("min", "max"), "midpoint": ("min", "max")}
    parts = [
        _reduce_dense(X, op).astype(np.float64) for op in named.get(pooling, (pooling,))
    ]
    return 0.5 * (parts[0] + parts[1]) if pooling == "midpoint" else _columns(*parts)


def _reduce_dense(X, op):
    reduce = {"mean": segment_mean, "max": segment_max, "min": segment_min}[op]
    return reduce(X.data, X.offsets)


def _reduce_sparse(X, op):
    if op == "mean":
        return sp.csr_array(bag_matrix(X.offsets, mean=True) @ X.data)
    rows = [
        getattr(X.data[a:b], op)(axis=0)
        for a, b in zip(X.offsets, X.offsets[1:], strict=False)
    ]
    return sp.vstack([sp.csr_array(r.reshape(1, -1)) for r in rows], format="csr")


def _sparse_spread(X, mean):
    """Return standard deviations of CSR bags, from differences to the means.

    Squares minus the square of the mean have no digits left where the mean is large.
    """
    count = bag_matrix(X.offsets)
    where = X.data.astype(np.float64)
    where.data = np.ones_like(where.data)
    seen = sp.csr_array(count @ where)  # entries of each bag and column that are there
    seen.sort_indices()
    keys = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr)) * seen.shape[1]
    keys = keys + seen.indices
    rows = np.repeat(X.bag_index, np.diff(X.data.indptr)) * seen.shape[1]
    place = np.searchsorted(keys, rows + X.data.indices)
    centre = mean.tocsr()[
        np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr)), seen.indices
    ]
    centre = np.asarray(centre).ravel()
    apart = (X.data.data - centre[place]) ** 2
    total = np.bincount(place, weights=apart, minlength=len(keys))
    sizes = np.repeat(X.sizes, np.diff(seen.indptr))
    total += (sizes - seen.data) * centre**2  # the zeros
    spread = seen.copy()
    spread.data = np.sqrt(total / sizes)
    return spread


def _columns(*parts):
    if sp.issparse(parts[0]):
        return sp.hstack(parts, format="csr")
    return np.hstack(parts)


class SimpleMI(EmbeddedClassifier):
    r"""Classify the average, or another summary, of each bag.

    A bag :math:`B` becomes one vector, by default

    .. math:: \bar x(B) = \frac{1}{|B|} \sum_{x \in B} x

    and any classifier of rows learns from the vectors. It is the cheapest method of
    the field and hard to beat when most instances of a bag matter.

    Parameters
    ----------
    estimator : classifier, default=None
        Any scikit-learn classifier. By default ``SVC(C=10)`` on rows about their mean,
        and ``LinearSVC()`` on sparse data of which more than half the entries are zero.
    pooling : str or callable, default="mean"
        The summary: "mean", "max", "min", "minmax", "midpoint", "mean+std" or
        "statistics". A callable gets the `Bags` and returns one row per bag.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    `instance_scores` is the score of a bag that holds the instance alone. Class
    weights are set on `estimator`. Pooling costs one pass over the instances; sparse
    data stay sparse.

    Differs from [1]_: any classifier may follow, and there are more summaries.

    References
    ----------
    .. [1] Dong, L., "A comparison of multi-instance learning algorithms", Master's
       thesis, University of Waikato, 2006.

    Examples
    --------
    >>> from bagwise.compose import SimpleMI
    >>> from bagwise.datasets import make_bags
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_bags(random_state=0)
    >>> SimpleMI(LogisticRegression(), pooling="max").fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "pooling": [StrOptions(set(POOLINGS)), callable],
    }

    def __init__(self, estimator=None, *, pooling="mean", pos_label=None):
        self.estimator = estimator
        self.pooling = pooling
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._base_estimator()).input_tags.sparse
        tags.input_tags.duplicate_invariant = None if callable(self.pooling) else True
        tags.input_tags.respects_standard_assumption = (
            None if callable(self.pooling) else False
        )
        tags.input_tags.in_pieces = not callable(self.pooling)
        return tags

    def _default_estimator(self, sparse):
        return LinearSVC() if sparse else SVC(C=10.0)

    def _learns_sparse(self, X):
        return mostly_zero(X)

    def _fit_rows(self, X, y, weight):
        rows = self._rows(X)
        if self.estimator is None and sp.issparse(rows) and not mostly_zero(X):
            return rows.toarray()  # no larger than it was, and what dense bags give
        return rows

    def _find_origin(self, rows):
        # The default learner measures distances, which lose digits far from the origin.
        if self.estimator is not None or sp.issparse(rows):
            return None
        return np.asarray(rows, dtype=np.float64).mean(axis=0)

    def _rows(self, X):
        return pool(X, self.pooling)
