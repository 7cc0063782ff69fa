import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.bags.segments import segment_sum
from bagwise.datasets import make_bags
from bagwise.kernels import bag_kernel, set_kernel
from bagwise.kernels.additive import (
    ADDITIVE_KERNELS,
    additive_features,
    instance_contributions,
)
from bagwise.kernels.registry import BAG_KERNELS
from bagwise.svm import BagSVC
from bagwise.svm._pairwise import CodedSVC

NAMES = ["set", "statistics", "graph", "mi_graph", "emd", "ppmm"]


@pytest.fixture(scope="module")
def data():
    return make_bags(50, n_features=4, bag_size=(1, 6), random_state=0)


@pytest.fixture(scope="module")
def three():
    return make_bags(45, n_features=4, n_classes=3, bag_size=(2, 5), random_state=1)


def clarabel_svm(K, t, bound):
    """Optimal value of the machine with free intercept, by an interior point method."""
    clarabel = pytest.importorskip("clarabel")
    n = len(t)
    P = sp.csc_matrix(np.triu(np.outer(t, t) * K + 1e-12 * np.eye(n)))
    A = sp.csc_matrix(np.vstack([t, np.eye(n), -np.eye(n)]))
    b = np.concatenate([[0.0], bound, np.zeros(n)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = 1e-10
    return (
        -clarabel.DefaultSolver(P, -np.ones(n), A, b, cones, settings).solve().obj_val
    )


@pytest.mark.parametrize("kernel", NAMES)
def test_is_svc_on_the_kernel_matrix(data, kernel):
    """Training and test paths agree: widths are those of the training bags."""
    X, y = data
    params = {"n_components": 3} if kernel == "ppmm" else {}
    K = bag_kernel(X[:35], metric=kernel, **params)
    svc = SVC(C=5.0, kernel="precomputed", tol=1e-8).fit(K, y[:35])
    model = BagSVC(kernel, C=5.0, tol=1e-8, kernel_params=params).fit(X[:35], y[:35])
    expected = svc.decision_function(bag_kernel(X[35:], X[:35], kernel, **params))
    assert_allclose(model.decision_function(X[35:]), expected, atol=1e-6)
    assert_allclose(
        model.decision_function(X[:35]), svc.decision_function(K), atol=1e-6
    )
    # One bag alone gets the same answer as in company.
    alone = [model.decision_function(X[i : i + 1])[0] for i in range(35, 50)]
    assert_allclose(alone, expected, atol=1e-6)


def test_objective_against_another_solver(data):
    X, y = data
    t = np.where(y == 1, 1.0, -1.0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(y))
    K = set_kernel(X, gamma=0.1)
    model = BagSVC(C=3.0, gamma=0.1, tol=1e-9).fit(X, y, sample_weight=weight)
    optimum = clarabel_svm(K, t, 3.0 * weight)
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert 0 <= model.duality_gap_ < 1e-5 * optimum
    loose = BagSVC(C=3.0, gamma=0.1, tol=1e-2).fit(X, y, sample_weight=weight)
    assert loose.objective_ - loose.duality_gap_ <= optimum <= loose.objective_


def test_musk1_objective(benchmark):
    """RBF with gamma = 1/d on z-scored features, C = 10, feature normalization."""
    bunch = benchmark("musk1")
    X, y = bunch.X, bunch.y
    Z = X.with_data((X.data - X.data.mean(axis=0)) / X.data.std(axis=0))
    model = BagSVC("set", C=10.0, gamma="auto", tol=1e-6).fit(Z, y)
    dual = model.objective_ - model.duality_gap_
    assert dual == pytest.approx(91.775, rel=1e-4)
    assert model.objective_ == pytest.approx(91.775, rel=1e-4)


def test_singletons_reduce_to_svc():
    rng = np.random.default_rng(3)
    rows, y = rng.normal(size=(60, 3)), rng.integers(0, 3, size=60)
    X = Bags(rows, np.arange(61))
    svc = SVC(C=2.0, gamma=0.3, tol=1e-9).fit(rows, y)
    model = BagSVC(C=2.0, gamma=0.3, tol=1e-9).fit(X, y)
    assert_allclose(model.decision_function(X), svc.decision_function(rows), atol=1e-6)
    assert_array_equal(np.sort(model.support_), np.sort(svc.support_))


def test_more_classes_equal_svc(three):
    X, y = three
    names = np.array(["x", "y", "z"])[y]
    K = set_kernel(X, gamma=0.1)
    model = BagSVC(C=5.0, gamma=0.1, tol=1e-9).fit(X, names)
    for shape in ("ovr", "ovo"):
        svc = SVC(
            C=5.0, kernel="precomputed", tol=1e-9, decision_function_shape=shape
        ).fit(K, names)
        ours = (
            model.decision_function(X) if shape == "ovr" else model._pair_decisions(X)
        )
        assert_allclose(ours, svc.decision_function(K), atol=1e-6)
    assert_array_equal(model.predict(X), svc.classes_[svc.fit(K, y).predict(K)])
    assert model.objective_.shape == (3,)
    assert (model.duality_gap_ >= -1e-9).all()


@pytest.mark.parametrize("normalization", ["feature", "average", None])
@pytest.mark.parametrize("instance", ["rbf", "linear", "poly", "laplacian"])
@pytest.mark.parametrize("n_components", [None, 20])
def test_instances_add_up_to_the_decision(data, normalization, instance, n_components):
    X, y = data
    params = {"normalization": normalization, "kernel": instance, "gamma": 0.2}
    model = BagSVC(kernel_params=params, n_components=n_components, random_state=0)
    model.fit(X[:35], y[:35])
    scores = model.instance_scores(X[35:])
    total = segment_sum(scores.values, scores.offsets)
    decision = model.decision_function(X[35:])
    scale = np.abs(decision).max()
    assert_allclose(total, decision - model.intercept_[0], atol=1e-11 * scale)


@pytest.mark.parametrize("norm", ["paper", "code"])
def test_mi_graph_adds_up_as_well(data, norm):
    X, y = data
    model = BagSVC("mi_graph", kernel_params={"norm": norm}).fit(X[:35], y[:35])
    scores = model.instance_scores(X[35:])
    total = segment_sum(scores.values, scores.offsets)
    decision = model.decision_function(X[35:])
    assert_allclose(total, decision - model.intercept_[0], atol=1e-12)


def test_more_classes_add_up_to_the_pairs(three):
    X, y = three
    model = BagSVC(C=5.0).fit(X, y)
    pairs = model._pair_decisions(X) - model.intercept_
    f01, f02, f12 = pairs.T
    expected = np.column_stack([f01 + f02, f12 - f01, -f02 - f12])
    scores = model.instance_scores(X)
    assert scores.values.shape == (X.n_instances, 3)
    assert_allclose(segment_sum(scores.values, X.offsets), expected, atol=1e-11)


def test_contributions_across_tiles():
    rng = np.random.default_rng(0)
    X = Bags(rng.normal(size=(1100, 3)), [0, 1, 1045, 1100])
    coef = rng.normal(size=(3, 2))
    params = {"kernel": "rbf", "gamma": 0.3, "degree": 3, "coef0": 1.0, "power": 1}
    params["normalization"] = "feature"
    parts = instance_contributions(X, X, coef, "set", params)
    expected = set_kernel(X, gamma=0.3) @ coef
    assert_allclose(segment_sum(parts, X.offsets), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", ["emd", "statistics", "graph", "precomputed"])
def test_other_kernels_have_no_instance_scores(kernel):
    model = BagSVC(kernel)
    for method in ("instance_scores", "predict_instances", "key_instances"):
        assert not hasattr(model, method)
    with pytest.raises(AttributeError, match="has no attribute|only the kernels 'set'"):
        model.instance_scores([[[0.0]]])


def test_all_landmarks_are_exact(data):
    X, y = data
    for normalization in ("feature", "average"):
        params = {"normalization": normalization}
        exact = BagSVC(C=5.0, gamma=0.2, tol=1e-8, kernel_params=params)
        exact.fit(X[:35], y[:35])
        ours = clone(exact).set_params(n_components=10_000).fit(X[:35], y[:35])
        assert_allclose(
            ours.decision_function(X[35:]), exact.decision_function(X[35:]), atol=1e-4
        )
        assert ours.objective_ == pytest.approx(exact.objective_, rel=1e-5)
        assert not hasattr(ours, "support_bags_")
    for norm in ("paper", "code"):
        exact = BagSVC("mi_graph", C=5.0, gamma=0.2, kernel_params={"norm": norm})
        exact.set_params(tol=1e-8).fit(X[:35], y[:35])
        ours = clone(exact).set_params(n_components=10_000).fit(X[:35], y[:35])
        assert_allclose(
            ours.decision_function(X[35:]), exact.decision_function(X[35:]), atol=1e-4
        )
        scores = ours.instance_scores(X[35:])
        total = segment_sum(scores.values, scores.offsets) + ours.intercept_[0]
        assert_allclose(total, ours.decision_function(X[35:]), atol=1e-10)
        assert_allclose(scores.values, exact.instance_scores(X[35:]).values, atol=1e-4)


def test_few_landmarks_come_close(data):
    X, y = data
    exact = BagSVC(C=5.0, gamma=0.05).fit(X, y).decision_function(X)
    errors = []
    for r in (5, 20, 80):
        model = BagSVC(C=5.0, gamma=0.05, n_components=r, random_state=0).fit(X, y)
        assert model.coef_.shape[0] <= r
        errors.append(np.abs(model.decision_function(X) - exact).mean())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02 * np.abs(exact).mean()


def test_linear_features_need_no_landmarks(data):
    X, y = data
    params = {"kernel": "linear"}
    exact = BagSVC(kernel_params=params).fit(X, y)
    ours = BagSVC(kernel_params=params, n_components=2).fit(X, y)
    assert_array_equal(ours.decision_function(X), exact.decision_function(X))


@pytest.mark.parametrize("kernel", ["set", "statistics", "mi_graph", "graph", "emd"])
def test_sparse_equals_dense(data, kernel):
    X, y = data
    thin = X.data * (np.abs(X.data) > 0.3)
    dense, csr = X.with_data(thin), X.with_data(sp.csr_array(thin))
    a = BagSVC(kernel, tol=1e-8).fit(dense, y).decision_function(dense)
    b = BagSVC(kernel, tol=1e-8).fit(csr, y).decision_function(csr)
    assert_allclose(a, b, atol=1e-5)


def test_precomputed_is_sliced_by_scikit_learn(data):
    X, y = data
    K = set_kernel(X, gamma=0.1)
    scores = cross_val_score(BagSVC("precomputed", C=5.0), K, y, cv=5)
    expected = cross_val_score(BagSVC(C=5.0, gamma=0.1), X, y, cv=5)
    assert_array_equal(scores, expected)
    search = GridSearchCV(BagSVC("precomputed"), {"C": [0.1, 10.0]}, cv=3).fit(K, y)
    assert search.predict(K).shape == y.shape
    weight = np.ones(50)
    weight[:5] = 0.0
    model = BagSVC("precomputed", tol=1e-8).fit(K, y, sample_weight=weight)
    assert model.support_.min() >= 5
    other = BagSVC("precomputed", tol=1e-8).fit(K[5:, 5:], y[5:])
    assert_allclose(
        model.decision_function(K), other.decision_function(K[:, 5:]), atol=1e-6
    )


def test_precomputed_checks_its_shape(data):
    X, y = data
    K = set_kernel(X)
    with pytest.raises(ValueError, match="must be square"):
        BagSVC("precomputed").fit(K[:, :10], y)
    model = BagSVC("precomputed").fit(K, y)
    with pytest.raises(ValueError, match="fitted on 50 bags"):
        model.predict(K[:, :10])


def test_a_function_as_kernel(data):
    X, y = data

    def linear(A, B, scale=1.0):
        return scale * set_kernel(A, B, kernel="linear", normalization="average")

    model = BagSVC(linear, 1.0, kernel_params={"scale": 2.0}, tol=1e-8).fit(X, y)
    params = {"kernel": "linear", "normalization": "average"}
    named = BagSVC(C=2.0, kernel_params=params, tol=1e-8).fit(X, y)
    assert_allclose(model.decision_function(X), named.decision_function(X), atol=1e-5)
    with pytest.raises(ValueError, match="returned shape"):
        BagSVC(lambda A, B: np.ones((2, 2))).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 0.1},
        {"gamma": "scale"},  # the variance of weighted instances
        {"kernel": "statistics"},
        {"kernel": "mi_graph", "gamma": "scale"},
        {"kernel": "distribution", "kernel_params": {"outer_gamma": 1.0}},
        {"n_components": 10**6, "random_state": 0},
    ],
    ids=str,
)
def test_weights_are_repetitions(data, options):
    X, y = data
    rng = np.random.default_rng(5)
    times = rng.integers(0, 3, size=len(y))
    repeated = np.repeat(np.arange(len(y)), times)
    a = BagSVC(**options, tol=1e-9).fit(X, y, sample_weight=times)
    b = BagSVC(**options, tol=1e-9).fit(X[repeated], y[repeated])
    assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-6)
    assert set(a.support_) <= set(np.flatnonzero(times))


def test_class_weight_equals_svc(three):
    X, y = three
    keep = np.concatenate([np.flatnonzero(y == 0)[:4], np.flatnonzero(y > 0)])
    X, y = X[keep], y[keep]
    K = set_kernel(X, gamma=0.1)
    for class_weight in ("balanced", {0: 3.0, 1: 0.5}):
        svc = SVC(kernel="precomputed", class_weight=class_weight, tol=1e-9).fit(K, y)
        model = BagSVC(C=1.0, gamma=0.1, class_weight=class_weight, tol=1e-9)
        model.fit(X, y)
        assert_allclose(model.decision_function(X), svc.decision_function(K), atol=1e-6)


def test_a_second_fit_forgets_the_first(data):
    X, y = data
    model = BagSVC(n_components=10, random_state=0).fit(X, y)
    model.set_params(n_components=None).fit(X, y)
    assert_array_equal(
        model.decision_function(X), BagSVC().fit(X, y).decision_function(X)
    )


def test_bad_parameters(data):
    X, y = data
    with pytest.raises(ValueError, match="unknown kernel 'sets'; known are .*'emd'"):
        BagSVC("sets").fit(X, y)
    with pytest.raises(ValueError, match="n_components needs kernel='set'"):
        BagSVC("emd", n_components=5).fit(X, y)
    with pytest.raises(ValueError, match="gamma is given twice"):
        BagSVC(gamma=1.0, kernel_params={"gamma": 2.0}).fit(X, y)
    with pytest.raises(ValueError, match="'C' parameter.*range"):
        BagSVC(C=0.0).fit(X, y)
    with pytest.raises(TypeError, match="powr"):
        BagSVC(kernel_params={"powr": 2}).fit(X, y)
    with pytest.raises(ValueError, match="no bag with a positive weight"):
        BagSVC().fit(X, y, sample_weight=y)


def test_every_registered_kernel_fits(data):
    X, y = data
    for name in BAG_KERNELS:
        params = {"n_components": 3} if name == "ppmm" else None
        model = BagSVC(name, kernel_params=params).fit(X, y)
        assert np.isfinite(model.decision_function(X[:5])).all()


# --------------------------------------------------------------- without a constant


def clarabel_without_constant(K, t, bound):
    """Multipliers of the machine without intercept, by an interior point method."""
    clarabel = pytest.importorskip("clarabel")
    n = len(t)
    P = sp.csc_matrix(np.triu(np.outer(t, t) * K + 1e-12 * np.eye(n)))
    A = sp.csc_matrix(np.vstack([np.eye(n), -np.eye(n)]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = 1e-11
    found = clarabel.DefaultSolver(
        P,
        -np.ones(n),
        A,
        np.concatenate([bound, np.zeros(n)]),
        [clarabel.NonnegativeConeT(2 * n)],
        settings,
    ).solve()
    return t * np.array(found.x), -found.obj_val


@pytest.mark.parametrize("n_components", [None, 30])
def test_without_a_constant_equals_clarabel(data, n_components):
    X, y = data
    weight = np.linspace(0.5, 2.0, len(y))
    model = BagSVC(
        C=3.0,
        gamma=0.3,
        fit_intercept=False,
        n_components=n_components,
        tol=1e-9,
        random_state=0,
    ).fit(X, y, weight)
    if n_components is None:
        K = set_kernel(X, gamma=0.3)
    else:
        inside, _ = ADDITIVE_KERNELS["set"](X, model.kernel_params_)
        F = additive_features(X, model.basis_, inside)
        K = F @ F.T
    coef, value = clarabel_without_constant(K, 2.0 * y - 1, 3.0 * weight)
    assert_array_equal(model.intercept_, [0.0])
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    assert model.duality_gap_ < 1e-6 * value
    assert_allclose(model.decision_function(X), K @ coef, atol=1e-4)


def test_where_the_diagonal_dominates_every_bag_pulls_by_itself():
    """The decision tends to the sum of y_i k(B_i, B) / k(B_i, B_i)."""
    rng = np.random.default_rng(0)
    n = 30
    t = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    small = rng.random((n + 10, n + 10))
    small = small @ small.T
    diagonal = rng.uniform(0.5, 3.0, n + 10)
    errors = []
    for size in (1e-3, 1e-4):
        K = np.diag(diagonal) + size * small
        model = BagSVC("precomputed", C=1e3, fit_intercept=False, tol=1e-10)
        model.fit(K[:n, :n], t)
        cross = K[n:, :n]
        limit = cross @ (t / np.diag(K)[:n])
        found = model.decision_function(cross)
        errors.append(np.abs(found - limit).max() / np.abs(limit).max())
    # The rest is of the next order in the size of what is off the diagonal.
    assert errors[0] < 0.3
    assert errors[1] < 0.2 * errors[0]


def test_without_a_constant_scales_may_be_seventy_orders_apart():
    """Counts of boxes are: bags that hardly resemble each other pull by themselves."""
    rng = np.random.default_rng(0)
    n = 30
    t = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    size = 10.0 ** rng.uniform(-35, 0, n + 10)
    likeness = 1e-40 * rng.random((n + 10, n + 10))
    likeness = likeness + likeness.T
    np.fill_diagonal(likeness, 1.0)
    K = size[:, None] * likeness * size
    model = BagSVC("precomputed", C=1e90, fit_intercept=False).fit(K[:n, :n], t)
    cross = K[n:, :n]
    limit = cross @ (t / np.diag(K)[:n])
    np.testing.assert_allclose(model.decision_function(cross), limit, rtol=1e-3)


def test_without_a_constant_more_classes_are_pairs(three):
    X, y = three
    model = BagSVC(C=2.0, gamma=0.2, fit_intercept=False, tol=1e-8).fit(X, y)
    K = set_kernel(X, gamma=0.2)
    pairs = [(0, 1), (0, 2), (1, 2)]
    for p, (plus, minus) in enumerate(pairs):
        here = np.flatnonzero(np.isin(y, [plus, minus]))
        t = np.where(y[here] == plus, 1.0, -1.0)
        coef, value = clarabel_without_constant(
            K[np.ix_(here, here)], t, np.full(len(here), 2.0)
        )
        assert model.objective_[p] == pytest.approx(value, rel=1e-5)
    assert model.decision_function(X).shape == (len(y), 3)
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_codes_are_learned_as_labels_are(rng, n_classes):
    Z, codes = rng.standard_normal((30, 4)), np.arange(30) % n_classes
    options = {"kernel": "precomputed", "C": 3.0, "tol": 1e-6}
    weight = rng.uniform(0.5, 2.0, 30)
    one = CodedSVC(**options).fit(Z @ Z.T, codes, sample_weight=weight)
    other = SVC(**options).fit(Z @ Z.T, codes, sample_weight=weight)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    np.testing.assert_array_equal(one.predict(Z @ Z.T), other.predict(Z @ Z.T))
