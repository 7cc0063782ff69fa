"""The one door: which estimators can be fitted from sums over parts, and by whom."""

from __future__ import annotations

from functools import partial

from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from bagwise.compose import OnInstances, SimpleMI
from bagwise.distributed._embedding import fit_embedded, fit_mifv
from bagwise.distributed._instances import fit_on_instances
from bagwise.distributed._linear import fit_mi_linear_regression, fit_milr
from bagwise.distributed._partitions import Partitions
from bagwise.distributed._pipeline import fit_pipeline
from bagwise.distributed._safe import fit_safe, fit_safe_regressor
from bagwise.embedding import MiFV
from bagwise.least_squares import SAFE, SAFERegressor
from bagwise.linear_model import MILinearRegression, MILogisticRegression

# Estimator -> how it is fitted on partitions: (unfitted copy, parts) -> fitted copy,
# and whether it needs labels.
_METHODS = {
    SAFE: (fit_safe, True),
    SAFERegressor: (fit_safe_regressor, True),
    MILogisticRegression: (fit_milr, True),
    MILinearRegression: (fit_mi_linear_regression, True),
    SimpleMI: (fit_embedded, True),
    MiFV: (fit_mifv, False),
    OnInstances: (fit_on_instances, False),
}


def fit(estimator, parts, *, bag=None, label=None, features=None, persist=False):
    """Fit on partitions, with the result of a fit on all bags in one place.

    Parameters
    ----------
    estimator : estimator
        It is not changed. One whose fit needs sums over bags only:

        - `SAFE`, `SAFERegressor` with explicit features (`n_components`, `landmarks` or
          the linear kernel), squared loss and an aggregation that is a sum;
        - `MILogisticRegression`, all poolings: every step of L-BFGS is one pass;
        - `MILinearRegression`, all poolings: every step is two passes or a few more;
        - `MiFV`: axes from all instances, the mixture from a sample of them;
        - `OnInstances` with `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` or
          `RBFSampler`;
        - `SimpleMI`: the rows of the bags are gathered and learned from locally;
        - a scikit-learn `Pipeline` of these. As soon as a step gives one row for each
          bag, the rows are gathered and the rest, of any kind, is fitted locally.
    parts : dask DataFrame, dask Bag, or sequence
        Partitions that hold whole bags. Rows of a DataFrame are instances and `bag`
        and `label` name its columns; elements of a dask Bag are pairs (instances of
        one bag, its label); elements of a sequence give (X, y) or (X, y,
        sample_weight) with X as in the estimator's own `fit`: a dask Delayed, a
        function without arguments that reads them (:func:`read_parts`), or a tuple.
    bag, label : str, default=None
        Columns of a DataFrame.
    features : sequence of str, default=None
        Feature columns of a DataFrame; all others by default.
    persist : bool, default=False
        Whether the workers keep the parts in memory once they have read them. By
        default every pass reads them again, and a worker holds no more than the part
        it works on.

    Returns
    -------
    estimator
        A fitted copy.

    See Also
    --------
    read_parts : Parts from files.
    predict, score : Use of the fitted model on parts.

    Notes
    -----
    What is drawn and measured before the sums (landmarks, kernel widths, samples) is
    that of a local fit on the concatenated parts: the same rows are drawn, from
    wherever they live. Results agree with a local fit to rounding. Runs on the active
    ``dask.distributed`` client if there is one; a part that is lost with its worker is
    computed again. SAFE does not set `dual_coef_`.

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
    _, labelled = _method_of(estimator)
    found = Partitions(parts, bag, label, features, labelled=labelled)
    return _fit_step(estimator, found.persist() if persist else found)


def _method_of(estimator):
    if isinstance(estimator, Pipeline):
        last = estimator[-1]
        learns = is_classifier(last) or is_regressor(last)
        return partial(fit_pipeline, fit=_fit_step), learns
    method = _METHODS.get(type(estimator))
    if method is None:
        known = ", ".join(sorted(cls.__name__ for cls in _METHODS))
        raise TypeError(
            f"{type(estimator).__name__} cannot be fitted from sums over partitions; "
            f"distributed.fit is for {known} and pipelines of them."
        )
    return method


def _fit_step(estimator, parts):
    model = clone(estimator)
    if hasattr(model, "_validate_params"):
        model._validate_params()
    return _method_of(estimator)[0](model, parts)
