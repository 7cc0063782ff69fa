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
    "compiled_trees",
    "validate_parameter_constraints",
]


def compiled_trees():
    """Return the class of trees, and the types of their nodes and of boosted nodes."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.tree._tree import NODE_DTYPE, Tree

    return Tree, NODE_DTYPE, PREDICTOR_RECORD_DTYPE
