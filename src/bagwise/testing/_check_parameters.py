"""Check that a fitted model does not change when its parameters are set."""

from numbers import Integral

import numpy as np

from bagwise._compat import Interval, StrOptions
from bagwise.testing._tools import fit, output, toy

_WHOLE, _REAL = (1, 2, 3, 7, 50), (0.01, 0.3, 0.5, 1.0, 2.0, 10.0)


def check_parameters_after_fit(estimator):
    """Parameters that are set after a fit wait for the next one.

    Parameters that a class declares in `_prediction_parameters` are exempt; its
    docstring says that they are used in prediction.
    """
    X, y = toy()
    model = fit(estimator, X, y)
    expected = _answers(model, X)
    parameters = model.get_params(deep=False)
    for name in parameters.keys() - set(model._prediction_parameters):
        value = parameters[name]
        for other in _other_values(model, name, value):
            model.set_params(**{name: other})
            try:
                for before, now in zip(expected, _answers(model, X), strict=True):
                    np.testing.assert_array_equal(before, now)
            except Exception as error:
                raise AssertionError(
                    f"a fitted model depends on the parameter {name}={other!r}, which "
                    f"was {value!r} in fit"
                ) from error
            model.set_params(**{name: value})


def _answers(model, X):
    """Return what a model gives for bags, and for their instances."""
    answers = [output(model, X)]
    if hasattr(model, "predict_proba"):
        answers.append(model.predict_proba(X))
    if hasattr(model, "instance_scores"):
        answers.append(model.instance_scores(X).values)
    return answers


def _other_values(model, name, value):
    """Return values that the constraints of a parameter allow, without its own."""
    constraints = type(model)._parameter_constraints.get(name, [])
    found = []
    for constraint in constraints:
        found += [None] if constraint is None else []
        if isinstance(constraint, StrOptions):
            found += sorted(constraint.options)
        elif isinstance(constraint, Interval):
            several = _WHOLE if constraint.type is Integral else _REAL
            found += [number for number in several if number in constraint]
        elif isinstance(constraint, str) and constraint == "boolean":
            found += [True, False]
    return [
        other for other in found if type(other) is not type(value) or other != value
    ]
