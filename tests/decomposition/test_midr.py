"""MIDR as transformer and classifier."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from bagwise import Bags
from bagwise.base.thresholds import best_threshold
from bagwise.decomposition import MIDR
from bagwise.linear_model import MILogisticRegression
from bagwise.linear_model.milr import LINEAR_POOLINGS


@pytest.fixture(scope="module")
def toy():
    """One instance of each positive bag is moved along two of eight features."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 7, 80)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], 8)) * np.linspace(2, 0.5, 8) + 1.0
    y = np.arange(80) % 2
    X[offsets[:-1][y == 1]] += [0, 0, 0, 3, 0, 3, 0, 0]
    return Bags(X, offsets), y


@pytest.fixture(scope="module")
def three_ways():
    """Key instances in one of three directions of a hidden plane."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    X = rng.normal(size=(240, 6, 10))
    y = np.arange(240) % 2
    angle = 2 * np.pi * rng.integers(0, 3, 120) / 3
    X[y == 1, 0, 0] += 5 * np.cos(angle)
    X[y == 1, 0, 1] += 5 * np.sin(angle)
    return Bags.from_list(list(X @ turn.T)), y, turn[:, :2]


@pytest.mark.parametrize(("size", "step", "share"), [(50, 0.2, 0.5), (5, 0.6, 0.85)])
def test_the_cut_lies_among_the_scores(size, step, share):
    """The ridge draws log-odds together, and all bags to one side of zero."""
    rng = np.random.default_rng(1)
    y = (rng.random(280) < share).astype(int)
    X = Bags.from_list([rng.normal(step * k, 1.0, (size, 4)) for k in y])
    train, test = slice(0, 80), slice(80, None)
    own = MIDR(random_state=0, threshold="zero").fit(X[train], y[train])
    midr = MIDR(random_state=0).fit(X[train], y[train])
    assert own.threshold_ == 0.0
    np.testing.assert_array_equal(midr.components_, own.components_)
    scores = midr.decision_function(X[test])
    np.testing.assert_allclose(
        scores, own.decision_function(X[test]) - midr.threshold_, atol=1e-12
    )
    truth = y[test] == 1
    cut = best_threshold(scores, truth)
    best = np.mean((scores > cut) == truth)
    assert roc_auc_score(truth, scores) > 0.9
    assert midr.score(X[test], y[test]) >= best - 0.06
    assert own.score(X[test], y[test]) < best - 0.06
    proba = midr.predict_proba(X[test])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(proba[:, 1] > 0.5, scores > 0)
    np.testing.assert_allclose(
        midr.instance_scores(X[test]).values,
        own.instance_scores(X[test]).values - midr.threshold_,
        atol=1e-12,
    )


@pytest.mark.parametrize("n_components", [1, 2, 5, 8])
@pytest.mark.parametrize("pooling", LINEAR_POOLINGS)
def test_without_penalty_it_is_ridge_regression(toy, pooling, n_components):
    X, y = toy
    params = {"pooling": pooling, "loss": "log", "random_state": 0}
    params["threshold"] = "train" if n_components == 2 else "zero"
    midr = MIDR(n_components, C1=0, **params).fit(X, y)
    milr = MILogisticRegression(tol=1e-6, **params).fit(X, y)
    atol = 1e-4 if pooling == "max" else 1e-9
    assert midr.objective_ == pytest.approx(milr.objective_, abs=atol)
    np.testing.assert_allclose(
        midr.predict_proba(X), milr.predict_proba(X), atol=30 * atol**0.5
    )
    # Component 0 is the direction of the scores.
    unit = midr.direction_ / np.linalg.norm(midr.direction_)
    np.testing.assert_allclose(np.abs(unit @ midr.components_[0]), 1.0, atol=1e-9)
    if pooling != "max":
        assert midr.n_iter_ <= 3


def test_also_from_other_starts(toy):
    X, y = toy
    value = MIDR(3, C1=0, random_state=0).fit(X, y).objective_
    for init in ("pca", "random"):
        other = MIDR(3, C1=0, init=init, tol=1e-8, random_state=1)
        assert other.fit(X, y).objective_ == pytest.approx(value, abs=1e-6)


def test_stationary_point(toy):
    """At the solution without penalty the gradient in U is minus the ridge term."""
    X, y = toy
    midr = MIDR(4, C1=0, C=3.0, tol=1e-9, random_state=0).fit(X, y)
    from bagwise.linear_model.loss import BagLoss

    loss = BagLoss(X.data, X.offsets, y.astype(float), mean=midr.mean_)
    _, gradient, slope = loss(midr.direction_[:, None], np.array([midr.intercept_]))
    np.testing.assert_allclose(gradient[:, 0], -midr.direction_ / 3.0, atol=1e-7)
    np.testing.assert_allclose(slope, 0, atol=1e-7)


def test_rotation_of_the_features(toy):
    X, y = toy
    Q = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))[0]
    plain = MIDR(3, C1=0, tol=1e-9, n_init=1, random_state=0).fit(X, y)
    turned = MIDR(3, C1=0, tol=1e-9, n_init=1, random_state=0)
    turned.fit(X.with_data(X.data @ Q), y)
    assert turned.objective_ == pytest.approx(plain.objective_, abs=1e-9)
    angles = subspace_angles(turned.components_.T, Q.T @ plain.components_.T)
    assert angles.max() < 1e-4


def test_permutations(toy):
    X, y = toy
    rng = np.random.default_rng(0)
    expected = MIDR(2, tol=1e-9, n_init=1, random_state=0).fit(X, y)
    order = rng.permutation(len(y))
    moved = Bags.from_list([X[i][rng.permutation(X.sizes[i])] for i in order])
    again = MIDR(2, tol=1e-9, n_init=1, random_state=0).fit(moved, y[order])
    assert again.objective_ == pytest.approx(expected.objective_, abs=1e-9)
    np.testing.assert_allclose(again.components_, expected.components_, atol=1e-4)


def test_norm_bounds_and_feature_selection(toy):
    X, y = toy
    for C1 in (0.0, 1e-3, 0.1):
        A = MIDR(3, C1=C1, random_state=0).fit(X, y).components_
        assert 3 - 1e-9 <= np.abs(A).sum() <= 3 * np.sqrt(8) + 1e-9
    strong = MIDR(3, C1=10.0, tau=0.01, tol=1e-12, random_state=0).fit(X, y)
    assert np.abs(strong.components_).sum() == pytest.approx(3, abs=1e-2)
    H = strong.sparse_components_
    assert np.count_nonzero(H) == 3
    assert len(np.unique(np.nonzero(H)[1])) == 3


def test_sparse_components_find_the_features(toy):
    X, y = toy
    midr = MIDR(1, C1=0.02, tau=0.1, random_state=0).fit(X, y)
    assert set(np.flatnonzero(midr.sparse_components_[0])) == {3, 5}


@pytest.mark.parametrize("C1", [0.0, 1e-3])
def test_signs_and_order(toy, C1):
    X, y = toy
    first = MIDR(4, C1=C1, random_state=0).fit(X, y)
    again = MIDR(4, C1=C1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(first.components_, again.components_)
    A = first.components_
    assert (A[np.arange(4), np.abs(A).argmax(axis=1)] > 0).all()
    use = np.abs(first.coef_)
    assert (np.diff(use) <= 1e-6 * use.max()).all()
    np.testing.assert_allclose(A @ A.T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(first.coef_ @ A, first.direction_, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_transform_and_back(toy, sparse):
    X, y = toy
    if sparse:
        X = X.with_data(sp.csr_array(X.data))
    midr = MIDR(3, random_state=0).fit(X, y)
    Z = midr.transform(X)
    assert isinstance(Z, Bags)
    np.testing.assert_array_equal(Z.offsets, X.offsets)
    assert list(Z.feature_names) == ["midr0", "midr1", "midr2"]
    dense = X.data.toarray() if sparse else X.data
    expected = (dense - dense.mean(axis=0)) @ midr.components_.T
    np.testing.assert_allclose(Z.data, expected, atol=1e-10)
    back = midr.inverse_transform(Z)
    np.testing.assert_allclose(midr.transform(back).data, Z.data, atol=1e-10)
    once_more = midr.inverse_transform(midr.transform(back))
    np.testing.assert_allclose(once_more.data, back.data, atol=1e-10)
    with pytest.raises(ValueError, match="3 components"):
        midr.inverse_transform(X)


def test_sparse_equals_dense(toy):
    X, y = toy
    dense = MIDR(2, tol=1e-8, random_state=0).fit(X, y)
    sparse = MIDR(2, tol=1e-8, random_state=0)
    sparse.fit(X.with_data(sp.csr_array(X.data)), y)
    assert sparse.objective_ == pytest.approx(dense.objective_, abs=1e-7)
    np.testing.assert_allclose(sparse.mean_, dense.mean_, atol=1e-12)


def test_all_features(toy):
    X, y = toy
    midr = MIDR(1.0, C1=0, random_state=0).fit(X, y)
    assert midr.components_.shape == (8, 8)
    np.testing.assert_allclose(
        midr.components_.T @ midr.components_, np.eye(8), atol=1e-12
    )
    np.testing.assert_allclose(midr.inverse_transform(midr.transform(X)).data, X.data)


def test_pipeline_on_few_dimensions(toy):
    X, y = toy
    one = make_pipeline(MIDR(1, random_state=0), MILogisticRegression(random_state=0))
    scores = cross_val_score(one, X, y, cv=4, scoring="roc_auc")
    assert scores.mean() > 0.85


def test_several_hypotheses_beat_one(three_ways):
    X, y, plane = three_ways
    area = {}
    for n_hypotheses in (1, 3):
        midr = MIDR(2, C=100, C1=0, n_hypotheses=n_hypotheses, random_state=0)
        midr.fit(X[:120], y[:120])
        area[n_hypotheses] = roc_auc_score(y[120:], midr.decision_function(X[120:]))
    assert area[1] < 0.8
    assert area[3] > 0.95
    # The components are the hidden plane, and the directions lie in it.
    assert np.degrees(subspace_angles(midr.components_.T, plane).max()) < 20
    assert midr.direction_.shape == (3, 10)
    assert (midr.key_instances(X)[y == 1] == 0).mean() > 0.9


def test_several_classes_need_several_components():
    """Four classes north, east, south and west of a plane do not fit on a line."""
    rng = np.random.default_rng(0)
    codes = np.arange(160) % 4
    X = rng.normal(size=(160, 4, 6))
    compass = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    X[:, 1, :2] += 6 * compass[codes]
    y = np.array(["n", "e", "s", "w"])[codes]
    share = {}
    for d in (1, 2):
        midr = MIDR(d, C=100, C1=0, random_state=0).fit(X[:80], y[:80])
        share[d] = midr.score(X[80:], y[80:])
    assert share[1] < 0.8  # on any line two of the four fall together: 3/4
    assert share[2] > 0.9
    midr = MIDR(0.1, C=100, random_state=0).fit(X, y)
    assert midr.components_.shape == (3, 6)  # a share gives n_classes - 1 or more
    assert midr.coef_.shape == (4, 3)
    proba = midr.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(midr.classes_[proba.argmax(axis=1)], midr.predict(X))
    assert midr.instance_scores(X).values.shape == (640, 4)


def test_weights_count_bags(toy):
    X, y = toy
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    params = {"C1": 0, "tol": 1e-10, "random_state": 0}
    weighted = MIDR(3, **params).fit(X, y, sample_weight=weight)
    repeated = MIDR(3, **params).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-6)
    np.testing.assert_allclose(weighted.mean_, repeated.mean_, atol=1e-12)


def test_low_dimension_is_restarted():
    """Figure 2: the direction of the key instance is found from a misleading start."""
    rng = np.random.default_rng(1)
    bags, y = [], np.arange(24) % 2
    for label in y:
        bag = rng.normal(size=(8, 2)) * [3.0, 0.4]
        if label:
            bag[:, 1] -= 0.5
            bag[0, 1] += 3.5
        bags.append(bag)
    midr = MIDR(1, C=1000, random_state=0).fit(bags, y)
    angle = np.degrees(np.arccos(abs(midr.components_[0, 0])))
    assert angle > 80


def test_float32(toy):
    X, y = toy
    single = X.with_data(X.data.astype(np.float32))
    midr = MIDR(2, random_state=0).fit(single, y)
    assert midr.transform(single).dtype == np.float32
    double = MIDR(2, random_state=0).fit(X, y)
    assert midr.objective_ == pytest.approx(double.objective_, rel=1e-4)
    assert midr.components_.dtype == np.float64


def test_awkward_data(toy):
    """Constant columns, one feature, bags of one, fewer instances than components."""
    X, y = toy
    constant = X.with_data(np.hstack([X.data, np.ones((X.n_instances, 2))]))
    midr = MIDR(1.0, C1=0, random_state=0).fit(constant, y)
    assert np.abs(midr.components_ @ midr.components_.T - np.eye(10)).max() < 1e-12
    one = MIDR(random_state=0).fit(X.with_data(X.data[:, 3:4].copy()), y)
    np.testing.assert_allclose(one.components_, [[1.0]])
    few = Bags(X.data[:6, :], np.arange(7))
    wide = MIDR(8, random_state=0).fit(few, [0, 1, 0, 1, 0, 1])
    assert np.abs(wide.components_ @ wide.components_.T - np.eye(8)).max() < 1e-12


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_components": 9}, "number of features, 8"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 1.5}, "n_components"),
        ({"tau": 1.0}, "tau"),
        ({"tau": 0.0}, "tau"),
        ({"C1": -1.0}, "C1"),
        ({"pooling": "gmean", "n_hypotheses": 2}, "one linear score"),
    ],
)
def test_refuses(toy, params, message):
    X, y = toy
    with pytest.raises(ValueError, match=message):
        MIDR(**params).fit(X, y)


def test_refuses_missing_labels_and_huge_projections(toy, monkeypatch):
    X, y = toy
    with pytest.raises(ValueError, match="one label per bag"):
        MIDR().fit(X)
    monkeypatch.setenv("BAGWISE_MEMORY", "1GB")
    wide = sp.random_array((4, 200_000), density=1e-4, format="csr", rng=0)
    with pytest.raises(ValueError, match="small integer"):
        MIDR().fit(Bags(wide, [0, 2, 4]), [0, 1])


def test_says_when_it_did_not_converge(toy):
    X, y = toy
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        MIDR(2, max_iter=1, init="random", random_state=0).fit(X, y)


def test_tiny_dimension_on_musk(benchmark):
    """One learned direction is worth more than one principal direction."""
    from sklearn.decomposition import PCA
    from sklearn.model_selection import StratifiedKFold
    from sklearn.preprocessing import StandardScaler

    from bagwise.compose import OnInstances

    data = benchmark("musk1")
    X, y = data.X, data.y
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    last = MILogisticRegression(random_state=0)
    area = {
        name: cross_val_score(
            make_pipeline(OnInstances(StandardScaler()), step, last),
            X,
            y,
            cv=cv,
            scoring="roc_auc",
        ).mean()
        for name, step in {
            "midr": MIDR(1, random_state=0),
            "pca": OnInstances(PCA(1)),
        }.items()
    }
    assert area["midr"] > 0.8 > area["pca"]
