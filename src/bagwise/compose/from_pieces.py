"""Transformers of instances from sums over pieces: scalers and random features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from bagwise._compat import _handle_zeros_in_scale, _is_constant_feature


def fit_from_pieces(transformer, pieces):
    """Fit a scikit-learn transformer from sums over pieces of the instances.

    Parameters
    ----------
    transformer : StandardScaler, MinMaxScaler, MaxAbsScaler or RBFSampler
        Unfitted; it is changed.
    pieces : Chunks or Partitions
        Anything with ``sum(function, *shared)`` over pieces that have `X` (Bags).

    Returns
    -------
    transformer
        Fitted as on all rows at once.
    """
    return _TRANSFORMERS[type(transformer)](transformer, pieces)


def fits_from_pieces(transformer):
    """Whether `fit_from_pieces` knows the transformer."""
    return type(transformer) in _TRANSFORMERS


@dataclass(frozen=True)
class ColumnMoments:
    """Count, mean and squared deviations of columns; they add without cancellation."""

    count: float
    mean: np.ndarray
    square: np.ndarray

    def __add__(self, other):
        """Combine the moments of two parts (Chan, Golub and LeVeque, 1983)."""
        count = self.count + other.count
        gap = other.mean - self.mean
        return ColumnMoments(
            count,
            self.mean + gap * (other.count / count),
            self.square + other.square + gap**2 * (self.count * other.count / count),
        )


def column_moments(piece):
    """Moments of the columns of a piece, each instance counted once."""
    data, n = piece.X.data, piece.X.n_instances
    if piece.X.is_sparse:
        mean = np.asarray(data.mean(axis=0)).ravel()
        square = np.asarray(data.multiply(data).sum(axis=0)).ravel() - n * mean**2
        return ColumnMoments(n, mean, np.maximum(square, 0.0))
    mean = data.mean(axis=0, dtype=np.float64)
    return ColumnMoments(n, mean, np.square(data - mean).sum(axis=0))


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest value of columns; the sum of two is that of both."""

    count: int
    low: np.ndarray
    high: np.ndarray

    def __add__(self, other):
        """Combine the extremes of two parts."""
        return Extremes(
            self.count + other.count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def _extremes(piece):
    low, high = piece.X.data.min(axis=0), piece.X.data.max(axis=0)
    if piece.X.is_sparse:
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return Extremes(
        piece.X.n_instances, np.asarray(low, float), np.asarray(high, float)
    )


def _standard_scaler(scaler, pieces):
    found = pieces.sum(column_moments)
    scaler.n_features_in_ = len(found.mean)
    scaler.n_samples_seen_ = np.int64(found.count)
    wanted = scaler.with_mean or scaler.with_std
    scaler.mean_ = found.mean if wanted else None
    scaler.var_ = scaler.scale_ = None
    if scaler.with_std:
        scaler.var_ = found.square / found.count
        constant = _is_constant_feature(scaler.var_, found.mean, found.count)
        scaler.scale_ = _handle_zeros_in_scale(
            np.sqrt(scaler.var_), copy=False, constant_mask=constant
        )
    return scaler


def _extreme_scaler(scaler, pieces):
    found = pieces.sum(_extremes)
    scaler.fit(np.vstack([found.low, found.high]))
    scaler.n_samples_seen_ = found.count
    return scaler


def _fourier(sampler, pieces):
    width = sampler.gamma
    found = pieces.sum(column_moments)
    if width == "scale":
        center = found.mean.mean()
        spread = found.square.sum() / found.count + np.square(found.mean - center).sum()
        sampler.gamma = 1.0 / spread if spread > 0 else 1.0
    sampler.fit(np.zeros((1, len(found.mean))))
    sampler.gamma = width
    return sampler


_TRANSFORMERS = {
    StandardScaler: _standard_scaler,
    MinMaxScaler: _extreme_scaler,
    MaxAbsScaler: _extreme_scaler,
    RBFSampler: _fourier,
}


def result_ends(piece, model):
    """Return the lowest and highest results of a piece of bags."""
    return model._ends(piece.X)


def common_range(ends):
    """Return the lowest and highest values, from those of pieces."""
    low, high = zip(*ends, strict=True)
    return np.stack([np.fmin.reduce(low), np.fmax.reduce(high)])


def column_ends(rows):
    """Return the lowest and the highest value of each column, but for missing ones."""
    if sp.issparse(rows):
        ends = rows.min(axis=0), rows.max(axis=0)
        return tuple(end.toarray().ravel() for end in ends)
    rows = np.asarray(rows)
    return np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
