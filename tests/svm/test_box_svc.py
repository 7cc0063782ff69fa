import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.base.thresholds import best_threshold, sigmoid_threshold
from bagwise.compose import OnInstances
from bagwise.datasets import make_generalized_bags
from bagwise.kernels import BoxGrid, box_kernel
from bagwise.svm import BagSVC, BoxKernelSVC, _box_svc, transductive_box_svc
from bagwise.testing._check_models import _few_positive


@pytest.fixture(scope="module")
def data():
    X, y = make_generalized_bags(120, random_state=2)
    return X[:80], y[:80], X[80:], y[80:]


def literal_map(logs, rows, cols, diag, rho, normalize, scale):
    """Return F from a full matrix of log counts, entry by entry."""
    F = np.empty((len(rows), len(cols)))
    for a, i in enumerate(rows):
        for b, j in enumerate(cols):
            norm = (diag[i] + diag[j]) / 2 if normalize else scale
            F[a, b] = np.exp(rho * (logs[i, j] - norm))
    return F


@pytest.mark.parametrize("normalize", [True, False])
def test_equals_svc_on_the_literal_map(data, normalize):
    X, y, X_test, _ = data
    model = BoxKernelSVC(
        normalize=normalize, rho=0.7, threshold="zero", random_state=0
    ).fit(X, y)
    every = Bags.concatenate([X, X_test])
    logs = box_kernel(
        every, grid=model.grid_, random_state=model.count_params_["random_state"]
    )
    train, test = np.arange(80), np.arange(80, 120)
    diag = np.diag(logs)
    scale = diag[train].max()
    F = literal_map(logs, train, train, diag, 0.7, normalize, scale)
    F_test = literal_map(logs, test, train, diag, 0.7, normalize, scale)
    K = F @ F.T
    m = np.diag(K).mean()
    svc = SVC(C=10.0, kernel="precomputed", tol=1e-4).fit(K / m, y)
    np.testing.assert_allclose(
        model.decision_function(X_test),
        svc.decision_function(F_test @ F.T / m),
        atol=1e-8,
    )


def test_training_and_prediction_agree(data):
    """A training bag is mapped alike as one of many and alone."""
    X, y, _, _ = data
    model = BoxKernelSVC(random_state=0).fit(X, y)
    together = model.decision_function(X)
    alone = np.concatenate([model.decision_function(X[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(alone, together[:5], rtol=1e-12)


def test_transduction_is_the_map_over_all_bags(data):
    X, y, X_test, _ = data
    result = transductive_box_svc(
        X, y, X_test, rho=0.5, threshold="zero", random_state=1
    )
    grid = BoxGrid().fit(X)
    seed = np.random.RandomState(1).randint(2**31 - 1)
    logs = box_kernel(Bags.concatenate([X, X_test]), grid=grid, random_state=int(seed))
    half = np.diag(logs) / 2
    F = np.exp(0.5 * (logs - half[:, None] - half[None, :]))
    K = F @ F.T
    m = np.diag(K)[:80].mean()
    svc = SVC(C=10.0, kernel="precomputed", tol=1e-4).fit(K[:80, :80] / m, y)
    expected = svc.decision_function(K[80:, :80] / m)
    np.testing.assert_allclose(result.decision_function, expected, atol=1e-8)
    np.testing.assert_array_equal(result.predictions, (expected > 0).astype(int))
    np.testing.assert_array_equal(result.classes, [0, 1])


def test_transduction_checks_its_input(data):
    X, y, X_test, _ = data
    with pytest.raises(ValueError, match="features"):
        transductive_box_svc(X, y, [np.zeros((1, 3))])
    with pytest.raises(ValueError, match="'epsilon' parameter"):
        transductive_box_svc(X, y, X_test, epsilon=2.0)


def test_power_follows_the_contrast(data):
    X, y, _, _ = data
    low = BoxKernelSVC(random_state=0).fit(X, y)
    half = low.log_self_ / 2
    logs = box_kernel(X, grid=low.grid_, random_state=low.count_params_["random_state"])
    contrast = (half[:, None] + half - logs)[~np.eye(80, dtype=bool)]
    assert low.rho_ == pytest.approx(1.0 / np.median(contrast))
    rng = np.random.default_rng(0)
    wide = [rng.normal(size=(2, 150)) for _ in range(10)]
    assert BoxKernelSVC(random_state=0).fit(wide, np.arange(10) % 2).rho_ == 0.02


def test_generalised_concept():
    X, y = make_generalized_bags(450, random_state=1)
    model = BoxKernelSVC(random_state=0, C=100.0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.75


def test_three_classes(data):
    X, _, _, _ = data
    y = np.array(["a", "b", "c"])[np.digitize([b[:, 0].max() for b in X], [0.75, 0.9])]
    model = BoxKernelSVC(random_state=0, C=100.0).fit(X, y)
    assert model.decision_function(X).shape == (80, 3)
    assert model.score(X, y) > 0.9


def test_raw_kernel_in_bag_svc(data):
    X, y, X_test, y_test = data
    model = BagSVC(kernel="box", C=100.0).fit(X, y)
    assert model.score(X_test, y_test) > 0.6
    K = np.exp(
        box_kernel(X, grid=model.kernel_params_["grid"])
        - model.kernel_params_["log_scale"]
    )
    assert np.diag(K).max() == pytest.approx(1.0)
    svc = SVC(C=100.0, kernel="precomputed", tol=1e-4).fit(K, y)
    np.testing.assert_allclose(
        model.decision_function(X), svc.decision_function(K), atol=1e-6
    )


def test_dominant_diagonal_is_a_warning():
    rng = np.random.default_rng(0)
    bags, y = [rng.normal(size=(3, 80)) for _ in range(8)], np.arange(8) % 2
    with pytest.warns(UserWarning, match="BoxKernelSVC"):
        BagSVC(kernel="box").fit(bags, y)


def test_without_a_constant_the_map_alone_decides(data):
    X, y, _, _ = data
    model = BoxKernelSVC(fit_intercept=False, random_state=0).fit(X, y)
    assert (model.intercept_ == 0).all()
    assert model.score(X, y) > 0.7
    result = transductive_box_svc(X, y, X[:5], fit_intercept=False, random_state=0)
    assert result.decision_function.shape == (5,)


def test_many_instances_are_refused_before_any_work(data, monkeypatch):
    X, y = data[:2]

    def never(*args, **options):
        raise AssertionError("boxes were counted")

    monkeypatch.setattr(_box_svc, "box_kernel", never)
    monkeypatch.setattr(_box_svc, "make_grid", never)
    few = BoxKernelSVC(max_instances=X.n_instances - 1)
    with pytest.raises(ValueError, match=r"RandomBoxFeatures\(1000\)"):
        few.fit(X, y)
    with pytest.raises(AssertionError, match="counted"):
        BoxKernelSVC(max_instances=None).fit(X, y)


def test_a_rare_class_is_called_where_the_scores_show_it():
    X, y = _few_positive(160)
    X = OnInstances(StandardScaler()).fit(X[:60]).transform(X)
    fitted = {
        cut: BoxKernelSVC(threshold=cut, random_state=0).fit(X[:60], y[:60])
        for cut in ("cv", "zero")
    }
    scores, plain = (fitted[cut].decision_function(X[60:]) for cut in fitted)
    np.testing.assert_allclose(scores - plain, (scores - plain)[0], atol=1e-9)
    assert roc_auc_score(y[60:], scores) > 0.8
    assert (plain > 0).mean() < 0.02  # a quarter of the bags is positive
    best = best_threshold(scores, y[60:] == 1)
    right = [np.mean((scores > cut) == (y[60:] == 1)) for cut in (0.0, best)]
    assert right[0] > right[1] - 0.1


def test_cuts_of_pairs_are_those_of_two_classes(data):
    """Each pair of three classes is cut by its own training bags."""
    X, _, _, _ = data
    codes = np.digitize([b[:, 0].max() for b in X], [0.75, 0.9])
    made = {"rho": 0.7, "grid": BoxGrid().fit(X), "random_state": 0}
    three, plain = (
        BoxKernelSVC(threshold=cut, **made).fit(X, codes) for cut in ("train", "zero")
    )
    F = three._map(box_kernel(X, **three._settings()), *[three.log_self_] * 2)
    scores = F @ plain.coef_ + plain.intercept_
    for p, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        here = (codes == i) | (codes == j)
        cut = sigmoid_threshold(scores[here, p], codes[here] == i)
        assert three.intercept_[p] == pytest.approx(plain.intercept_[p] - cut)
