"""Columns in units with which a method cannot see them, said before the work."""

import warnings

import numpy as np
import scipy.sparse as sp

# Rows that are looked at, spread evenly: the order of magnitude is all that is asked.
_ROWS = 1_000
# One column this many times wider than another hides it from distances and penalties.
_APART = 1e5
# Narrower than this share of the widest, or of its own numbers, a column is rounding.
_ROUNDING = 1e-10, 1e-9
# A penalty in the units of the columns is all that counts, or nothing, beyond these.
_SMALL, _LARGE = 1e-3, 1e5


def warn_of_units(X, units):
    """Warn when the units of the columns hide some of them, or all.

    Parameters
    ----------
    X : Bags
        The training bags.
    units : {"free", "common", "absolute"}
        What the method makes of units; see `BagInputTags`.
    """
    if units == "free":
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
            f"one of {width[low]:.1e}: in such different units narrow columns have no "
            "say."
        )
    elif units == "absolute" and width[high] < _SMALL:
        text = (
            f"no column has a range above {width[high]:.1e} ({_name(X, high)}): in "
            "such units the penalty outweighs them all."
        )
    elif units == "absolute" and width[high] > _LARGE:
        text = (
            f"{_name(X, high)} has a range of {width[high]:.1e}: in such units the "
            "penalty counts for nothing."
        )
    if text is not None:
        warnings.warn(
            f"{text} Scale the columns first, for instance with make_pipeline("
            "OnInstances(StandardScaler()), ...).",
            UserWarning,
            stacklevel=2,
        )


def _ranges(X):
    """Return the range of each column and its largest number, of some rows."""
    step = max(1, X.n_instances // _ROWS)
    if X.on_disk:  # these rows alone are read
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
