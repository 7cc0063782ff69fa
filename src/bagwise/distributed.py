"""Fit on partitions that live on a cluster, through dask.

Only sums travel: every part gives its additive moments, and their total is solved on
the machine that called. A part that is lost with its worker is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from bagwise.bags import Bags, check_bags
from bagwise.io import from_frame
from bagwise.kernels._instance import resolve_gamma
from bagwise.least_squares import SAFE
from bagwise.least_squares.safe._features import draw_landmarks
from bagwise.least_squares.safe._stream import _can_stream

__all__ = ["fit"]

_MEDIAN_ROWS = 1000  # rows that gamma="median" looks at, as in a local fit


@dataclass(frozen=True)
class _Survey:
    """What has to be known of a part before its moments can be computed."""

    n_features: int
    feature_names: Any
    n_instances: int
    labels: np.ndarray
    label_weights: np.ndarray
    ids: np.ndarray | None
    total: float  # weights of all instances
    mean: float  # over all entries of the matrix
    square: float  # weighted sum of squared deviations from it, over all entries


def fit(estimator, parts, *, bag=None, label=None, features=None):
    """Fit SAFE on partitions, with the result of a fit on all bags in one place.

    Parameters
    ----------
    estimator : SAFE
        With explicit features (`n_components`, `landmarks` or the linear kernel),
        squared loss and an aggregation that is a sum. It is not changed.
    parts : dask DataFrame, dask Bag, or sequence of dask Delayed
        Partitions that hold whole bags. Rows of a DataFrame are instances and `bag`
        and `label` name its columns; elements of a dask Bag are pairs (instances of
        one bag, its label); a Delayed gives (X, y) or (X, y, sample_weight) with X as
        in ``SAFE.fit``. Plain tuples do as well.
    bag, label : str, default=None
        Columns of a DataFrame.
    features : sequence of str, default=None
        Feature columns of a DataFrame; all others by default.

    Returns
    -------
    SAFE
        A fitted copy of the estimator.

    Notes
    -----
    Landmarks and kernel widths are those of a local fit on the concatenated parts: the
    same rows are drawn, from wherever they live. The parts are read once for a survey,
    once where rows are drawn from them, once more for the degrees of the KSC core, and
    once for the moments; persist them if reading is slow and memory allows. Runs on
    the active ``dask.distributed`` client if there is one. `dual_coef_` is not set.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.distributed import fit
    >>> from bagwise.least_squares import SAFE
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 3, 2)), np.arange(20) % 2
    >>> model = fit(SAFE(kernel="linear"), [(X[:10], y[:10]), (X[10:], y[10:])])
    >>> bool(np.allclose(model.coef_, SAFE(kernel="linear").fit(X, y).coef_))
    True
    """
    dask = _import_dask()
    if not isinstance(estimator, SAFE):
        raise TypeError(
            "distributed.fit is for SAFE, whose moments are additive; got "
            f"{type(estimator).__name__}."
        )
    try:
        _can_stream(estimator)
    except AttributeError as error:
        raise ValueError(str(error).replace("partial_fit", "distributed.fit")) from None
    model = clone(estimator)
    model._validate_params()
    model._check_options()
    loaded = _load(dask, parts, bag, label, features)
    surveys = dask.compute(*[dask.delayed(_survey)(part) for part in loaded])
    _check_surveys(surveys)
    factor = _prepare(dask, model, loaded, surveys)
    shared = dask.delayed(model)
    first = None
    if model.core_ == "ksc":
        first = _total(dask, [dask.delayed(_features)(shared, p) for p in loaded])
    moments = [dask.delayed(_moments)(shared, p, factor, first) for p in loaded]
    model._solve_moments(_total(dask, moments))
    return model


def _import_dask():
    try:
        import dask
    except ImportError:
        raise ImportError(
            "bagwise.distributed needs dask: pip install 'bagwise[dask]'."
        ) from None
    return dask


def _load(dask, parts, bag, label, features):
    """Return one Delayed per part that gives checked (X, y, weight, has ids)."""
    if hasattr(parts, "to_delayed"):
        frame = hasattr(parts, "columns")
        if frame and (bag is None or label is None):
            raise ValueError("A DataFrame needs bag= and label=, its columns.")
        pieces = list(parts.to_delayed())
        how = (_read_frame, bag, label, features) if frame else (_read_pairs,)
    else:
        pieces, how = list(parts), (_read_tuple,)
    if not pieces:
        raise ValueError("There are no parts to fit on.")
    return [dask.delayed(_read)(i, piece, how) for i, piece in enumerate(pieces)]


def _read(number, piece, how):
    reader, *options = how
    try:
        X, y, weight, named = reader(piece, *options)
        X = check_bags(X, accept_sparse=True)
        y = np.asarray(y)
        if y.shape != (X.n_bags,):
            raise ValueError(f"y has shape {y.shape} for {X.n_bags} bags.")
        weight = np.ones(X.n_bags) if weight is None else np.asarray(weight, float)
        if weight.shape != (X.n_bags,) or (weight < 0).any():
            raise ValueError("sample_weight must be one number >= 0 for each bag.")
    except (TypeError, ValueError) as error:
        raise type(error)(f"Part {number}: {error}") from None
    used = weight > 0
    if used.all():
        return X, y, weight, named
    return X[used], y[used], weight[used], named


def _read_frame(frame, bag, label, features):
    X, y = from_frame(frame, bag, label, features=features)
    return X, y, None, True


def _read_pairs(pairs):
    bags, labels = zip(*pairs, strict=True)
    return Bags.from_list(list(bags)), np.asarray(labels), None, False


def _read_tuple(part):
    X, y, *rest = part
    return X, y, rest[0] if rest else None, False


def _survey(part):
    X, y, weight, named = part
    labels, codes = np.unique(y, return_inverse=True)
    rows = np.repeat(weight, X.sizes)
    total = float(rows.sum())
    entries = total * X.n_features
    squares = X.data.multiply(X.data) if X.is_sparse else None
    mean = float(np.sum(rows @ X.data)) / entries if entries else 0.0
    if squares is not None:
        square = float(np.sum(rows @ squares)) - entries * mean**2
    else:
        square = float(np.sum(rows @ np.square(X.data - mean)))
    return _Survey(
        X.n_features,
        None if X.feature_names is None else list(X.feature_names),
        X.n_instances,
        labels,
        np.bincount(codes, weights=weight),
        X.ids if named else None,
        total,
        mean,
        square,
    )


def _check_surveys(surveys):
    """Refuse parts that do not belong together."""
    seen = {}
    for number, one in enumerate(surveys):
        for name in ("n_features", "feature_names"):
            value, wanted = getattr(one, name), getattr(surveys[0], name)
            if value != wanted:
                raise ValueError(
                    f"Part {number} has {name} {value}, part 0 has {wanted}."
                )
        for key in [] if one.ids is None else one.ids:
            if key in seen:
                raise ValueError(
                    f"Bag {key!r} is in parts {seen[key]} and {number}: partitions "
                    "must hold whole bags. Repartition by the bag column first."
                )
            seen[key] = number


def _prepare(dask, model, loaded, surveys):
    """Set everything but the solution; return the class weights."""
    model._forget()
    model.n_features_in_ = surveys[0].n_features
    if surveys[0].feature_names is not None:
        model.feature_names_in_ = np.asarray(surveys[0].feature_names, dtype=object)
    labels = np.concatenate([one.labels for one in surveys])
    model._encode_labels(labels)
    counts = np.bincount(
        np.searchsorted(model.classes_, labels),
        weights=np.concatenate([one.label_weights for one in surveys]),
    )
    sizes = [one.n_instances for one in surveys]
    gamma = _width(dask, model, loaded, surveys, sizes)
    # One stand-in row: only its number of columns and the numbers above matter.
    probe = Bags(np.zeros((1, model.n_features_in_)), [0, 1])
    model._choose_kernel(probe, np.ones(1))
    model.kernel_gamma_ = gamma
    drawn = None
    if (
        model.landmarks is None
        and model.n_components is not None
        and model.approximation == "nystroem"
    ):
        rows = draw_landmarks(sum(sizes), model.n_components, model.random_state)
        drawn = _take(dask, loaded, sizes, rows)
    model._choose_features(probe, drawn)
    if model.class_weight == "balanced":
        return counts.sum() / (len(counts) * counts)
    return model._fixed_class_factor(np.arange(len(counts)))


def _width(dask, model, loaded, surveys, sizes):
    if model.kernel == "linear":
        return 1.0
    if model.gamma == "median":
        step = max(1, -(-sum(sizes) // _MEDIAN_ROWS))
        rows = np.arange(0, sum(sizes), step)
        # The sample is all there is to look at, hence a step of one from here on.
        return resolve_gamma("median", _take(dask, loaded, sizes, rows))
    if model.gamma != "scale":
        return resolve_gamma(model.gamma, np.zeros((1, model.n_features_in_)))
    total = sum(one.total for one in surveys)
    mean = sum(one.total * one.mean for one in surveys) / total
    square = sum(
        one.square + one.total * model.n_features_in_ * (one.mean - mean) ** 2
        for one in surveys
    )
    # 1 / (n_features * variance), and the variance is square / (total * n_features)
    return total / square if square > 0 else 1.0


def _take(dask, loaded, sizes, rows):
    """Gather instances by their row numbers in the concatenated parts."""
    ends = np.cumsum(sizes)
    pieces = []
    for part, size, end in zip(loaded, sizes, ends, strict=True):
        inside = rows[(rows >= end - size) & (rows < end)] - (end - size)
        if inside.size:
            pieces.append(dask.delayed(_rows)(part, inside))
    found = dask.compute(*pieces)
    stack = sp.vstack if sp.issparse(found[0]) else np.concatenate
    return stack(list(found))


def _rows(part, rows):
    return part[0].data[rows].astype(np.float64)


def _features(model, part):
    return model._feature_total(part[0], part[2])


def _moments(model, part, factor, first):
    X, y, weight, _ = part
    codes = np.searchsorted(model.classes_, y)
    loss_weight = weight * factor[codes]
    try:
        return model._accumulate(X, codes, weight, loss_weight, first=first)
    except ValueError:
        if model.variance_weight > 0 or model.variance_weight_abs is not None:
            raise
        # Degrees that are not positive do not matter without variance weight.
        return model._accumulate(X, codes, weight, loss_weight, instance=False)


def _total(dask, items):
    """Sum by pairs: a fixed order, and few results in one place at a time."""
    add = dask.delayed(_add)
    while len(items) > 1:
        pairs = zip(items[::2], items[1::2], strict=False)
        last = items[-1:] if len(items) % 2 else []
        items = [add(a, b) for a, b in pairs] + last
    return items[0].compute()


def _add(a, b):
    return a + b
