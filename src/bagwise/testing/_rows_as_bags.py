"""Read each row of a matrix as a bag of one instance, for scikit-learn's checks."""

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from bagwise.bags import Bags

_MADE: dict[type, type] = {}


def rows_as_bags(cls):
    """Return a subclass of a bag estimator that takes matrices.

    Every row is a bag with one instance. The subclass has the same parameters;
    transformed bags are returned as a matrix. scikit-learn's `check_estimator` runs
    one check on estimators that do not take matrices, and all checks on this subclass.

    Parameters
    ----------
    cls : type
        An estimator derived from `BaseBagEstimator`.

    Returns
    -------
    type
        The subclass; the same one each time, so that its instances can be pickled.
    """
    if cls not in _MADE:
        name = f"RowsAsBags{cls.__name__}"
        extra = {"__module__": __name__}
        for method in ("transform", "fit_transform", "inverse_transform"):
            if hasattr(cls, method):
                extra[method] = globals()[f"_{method}"]
        made = type(name, (_RowsAsBags, cls), extra)
        made.__doc__ = cls.__doc__
        globals()[name] = made
        _MADE[cls] = made
    return _MADE[cls]


def __getattr__(name):
    """Create the subclass again when a pickle is loaded in another process."""
    if not name.startswith("RowsAsBags"):
        raise AttributeError(name)
    from bagwise.testing._estimators import all_estimators

    for known, cls in all_estimators():
        if name == f"RowsAsBags{known}":
            return rows_as_bags(cls)
    raise AttributeError(name)


class _RowsAsBags:
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = False
        tags.input_tags.categorical = False  # matrices have numbers only
        return tags

    def _check_bags(self, X, y=None, *, reset, min_bags=1):
        if isinstance(X, Bags):  # passed from the estimator to its parts
            return super()._check_bags(X, y, reset=reset, min_bags=min_bags)
        tags = self.__sklearn_tags__()
        if y is None and reset and tags.target_tags.required:
            raise ValueError("requires y to be passed, but the target y is None")
        how = {
            "accept_sparse": "csr" if tags.input_tags.sparse else False,
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": "allow-nan" if tags.input_tags.allow_nan else True,
        }
        if y is None:
            rows = validate_data(self, X, reset=reset, **how)
        else:
            how["multi_output"] = tags.target_tags.multi_output
            how["y_numeric"] = is_regressor(self)
            rows, y = validate_data(self, X, y, reset=reset, **how)
        bags = Bags(rows, np.arange(rows.shape[0] + 1))
        names = getattr(self, "feature_names_in_", None)
        result = super()._check_bags(bags, y, reset=reset, min_bags=min_bags)
        if names is not None:
            self.feature_names_in_ = names
        return result


def _transform(self, X):
    made = super(type(self), self).transform(X)
    return made.data if isinstance(made, Bags) else made


def _fit_transform(self, X, y=None, **params):
    return self.fit(X, y, **params).transform(X)


@available_if(lambda self: hasattr(super(type(self), self), "inverse_transform"))
def _inverse_transform(self, X):
    rows = check_array(X, accept_sparse="csr")
    bags = Bags(rows, np.arange(rows.shape[0] + 1))
    return super(type(self), self).inverse_transform(bags).data
