"""The one door: which estimators can be fitted from sums over parts, and by whom."""

from __future__ import annotations

from sklearn.base import clone

from bagwise.distributed._partitions import Partitions
from bagwise.distributed._safe import fit_safe
from bagwise.least_squares import SAFE

# Estimator -> how it is fitted on partitions: (unfitted copy, parts) -> fitted copy.
_METHODS = {SAFE: fit_safe}


def fit(estimator, parts, *, bag=None, label=None, features=None):
    """Fit on partitions, with the result of a fit on all bags in one place.

    Parameters
    ----------
    estimator : SAFE
        With explicit features (`n_components`, `landmarks` or the linear kernel),
        squared loss and an aggregation that is a sum. It is not changed.
    parts : dask DataFrame, dask Bag, or sequence of dask Delayed
        Partitions that hold whole bags. Rows of a DataFrame are instances and `bag`
        and `label` name its columns; elements of a dask Bag are pairs (instances of
        one bag, its label); a Delayed gives (X, y) or (X, y, sample_weight) with X as
        in the estimator's own `fit`. Plain tuples do as well.
    bag, label : str, default=None
        Columns of a DataFrame.
    features : sequence of str, default=None
        Feature columns of a DataFrame; all others by default.

    Returns
    -------
    estimator
        A fitted copy.

    Notes
    -----
    What is drawn and measured before the sums (landmarks, kernel widths) is that of a
    local fit on the concatenated parts: the same rows are drawn, from wherever they
    live. The parts are read once for a survey and once for each pass of the method;
    persist them if reading is slow and memory allows. Runs on the active
    ``dask.distributed`` client if there is one.

    SAFE passes over the parts where rows are drawn from them, once more for the
    degrees of the KSC core, and once for the moments; `dual_coef_` is not set.

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
    method = _METHODS.get(type(estimator))
    if method is None:
        known = ", ".join(sorted(cls.__name__ for cls in _METHODS))
        raise TypeError(
            f"{type(estimator).__name__} cannot be fitted from sums over partitions; "
            f"distributed.fit is for {known}."
        )
    model = clone(estimator)
    model._validate_params()
    return method(model, Partitions(parts, bag, label, features))
