"""Scales and weights taken from the training data: degrees, units, kernel widths."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.utils import compute_class_weight

from bagwise.bags.chunks import Chunks, larger_than_a_piece
from bagwise.bags.segments import repeat
from bagwise.kernels.instance import resolve_gamma


def instance_variance(core, degrees, count, ids_of_row, *, floor=0.0):
    """Diagonal of V: the multiplicities, divided by the degrees in the KSC core.

    Parameters
    ----------
    core : {"ksc", "kpca"}
        The unsupervised core model.
    degrees : ndarray of shape (n_instances,) or None
        Row sums of the kernel; not needed by "kpca".
    count : ndarray of shape (n_instances,)
        Multiplicity of each instance.
    ids_of_row : callable
        Gives (bag id, position in the bag) of a row, for the message.
    floor : float
        Smallest value that the true degrees can have; approximations are raised to it.
    """
    if core == "kpca":
        return count
    if floor > 0.0:
        degrees = np.maximum(degrees, floor)
    bad = np.flatnonzero(~(degrees > 0.0))
    if bad.size:
        bag, position = ids_of_row(int(bad[0]))
        raise ValueError(
            f"core='ksc' divides by the degree of every instance, and {bad.size} of "
            f"them are not positive: instance {position} of bag {bag} has degree "
            f"{degrees[bad[0]]:.3g}. Use core='kpca', or kernel='rbf', whose degrees "
            "are always positive."
        )
    return count / degrees


def row_namer(X):
    """Return the function that names a row of `X` by bag id and position."""

    def name(row):
        bag = int(np.searchsorted(X.offsets, row, side="right")) - 1
        return X.ids[bag], row - int(X.offsets[bag])

    return name


def weighted_gamma(gamma, data, count):
    """Kernel width as a number; "scale" counts each instance as often as it weighs."""
    if gamma != "scale" or np.all(count == count[0]):
        return resolve_gamma(gamma, data)
    share = count / (count.sum() * data.shape[1])
    squares = data.multiply(data) if sp.issparse(data) else np.square(data)
    mean = float(np.sum(share @ data))
    variance = float(np.sum(share @ squares)) - mean**2
    return 1.0 / (data.shape[1] * variance) if variance > 0 else 1.0


def bag_gamma(gamma, X, count):
    """Kernel width as a number, for bags of which each counts `count` times."""
    if not larger_than_a_piece(X):
        return weighted_gamma(gamma, X.data, repeat(count, X.offsets).astype(float))
    if gamma == "median":  # the rows that it looks at anyway
        step = max(1, -(-X.n_instances // 1000))
        return resolve_gamma(gamma, X.take_rows(np.arange(0, X.n_instances, step)))
    if gamma != "scale":
        return resolve_gamma(gamma, np.zeros((1, X.n_features)))
    total, sums, squares = Chunks(X, weight=count).sum(_entry_sums)
    entries = total * X.n_features
    variance = squares / entries - (sums / entries) ** 2
    return 1.0 / (X.n_features * variance) if variance > 0 else 1.0


def _entry_sums(piece):
    data = piece.X.data.astype(np.float64, copy=False)
    rows = repeat(piece.weight, piece.X.offsets)
    per_row = data.sum(axis=1), np.einsum("ij,ij->i", data, data)
    return float(rows.sum()), float(rows @ per_row[0]), float(rows @ per_row[1])


def mean_squared_distance(data, count):
    """Mean squared distance of instances: twice the total variance, 1 if that is 0."""
    share = count / count.sum()
    squares = data.multiply(data) if sp.issparse(data) else np.square(data)
    mean = np.asarray(share @ data).ravel()
    total = float(np.sum(share @ squares)) - float(mean @ mean)
    return 2.0 * total if total > 0 else 1.0


def class_factor(class_weight, classes, codes=None, count=None):
    """Weight of each class.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        The parameter of the estimator.
    classes : ndarray of shape (n_classes,)
        Labels.
    codes, count : ndarray
        Class number and multiplicity of each sample, for "balanced": samples are
        counted as often as they weigh.
    """
    if class_weight == "balanced":
        total = np.bincount(codes, weights=count, minlength=len(classes))
        return total.sum() / (len(classes) * total)
    return compute_class_weight(class_weight, classes=classes, y=classes)
