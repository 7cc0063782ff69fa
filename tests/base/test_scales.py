"""`fit` warns of scales that hide columns, and only of those."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

from bagwise.bags import Bags
from bagwise.base.estimator import warn_of_scales
from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_bags
from bagwise.ensemble import MILBoost


def bags(columns, n_rows=4_000):
    rows = np.random.default_rng(0).uniform(size=(n_rows, len(columns)))
    return Bags(rows * columns, np.arange(0, n_rows + 1, 4))


def warnings_of(X, scale_sensitive="relative"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_scales(X, scale_sensitive)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_of_very_different_range_are_named(sparse):
    X = bags([3.0, 1e-5, 2e3])
    rows = sp.csr_array(X.data) if sparse else X.data
    X = X.with_data(rows, feature_names=["age", "dose", "steps"])
    (text,) = warnings_of(X)
    assert "'steps' has a range of 2.0e+03 and column 'dose' one of 1.0e-05" in text
    assert "OnInstances(StandardScaler())" in text
    assert warnings_of(X, "no") == []


@pytest.mark.parametrize(
    ("factor", "word"), [(1e-6, "outweighs"), (1e7, "no effect"), (1.0, None)]
)
def test_a_common_factor_matters_to_absolute_penalties_only(factor, word):
    X = bags(factor * np.array([1.0, 2.0]))
    assert warnings_of(X) == []
    found = warnings_of(X, "absolute")
    assert len(found) == (word is not None)
    assert all(word in text for text in found)


def test_constants_rounding_and_gaps_are_ignored():
    X = bags([1.0, 1.0, 0.0, 1e-14])
    rows = X.data + [0.0, 1e6, 0.1, 0.0]
    rows[0, 0] = np.nan
    assert warnings_of(X.with_data(rows)) == []
    assert warnings_of(X.with_data(X.data + [0.0, 0.0, 1e6 / 3, 0.0])) == []
    noise = 1e6 + 1e-9 * np.random.default_rng(1).normal(size=X.n_instances)
    assert warnings_of(X.with_data(np.column_stack([X.data[:, 0], noise]))) == []


def test_fit_warns_once_and_not_for_a_given_estimator():
    X, y = make_bags(20, n_features=3, random_state=0)
    X = X.with_data(X.data * [1e-4, 1.0, 1e4])
    with pytest.warns(UserWarning, match="Scale the columns") as caught:
        SimpleMI().fit(X, y)
    assert len(caught) == 1
    SimpleMI(SVC()).fit(X, y)
    MILBoost(n_estimators=2).fit(X, y)
    SimpleMI().fit(OnInstances().fit_transform(X), y)
