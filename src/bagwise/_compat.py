"""The only file that imports private names of scikit-learn."""

from sklearn.base import _fit_context
from sklearn.preprocessing._data import _handle_zeros_in_scale, _is_constant_feature
from sklearn.utils._param_validation import (
    HasMethods,
    Hidden,
    Interval,
    InvalidParameterError,
    Options,
    RealNotInt,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    _is_fitted,
)

__all__ = [
    "HasMethods",
    "Hidden",
    "Interval",
    "InvalidParameterError",
    "Options",
    "RealNotInt",
    "StrOptions",
    "_check_feature_names",
    "_check_sample_weight",
    "_fit_context",
    "_handle_zeros_in_scale",
    "_is_constant_feature",
    "_is_fitted",
    "validate_parameter_constraints",
]
