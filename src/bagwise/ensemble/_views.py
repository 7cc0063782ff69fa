"""The views that the default stacks learn from: label-free, computed once, shared."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise._sizes import check_memory
from bagwise.bags.chunks import Chunks
from bagwise.bags.segments import segment_max, segment_mean, segment_min
from bagwise.embedding import MiFV, PrototypeEmbedding, SlicedWassersteinEmbedding
from bagwise.kernels.emd import emd_distances, thin_bags
from bagwise.kernels.fitted import FittedKernel
from bagwise.kernels.instance import squared_distances

# Rows wider than this are projected for the members that cannot use so many columns.
WIDE = 300
PROJECTED = 100
# Statistics are all in units of standardised instances: a spread below this share of
# the largest tells nothing. Columns of instances are in units of their own, and only a
# spread near the rounding of their values is none (shares by the bytes of a value).
_CONSTANT = 1e-6
_ROUNDING = {2: 2e-6, 4: 2e-6, 8: 1e-10}
# Rows that medians and principal axes are found from, and dense rows handled at a time.
_SAMPLE, _CHUNK = 20_000, 50_000
# Standardised rows with more entries than this are kept in single precision.
_LARGE = 20_000_000
# Squared distances below this share of the largest are not left to a matrix product.
_CLOSE = 1e-6


class ClippedScaler(TransformerMixin, BaseEstimator):
    """Standardise columns, drop nearly constant ones, and clip what is left.

    A column that hardly varies in a fold would blow up a bag that differs from it.

    Parameters
    ----------
    limit : float, default=5.0
        Largest absolute value after standardising.
    """

    def __init__(self, limit=5.0):
        self.limit = limit

    def fit(self, X, y=None):
        """Find the columns to keep, their means and spreads."""
        X = validate_data(self, X, reset=True)
        self.mean_ = X.mean(axis=0)
        spread = X.std(axis=0)
        self.columns_ = varying_columns(spread)
        self.scale_ = spread[self.columns_]
        return self

    def transform(self, X):
        """Standardise and clip."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        Z = (X[:, self.columns_] - self.mean_[self.columns_]) / self.scale_
        return np.clip(Z, -self.limit, self.limit)


def varying_columns(spread):
    """Return the columns whose spread counts; the first one when none does."""
    kept = np.flatnonzero(spread > _CONSTANT * spread.max())
    return kept if kept.size else np.array([0])


class InstanceScaler:
    """Rows for distances, for dense learners and for the unit cube.

    Dense data are filled where values are missing (the median of the column, and a
    column that says so), standardised, and projected on principal axes when they are
    wide. Sparse rows stay as they are for distances; where a learner needs dense rows,
    wide ones are projected on 100 singular vectors.
    """

    def __init__(self, X, random_state):
        self.sparse = X.is_sparse
        self.axes = self.svd = None
        if self.sparse:
            if X.n_features > WIDE and X.n_instances > PROJECTED:
                self.svd = TruncatedSVD(PROJECTED, random_state=random_state)
                self.overall = float(self.svd.fit_transform(X.data).std()) or 1.0
            return
        sample = X.take_rows(_spread_out(X.n_instances, _SAMPLE))
        self._find_scale(X, np.asarray(sample, dtype=np.float64))
        if len(self.columns) > WIDE:
            Z = self._convert(sample)
            pca = PCA(min(PROJECTED, *Z.shape), random_state=random_state).fit(Z)
            # One scale for all axes: distances stay what they are.
            self.axes = pca.components_.T / np.sqrt(pca.explained_variance_.mean())

    def _find_scale(self, X, sample):
        """Gaps, and means and spreads in two passes: offsets do no harm."""
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
                "no column of X varies: only their sizes tell the bags apart.",
                UserWarning,
                stacklevel=2,
            )
            self.columns = np.array([0])
        self.mean = mean[self.columns]
        self.scale = np.maximum(spread[self.columns], np.finfo(np.float64).tiny)

    def _filled(self, data):
        data = np.asarray(data, dtype=np.float64)
        gaps = np.isnan(data)
        if gaps.any():  # also in columns that had none in training
            data = np.where(gaps, self.fill, data)
        return np.hstack([data, gaps[:, self.missing]]) if self.missing.size else data

    def _convert(self, data):
        """Standardised rows, on principal axes where these were found."""
        Z = self._filled(data)
        Z = Z - self.mean if len(self.columns) == Z.shape[1] else self._some(Z)
        if self.axes is None:
            Z /= self.scale
            return Z
        return Z @ (self.axes / self.scale[:, None])

    def _some(self, Z):
        Z = Z[:, self.columns]
        Z -= self.mean
        return Z

    @property
    def n_columns(self):
        """Width of dense rows."""
        return len(self.columns) if self.axes is None else self.axes.shape[1]

    def rows(self, X):
        """Bags for distances and linear members."""
        if self.sparse:
            return X
        out = np.empty((X.n_instances, self.n_columns), _kind(X, self.n_columns))
        first = 0
        for part, _, _ in Chunks(X):
            out[first : first + part.n_instances] = self._convert(part.data)
            first += part.n_instances
        return X.with_data(out)

    def dense(self, X, rows):
        """Bags with dense rows."""
        if not self.sparse:
            return rows
        if self.svd is not None:
            return X.with_data(self.svd.transform(X.data) / self.overall)
        return X.with_data(X.data.toarray())

    def find_cube(self, rows):
        """Take the range of the training rows for the unit cube."""
        if not self.sparse:
            self.low, high = rows.data.min(axis=0), rows.data.max(axis=0)
            self.width = np.where(high > self.low, high - self.low, 1.0)

    def cube(self, rows):
        """Bags in the unit cube of the training rows, or rows of unit length."""
        if self.sparse:
            return rows.with_data(normalize(sp.csr_matrix(rows.data)))
        dtype = rows.dtype
        unit = rows.data - self.low.astype(dtype)
        unit /= self.width.astype(dtype)
        return rows.with_data(np.clip(unit, -0.5, 1.5, out=unit))


def _kind(X, n_columns):
    """Return the precision of standardised rows."""
    return np.float32 if X.n_instances * n_columns > _LARGE else np.float64


def check_rows(X, n_copies):
    """Refuse bags on disk of which standardised rows would not fit into memory."""
    if X.on_disk and not X.is_sparse:
        n_columns = PROJECTED if X.n_features > WIDE else X.n_features
        n_bytes = _kind(X, n_columns)().itemsize * X.n_instances * n_columns
        check_memory(
            float(n_copies * n_bytes),
            f"{n_columns} standardised columns of {X.n_instances} instances",
            "Use a method that reads bags in pieces, or SampleInstances before.",
        )


def _squares(part):
    return np.einsum("ij,ij->j", part, part)


def _spread_out(n, at_most):
    """Return at most so many positions, evenly spread over ``range(n)``."""
    return np.arange(n) if n <= at_most else np.linspace(0, n - 1, at_most).astype(int)


def statistics(X):
    """Mean, spread, minimum and maximum of every feature, and the log of the size."""
    return in_parts(_statistics, X)


def in_parts(function, X):
    """Return rows that a function makes of bags, with few of them at a time."""
    return np.vstack([function(part) for part in X.iter_chunks(_CHUNK)])


def _statistics(X):
    mean = segment_mean(X.data, X.offsets)
    spread = np.sqrt(segment_mean((X.data - mean[X.bag_index]) ** 2, X.offsets))
    parts = [mean, spread, segment_min(X.data, X.offsets)]
    parts += [segment_max(X.data, X.offsets), np.log(X.sizes)[:, None]]
    return np.hstack(parts)


class DistanceView:
    """Kernel exp(-scale D / mean D) with the training bags, D a distance of bags."""

    def __init__(self, X, scale):
        D = self._learn(X)
        n = len(X)
        mean = D.sum() / max(1, n * (n - 1))
        self.gamma = scale / mean if mean > 0 else 1.0
        self.train = np.exp(-self.gamma * D)

    def of(self, X):
        """Kernel between other bags and the training bags."""
        return np.exp(-self.gamma * self._distances(X))


class EMDView(DistanceView):
    """Earth mover's distances of thinned bags."""

    def __init__(self, X, scale, max_instances, n_jobs):
        self.max_instances = max_instances
        self.n_jobs = n_jobs
        super().__init__(X, scale)

    def _learn(self, X):
        self.bags = thin_bags(X, self.max_instances)
        return emd_distances(self.bags, max_instances=None, n_jobs=self.n_jobs)

    def _distances(self, X):
        thin = thin_bags(X, self.max_instances)
        return emd_distances(thin, self.bags, max_instances=None, n_jobs=self.n_jobs)


class SlicedView(DistanceView):
    """Sliced Wasserstein distances: linear in the instances, for many bags."""

    def __init__(self, X, scale, random_state):
        self.embedding = SlicedWassersteinEmbedding(random_state=random_state)
        super().__init__(X, scale)

    def _learn(self, X):
        self.points = self.embedding.fit_transform(X)
        return distances(self.points, self.points)

    def _distances(self, X):
        return distances(self.embedding.transform(X), self.points)


def distances(A, B):
    """Euclidean distances by one matrix product, also of rows that are nearly equal.

    A product loses the digits of a distance that is small beside the rows themselves;
    the few that are get computed again.
    """
    D = squared_distances(A, B)
    close = np.flatnonzero(D < _CLOSE * D.max(initial=0.0))
    step = max(1, _LARGE // A.shape[1])
    for first in range(0, len(close), step):
        i, j = np.divmod(close[first : first + step], len(B))
        D[i, j] = ((A[i] - B[j]) ** 2).sum(axis=1)
    return np.sqrt(D, out=D)


class DefaultViews:
    """All views that the members of a default stack need; see `PlainViews`.

    Parameters
    ----------
    X : Bags
        Training bags.
    names : set of str
        The views.
    plan : Plan
        What the size of the data allows.
    n_jobs, random_state
        As in the stack.
    """

    def __init__(self, X, names, plan, *, n_jobs, random_state):
        self.names = set(names)
        check_rows(X, 2 if "near_cube" in names else 1)
        self.scaler = InstanceScaler(X, random_state)
        rows = self.scaler.rows(X)
        dense = self.scaler.dense(X, rows)
        if "near_cube" in names:
            self.scaler.find_cube(rows)
        self.train = {"rows": rows, "dense": dense}
        self.columns = {}
        if "thin_rows" in names:
            self.train["thin_rows"] = thin_bags(rows, plan.max_bag_size)
        if "thin_dense" in names:
            self.train["thin_dense"] = thin_bags(dense, plan.max_bag_size)
        if "statistics" in names:
            self.train["statistics"] = statistics(dense)
        if "fisher" in names:
            self.fisher = MiFV(2, energy=0.9, random_state=random_state)
            self.fisher.fit(thin_bags(dense, plan.max_bag_size))
            self.train["fisher"] = in_parts(self.fisher.transform, dense)
        if "prototypes" in names:
            thin = thin_bags(rows, plan.max_bag_size)
            self.prototypes = PrototypeEmbedding(
                max_prototypes=plan.max_prototypes, random_state=random_state
            ).fit(thin)
            self.train["prototypes"] = in_parts(self.prototypes.transform, rows)
            chosen = self.prototypes.prototype_rows_
            self.columns["prototypes"] = thin.bag_index[chosen]
        if "set" in names:
            self.set_kernel = FittedKernel("set")
            self.train["set"] = self.set_kernel.fit(rows)
            self.columns["set"] = np.arange(len(X))
        self.distances = {}
        for name, scale in (("near", 1.0), ("near_cube", 0.25)):
            if name in names:
                bags = rows if name == "near" else self.scaler.cube(rows)
                if plan.exact_distances:
                    view = EMDView(bags, scale, plan.max_emd, n_jobs)
                else:
                    view = SlicedView(bags, scale, random_state)
                self.distances[name] = view
                self.train[name] = view.train
                self.columns[name] = np.arange(len(X))

    def of(self, X):
        """Return the views of other bags (instances in full: thinning is for fits)."""
        rows = self.scaler.rows(X)
        dense = self.scaler.dense(X, rows)
        views = {"rows": rows, "dense": dense, "thin_rows": rows, "thin_dense": dense}
        if "statistics" in self.names:
            views["statistics"] = statistics(dense)
        if "fisher" in self.names:
            views["fisher"] = in_parts(self.fisher.transform, dense)
        if "prototypes" in self.names:
            views["prototypes"] = in_parts(self.prototypes.transform, rows)
        if "set" in self.names:
            views["set"] = self.set_kernel.matrix(rows)
        for name, view in self.distances.items():
            bags = rows if name == "near" else self.scaler.cube(rows)
            views[name] = view.of(bags)
        return views

    def without_train(self):
        """Forget what only training needs."""
        self.train = {}
        for view in self.distances.values():
            view.train = None
        return self
