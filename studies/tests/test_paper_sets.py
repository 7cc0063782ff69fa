import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from studies.paper_sets import (
    is_simulated,
    make_midr_example,
    simulate,
    training_bags,
)


def test_sets_by_name_and_seed():
    one, same = simulate("safe-toy-1:3"), simulate("safe-toy-1", seed=3)
    assert one.name == same.name == "safe-toy-1:3"
    np.testing.assert_array_equal(one.X.data, same.X.data)
    assert not np.array_equal(one.X.data, simulate("safe-toy-1:4").X.data)
    assert simulate("binding-10").X.n_features == 10
    assert not is_simulated("musk1")
    with pytest.raises(ValueError, match="integer"):
        simulate("binding-5:x")


def test_training_bags_come_first_and_are_balanced():
    large = simulate("safe-toy-2-1000")
    assert large.X.n_instances == 1000
    n_train = training_bags("safe-toy-2-1000")
    assert n_train == 20
    assert large.y[:n_train].sum() == 10
    assert training_bags("safe-toy-1") is None


def _degrees(direction):
    return np.degrees(np.arctan2(abs(direction[1]), abs(direction[0])))


def test_midr_example_misleads_pca_and_lda():
    pca, lda = [], []
    for seed in range(15):
        X, y, z = make_midr_example(random_state=seed, return_instance_labels=True)
        second = X.data[:, 1]
        assert second[z.values == 1].min() > second[z.values == 0].max()
        assert [int(k.sum()) for k in z] == y.tolist()
        pca.append(_degrees(PCA(1).fit(X.data).components_[0]))
        labels = y[X.bag_index]
        lda.append(_degrees(LinearDiscriminantAnalysis().fit(X.data, labels).coef_[0]))
    assert np.median(pca) < 5
    assert np.median(lda) < 20
