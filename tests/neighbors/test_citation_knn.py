import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.model_selection import LeaveOneOut, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from bagwise import Bags
from bagwise.datasets import make_bags
from bagwise.kernels import hausdorff
from bagwise.neighbors import CitationKNN


@pytest.fixture
def data():
    return make_bags(40, n_features=3, bag_size=(1, 6), random_state=4)


def literal_votes(D_new, D_train, y, R, C):
    """Count votes for one new bag from the words of the definition."""
    votes = list(y[np.argsort(D_new, kind="stable")[:R]])
    for t in range(len(y)):
        others = np.append(np.delete(D_train[t], t), D_new[t])
        rank = (others < D_new[t]).sum()  # how many are nearer to t than the new bag
        if rank < C:
            votes.append(y[t])
    return votes


@pytest.mark.parametrize("metric", ["min", "max", "mean"])
@pytest.mark.parametrize(("R", "C"), [(1, 1), (2, 4), (3, 0), (4, 60)])
def test_votes_are_those_of_the_definition(data, metric, R, C):
    X, y = data
    model = CitationKNN(R, C, metric=metric).fit(X[:30], y[:30])
    D_train = hausdorff(X[:30], mode=metric)
    D_new = hausdorff(X[30:], X[:30], metric)
    for d, score in zip(D_new, model.decision_function(X[30:]), strict=True):
        votes = np.array(literal_votes(d, D_train, y[:30], R, C))
        assert score == pytest.approx((2 * votes - 1).mean())
    assert_array_equal(model.predict(X[30:]), model.decision_function(X[30:]) > 0)


@pytest.mark.parametrize("metric", ["min", "max", "mean"])
def test_without_citers_it_is_nearest_neighbours(data, metric):
    X, y = data
    ours = CitationKNN(5, 0, metric=metric).fit(X[:30], y[:30])
    knn = KNeighborsClassifier(5, metric="precomputed")
    knn.fit(hausdorff(X[:30], mode=metric), y[:30])
    expected = knn.predict_proba(hausdorff(X[30:], X[:30], metric))
    assert_allclose(ours.decision_function(X[30:]), 2 * expected[:, 1] - 1, atol=1e-12)


@pytest.mark.parametrize("metric", ["min", "mean"])
@pytest.mark.parametrize("C", [0, 3, 38, 50])
def test_leave_one_out_equals_fitting_again(data, metric, C):
    X, y = data
    model = CitationKNN(2, C, metric=metric)
    expected = cross_val_predict(
        model, X, y, cv=LeaveOneOut(), method="decision_function"
    )
    model.fit(X, y)
    assert_allclose(model.loo_decision_function(), expected, atol=1e-12)
    assert_array_equal(model.loo_predict(), (expected > 0).astype(int))


def test_leave_one_out_with_equal_distances():
    """Instances on a coarse grid: ties everywhere."""
    rng = np.random.default_rng(2)
    X = Bags(rng.integers(0, 3, size=(60, 2)).astype(float), np.arange(0, 61, 3))
    y = rng.integers(0, 2, size=20)
    model = CitationKNN(2, 3)
    expected = cross_val_predict(
        model, X, y, cv=LeaveOneOut(), method="decision_function"
    )
    assert_allclose(model.fit(X, y).loo_decision_function(), expected, atol=1e-12)


def test_a_far_bag_votes_for_those_it_cites_only(data):
    X, y = data
    far = Bags.concatenate([X, Bags([[1e6, 1e6, 1e6]], [0, 1])])
    a = CitationKNN(2, 4).fit(X, y).loo_decision_function()
    model = CitationKNN(2, 4).fit(far, np.append(y, 1))
    b = model.loo_decision_function()[:-1]
    # At a distance of a million, the fourth and the fifth nearest may be alike.
    cited = model.distances_[-1, :-1] <= model.citation_radius_[-1] * (1 + 1e-7)
    assert 4 <= cited.sum() <= 6
    assert_array_equal(a[~cited], b[~cited])


def test_far_instances_change_nothing(data):
    """One more instance in every bag, far from everything: the nearest stay so."""
    X, y = data
    far = 1e4 * np.arange(1, 41)[:, None] * np.ones(3)
    more = Bags.from_list([np.vstack([b, f]) for b, f in zip(X, far, strict=True)])
    a = CitationKNN(2, 4).fit(X, y).loo_decision_function()
    b = CitationKNN(2, 4).fit(more, y).loo_decision_function()
    assert_array_equal(a, b)


def test_a_tie_is_negative():
    model = CitationKNN(2, 0).fit([[[0.0]], [[1.0]]], ["no", "yes"])
    assert_array_equal(model.decision_function([[[0.9]]]), [0.0])
    assert_array_equal(model.predict([[[0.9]]]), ["no"])


def test_sparse_equals_dense(data):
    X, y = data
    thin = X.data * (np.abs(X.data) > 0.5)
    dense, csr = X.with_data(thin), X.with_data(sp.csr_array(thin))
    for metric in ("min", "max", "mean"):
        a = CitationKNN(metric=metric).fit(dense[:30], y[:30])
        b = CitationKNN(metric=metric).fit(csr[:30], y[:30])
        assert_allclose(a.distances_, b.distances_, atol=1e-9)
        assert_allclose(
            a.decision_function(dense[30:]), b.decision_function(csr[30:]), atol=1e-12
        )


@pytest.mark.parametrize("metric", ["min", "max"])
def test_instances_are_bags_of_one(data, metric):
    """Votes from nearest-instance distances; ties by the next bag of each class."""
    X, y = data
    model = CitationKNN(2, 4, metric=metric).fit(X[:30], y[:30])
    scores = model.instance_scores(X[30:])
    D_train = hausdorff(X[:30], mode="min")
    for x, score in zip(X[30:].data, scores.values, strict=True):
        d = np.array([cdist(x[None], b).min() for b in X[:30]])
        votes = 2 * np.array(literal_votes(d, D_train, y[:30], 2, 4)) - 1
        gap = d[y[:30] == 0].min() - d[y[:30] == 1].min()
        assert score == pytest.approx(votes.mean(), abs=1e-3)
        assert np.sign(score - votes.mean()) == np.sign(gap)


def test_the_tie_break_orders_equal_votes_only():
    X = [[[0.0], [0.1]], [[0.2]], [[3.0], [0.1]], [[3.2]], [[3.1], [0.3]]]
    model = CitationKNN(1, 1).fit(X, [0, 0, 1, 1, 1])
    scores = model.instance_scores([[[3.1], [2.8], [0.15], [2.0]]])
    assert model.key_instances([[[3.1], [2.8], [0.15], [2.0]]]) == [0]
    assert np.unique(scores.values).size == 4


def test_key_instances_find_the_planted_ones():
    X, y, truth = make_bags(
        60, n_features=3, bag_size=(3, 6), random_state=0, return_instance_labels=True
    )
    model = CitationKNN().fit(X[:40], y[:40])
    new, labels = X[40:], truth[40:]
    positive = np.flatnonzero(y[40:] == 1)
    keys = model.key_instances(new)
    hits = [labels[i][keys[i]] for i in positive]
    assert np.mean(hits) > 0.8


def test_more_classes_share_the_votes():
    X, y = make_bags(
        45, n_features=3, n_classes=3, bag_size=3, n_witnesses=3, random_state=1
    )
    model = CitationKNN().fit(X, y)
    shares = model.decision_function(X)
    assert_allclose(shares.sum(axis=1), 1.0)
    assert model.loo_decision_function().shape == (45, 3)
    assert (model.loo_predict() == y).mean() > 0.9


def test_musk1_leave_one_out(benchmark):
    """Min-max scaled features, R = 2 and C = 4: 84 of the 92 molecules."""
    bunch = benchmark("musk1")
    X, y = bunch.X, bunch.y
    low, high = X.data.min(axis=0), X.data.max(axis=0)
    model = CitationKNN().fit(X.with_data((X.data - low) / (high - low)), y)
    assert (model.loo_predict() == y).sum() == 84


def test_ten_folds():
    X, y = make_bags(40, n_features=3, bag_size=(2, 4), n_witnesses=4, random_state=0)
    scores = cross_val_score(CitationKNN(), X, y, cv=10)
    assert scores.shape == (10,)
    assert scores.mean() > 0.9


def test_bad_parameters(data):
    X, y = data
    with pytest.raises(ValueError, match="'n_references'.*range"):
        CitationKNN(0).fit(X, y)
    with pytest.raises(ValueError, match="'metric'.*'max'"):
        CitationKNN(metric="average").fit(X, y)


def test_too_many_bags_are_refused(data, monkeypatch):
    X, y = data
    monkeypatch.setenv("BAGWISE_MEMORY", "1KB")
    with pytest.raises(ValueError, match="distances between 40 bags would take"):
        CitationKNN().fit(X, y)
