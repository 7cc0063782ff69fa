"""Multi-instance logistic regression against independent solvers and exact facts."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from bagwise import Bags
from bagwise.datasets import make_bags
from bagwise.linear_model import MILogisticRegression
from bagwise.linear_model.milr import LINEAR_POOLINGS


def key_instance_bags(n_bags=60, n_features=4, seed=0, shift=3.0):
    """Bags in which one instance of each positive bag is moved along the first axis."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, n_bags)
    X = rng.normal(size=(sizes.sum(), n_features))
    y = np.arange(n_bags) % 2
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X[offsets[:-1][y == 1], 0] += shift
    return Bags(X, offsets), y


@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize("pooling", LINEAR_POOLINGS)
def test_singletons_are_logistic_regression(pooling, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 3)) + 2.0
    y = np.where(X[:, 0] + rng.normal(size=70) > 2.0, "yes", "no")
    ours = MILogisticRegression(C, pooling=pooling, loss="log", tol=1e-9, n_init=1)
    ours.set_params(pos_label="yes", threshold="zero")
    if pooling == "max":  # stops by progress, see the class
        ours.set_params(tol=1e-7)
    ours.fit(X[:, None, :], y)
    theirs = LogisticRegression(C=C / len(y), tol=1e-10, max_iter=1000).fit(X, y)
    atol = 2e-3 if pooling == "max" else 1e-6
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=atol)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_[0], atol=2 * atol)
    np.testing.assert_allclose(
        ours.predict_proba(X[:, None, :]), theirs.predict_proba(X), atol=atol
    )


def test_gmean_is_logistic_regression_on_bag_means():
    X, y = key_instance_bags()
    ours = MILogisticRegression(5.0, pooling="gmean", loss="log", tol=1e-9).fit(X, y)
    means = np.array([bag.mean(axis=0) for bag in X])
    theirs = LogisticRegression(C=5.0 / len(y), tol=1e-10, max_iter=1000)
    theirs.fit(means, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=1e-6)


def test_objective_against_a_plain_minimizer():
    """The squared softmax objective written out, minimized without gradients."""
    X, y = key_instance_bags(30, 2)
    C, alpha = 7.0, 3.5

    def objective(theta):
        loss = 0.0
        for bag, label in zip(X, y, strict=True):
            p = expit(bag @ theta[:2] + theta[2])
            e = np.exp(alpha * p)
            loss += ((p * e).sum() / e.sum() - label) ** 2
        return loss / len(y) + theta[:2] @ theta[:2] / (2 * C)

    ours = MILogisticRegression(C, alpha=alpha, tol=1e-8, random_state=0).fit(X, y)
    assert ours.objective_ == pytest.approx(
        objective(np.append(ours.coef_, ours.intercept_)), rel=1e-12
    )
    rng = np.random.default_rng(0)
    best = min(
        minimize(
            objective,
            rng.normal(size=3),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000},
        ).fun
        for _ in range(3)
    )
    assert ours.objective_ == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize("pooling", LINEAR_POOLINGS)
def test_finds_the_key_instances(pooling, loss):
    X, y = key_instance_bags(120, shift=5.0)
    model = MILogisticRegression(100.0, pooling=pooling, loss=loss, random_state=0)
    model.fit(X[:80], y[:80])
    assert roc_auc_score(y[80:], model.decision_function(X[80:])) > 0.9
    positive = model.key_instances(X[80:])[y[80:] == 1]
    assert np.mean(positive == 0) > 0.9
    proba = model.predict_proba(X[80:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        model.predict(X[80:]), (model.decision_function(X[80:]) > 0).astype(int)
    )
    assert (np.diff(model.objective_path_) <= 1e-12).all()


def test_sparse_is_never_made_dense(monkeypatch):
    X, y = key_instance_bags()
    shifted = X.with_data(X.data + 3.0)  # a mean far from zero
    dense = MILogisticRegression(tol=1e-8, random_state=0).fit(shifted, y)
    sparse_bags = shifted.with_data(sp.csr_array(shifted.data))

    def refuse(*args, **kwargs):
        raise AssertionError("sparse instances were made dense")

    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    monkeypatch.setattr(sp.csr_array, "todense", refuse)
    sparse = MILogisticRegression(tol=1e-8, random_state=0).fit(sparse_bags, y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)
    np.testing.assert_allclose(
        sparse.decision_function(sparse_bags),
        dense.decision_function(shifted),
        atol=1e-5,
    )


def test_strength_does_not_depend_on_the_number_of_bags():
    X, y = key_instance_bags()
    once = MILogisticRegression(tol=1e-8, random_state=0).fit(X, y)
    twice = MILogisticRegression(tol=1e-8, random_state=0).fit(
        Bags.concatenate([X, X]), np.concatenate([y, y])
    )
    np.testing.assert_allclose(twice.coef_, once.coef_, atol=1e-6)
    assert twice.objective_ == pytest.approx(once.objective_, rel=1e-10)


def test_weights_count_bags():
    X, y = key_instance_bags(40)
    weight = np.random.default_rng(1).integers(0, 4, 40)
    rows = np.repeat(np.arange(40), weight)
    model = MILogisticRegression(tol=1e-9, random_state=0)
    weighted = model.fit(X, y, sample_weight=weight).coef_.copy()
    repeated = model.fit(X[rows], y[rows]).coef_
    np.testing.assert_allclose(weighted, repeated, atol=1e-7)
    per_class = MILogisticRegression(
        tol=1e-9, random_state=0, class_weight={0: 1.0, 1: 3.0}
    ).fit(X, y)
    same = model.fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(per_class.coef_, same.coef_, atol=1e-9)


@pytest.mark.parametrize("pooling", LINEAR_POOLINGS)
def test_invariances(pooling):
    X, y = key_instance_bags(40)
    model = MILogisticRegression(pooling=pooling, tol=1e-8, random_state=0, n_init=2)
    expected = model.fit(X, y).decision_function(X)
    atol = 2e-2 if pooling == "max" else 1e-5  # kinks: stopped by progress
    rng = np.random.default_rng(0)
    order = rng.permutation(40)
    bags = model.fit(X[order], y[order]).decision_function(X)
    np.testing.assert_allclose(bags, expected, atol=atol)
    inside = Bags.from_list([bag[rng.permutation(len(bag))] for bag in X])
    rows = model.fit(inside, y).decision_function(X)
    np.testing.assert_allclose(rows, expected, atol=atol)


def test_more_starts_never_end_higher():
    X, y = key_instance_bags(40, 6, seed=5)
    values = [
        MILogisticRegression(1000.0, pooling="max", n_init=n, random_state=0)
        .fit(X, y)
        .objective_
        for n in (1, 2, 6)
    ]
    assert values[0] >= values[1] >= values[2]


def test_restarts_find_the_way_out_of_a_poor_minimum():
    """Most instances of positive bags lie on the side away from the one that decides.

    Starts that see a bag as a whole, from zero and from bag means, are misled.
    """
    rng = np.random.default_rng(0)
    bags, y = [], np.arange(40) % 2
    for label in y:
        bag = rng.normal(size=(8, 2)) * [1.0, 0.3]
        if label:
            bag[:, 1] -= 0.5
            bag[0, 1] += 3.0
        bags.append(bag)
    misled = MILogisticRegression(1e3, n_init=2, random_state=0).fit(bags, y)
    free = MILogisticRegression(1e3, random_state=0).fit(bags, y)
    assert misled.coef_[1] < 0 < free.coef_[1]
    assert free.objective_ < 0.5 * misled.objective_
    assert (free.key_instances(bags)[y == 1] == 0).all()


def test_several_classes():
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    bags = []
    for k in np.arange(90) % 3:
        bag = rng.normal(size=(4, 3))
        bag[1, k] += 6.0
        bags.append(bag)
    model = MILogisticRegression(100.0, random_state=0).fit(bags[:60], y[:60])
    assert model.score(bags[60:], y[60:]) > 0.9
    proba = model.predict_proba(bags[60:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        model.classes_[proba.argmax(axis=1)], model.predict(bags[60:])
    )
    assert (model.key_instances(bags[60:]) == 1).mean() > 0.9


def test_float32_and_intercept():
    X, y = key_instance_bags()
    double = MILogisticRegression(random_state=0).fit(X, y)
    single = MILogisticRegression(random_state=0).fit(
        X.with_data(X.data.astype(np.float32)), y
    )
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-3)
    none = MILogisticRegression(fit_intercept=False, random_state=0).fit(X, y)
    assert none.intercept_ == 0.0
    assert none.objective_ >= double.objective_


def test_says_when_it_did_not_converge():
    X, y = key_instance_bags()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        MILogisticRegression(max_iter=2, tol=1e-10).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0.0}, "C"),
        ({"pooling": "median"}, "noisy_or"),
        ({"loss": "hinge"}, "squared"),
        ({"alpha": -1.0}, "alpha"),
    ],
)
def test_refuses(params, message):
    X, y = key_instance_bags(10)
    with pytest.raises(ValueError, match=message):
        MILogisticRegression(**params).fit(X, y)


@pytest.mark.parametrize("size", [10, 100, 1000])
def test_defaults_know_the_size_of_bags(size):
    """With the published sharpness no instance of a large bag counts."""
    X, y = make_bags(
        90,
        n_features=3,
        bag_size=(size // 2, size + size // 2),
        n_witnesses=max(1, size // 50),
        shift=6.0,
        random_state=size,
    )
    model = MILogisticRegression(random_state=0).fit(X[:60], y[:60])
    n = X[:60].sizes.mean()
    assert model.alpha_ == pytest.approx(max(3.5, np.log(4 * (n - 1))))
    assert model.score(X[60:], y[60:]) > 0.85
    if size == 1000:
        published = MILogisticRegression(alpha=3.5, threshold="zero", random_state=0)
        assert published.fit(X[:60], y[:60]).score(X[60:], y[60:]) < 0.7


def test_the_cut_moves_probabilities_with_the_labels():
    X, y = make_bags(60, n_classes=3, bag_size=(3, 8), random_state=0)
    for labels in (y == 1, y):
        model = MILogisticRegression(C=0.01, random_state=0).fit(X, labels)
        called = model.classes_[model.predict_proba(X).argmax(axis=1)]
        np.testing.assert_array_equal(called, model.predict(X))


def test_sparse_text_is_not_called_one_class(benchmark):
    bunch = benchmark("trec1")
    X, y = bunch.X, bunch.y
    train, test = np.arange(0, 400, 2), np.arange(1, 400, 2)
    model = MILogisticRegression(random_state=0).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.9
