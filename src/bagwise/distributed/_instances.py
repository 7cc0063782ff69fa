"""Transformers of instances from partitions: scalers and random features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from bagwise._compat import _handle_zeros_in_scale, _is_constant_feature


def fit_on_instances(model, parts):
    """Fit a copy of OnInstances on `Partitions`."""
    inner = model._inner()
    method = _TRANSFORMERS.get(type(inner))
    if method is None or model.label_instances:
        known = ", ".join(cls.__name__ for cls in _TRANSFORMERS)
        raise TypeError(
            f"OnInstances({type(inner).__name__}) cannot be fitted from sums over "
            f"partitions; distributed.fit is for {known}, without labels."
        )
    parts.survey()
    parts.set_features(model)
    model.transformer_ = method(clone(inner), parts)
    if hasattr(model, "feature_names_in_"):
        model.transformer_.feature_names_in_ = model.feature_names_in_
    return model


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


def column_moments(part):
    """Moments of the columns of a part, each instance counted once."""
    data, n = part.X.data, part.X.n_instances
    if part.X.is_sparse:
        mean = np.asarray(data.mean(axis=0)).ravel()
        square = np.asarray(data.multiply(data).sum(axis=0)).ravel() - n * mean**2
        return ColumnMoments(n, mean, np.maximum(square, 0.0))
    mean = data.mean(axis=0, dtype=np.float64)
    return ColumnMoments(n, mean, np.square(data - mean).sum(axis=0))


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest value of columns; the sum of two is that of both."""

    low: np.ndarray
    high: np.ndarray

    def __add__(self, other):
        """Combine the extremes of two parts."""
        return Extremes(
            np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        )


def _extremes(part):
    low, high = part.X.data.min(axis=0), part.X.data.max(axis=0)
    if part.X.is_sparse:
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return Extremes(np.asarray(low, float), np.asarray(high, float))


def _standard_scaler(scaler, parts):
    found = parts.sum(column_moments)
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


def _extreme_scaler(scaler, parts):
    found = parts.sum(_extremes)
    scaler.fit(np.vstack([found.low, found.high]))
    scaler.n_samples_seen_ = sum(parts.sizes)
    return scaler


def _fourier(sampler, parts):
    width, n_features = sampler.gamma, parts.surveys[0].n_features
    if width == "scale":
        found = parts.sum(column_moments)
        centre = found.mean.mean()
        spread = found.square.sum() / found.count + np.square(found.mean - centre).sum()
        sampler.gamma = 1.0 / spread if spread > 0 else 1.0
    sampler.fit(np.zeros((1, n_features)))
    sampler.gamma = width
    return sampler


_TRANSFORMERS = {
    StandardScaler: _standard_scaler,
    MinMaxScaler: _extreme_scaler,
    MaxAbsScaler: _extreme_scaler,
    RBFSampler: _fourier,
}
