"""A warning where the scales of the columns hide some of them from a method."""

import warnings

import numpy as np
import scipy.sparse as sp

# Rows that are looked at, evenly spaced: only the order of magnitude is needed.
_ROWS = 1_000
# A column with a range this many times another's hides it from distances and penalties.
_APART = 1e5
# Below this share of the largest range, or of its own values, a range is rounding.
_ROUNDING = 1e-10, 1e-9
# Outside of these ranges an absolute penalty is all that counts, or has no effect.
_SMALL, _LARGE = 1e-3, 1e5


def warn_of_scales(X, scale_sensitive):
    """Warn when the scales of the columns hide some of them, or all.

    Parameters
    ----------
    X : Bags
        The training bags.
    scale_sensitive : {"no", "relative", "absolute"}
        What the method assumes of scales; see `BagInputTags`.
    """
    if scale_sensitive == "no":
        return
    width, size = _ranges(X)
    widest = width.max(initial=0.0)
    counted = np.flatnonzero(
        (width > _ROUNDING[0] * widest) & (width > _ROUNDING[1] * size)
    )
    if not counted.size:
        return
    low, high = counted[[width[counted].argmin(), width[counted].argmax()]]
    text = None
    if width[high] > _APART * width[low]:
        text = (
            f"{_name(X, high)} has a range of {width[high]:.1e} and {_name(X, low)} "
            f"one of {width[low]:.1e}: on such different scales columns with a small "
            "range have no effect."
        )
    elif scale_sensitive == "absolute" and width[high] < _SMALL:
        text = (
            f"no column has a range above {width[high]:.1e} ({_name(X, high)}): on "
            "this scale the penalty outweighs the data."
        )
    elif scale_sensitive == "absolute" and width[high] > _LARGE:
        text = (
            f"{_name(X, high)} has a range of {width[high]:.1e}: on this scale the "
            "penalty has no effect."
        )
    if text is not None:
        warnings.warn(
            f"{text} Scale the columns first, for instance with make_pipeline("
            "OnInstances(StandardScaler()), ...).",
            UserWarning,
            stacklevel=2,
        )


def _ranges(X):
    """Return the range of each column and its largest absolute value, of some rows."""
    step = max(1, X.n_instances // _ROWS)
    if X.on_disk:  # only these rows are read
        rows = X.take_rows(np.arange(0, X.n_instances, step))
    else:
        rows = X.data[::step]
    if sp.issparse(rows):
        top, bottom = rows.max(axis=0), rows.min(axis=0)
        top, bottom = (np.ravel(side.toarray()) for side in (top, bottom))
    else:
        top, bottom = rows.max(axis=0), rows.min(axis=0)
    top, bottom = top.astype(np.float64), bottom.astype(np.float64)
    return top - bottom, np.maximum(np.abs(top), np.abs(bottom))


def _name(X, j):
    return f"column {j if X.feature_names is None else repr(str(X.feature_names[j]))}"
