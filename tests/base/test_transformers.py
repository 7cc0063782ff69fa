"""Matrices of embedders come as data frames where that is asked for."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.compose import OnInstances
from bagwise.datasets import make_bags
from bagwise.embedding import BagOfWords, MiFV, MiVLAD


@pytest.fixture
def bags():
    X, y = make_bags(12, n_features=3, random_state=0)
    return Bags(X.data, X.offsets, ids=[f"bag {i}" for i in range(12)]), y


@pytest.mark.parametrize("cls", [BagOfWords, MiFV, MiVLAD])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_hold_the_matrix_and_its_names(cls, library, bags):
    pytest.importorskip(library)
    X, y = bags
    plain = cls(random_state=0).fit(X)
    model = cls(random_state=0).set_output(transform=library).fit(X)
    frame = model.transform(X)
    assert type(frame).__module__.split(".")[0] == library
    np.testing.assert_array_equal(frame.to_numpy(), plain.transform(X))
    assert list(frame.columns) == list(model.get_feature_names_out())
    if library == "pandas":
        assert list(frame.index) == list(X.ids)
    assert type(clone(model).fit_transform(X)) is type(frame)
    with config_context(transform_output=library):
        assert type(plain.transform(X)) is type(frame)
    assert isinstance(plain.transform(X), np.ndarray)


def test_bags_stay_bags_and_words_are_checked(bags):
    pytest.importorskip("pandas")
    X, y = bags
    step = OnInstances().set_output(transform="pandas")
    assert isinstance(step.fit_transform(X), Bags)
    assert isinstance(step.set_output().fit(X).transform(X), Bags)
    with pytest.raises(ValueError, match="default, pandas, polars"):
        step.set_output(transform="excel")
    model = make_pipeline(
        OnInstances(), BagOfWords(random_state=0), LogisticRegression()
    )
    model = model.set_output(transform="pandas").fit(X, y)
    assert list(model[-1].feature_names_in_) == list(model[1].get_feature_names_out())
