"""Fits from partitions: which estimators, and how each becomes sums over the parts."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags
from bagwise.bags.chunks import Moments
from bagwise.compose import OnInstances, SimpleMI
from bagwise.compose.from_pieces import (
    common_range,
    fit_from_pieces,
    fits_from_pieces,
    result_ends,
)
from bagwise.distributed._partitions import Partitions, labels_of, weights_of
from bagwise.distributed._safe import encode_classes, fit_safe, fit_safe_regressor
from bagwise.embedding import MiFV
from bagwise.embedding.codebooks import EnergyProjection
from bagwise.least_squares import SAFE, SAFERegressor
from bagwise.linear_model import MILinearRegression, MILogisticRegression


def fit(estimator, parts, *, bag=None, label=None, features=None, persist=False):
    """Fit on partitions, with the result of a fit on all bags in one place.

    Parameters
    ----------
    estimator : estimator
        It is not changed. Its fit must need sums over bags only:

        - `SAFE`, `SAFERegressor` with explicit features (`n_components`, `landmarks` or
          the linear kernel), squared loss and an aggregation that is a sum;
        - `MILogisticRegression`, all poolings: every step of L-BFGS is one pass;
        - `MILinearRegression`, all poolings: every step is two passes or a few more;
        - `MiFV`: principal axes from all instances, the mixture from a sample;
        - `OnInstances` with `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` or
          `RBFSampler`;
        - `SimpleMI`: the rows of the bags are gathered and learned from locally;
        - a scikit-learn `Pipeline` of these. As soon as a step returns one row per bag,
          the rows are gathered and the remaining steps are fitted locally.
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
        Whether the workers keep the parts in memory after the first pass. By default
        every pass reads them again, and a worker holds only the part it works on.

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
    What is sampled or estimated before the sums (landmarks, kernel widths, samples of
    instances) is that of a local fit on the concatenated parts: the same rows are
    sampled. Results agree with a local fit up to rounding. Runs on the active
    ``dask.distributed`` client if there is one; a part that is lost with its worker is
    recomputed. SAFE does not set `dual_coef_`.

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
    _, labeled = _method_of(estimator)
    found = Partitions(parts, bag, label, features, labeled=labeled)
    return _fit_step(estimator, found.persist() if persist else found)


def _method_of(estimator):
    if isinstance(estimator, Pipeline):
        last = estimator[-1]
        return _fit_pipeline, is_classifier(last) or is_regressor(last)
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


def _fit_milr(model, parts):
    """Fit a copy of MILogisticRegression on `Partitions`."""
    parts.survey_for(model, labels=True)
    classes, factor = encode_classes(model, parts)
    if len(classes) == 2:
        return _fit_one(model, parts, classes, 1, factor)
    model.estimators_ = []
    for k in range(len(model.classes_)):
        one = model._unfitted_copy()
        model.estimators_.append(_fit_one(one, parts, classes, k, factor))
    model.n_iter_ = max(one.n_iter_ for one in model.estimators_)
    return model


def _fit_one(model, parts, classes, k, factor):
    """Fit one class against the rest."""
    targets = parts.map(_targets, classes, k, factor)
    model._fit_sums(targets)
    model._find_threshold_in_chunks(targets)
    return model


def _targets(part, classes, k, factor):
    """Replace the labels by 1.0 for class `k` and weigh the bags by their class."""
    columns = (part.y[:, None] == classes).astype(np.float64)
    return part._replace(y=columns[:, k], weight=part.weight * (columns @ factor))


def _fit_mi_linear_regression(model, parts):
    """Fit a copy of MILinearRegression on `Partitions`."""
    parts.survey_for(model)
    model._fit_sums(parts.map(_values))
    return model


def _values(part):
    if part.y.ndim != 1 or not np.isfinite(part.y.astype(np.float64)).all():
        raise ValueError("y must be one finite number for each bag.")
    return part._replace(y=part.y.astype(np.float64))


def _fit_mifv(model, parts):
    """Fit a copy of MiFV on `Partitions`."""
    parts.survey_for(model)
    found = parts.sum(_covariance)
    project = EnergyProjection.of_moments(found, model.energy)
    n = sum(parts.sizes)
    rows = model._sample_rows(n)
    model._fit_mixture(project, parts.take(np.arange(n) if rows is None else rows))
    return model


def _covariance(part):
    return Moments.of(part.X.data)


def _fit_embedded(model, parts):
    """Fit a copy of SimpleMI: one row per bag is gathered and learned from locally."""
    parts.survey_for(model, labels=True)
    model._encode_labels(parts.label_counts()[0])
    model.pooling_ = model.pooling
    rows = parts.gather(_bag_rows, model)
    y, weight = parts.gather(labels_of), parts.gather(weights_of)
    base = model._base_estimator(not isinstance(rows, np.ndarray))
    options = {} if np.all(weight == 1.0) else {"sample_weight": weight}
    return model._learn(base, rows, y, options)


def _bag_rows(part, model):
    return model._rows(part.X)


def _fit_on_instances(model, parts):
    """Fit a copy of OnInstances on `Partitions`."""
    inner = model._inner()
    if model.label_instances or not fits_from_pieces(inner):
        raise TypeError(
            f"OnInstances({type(inner).__name__}) cannot be fitted from sums over "
            "partitions; distributed.fit is for StandardScaler, MinMaxScaler, "
            "MaxAbsScaler and RBFSampler, without labels."
        )
    parts.survey_for(model)
    model.transformer_ = fit_from_pieces(clone(inner), parts)
    model.range_ = common_range(parts.each(result_ends, model)) if model.clip else None
    return model


def _fit_pipeline(model, parts):
    """Fit a copy of a pipeline on `Partitions`."""
    steps = list(model.steps)
    for i, (name, step) in enumerate(steps[:-1]):
        if step is None or step == "passthrough":
            continue
        fitted = _fit_step(step, parts)
        steps[i] = (name, fitted)
        probe = Bags(np.zeros((1, fitted.n_features_in_)), [0, 1])
        if isinstance(fitted.transform(probe), Bags):
            parts = parts.map(_transform, fitted)
            continue
        steps[i + 1 :] = _fit_rows(steps[i + 1 :], parts, fitted)
        break
    else:
        name, last = steps[-1]
        steps[-1] = (name, _fit_step(last, parts))
    model.steps = steps
    return model


def _fit_rows(steps, parts, embedding):
    """Fit the last steps on the rows of all bags."""
    rest = Pipeline([(name, clone(step)) for name, step in steps])
    rows = parts.gather(_embedded_rows, embedding)
    y = parts.gather(labels_of) if parts.labeled else None
    weight, options = parts.gather(weights_of), {}
    if not np.all(weight == 1.0):
        options[f"{steps[-1][0]}__sample_weight"] = weight
    return rest.fit(rows, y, **options).steps


def _transform(part, transformer):
    return part._replace(X=transformer.transform(part.X))


def _embedded_rows(part, transformer):
    return np.asarray(transformer.transform(part.X))


# Estimator -> how it is fitted on partitions: (unfitted copy, parts) -> fitted copy,
# and whether it needs labels.
_METHODS = {
    SAFE: (fit_safe, True),
    SAFERegressor: (fit_safe_regressor, True),
    MILogisticRegression: (_fit_milr, True),
    MILinearRegression: (_fit_mi_linear_regression, True),
    SimpleMI: (_fit_embedded, True),
    MiFV: (_fit_mifv, False),
    OnInstances: (_fit_on_instances, False),
}
