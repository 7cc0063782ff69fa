"""Labels that scikit-learn's own check need not see are those it would let pass."""

import warnings

import numpy as np
import pytest
from sklearn.utils.multiclass import check_classification_targets

from bagwise.bags import Bags
from bagwise.base._classifiers import _are_two_plain
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
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


def test_targets_follow_the_bag_ids_of_their_index():
    pd = pytest.importorskip("pandas")
    X, y = make_bags(20, n_features=3, random_state=0)
    names = [f"slide {i}" for i in range(len(X))]
    X = Bags(X.data, X.offsets, ids=names)
    expected = MISVM().fit(X, y).decision_function(X)
    series = pd.Series(y, index=names)
    for given in (series, series.sort_index(), series.sample(frac=1, random_state=0)):
        found = MISVM().fit(X, given).decision_function(X)
        np.testing.assert_array_equal(found, expected)
    other = pd.Series(y, index=[f"label {i}" for i in range(len(X))])
    for given in (series.reset_index(drop=True), other):
        found = MISVM().fit(X, given).decision_function(X)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="bag 'slide 3' is missing"):
        MISVM().fit(X, series.rename({"slide 3": "slide 99"}))
    with pytest.raises(ValueError, match="21 for 20 bags"):
        MISVM().fit(X, pd.concat([series, series[:1]]))
