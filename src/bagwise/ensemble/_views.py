"""The views that `BagClassifier` learns from: label-free, computed once, shared."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise.bags.segments import segment_max, segment_mean, segment_min
from bagwise.embedding import MiFV, PrototypeEmbedding
from bagwise.kernels._emd import emd_distances, thin_bags

# Sparse data wider than this are projected for the members that need dense rows.
WIDE = 300
PROJECTED = 100
# A column whose spread is below this share of the largest tells rounding, not data.
_CONSTANT = 1e-6


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

    Dense data are standardised. Sparse rows stay as they are for distances; where a
    learner needs dense rows, wide ones are projected on 100 singular vectors.
    """

    def __init__(self, X, random_state):
        data = X.data
        self.sparse = X.is_sparse
        self.svd = None
        if self.sparse:
            if X.n_features > WIDE and X.n_instances > PROJECTED:
                self.svd = TruncatedSVD(PROJECTED, random_state=random_state)
                self.overall = float(self.svd.fit_transform(data).std()) or 1.0
            return
        self.mean = data.mean(axis=0, dtype=np.float64)
        spread = data.std(axis=0, dtype=np.float64)
        self.columns = varying_columns(spread)
        self.mean = self.mean[self.columns]
        self.scale = np.maximum(spread[self.columns], np.finfo(np.float64).tiny)
        self.low = data.min(axis=0)[self.columns]
        width = data.max(axis=0)[self.columns] - self.low
        self.width = np.where(width > 0, width, 1.0)

    def rows(self, X):
        """Bags for distances and linear members."""
        if self.sparse:
            return X
        return X.with_data((X.data[:, self.columns] - self.mean) / self.scale)

    def dense(self, X, rows):
        """Bags with dense rows."""
        if not self.sparse:
            return rows
        if self.svd is not None:
            return X.with_data(self.svd.transform(X.data) / self.overall)
        return X.with_data(X.data.toarray())

    def cube(self, X):
        """Bags in the unit cube of the training data, or rows of unit length."""
        if self.sparse:
            return X.with_data(normalize(sp.csr_matrix(X.data)))
        unit = (X.data[:, self.columns] - self.low) / self.width
        return X.with_data(np.clip(unit, -0.5, 1.5))


def statistics(X):
    """Mean, spread, minimum and maximum of every feature, and the log of the size."""
    mean = segment_mean(X.data, X.offsets)
    spread = np.sqrt(segment_mean((X.data - mean[X.bag_index]) ** 2, X.offsets))
    parts = [mean, spread, segment_min(X.data, X.offsets)]
    parts += [segment_max(X.data, X.offsets), np.log(X.sizes)[:, None]]
    return np.hstack(parts)


class EMDView:
    """Kernel exp(-scale EMD / mean EMD) with the training bags."""

    def __init__(self, X, scale, max_instances, n_jobs):
        self.max_instances = max_instances
        self.n_jobs = n_jobs
        self.bags = thin_bags(X, max_instances)
        D = emd_distances(self.bags, max_instances=None, n_jobs=n_jobs)
        n = len(X)
        mean = D.sum() / max(1, n * (n - 1))
        self.gamma = scale / mean if mean > 0 else 1.0
        self.train = np.exp(-self.gamma * D)

    def of(self, X):
        """Kernel between other bags and the training bags."""
        thin = thin_bags(X, self.max_instances)
        D = emd_distances(thin, self.bags, max_instances=None, n_jobs=self.n_jobs)
        return np.exp(-self.gamma * D)


class DefaultViews:
    """All views of `BagClassifier` that its members need; see `PlainViews`."""

    def __init__(self, X, names, *, max_prototypes, max_emd, n_jobs, random_state):
        self.names = set(names)
        self.scaler = InstanceScaler(X, random_state)
        rows = self.scaler.rows(X)
        dense = self.scaler.dense(X, rows)
        self.train = {"rows": rows, "dense": dense}
        self.columns = {}
        everyone = np.arange(len(X))
        if "statistics" in names:
            self.train["statistics"] = statistics(dense)
        if "fisher" in names:
            self.fisher = MiFV(2, energy=0.9, random_state=random_state).fit(dense)
            self.train["fisher"] = self.fisher.transform(dense)
        if "prototypes" in names:
            self.prototypes = PrototypeEmbedding(
                max_prototypes=max_prototypes, random_state=random_state
            ).fit(rows)
            self.train["prototypes"] = self.prototypes.transform(rows)
            chosen = self.prototypes.prototype_rows_
            self.columns["prototypes"] = X.bag_index[chosen]
        self.emd = {}
        for name, scale in (("emd", 1.0), ("emd_cube", 0.25)):
            if name in names:
                bags = rows if name == "emd" else self.scaler.cube(X)
                self.emd[name] = EMDView(bags, scale, max_emd, n_jobs)
                self.train[name] = self.emd[name].train
                self.columns[name] = everyone

    def of(self, X):
        """Return the views of other bags."""
        rows = self.scaler.rows(X)
        dense = self.scaler.dense(X, rows)
        views = {"rows": rows, "dense": dense}
        if "statistics" in self.names:
            views["statistics"] = statistics(dense)
        if "fisher" in self.names:
            views["fisher"] = self.fisher.transform(dense)
        if "prototypes" in self.names:
            views["prototypes"] = self.prototypes.transform(rows)
        for name, view in self.emd.items():
            views[name] = view.of(rows if name == "emd" else self.scaler.cube(X))
        return views

    def without_train(self):
        """Forget what only training needs."""
        self.train = {}
        for view in self.emd.values():
            view.train = None
        return self
