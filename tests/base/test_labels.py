"""Labels that scikit-learn's own check need not see are those it would let pass."""

import warnings

import numpy as np
import pytest
from sklearn.utils.multiclass import check_classification_targets

from bagwise.base._classifiers import _are_two_plain
from bagwise.compose import SimpleMI
from bagwise.svm import MISVM


@pytest.mark.parametrize(
    ("y", "plain"),
    [
        (np.array([0, 1, 1, 0]), True),
        (np.array([True, False]), True),
        (np.array([-1, 1, 1], dtype=np.int8), True),
        (np.array([7, 7]), True),
        (np.arange(30), False),  # of many classes it warns
        (np.array([0.0, 1.0]), False),
        (np.array([0.5, 1.0]), False),
        (np.array(["a", "b"]), False),
        (np.array([None, 1], dtype=object), False),
        (np.array([[0, 1], [1, 0]]), False),
        (np.array([], dtype=int), False),
        ([0, 1], False),
    ],
)
def test_two_whole_numbers_need_no_other_check(y, plain):
    assert _are_two_plain(y) == plain
    if plain:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_classification_targets(y)


def test_names_of_parameters_belong_to_the_class():
    assert "pooling" in SimpleMI().get_params()
    assert "pooling" not in MISVM().get_params()

    class Other(SimpleMI):
        def __init__(self, estimator=None, *, more=1):
            super().__init__(estimator)
            self.more = more

    assert sorted(Other().get_params()) == ["estimator", "more"]
