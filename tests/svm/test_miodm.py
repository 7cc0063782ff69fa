"""MIODM as an estimator: certificates, invariances, representations, bad input."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from bagwise import Bags
from bagwise.bags.segments import segment_max
from bagwise.datasets import make_key_instance_bags
from bagwise.kernels.instance import instance_kernel
from bagwise.metrics import key_instance_success
from bagwise.svm import KISVM, MIODM, ODM, _key_feature_rows, _key_instances

# What is tested is the machine: no cut, and none of the fits that look for one.
machine = partial(MIODM, threshold="zero")


@pytest.fixture(scope="module")
def data():
    return make_key_instance_bags(
        40,
        n_features=4,
        bag_size=(3, 6),
        noise=0.3,
        random_state=0,
        return_instance_labels=True,
    )


def fitted(data, **settings):
    X, y, _ = data
    return machine(**{"random_state": 0, **settings}).fit(X, y)


@pytest.mark.parametrize("level", ["instance", "bag"])
def test_finds_keys_and_certifies(data, level):
    X, y, z = data
    model = fitted(data, level=level, tol=1e-4, threshold="train")
    assert model.duality_gap_ <= 1e-4 * max(1, model.objective_)
    assert 0 < model.relaxation_ratio_ <= 1
    bound = model.objective_ - model.duality_gap_
    assert model.relaxation_ratio_ == pytest.approx(bound / model.integer_objective_)
    assert (np.diff(model.objective_path_) <= 1e-9).all()
    assert model.assignment_weight_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose([bag.sum() for bag in model.key_weight_], 1.0)
    assert (model.assignments_ < X[y == 1].sizes).all()
    assert key_instance_success(z, model.instance_scores(X)) > 0.8
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("level", ["instance", "bag"])
def test_training_margins_follow_from_the_expansion(data, level):
    """The rows' margins, rebuilt from kernel values alone, satisfy the KKT system."""
    X, y, _ = data
    model = fitted(data, level=level, tol=1e-6, gamma=0.5)
    f = model.instance_scores(X).values
    minus = y == 0
    in_minus = np.repeat(minus, X.sizes)
    margins = -f[in_minus]
    cost = np.full(len(margins), model.lambda2 / minus.sum())
    if level == "bag":
        margins = np.array([-s.mean() for s in model.instance_scores(X)[minus]])
        cost = cost[: len(margins)]
    low, high, slope = 0.8, 1.2, 2 * cost / 0.8**2
    delta = slope * (
        np.maximum(low - margins, 0) - model.nu * np.maximum(margins - high, 0)
    )
    if level == "bag":
        delta = np.repeat(delta / X[minus].sizes, X[minus].sizes)
    rows = X.data[in_minus]
    expected = np.zeros(len(rows))
    for point, coef in zip(model.support_instances_, model.dual_coef_, strict=True):
        expected[(rows == point).all(axis=1)] = -coef
    np.testing.assert_allclose(delta, expected, atol=1e-6)


def test_representations_agree(data, monkeypatch):
    """Lazy negatives, features and CSR solve the same problem."""
    X, y, _ = data
    settings = {"tol": 1e-7, "gamma": 0.5, "max_iter": 300}
    plain = fitted(data, **settings)
    monkeypatch.setattr(_key_instances, "MAX_EAGER_NEGATIVES", 0)
    monkeypatch.setattr(_key_instances, "_FIRST_NEGATIVES", 7)
    lazy = fitted(data, **settings)
    assert lazy.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_allclose(
        lazy.decision_function(X), plain.decision_function(X), atol=2e-3
    )
    # The single choice pays for negatives that never joined: its value is the
    # objective over all rows, rebuilt from the scores of the polished model.
    one = fitted(data, polish=True, gamma=0.5, tol=0.3)
    f = one.instance_scores(X)
    keys = X[y == 1].offsets[:-1] + one.assignments_[0]
    margins = np.append(f[y == 1].values[keys], -f[y == 0].values)
    cost = np.append(np.full(20, 1000 / 20), np.full(len(margins) - 20, 100 / 20))
    below, above = np.maximum(0.8 - margins, 0), np.maximum(margins - 1.2, 0)
    loss = cost @ (below**2 + 0.5 * above**2) / 0.8**2
    inner = instance_kernel(one.support_instances_, gamma=0.5) + 1.0
    norm = one.dual_coef_ @ inner @ one.dual_coef_
    assert one.integer_objective_ == pytest.approx(0.5 * norm + loss, rel=1e-8)
    full_basis = fitted(data, n_components=X.n_instances - 1, **settings)
    assert full_basis.objective_ == pytest.approx(plain.objective_, rel=1e-2)


@pytest.mark.parametrize("level", ["instance", "bag"])
def test_linear_by_features_equals_linear_by_kernel(data, monkeypatch, level):
    X, y = data[0][:16], data[1][:16]
    settings = {"tol": 1e-5, "kernel": "linear", "level": level, "max_iter": 300}
    settings |= {"lambda1": 5.0, "lambda2": 2.0}
    by_kernel = machine(random_state=0, **settings).fit(X, y)
    monkeypatch.setattr(_key_feature_rows, "MAX_KERNEL_ROWS", 0)
    by_feature = machine(random_state=0, **settings).fit(X, y)
    as_sparse = X.with_data(sparse.csr_array(X.data))
    by_csr = machine(random_state=0, **settings).fit(as_sparse, y)
    for other in (by_feature, by_csr):
        assert other.objective_ == pytest.approx(by_kernel.objective_, rel=3e-5)
        np.testing.assert_allclose(other.coef_, by_kernel.coef_, atol=2e-2)
    scores = X.data @ by_feature.coef_ + by_feature.intercept_
    np.testing.assert_allclose(by_feature.instance_scores(X).values, scores)


def test_bags_of_one_are_the_plain_machine():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    y = (rows[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int)
    bags = Bags(rows, np.arange(41))
    p = y.sum()
    model = machine(50.0, 50.0, gamma=0.5).fit(bags, y)
    weight = np.where(y == 1, 0.5 / p, 0.5 / (40 - p))
    plain = ODM(100.0, gamma=0.5).fit(rows, y, sample_weight=weight)
    assert model.objective_ == pytest.approx(plain.objective_[0], rel=1e-9)
    np.testing.assert_allclose(
        model.decision_function(bags), plain.decision_function(rows), atol=1e-7
    )
    assert model.relaxation_ratio_ == pytest.approx(1.0, rel=1e-9)


def test_order_and_repetition_of_instances(data):
    X, y, _ = data
    settings = {"tol": 1e-7, "gamma": 0.5, "max_iter": 300, "level": "bag"}
    value = fitted(data, **settings).objective_
    rng = np.random.default_rng(1)
    moved = Bags.from_list([b[rng.permutation(len(b))] for b in X])
    twice = Bags.from_list([np.vstack([b, b]) for b in X])
    for other in (moved, twice):
        again = machine(random_state=1, **settings).fit(other, y)
        assert again.objective_ == pytest.approx(value, rel=1e-6)


def test_weights_are_repetitions(data):
    X, y, _ = data
    weight = np.ones(len(X))
    weight[[1, 4, 5]] = 2.0
    settings = {"tol": 1e-7, "gamma": 0.5, "max_iter": 300, "random_state": 0}
    weighted = machine(**settings).fit(X, y, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight.astype(int))
    repeated = machine(**settings).fit(X[rows], y[rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    heavier = machine(class_weight={1: 3.0}, **settings).fit(X, y)
    same = machine(3000.0, **settings).fit(X, y)
    assert heavier.objective_ == pytest.approx(same.objective_, rel=1e-9)


def test_polish_predicts_with_one_choice(data):
    X, y, z = data
    model = fitted(data, polish=True)
    assert model.assignments_.shape == (1, 20)
    positive = model.instance_scores(X[y == 1])
    assert key_instance_success(z, model.instance_scores(X)) > 0.8
    np.testing.assert_allclose(
        model.decision_function(X[y == 1]),
        segment_max(positive.values, positive.offsets),
    )


def test_threshold_rules(data):
    X, y, _ = data
    zero, train, cv = (fitted(data, threshold=rule) for rule in ("zero", "train", "cv"))
    assert zero.threshold_ == 0
    np.testing.assert_allclose(
        train.decision_function(X) + train.threshold_, zero.decision_function(X)
    )
    assert train.score(X, y) >= max(zero.score(X, y), cv.score(X, y))


@pytest.mark.parametrize(
    "settings", [{}, {"level": "bag"}, {"kernel": "linear"}, {"n_components": 30}, None]
)
def test_folds_of_the_threshold_keep_the_choice(data, settings, monkeypatch):
    """The key instances alone, as bags of one instance, leave no choice to make."""
    if settings is None:  # negative instances join step by step
        monkeypatch.setattr(_key_instances, "MAX_EAGER_NEGATIVES", 20)
        monkeypatch.setattr(_key_instances, "_FIRST_NEGATIVES", 10)
    settings = {"gamma": 0.3, "tol": 1e-9, **(settings or {})}
    X, y, _ = data
    t, weight = np.where(y == 1, 1.0, -1.0), np.linspace(1.0, 2.0, len(y))
    model = machine(**settings, polish=True, random_state=0).fit(X, y, weight)
    (keys,) = model.assignments_
    parts = list(X)
    for bag, key in zip(np.flatnonzero(y == 1), keys, strict=True):
        parts[bag] = parts[bag][[key]]
    alone = Bags.from_list(parts)
    train, test = np.arange(40) % 4 > 0, np.arange(40) % 4 == 0
    fold = model._fitted_to_fold(X, t, weight, np.flatnonzero(train))
    if model.basis_ is not None:  # the basis of all bags is kept
        alone = alone.with_data(model.basis_.transform(alone.data))
        X = X.with_data(model.basis_.transform(X.data))
        settings |= {"kernel": "linear", "n_components": None}
    again = machine(**settings).fit(alone[train], y[train], weight[train])
    np.testing.assert_allclose(
        fold.decision_function(data[0][test]),
        again.decision_function(X[test]),
        atol=1e-6,
    )


def test_bad_input_and_caps(data, monkeypatch):
    X, y, _ = data
    for name, value in {
        "theta": 1.0,
        "nu": -0.1,
        "lambda1": 0.0,
        "lambda2": -1.0,
        "level": "bags",
    }.items():
        with pytest.raises(ValueError, match=name):
            fitted(data, **{name: value})
    with pytest.raises(ValueError, match="class"):
        machine().fit(X, np.ones(len(X)))
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fitted(data, max_iter=1, tol=1e-8)
    monkeypatch.setenv("BAGWISE_MEMORY", "20KB")
    for level in ("instance", "bag"):
        with pytest.raises(ValueError, match="n_components"):
            fitted(data, level=level)


def test_musk_gap(benchmark):
    musk = benchmark("musk1")
    X, y = musk.X, musk.y
    X = X.with_data(np.asarray(X.data, dtype=float))
    spread = np.where(X.data.std(axis=0) > 0, X.data.std(axis=0), 1.0)
    X = X.with_data((X.data - X.data.mean(axis=0)) / spread)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = machine(gamma="auto", level="bag", tol=1e-4, random_state=0).fit(X, y)
    assert model.duality_gap_ <= 1e-4 * model.objective_
    assert model.relaxation_ratio_ > 0.98


# ----------------------------------------------------------------------------- rounding


@pytest.mark.parametrize("machine", [MIODM, KISVM])
@pytest.mark.parametrize("seed", [2, 3, 7])
def test_rounding_does_not_choose_between_equal_mixtures(machine, seed):
    """Noise in the last digit, as another processor makes it, changes no answer."""
    X, y = make_key_instance_bags(
        40, n_features=5, bag_size=(2, 8), noise=0.5, random_state=seed
    )
    rng = np.random.default_rng(seed)
    noisy = X.with_data(X.data + 1e-15 * rng.normal(size=X.data.shape))
    model = machine(level="instance", random_state=0).fit(X, y)
    other = machine(level="instance", random_state=0).fit(noisy, y)
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(noisy), atol=1e-6
    )


def test_many_instances_get_a_basis_by_default(data, monkeypatch):
    X, y, _ = data
    exact = fitted(data)
    assert exact.basis_ is None
    monkeypatch.setattr(_key_instances, "_MOST_EXACT", X.n_instances - 1)
    monkeypatch.setattr(_key_instances, "_COMPONENTS", 12)
    reduced = fitted(data)
    given = fitted(data, n_components=12)
    assert reduced.basis_.rank == 12
    np.testing.assert_array_equal(
        reduced.decision_function(X), given.decision_function(X)
    )
    assert fitted(data, n_components=None).basis_ is None


def test_a_linear_kernel_keeps_all_features_by_default(data, monkeypatch):
    X, _, _ = data
    monkeypatch.setattr(_key_instances, "_MOST_EXACT", X.n_instances - 1)
    monkeypatch.setattr(_key_instances, "_COMPONENTS", 1)
    assert fitted(data, kernel="linear").coef_.shape == (X.n_features,)
