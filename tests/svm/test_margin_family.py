"""MI-SVM and its relatives: the objectives by their definitions, and reductions."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.svm import SVC

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max
from bagwise.kernels import set_kernel
from bagwise.kernels.instance import instance_kernel
from bagwise.svm import (
    MICA,
    MILEAGE,
    MISVM,
    SBMIL,
    SMIL,
    STMIL,
    MissSVM,
    MiSVM,
    RegSVM,
)

FAMILY = [
    MISVM(5.0),
    MISVM(5.0, slack="instance"),
    MISVM(5.0, init="input_mean"),
    MISVM(5.0, init="random", n_init=3, random_state=0),
    MiSVM(5.0),
    SMIL(200.0),
    STMIL(200.0),
    SBMIL(5.0, eta=0.4),
    SBMIL(20.0, eta=0.4, scale_C=True),
    MissSVM(5.0, C_unlabeled=1.0, C_bag=8.0),
    MICA(5.0),
    RegSVM(5.0, consistency=0.05),
    RegSVM(5.0, normalization="average", consistency=0.3),
    MILEAGE(5.0),
    MILEAGE(5.0, local_share=0.7, rigidity=0.1),
]
# The problems are those of the machines: their own scores, where no cut is subtracted.
for _model in FAMILY:
    _model.set_params(threshold="zero")
ITERATIVE = [model for model in FAMILY if hasattr(model, "max_iter")]


def _name(model):
    return str(model).replace("\n", "").replace(" ", "")


def family(models):
    """Parametrize over models, cloned so that tests share nothing."""
    return pytest.mark.parametrize("model", models, ids=_name)


def _bags(seed=0, n_bags=24, d=4):
    """Bags whose positive ones hide one or two shifted instances."""
    rng = np.random.default_rng(seed)
    bags, y = [], []
    for i in range(n_bags):
        bag = rng.standard_normal((rng.integers(1, 7), d))
        if i % 2:
            bag[: rng.integers(1, 3), 0] += 1.8
        bags.append(bag)
        y.append(i % 2)
    return Bags.from_list(bags), np.array(y)


def _parts(model, X):
    """Squared norm of f, and f + b at the instances, from the fitted attributes."""
    K = instance_kernel(
        model.support_vectors_,
        kernel=model.kernel,
        gamma=model.gamma_,
    )
    return model.dual_coef_ @ K @ model.dual_coef_, model.instance_scores(X).values


def _hinge(values):
    return np.maximum(0.0, values)


def _objective(model, X, y):
    """The problem of each docstring, literally, with loops over bags."""
    norm, f = _parts(model, X)
    bags = [f[X.offsets[i] : X.offsets[i + 1]] for i in range(len(X))]
    positive = [g for g, label in zip(bags, y, strict=True) if label]
    negative = [g for g, label in zip(bags, y, strict=True) if not label]
    C = model.C
    total = 0.5 * norm
    if isinstance(model, MISVM):  # and MICA
        total += C * sum(_hinge(1 - g.max()) for g in positive)
        if model.slack == "bag":
            return total + C * sum(_hinge(1 + g.max()) for g in negative)
        return total + C * sum(_hinge(1 + g).sum() for g in negative)
    if isinstance(model, MiSVM):
        for g in positive:
            t = np.where(g >= 0, 1, -1)
            t[g.argmax()] = 1
            total += C * _hinge(1 - t * g).sum()
        return total + C * sum(_hinge(1 + g).sum() for g in negative)
    if isinstance(model, SMIL | STMIL):
        n_negative = sum(map(len, negative))
        total += C / n_negative * sum(_hinge(1 + g).sum() for g in negative)
        for g in positive:
            total += C / len(positive) * _hinge(2 / len(g) - 1 - g.mean())
        if isinstance(model, STMIL):
            n_positive = sum(map(len, positive))
            total += C / n_positive * sum(_hinge(1 - abs(g)).sum() for g in positive)
        return total
    if isinstance(model, SBMIL):
        return total + C * _hinge(1 - model.instance_labels_ * f).sum()
    if isinstance(model, MissSVM):
        total += C * sum(_hinge(1 + g).sum() for g in negative)
        for g in positive:
            total += model.C_unlabeled * np.minimum(_hinge(1 - g), _hinge(1 + g)).sum()
            total += model.C_bag * _hinge(1 - g.max())
        return total
    if isinstance(model, MILEAGE):
        for g, label, share in zip(bags, y, model.shares_, strict=True):
            mixed = share * g.max() + (1 - share) * g.mean()
            total += C * _hinge(1 - (1 if label else -1) * mixed)
            total += C * model.rigidity / 2 * (share - model.local_share) ** 2
        return total
    scores = model.decision_function(X)
    total += C * _hinge(1 - np.where(y, 1, -1) * scores).sum()
    best = np.array([g.max() for g in bags])
    return total + C * model.consistency * np.abs(scores - best).sum()


@family(FAMILY)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_objective_is_the_problem_of_the_docstring(model, kernel):
    X, y = _bags()
    model = _fresh(model, kernel=kernel, gamma=0.3, tol=1e-8).fit(X, y)
    assert model.objective_ == pytest.approx(_objective(model, X, y), rel=1e-6)
    assert abs(model.duality_gap_) < 1e-5 * model.objective_


def _fresh(model, **params):
    return type(model)(**{**model.get_params(), **params})


@family(ITERATIVE)
@pytest.mark.parametrize("seed", range(4))
def test_objective_does_not_increase(model, seed):
    X, y = _bags(seed)
    model = _fresh(model, gamma=0.3).fit(X, y)
    path = model.objective_path_
    assert len(path) <= model.n_iter_
    assert np.all(np.diff(path) <= 0)
    assert model.objective_ == path[-1]


@family(FAMILY)
def test_coordinates_equal_the_kernel_matrix(model):
    """The linear kernel by the interior-point method, and as a polynomial by libsvm."""
    X, y = _bags(3)
    low = _fresh(model, kernel="linear", tol=1e-8).fit(X, y)
    gram = _fresh(model, kernel="poly", degree=1, coef0=0, gamma=1, tol=1e-8).fit(X, y)
    assert low.objective_ == pytest.approx(gram.objective_, rel=1e-5)
    np.testing.assert_allclose(
        low.instance_scores(X).values, gram.instance_scores(X).values, atol=2e-3
    )
    # Twenty landmarks span the four features: the Nystroem basis is exact here.
    basis = _fresh(gram, n_components=20, random_state=0, tol=1e-8).fit(X, y)
    assert basis.objective_ == pytest.approx(gram.objective_, rel=1e-5)
    np.testing.assert_allclose(
        basis.decision_function(X), gram.decision_function(X), atol=2e-3
    )


@family(FAMILY)
def test_sparse_rows_take_three_roads_to_the_same_machine(model, monkeypatch):
    X, y = _bags(1)
    data = np.where(np.abs(X.data) > 0.5, X.data, 0.0)
    dense = X.with_data(data)
    sparse = X.with_data(sp.csr_array(data))
    model = _fresh(model, kernel="linear", tol=1e-6)
    expected = _fresh(model).fit(dense, y)
    coordinates = _fresh(model).fit(sparse, y)
    monkeypatch.setattr("bagwise.svm._base._MAX_RANK", 1)
    by_gram = _fresh(model).fit(sparse, y)
    monkeypatch.setattr("bagwise.solvers.hinge._MAX_RANK", 1)
    monkeypatch.setattr("bagwise.svm._base._GRAM_LIMIT", 1)
    by_steps = _fresh(model).fit(sparse, y)
    for found in (coordinates, by_gram, by_steps):
        assert found.objective_ == pytest.approx(expected.objective_, rel=1e-4)
        np.testing.assert_allclose(
            found.decision_function(sparse),
            expected.decision_function(dense),
            atol=5e-3,
        )


@family([m for m in FAMILY if type(m) in (MISVM, MiSVM, SBMIL, MICA, MILEAGE)])
def test_singletons_reduce_to_svc(model):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 3))
    y = (rows[:, 0] + 0.5 * rng.standard_normal(40) > 0).astype(int)
    weight = rng.uniform(0.5, 2.0, 40)
    reference = SVC(C=model.C, gamma=0.4, tol=1e-9).fit(rows, y, sample_weight=weight)
    params = {"eta": 1.0} if isinstance(model, SBMIL) else {}
    model = _fresh(model, gamma=0.4, tol=1e-9, **params)
    X = Bags.from_list([row[None] for row in rows])
    model.fit(X, y, sample_weight=weight)
    if isinstance(model, MiSVM):
        # A positive bag of one instance keeps its label.
        np.testing.assert_array_equal(model.instance_labels_, np.where(y, 1, -1))
    np.testing.assert_allclose(
        model.decision_function(X), reference.decision_function(rows), atol=1e-5
    )


def test_reg_svm_without_ties_is_an_svm_on_sets():
    X, y = _bags(2)
    model = RegSVM(3.0, consistency=1e-9, gamma=0.3, tol=1e-8, threshold="zero")
    model.fit(X, y)
    K = set_kernel(X, gamma=0.3)
    other = SVC(C=3.0, kernel="precomputed", tol=1e-9).fit(K, y)
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(K), atol=1e-4
    )


def test_reg_svm_shares_the_subgradient_of_equal_maximizers():
    # Each bag equals its mirror image, and so must the answer. The tangent at the first
    # of two mirrored maximizers would break the symmetry.
    rng = np.random.default_rng(3)
    y = np.arange(20) % 2
    half = [rng.normal(size=(3, 2)) + [1.5 * label, 0.0] for label in y]
    X = Bags.from_list([np.vstack([rows, rows * [1.0, -1.0]]) for rows in half])
    mirrored = X.with_data(X.data * [1.0, -1.0])
    for tol in (1e-4, 1e-6):
        model = RegSVM(3.0, gamma=1.0, threshold="zero", tol=tol).fit(X, y)
        image, scores = (model.instance_scores(one).values for one in (mirrored, X))
        np.testing.assert_allclose(image, scores, atol=np.sqrt(tol))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_mica_with_the_euclidean_norm_is_mi_svm(kernel):
    X, y = _bags(2)
    mica = MICA(3.0, kernel=kernel, gamma=0.3).fit(X, y)
    other = MISVM(
        3.0, kernel=kernel, gamma=0.3, slack="instance", init="feature_mean"
    ).fit(X, y)
    np.testing.assert_array_equal(mica.witnesses_, other.witnesses_)
    np.testing.assert_allclose(mica.objective_path_, other.objective_path_)
    np.testing.assert_allclose(mica.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("seed", range(4))
def test_two_starts_are_no_worse_after_a_step_than_one(kernel, seed):
    X, y = _bags(seed)
    one = MISVM(5.0, kernel=kernel, init="feature_mean", tol=1e-8).fit(X, y)
    two = MISVM(5.0, kernel=kernel, tol=1e-8).fit(X, y)
    first = one.objective_path_[0] * (1 + 1e-6)
    assert two.objective_path_[0] <= first
    if two.objective_path_[0] > first * (1 - 1e-5):  # the same start
        np.testing.assert_array_equal(one.witnesses_, two.witnesses_)


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"n_components": 15}, {}])
@pytest.mark.parametrize("init", ["auto", "feature_mean", "input_mean"])
def test_mica_with_the_absolute_norm(options, init):
    X, y = _bags(2)
    model = MICA(2.0, norm="l1", init=init, gamma=0.3, random_state=0, **options)
    model.set_params(threshold="zero").fit(X, y)
    assert np.all(np.diff(model.objective_path_) <= 0)
    f = model.instance_scores(X).values
    top = segment_max(f, X.offsets)
    coef = model.dual_coef_ if not options else model.coef_
    negative = (y == 0)[X.bag_index]
    value = np.abs(coef).sum() + 2.0 * (
        _hinge(1 - top[y == 1]).sum() + _hinge(1 + f[negative]).sum()
    )
    assert model.objective_ == pytest.approx(value, rel=1e-7)
    # Saying "negative" to everything costs 2 C for each positive bag.
    assert model.objective_ < 2.0 * 2.0 * (y == 1).sum()


@pytest.mark.parametrize("slack", ["bag", "instance"])
def test_last_step_of_mi_svm_equals_clarabel(clarabel_rows, slack):
    X, y = _bags(5)
    model = MISVM(2.0, slack=slack, gamma=0.2, tol=1e-9, threshold="zero")
    model.fit(X, y)
    K = instance_kernel(X.data, gamma=0.2)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-12
    Z = vectors[:, kept] * np.sqrt(values[kept])
    negative = np.flatnonzero((y == 0)[X.bag_index])
    rows = np.r_[negative, model.witnesses_]
    sign = np.r_[-np.ones(len(negative)), np.ones(len(model.witnesses_))]
    group = None
    if slack == "bag":
        group = np.r_[X.bag_index[negative], X.bag_index[model.witnesses_]]
        group = np.unique(group, return_inverse=True)[1]
    value, w, b = clarabel_rows(sign[:, None] * Z[rows], sign, 1.0, 2.0, group)
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.instance_scores(X).values, Z @ w + b, atol=1e-4)


def test_weights_repeat_bags_and_zero_removes_them():
    X, y = _bags(4)
    weight = np.ones(len(X))
    weight[:6] = 2.0
    weight[-3:] = 0.0
    rows = np.r_[np.arange(len(X) - 3), np.arange(6)]
    for model in FAMILY:
        if getattr(model, "scale_C", False) or getattr(model, "init", "") == "random":
            continue  # counts are of bags, and the random starts are others
        if isinstance(model, MissSVM):
            continue  # unlabeled support vectors tie for the witness of their bag
        model = _fresh(model, gamma=0.3, tol=1e-8)
        weighted = _fresh(model).fit(X, y, sample_weight=weight)
        repeated = _fresh(model).fit(X[rows], y[rows])
        assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
        np.testing.assert_allclose(
            weighted.decision_function(X), repeated.decision_function(X), atol=1e-4
        )


def test_class_weight_moves_the_boundary():
    X, y = _bags(6)
    for model in FAMILY:
        if isinstance(model, SMIL | STMIL):
            continue  # a bag's mean may be raised by lowering its best instance
        model = _fresh(model, gamma=0.3)
        high = _fresh(model, class_weight={0: 1.0, 1: 20.0}).fit(X, y)
        low = _fresh(model, class_weight={0: 20.0, 1: 1.0}).fit(X, y)
        assert high.decision_function(X).sum() > low.decision_function(X).sum()


def test_random_starts_keep_the_lowest():
    X, y = _bags(7)
    options = {"init": "random", "gamma": 0.3, "C": 5.0}
    several = MISVM(n_init=6, random_state=3, **options).fit(X, y)
    assert several.objective_ <= (
        MISVM(n_init=1, random_state=3, **options).fit(X, y).objective_
    )
    again = MISVM(n_init=6, random_state=3, **options).fit(X, y)
    np.testing.assert_array_equal(several.witnesses_, again.witnesses_)


def test_more_than_two_classes_and_instance_scores():
    X, _ = _bags(8, n_bags=30)
    y = np.array(["a", "b", "c"])[np.arange(30) % 3]
    for model in FAMILY:
        model = _fresh(model, gamma=0.3).fit(X, y)
        scores = model.instance_scores(X)
        assert scores.values.shape == (X.n_instances, 3)
        assert model.decision_function(X).shape == (30, 3)
        if not isinstance(model, RegSVM | MILEAGE):  # which score bags themselves
            np.testing.assert_allclose(
                model.decision_function(X), segment_max(scores.values, X.offsets)
            )


def test_a_kernel_beyond_the_budget_is_refused_by_name(monkeypatch):
    X, y = _bags()
    monkeypatch.setenv("BAGWISE_MEMORY", "10KB")
    for model in FAMILY:
        with pytest.raises(ValueError, match="n_components"):
            _fresh(model).fit(X, y)
    MISVM(kernel="linear").fit(X, y)  # needs no kernel matrix


def test_the_cap_warns():
    X, y = _bags(9)
    with pytest.warns(ConvergenceWarning, match="MissSVM"):
        MissSVM(5.0, gamma=0.3, max_iter=1).fit(X, y)


def test_kernel_names_are_listed():
    X, y = _bags()
    with pytest.raises(ValueError, match=r"laplacian.*linear.*poly.*rbf|'rbf'"):
        MISVM(kernel="cosine").fit(X, y)


def test_refit_with_another_kernel_forgets_the_first():
    X, y = _bags()
    model = MISVM(gamma=0.3).fit(X, y)
    model.set_params(kernel="linear").fit(X, y)
    fresh = MISVM(kernel="linear").fit(X, y)
    assert not hasattr(model, "support_vectors_")
    np.testing.assert_array_equal(
        model.decision_function(X), fresh.decision_function(X)
    )


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (MISVM(10.0, slack="bag", init="input_mean"), 97.849),
        (MISVM(10.0, slack="instance", init="feature_mean"), 91.240),
        (MICA(10.0), 91.240),
        (MISVM(10.0, slack="instance", init="input_mean"), 97.77),
        (MiSVM(10.0), 288.371),
        (SBMIL(10.0, eta=0.3), 223.608),
    ],
    ids=_name,
)
def test_optimal_values_on_musk1(benchmark, model, value):
    """Values on which an independent solver agrees, for z-scored features."""
    loaded = benchmark("musk1")
    X, y = loaded.X, loaded.y
    data = (X.data - X.data.mean(axis=0)) / X.data.std(axis=0)
    model = _fresh(model, gamma="auto").fit(X.with_data(data), y)
    assert model.objective_ == pytest.approx(value, rel=1e-4)


@pytest.mark.filterwarnings("ignore:the optimum is constant")
def test_a_constant_machine_does_not_rank():
    """Many negative instances make f = -1 the optimum of the ranking problem."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((2400, 5))
    y = np.arange(100) % 2
    data[np.flatnonzero(np.repeat(y, 24))[::6], 0] += 8.0
    X = Bags(data, np.arange(0, 2401, 24))
    ranking = SMIL(10.0, scale_C=False, kernel="linear").fit(X, y)
    assert np.ptp(ranking.instance_scores(X).values) < 1e-5
    model = SBMIL(10.0, eta=1 / 6, kernel="linear").fit(X, y)
    np.testing.assert_array_equal(model.instance_labels_ > 0, data[:, 0] > 4.0)
    np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize("cls", [MISVM, MiSVM, SMIL])
def test_a_constant_answer_is_not_silent(cls):
    rows = np.ones((12, 2))
    X = Bags(rows, np.arange(0, 13, 3))
    with pytest.warns(UserWarning, match="the optimum is constant"):
        cls(gamma=1.0).fit(X, [0, 1, 0, 1])


def test_zero_is_not_the_cut_of_sparse_machines():
    """All instances at 2 / n - 1 have no loss; a tuned threshold separates the bags."""
    y = np.arange(20) % 2
    X = Bags(np.repeat(y, 4)[:, None].astype(float), np.arange(0, 81, 4))
    model = SMIL(1e4, kernel="linear", tol=1e-8, threshold="zero").fit(X, y)
    # No loss needs b <= -1 and w + b >= 2 / 4 - 1; the smallest such w is 1/2.
    np.testing.assert_allclose([model.coef_.item(), model.intercept_], [0.5, -1.0])
    assert not model.predict(X).any()
    tuned = TunedThresholdClassifierCV(model, scoring="accuracy").fit(X, y)
    np.testing.assert_array_equal(tuned.predict(X), y)
    assert -1.0 < tuned.best_threshold_ <= -0.5 + 1e-6
    default = SMIL(1e4, kernel="linear", tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(default.predict(X), y)
    assert -1.0 < default.threshold_ < -0.5
