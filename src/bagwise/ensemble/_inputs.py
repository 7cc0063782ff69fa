"""Inputs of the members of a stack: transformers of bags, each computed once.

An `Input` takes bags, or what its `source` makes of them, and gives what a member
learns from: bags, a matrix with a row per bag, or a kernel with the training bags. It
is fitted without labels, on all training bags. `Made` holds what inputs make of one
set of bags, so that members with the same input share the work.
"""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise._sizes import check_memory
from bagwise.bags import check_bags
from bagwise.bags.chunks import Chunks
from bagwise.bags.segments import bag_matrix
from bagwise.compose import EncodeColumns
from bagwise.compose.pooling import pool
from bagwise.kernels.distances import thin_bags

# Rows with more than WIDE columns are projected on PROJECTED axes. At most POOLED
# original columns and _POOLED_VALUES pooled values are kept.
WIDE, PROJECTED, POOLED = 300, 100, 2_000
_POOLED_VALUES = 20_000_000
# Wide rows are sparse if a sample of rows has a smaller share of nonzero entries.
_FEW, _SAMPLE_OF_ENTRIES = 0.05, 1_000
# Bag statistics are in units of standardized instances: a column is constant if its
# spread is below this share of the largest. Columns of instances have their own units:
# they are constant if they vary by no more than rounding errors (by bytes per value).
_CONSTANT = 1e-6
_ROUNDING = {2: 2e-6, 4: 2e-6, 8: 1e-10}
# Rows used to compute medians and principal axes, and dense rows per chunk.
_SAMPLE, _CHUNK = 20_000, 50_000
# Standardized rows with more entries than this are kept in single precision.
_LARGE = 20_000_000


class EncodesColumns:
    """Mixin of stacks: columns that are not numbers are encoded before all inputs.

    The encoder is fitted on the training bags and kept as `encoder_`, None without such
    columns.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def _check_bags(self, X, y=None, **options):
        found = super()._check_bags(X, y, **options)
        X = found if y is None else found[0]
        if options["reset"]:
            self.encoder_ = EncodeColumns().fit(X) if X.codings else None
        if self.encoder_ is None:
            X = check_bags(X, accept_sparse=True, chunked=True) if X.codings else X
        else:
            X = self.encoder_.transform(X)
        return X if y is None else (X, found[1])


class Input:
    """The bags as they are, and the base of all other inputs.

    Attributes
    ----------
    source : Input or None
        The input that this one transforms; None for the bags themselves.
    column_bags : ndarray of int or None
        Where columns stand for training bags or for their instances, the training bag
        of each column.
    cost : float
        What it costs to predict from it, next to other inputs.
    """

    source = None
    column_bags = None
    cost = 1.0

    @property
    def scored(self):
        """The input that bags are scored on, where that differs from fitting."""
        return self

    def fit_transform(self, X):
        """Fit to training bags and return what members learn from."""
        return self.transform(X)

    def transform(self, X):
        """Return what members score of other bags."""
        return X

    def select(self, made, bags, learned_from):
        """Return rows `bags`, with the columns of the bags `learned_from` alone."""
        rows = made[bags]
        if self.column_bags is None:
            return rows
        return rows[:, np.isin(self.column_bags, learned_from)]


class Made:
    """What inputs make of one set of bags; each is computed when it is first needed.

    Parameters
    ----------
    X : Bags
        The bags.
    fit : bool, default=False
        Whether the inputs are fitted to these bags.
    """

    def __init__(self, X, fit=False):
        self._known = {None: X}
        self._fit = fit

    def of(self, one):
        """Return what an input makes of the bags."""
        if one not in self._known:
            make = one.fit_transform if self._fit else one.transform
            self._known[one] = make(self.of(one.source))
        return self._known[one]


# Instances ----------------------------------------------------------------------------


class StandardRows(Input):
    """Bags of standardized instances, for distances and linear members.

    Missing values are filled with the median of the column, next to a column that marks
    them. Wide rows are projected on principal axes. Sparse rows stay as they are, and
    wide rows that are mostly zero become sparse.

    Parameters
    ----------
    random_state : int, default=0
        Seeds the principal axes.
    """

    def __init__(self, random_state=0):
        self.random_state = random_state

    def fit_transform(self, X):
        """Find medians, means, spreads and axes."""
        self.sparse, self.axes = few_entries(X), None
        if not self.sparse:
            sample = X.take_rows(spread_out(X.n_instances, _SAMPLE))
            self._find_scale(X, np.asarray(sample, dtype=np.float64))
            if len(self.columns) > WIDE:
                self._find_axes(self._convert(sample))
        return self.transform(X)

    def _find_scale(self, X, sample):
        """Find gaps, and means and spreads in two passes, for the sake of offsets."""
        parts = (part.X.data for part in Chunks(X))
        total = sum(part.sum(axis=0, dtype=np.float64) for part in parts)
        self.missing = np.flatnonzero(np.isnan(total))
        known = np.where(np.isnan(sample).all(axis=0), 0.0, sample)
        self.fill = np.nanmedian(known, axis=0)
        chunks = lambda: (self._filled(p.X.data) for p in Chunks(X))  # noqa: E731
        if self.missing.size:
            total = sum(part.sum(axis=0) for part in chunks())
        mean = total / X.n_instances
        square = sum(_squares(part - mean) for part in chunks())
        spread = np.sqrt(square / X.n_instances)
        least = _ROUNDING.get(X.dtype.itemsize, _CONSTANT) * np.abs(mean)
        self.columns = np.flatnonzero(spread > least)
        if not self.columns.size:
            warnings.warn(
                "all columns of X are constant: bags differ only in their sizes.",
                UserWarning,
                stacklevel=2,
            )
            self.columns = np.array([0])
        self.mean = mean[self.columns]
        self.scale = np.maximum(spread[self.columns], np.finfo(np.float64).tiny)

    def _find_axes(self, Z):
        pca = PCA(min(PROJECTED, *Z.shape), random_state=self.random_state).fit(Z)
        # One scale for all axes, so that ratios of distances do not change.
        self.axes = pca.components_.T / np.sqrt(pca.explained_variance_.mean())

    def _filled(self, data):
        data = np.asarray(data, dtype=np.float64)
        gaps = np.isnan(data)
        if gaps.any():  # also in columns without gaps in training
            data = np.where(gaps, self.fill, data)
        return np.hstack([data, gaps[:, self.missing]]) if self.missing.size else data

    def _convert(self, data):
        """Return standardized rows, on principal axes where there are some."""
        Z = self._filled(data)
        if len(self.columns) == Z.shape[1]:
            Z = Z - self.mean
        else:
            Z = Z[:, self.columns]
            Z -= self.mean
        if self.axes is None:
            Z /= self.scale
            return Z
        return Z @ (self.axes / self.scale[:, None])

    def transform(self, X):
        """Return the standardized bags."""
        if self.sparse:
            return _sparse(X)
        if X.is_sparse:
            X = X.with_data(_dense(X))
        n_columns = len(self.columns) if self.axes is None else self.axes.shape[1]
        out = np.empty((X.n_instances, n_columns), _precision(X, n_columns))
        first = 0
        for part, _, _ in Chunks(X):
            out[first : first + part.n_instances] = self._convert(part.data)
            first += part.n_instances
        return X.with_data(out)


class DenseRows(Input):
    """Bags of dense rows; wide sparse ones are projected on singular vectors."""

    def __init__(self, source, random_state=0):
        self.source = source
        self.random_state = random_state

    def fit_transform(self, X):
        """Find the singular vectors of wide sparse rows."""
        self.svd = None
        if X.is_sparse and X.n_features > WIDE and X.n_instances > PROJECTED:
            self.svd = TruncatedSVD(PROJECTED, random_state=self.random_state)
            self.overall = float(self.svd.fit_transform(X.data).std()) or 1.0
        return self.transform(X)

    def transform(self, X):
        """Return bags with dense rows."""
        if not X.is_sparse:
            return X
        if self.svd is not None:
            return X.with_data(self.svd.transform(X.data) / self.overall)
        return X.with_data(X.data.toarray())


class CubeRows(Input):
    """Bags in the unit cube of the training rows; sparse rows of unit length."""

    def __init__(self, source):
        self.source = source

    def fit_transform(self, X):
        """Find the range of the training rows."""
        if not X.is_sparse:
            self.low, high = X.data.min(axis=0), X.data.max(axis=0)
            self.width = np.where(high > self.low, high - self.low, 1.0)
        return self.transform(X)

    def transform(self, X):
        """Return rows scaled to the range of the training rows, clipped."""
        if X.is_sparse:
            return X.with_data(normalize(sp.csr_matrix(X.data)))
        unit = X.data - self.low.astype(X.dtype)
        unit /= self.width.astype(X.dtype)
        return X.with_data(np.clip(unit, -0.5, 1.5, out=unit))


class ThinnedRows(Input):
    """Few instances of large bags, to fit on: bags are scored on all instances.

    Parameters
    ----------
    source : Input
        Makes the bags.
    max_bag_size : int or None
        Instances of a bag that are kept; None for all.
    """

    def __init__(self, source, max_bag_size):
        self.source = source
        self.max_bag_size = max_bag_size

    @property
    def scored(self):
        """The bags with all instances."""
        return self.source

    def fit_transform(self, X):
        """Return bags with few instances."""
        return thin_bags(X, self.max_bag_size)


def few_entries(X):
    """Whether rows are sparse: as they are stored, or wide and mostly zero."""
    return X.is_sparse or (
        X.n_features > WIDE and not X.on_disk and share_of_entries(X) < _FEW
    )


def share_of_entries(X):
    """Return the share of entries that are not zero, 1 where values are missing."""
    if X.is_sparse:
        return X.data.nnz / max(1, X.n_instances * X.n_features)
    rows = X.take_rows(spread_out(X.n_instances, _SAMPLE_OF_ENTRIES))
    return 1.0 if np.isnan(rows).any() else np.count_nonzero(rows) / rows.size


def _sparse(X):
    """Return bags with sparse rows; what is missing is zero, as the median is."""
    if X.is_sparse:
        return X
    return X.with_data(sp.csr_matrix(np.nan_to_num(X.data, nan=0.0)))


def _dense(X):
    """Return the rows of sparse bags as an array, for inputs fitted to dense bags."""
    check_memory(
        float(X.dtype.itemsize * X.n_instances * X.n_features),
        f"{X.n_instances} dense rows of {X.n_features} columns",
        "The model was fitted on dense bags; fit it on sparse ones.",
    )
    return X.data.toarray()


def _precision(X, n_columns):
    """Return the type of standardized rows."""
    return np.float32 if X.n_instances * n_columns > _LARGE else np.float64


def check_rows(X, inputs):
    """Refuse bags on disk whose standardized rows would not fit into memory."""
    n_copies = 1 + any(isinstance(one.source, CubeRows) for one in inputs)
    if X.on_disk and not X.is_sparse:
        n_columns = PROJECTED if X.n_features > WIDE else X.n_features
        n_bytes = _precision(X, n_columns)().itemsize * X.n_instances * n_columns
        check_memory(
            float(n_copies * n_bytes),
            f"{n_columns} standardized columns of {X.n_instances} instances",
            "Use a method that reads bags in chunks, or put SampleInstances before it.",
        )


def _squares(part):
    return np.einsum("ij,ij->j", part, part)


def spread_out(n, at_most):
    """Return at most so many positions, evenly spread over ``range(n)``."""
    return np.arange(n) if n <= at_most else np.linspace(0, n - 1, at_most).astype(int)


# Rows of bags -------------------------------------------------------------------------


class Statistics(Input):
    """Mean, spread, minimum and maximum of every column, and the log of the size."""

    def __init__(self, source):
        self.source = source

    def transform(self, X):
        """Return a row per bag."""
        return in_parts(lambda part: pool(part, "statistics"), X)


def pooled_columns(n_bags):
    """Return how many original columns are pooled at most."""
    return min(POOLED, max(1, _POOLED_VALUES // (4 * n_bags)))


class PooledColumns(Input):
    """Statistics of original columns of wide rows, which axes do not mix.

    Columns are chosen without labels: of sparse rows those that most bags have, of
    dense ones every k-th.

    Parameters
    ----------
    max_bag_size : int or None
        Instances of a bag that are looked at; None for all.
    """

    def __init__(self, max_bag_size=None):
        self.max_bag_size = max_bag_size

    def fit_transform(self, X):
        """Choose columns, and the units of dense ones."""
        most = pooled_columns(len(X))
        self.sparse, self.scaler = few_entries(X), None
        if self.sparse:
            X = _sparse(X)
            n_bags = (bag_matrix(X.offsets) @ (X.data != 0) > 0).sum(axis=0)
            common = np.argsort(-np.asarray(n_bags).ravel(), kind="stable")[:most]
            self.columns = np.sort(common)
        else:
            self.columns = spread_out(X.n_features, most)
            rows = spread_out(X.n_instances, _LARGE // len(self.columns))
            self.scaler = StandardScaler().fit(self._chosen(X.take_rows(rows)))
        return self.transform(X)

    def transform(self, X):
        """Return a row per bag."""
        step = max(1, _LARGE // (4 * len(self.columns)))
        return np.vstack([self._pooled(part) for part in X.iter_chunks(step)])

    def _pooled(self, X):
        X = thin_bags(X, self.max_bag_size)
        rows = self._chosen(X.data)
        if self.scaler is not None:
            rows = self.scaler.transform(rows)
        rows = np.nan_to_num(rows, copy=False, nan=0.0)
        return pool(X.with_data(rows), "statistics").astype(np.float32)

    def _chosen(self, data):
        rows = data[:, self.columns]
        rows = rows.toarray() if sp.issparse(rows) else rows
        return np.array(rows, dtype=np.float64)


class Embedded(Input):
    """Rows that a transformer of bags makes, fitted on few instances of each bag."""

    def __init__(self, source, transformer, max_bag_size=None):
        self.source = source
        self.transformer = transformer
        self.max_bag_size = max_bag_size

    def fit_transform(self, X):
        """Fit the transformer."""
        self.transformer.fit(thin_bags(X, self.max_bag_size))
        return self.transform(X)

    def transform(self, X):
        """Return a row per bag."""
        return in_parts(self.transformer.transform, X)


class Prototypes(Embedded):
    """Similarities to training instances, each a column of the bag it comes from."""

    def fit_transform(self, X):
        """Choose the instances."""
        thin = thin_bags(X, self.max_bag_size)
        self.transformer.fit(thin)
        self.column_bags = thin.bag_index[self.transformer.prototype_rows_]
        return self.transform(X)


def in_parts(function, X):
    """Return rows that a function makes of bags, with few of them at a time."""
    return np.vstack([function(part) for part in X.iter_chunks(_CHUNK)])


class ClippedScaler(TransformerMixin, BaseEstimator):
    """Standardize columns, drop nearly constant ones, and clip the others.

    A column that hardly varies in a fold would give a bag that differs from it an
    enormous value.

    Parameters
    ----------
    limit : float, default=5.0
        Largest absolute value after standardizing.
    """

    def __init__(self, limit=5.0):
        self.limit = limit

    def fit(self, X, y=None):
        """Find the columns to keep, their means and spreads."""
        X = validate_data(self, X, reset=True)
        self.mean_ = X.mean(axis=0)
        spread = X.std(axis=0)
        self.columns_ = np.flatnonzero(spread > _CONSTANT * spread.max())
        if not self.columns_.size:
            self.columns_ = np.array([0])
        self.scale_ = spread[self.columns_]
        return self

    def transform(self, X):
        """Standardize and clip."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        Z = (X[:, self.columns_] - self.mean_[self.columns_]) / self.scale_
        return np.clip(Z, -self.limit, self.limit)
