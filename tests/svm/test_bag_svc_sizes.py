import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from bagwise.datasets import make_bags
from bagwise.kernels import distances as emd_module
from bagwise.kernels import registry as _limits
from bagwise.svm import BagSVC, _bag_svc


@pytest.fixture(scope="module")
def data():
    return make_bags(50, n_features=4, bag_size=(1, 6), random_state=0)


def test_a_matrix_beyond_the_budget_is_refused(data, monkeypatch):
    X, y = data
    monkeypatch.setenv("BAGWISE_MEMORY", "10KB")
    with pytest.raises(ValueError, match=r"kernel matrix of 50 bags.*n_components=500"):
        BagSVC().fit(X, y)
    BagSVC(n_components=5, random_state=0).fit(X, y)


def test_hours_are_refused_with_what_works_instead(data, monkeypatch):
    X, y = data
    monkeypatch.setattr(emd_module, "_MANY", 1224)
    monkeypatch.setattr(_limits, "_MOST_COMPARED", X.n_instances - 1)
    monkeypatch.setattr(_limits, "_MOST_COUNTED", X.n_instances - 1)
    said = {
        "emd": r"1,225 transport problems.*SlicedWassersteinEmbedding\(\), SVC",
        "graph": r'All pairs of .* instances.*hours.*kernel="mi_graph"',
        "distribution": r'All pairs of .* instances.*hours.*kernel="mi_graph"',
        "box": r"all pairs of 50 bags.*hours.*RandomBoxFeatures\(1000\), LinearSVC",
    }
    computed = []
    monkeypatch.setattr(_bag_svc, "fit_bag_kernel", lambda *a: computed.append(a))
    for kernel, words in said.items():
        with pytest.raises(ValueError, match=words + ".*n_components=None") as refused:
            BagSVC(kernel).fit(X, y)
        assert "fewer bags" in str(refused.value)
    assert not computed
    monkeypatch.undo()
    monkeypatch.setattr(emd_module, "_MANY", 1224)
    BagSVC("emd").fit(X[:-1], y[:-1])  # 1,176 pairs
    with pytest.raises(ValueError, match="transport problems"):
        GridSearchCV(BagSVC("emd"), {"C": [1.0]}, cv=[(y >= 0, y >= 0)]).fit(X, y)
    with pytest.warns(UserWarning, match="1,225 transport problems"):
        model = BagSVC("emd", n_components=None).fit(X, y)
    new = np.arange(50)
    with pytest.warns(UserWarning, match="transport problems"):  # predicts all the same
        assert len(model.predict(X[np.tile(new, 4)])) == 200


def test_many_instances_have_explicit_features(data, monkeypatch):
    X, y = data
    assert not hasattr(BagSVC().fit(X, y), "basis_")
    monkeypatch.setattr(_bag_svc, "_EXACT_LIMIT", X.n_instances - 1)
    monkeypatch.setattr(_bag_svc, "_FEATURES", 12)
    model = BagSVC(random_state=0).fit(X, y)
    named = BagSVC(n_components=12, random_state=0).fit(X, y)
    assert_array_equal(model.decision_function(X), named.decision_function(X))
    assert not hasattr(BagSVC(n_components=None).fit(X, y), "basis_")
    assert not hasattr(BagSVC("statistics").fit(X, y), "basis_")
    model = BagSVC("mi_graph", random_state=0).fit(X, y)
    named = BagSVC("mi_graph", n_components=12, random_state=0).fit(X, y)
    assert model.basis_.rank == 12
    assert_array_equal(model.decision_function(X), named.decision_function(X))
    exact = BagSVC("mi_graph", n_components=None).fit(X, y)
    assert not hasattr(exact, "basis_")
    with pytest.raises(ValueError, match="unknown norm"):
        BagSVC("mi_graph", kernel_params={"norm": "none"}).fit(X, y)
    search = GridSearchCV(BagSVC(random_state=0), {"C": [1.0, 10.0]}, cv=3).fit(X, y)
    assert hasattr(search.best_estimator_, "basis_")
