"""PC-SVM: equality with MI-SVM, feasible descent, both solvers, the estimator."""

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from bagwise import Bags
from bagwise.bags.segments import segment_max, segment_sum
from bagwise.base import bag_folds
from bagwise.compose import OnInstances
from bagwise.kernels.instance import instance_kernel
from bagwise.svm import MISVM, PCSVM, _pcsvm
from bagwise.svm import _pcsvm_steps as _steps


def _toy(seed, n_bags=14, n_features=3, sizes=(2, 5)):
    """Bags with one shifted instance in each positive bag."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    sizes = rng.integers(*sizes, n_bags)
    X = Bags.from_list([rng.standard_normal((n, n_features)) for n in sizes])
    data = X.data.copy()
    data[X.offsets[:-1][y == 1], 0] += 2.5
    return X.with_data(data), y


def _norm(model):
    """|f| of a fitted model, from its expansion."""
    if model.kernel == "linear":
        return np.linalg.norm(model.coef_)
    K = instance_kernel(model.support_vectors_, kernel=model.kernel, gamma=model.gamma_)
    return np.sqrt(model.dual_coef_ @ K @ model.dual_coef_)


def _objective(model, X, y):
    """Value of the problem from what the estimator returns, bias penalty included."""
    scores = model.instance_scores(X)
    best = segment_max(scores.values, X.offsets)
    slack = np.where(
        y == 1,
        np.maximum(0.0, 1.0 - best),
        segment_sum(np.maximum(0.0, 1.0 + scores.values), X.offsets),
    )
    penalty = 0.0
    if 0 < model.intercept < np.inf:
        penalty = 0.5 * model.intercept_**2 / model.intercept
    return 0.5 * _norm(model) ** 2 + penalty + model.C * slack.sum()


def _residuals(model, X, y, K):
    """J_i / n_i of the positive bags: o_i from the kernel, less the variance."""
    spread = []
    for i in np.flatnonzero(y == 1):
        block = slice(X.offsets[i], X.offsets[i + 1])
        Ki = K[block, block]
        n = len(Ki)
        spread.append((np.trace(Ki) - Ki.sum() / n) / n - model.projection_variance_[i])
    return np.array(spread)


# ----------------------------------------------------------------- equality with MI-SVM


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_rho_zero_and_large_delta_are_mi_svm(kernel):
    X, y = _toy(0)
    base = PCSVM(C=3.0, rho=0.0, kernel=kernel).fit(X, y)
    assert base.delta_ == base.delta_max_
    for delta in (base.delta_max_, 2.0 * base.delta_max_):
        model = PCSVM(C=3.0, delta=delta, kernel=kernel).fit(X, y)
        np.testing.assert_array_equal(
            model.decision_function(X), base.decision_function(X)
        )
        assert len(model.active_constraints_) == 0


@pytest.mark.parametrize("intercept", [0.0, 1.0, 10.0])
def test_rho_zero_is_optimal_for_its_witnesses(clarabel_rows, intercept):
    X, y = _toy(1)
    model = PCSVM(C=2.0, rho=0.0, kernel="linear", intercept=intercept, tol=1e-7)
    model.fit(X, y)
    rows = np.r_[np.flatnonzero(y[X.bag_index] == 0), model.witnesses_]
    sign = np.where(y[X.bag_index[rows]] == 1, 1.0, -1.0)
    value, w, b = clarabel_rows(
        sign[:, None] * X.data[rows],
        sign,
        1.0,
        np.full(len(rows), 2.0),
        bias_scale=intercept,
    )
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.coef_, w, atol=1e-4)
    if intercept:
        assert model.intercept_ == pytest.approx(b, abs=1e-4)
    scores = X.data @ model.coef_ + model.intercept_
    for i, witness in zip(np.flatnonzero(y == 1), model.witnesses_, strict=True):
        block = slice(X.offsets[i], X.offsets[i + 1])
        assert scores[witness] == scores[block].max()


def test_weak_constraints_that_hold_leave_mi_svm_alone():
    X, y = _toy(0)
    base = PCSVM(C=3.0, rho=0.0).fit(X, y)
    K = instance_kernel(X.data, gamma=base.gamma_)
    needed = _residuals(base, X, y, K).max()
    assert needed < base.delta_max_
    model = PCSVM(C=3.0, delta=needed * (1 + 1e-6)).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), base.decision_function(X))


# ------------------------------------------------------------- feasible, non-increasing


@pytest.mark.filterwarnings("ignore:PCSVM did not converge")  # thin sets, short steps
def test_every_point_is_feasible_and_no_step_rises(monkeypatch):
    """Many random problems, with tight convex steps."""
    visited = []
    step = _steps.ConstrainedSVM._feasible_step

    def watched(self, constraints, old):
        new = step(self, constraints, old)
        visited.append((constraints, old, new))
        return new

    monkeypatch.setattr(_steps.ConstrainedSVM, "_feasible_step", watched)
    n_bound = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, y = _toy(seed, n_features=int(rng.integers(1, 5)))
        visited.clear()
        model = PCSVM(
            C=10 ** rng.uniform(-1, 2),
            rho=rng.uniform(0.2, 0.9),
            gamma=10 ** rng.uniform(-1, 0.5),
            intercept=[0.0, 1.0][seed % 2],
            tol=1e-6,
            max_iter=300,
        ).fit(X, y)
        path = model.objective_path_
        assert (np.diff(path) <= 0).all()
        for constraints, old, new in visited:
            spread = constraints.spread
            for point in (old, new):
                worst = spread.residual(point.w).max()
                assert worst <= model.delta_ * (1 + 1e-7)
            assert new.objective <= old.objective * (1 + 1e-8)
        n_bound += len(visited) > 0
    assert n_bound > 100


@pytest.mark.parametrize("seed", range(4))
def test_attributes_say_what_the_model_does(seed):
    X, y = _toy(seed)
    model = PCSVM(C=10.0, rho=0.6, tol=1e-6, max_iter=300, threshold="zero").fit(X, y)
    K = instance_kernel(X.data, gamma=model.gamma_)
    scores = model.instance_scores(X)
    variance = np.array([part.var() for part in scores.to_list()]) / _norm(model) ** 2
    np.testing.assert_allclose(
        model.projection_variance_,
        variance,
        rtol=1e-5,
        atol=1e-15,  # bags of one instance have none, but for the test's own rounding
    )
    assert model.objective_ == pytest.approx(_objective(model, X, y), rel=1e-6)
    assert model.objective_ == model.objective_path_[-1]
    assert len(model.objective_path_) <= model.n_iter_
    residual = _residuals(model, X, y, K)
    assert residual.max() <= model.delta_ * (1 + 1e-6)
    # A positive multiplier goes with equality, up to the end of the alternation.
    positive = np.flatnonzero(y == 1)
    active = np.isin(positive, model.active_constraints_)
    assert active.any()
    np.testing.assert_allclose(residual[active], model.delta_, rtol=2e-3)
    np.testing.assert_array_equal(
        model.witnesses_, (X.offsets[:-1] + model.key_instances(X))[y == 1]
    )
    assert 0 <= model.duality_gap_ + 1e-9 <= 1e-3 * model.objective_


def test_more_rho_means_more_variance_along_the_normal():
    X, y = _toy(3)
    least = []
    for rho in (0.0, 0.4, 0.8):
        model = PCSVM(C=10.0, rho=rho).fit(X, y)
        K = instance_kernel(X.data, gamma=model.gamma_)
        least.append(_residuals(model, X, y, K).max())
    assert least[0] > least[1] > least[2]


def test_a_step_that_cannot_be_solved_is_dropped_with_a_warning(monkeypatch):
    X, y = _toy(0)
    monkeypatch.setattr(_steps, "_MOST_ROWS", 0)  # as with many rows
    solve = _steps.coordinate_ascent
    calls = []

    def poor(*args, balls=None, **options):
        solved = solve(*args, balls=balls, **options)
        if balls is not None:
            calls.append(options["tol"])
            if len(calls) > 1:
                solved.w = 3.0 * solved.w
        return solved

    monkeypatch.setattr(_steps, "coordinate_ascent", poor)
    with pytest.warns(ConvergenceWarning, match="raised the objective"):
        model = PCSVM(C=10.0, rho=0.8, threshold="zero").fit(X, y)
    assert calls[1:] == pytest.approx([1e-3, 1e-4, 1e-5, 1e-6])
    assert len(model.objective_path_) == 1
    assert model.objective_ == pytest.approx(_objective(model, X, y), rel=1e-6)


# ------------------------------------------------------------------------- two solvers


@pytest.mark.parametrize(
    ("rho", "slack"), [(0.3, "instance"), (0.7, "instance"), (0.5, "bag")]
)
def test_equals_an_alternation_with_a_conic_solver(
    monkeypatch, clarabel_rows, rho, slack
):
    X, y = _toy(2)
    options = {"C": 5.0, "rho": rho, "slack": slack, "tol": 1e-7, "max_iter": 300}
    ours = PCSVM(**options).fit(X, y)

    def conic_step(self, Z, index, balls=None, tol=None):
        _, w, b = clarabel_rows(
            self.sign[:, None] * Z[index],
            self.sign,
            1.0,
            self.cap,
            self.group,
            balls=balls,
            bias_scale=self.intercept,
        )
        none = np.zeros(0)
        return _steps.DualSolution(w, b, none, none, 1, 0.0, True, 0.0, 0.0)

    solver = _steps.ConstrainedSVM
    monkeypatch.setattr(solver, "convex_step", conic_step)
    theirs = PCSVM(**options).fit(X, y)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-5)
    np.testing.assert_array_equal(ours.witnesses_, theirs.witnesses_)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), atol=1e-3
    )


def test_a_convex_step_stopped_at_its_cap_is_said(monkeypatch):
    X, y = _toy(0)
    monkeypatch.setattr(_steps, "_MOST_ROWS", 0)  # as with many rows
    solve = _steps.coordinate_ascent

    def short(*args, **options):
        return solve(*args, **{**options, "max_passes": 1})

    monkeypatch.setattr(_steps, "coordinate_ascent", short)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        PCSVM(C=100.0, rho=0.8).fit(X, y)


# ---------------------------------------------------------------------------- estimator


def test_infeasible_delta_names_the_range():
    X, y = _toy(0)
    model = PCSVM().fit(X, y)
    between = 0.5 * (model.delta_lower_bound_ + model.delta_min_)
    assert model.delta_lower_bound_ < between < model.delta_min_
    text = f"{model.delta_min_:.6g} to {model.delta_max_:.6g}"
    with pytest.raises(ValueError, match=f"infeasible: no direction was found.*{text}"):
        PCSVM(delta=between).fit(X, y)
    with pytest.raises(ValueError, match=r"none exists"):
        PCSVM(delta=0.5 * model.delta_lower_bound_).fit(X, y)
    at_the_edge = PCSVM(delta=model.delta_min_).fit(X, y)
    K = instance_kernel(X.data, gamma=model.gamma_)
    assert _residuals(at_the_edge, X, y, K).max() <= model.delta_min_ * (1 + 1e-6)


@pytest.mark.parametrize("equal", [False, True])
def test_void_constraints_are_said_and_give_mi_svm(equal):
    rng = np.random.default_rng(0)
    y = np.arange(12) % 2
    bags = [rng.standard_normal((1 if k else 3, 2)) + 2.0 * k for k in y]
    if equal:
        bags = [
            np.repeat(b, 2, axis=0) if k else b for b, k in zip(bags, y, strict=True)
        ]
    with pytest.warns(UserWarning, match="every positive bag has a single instance"):
        model = PCSVM().fit(bags, y)
    base = PCSVM(rho=0.0).fit(bags, y)  # asks for no constraint: nothing to say
    np.testing.assert_array_equal(
        model.decision_function(bags), base.decision_function(bags)
    )
    assert model.delta_max_ == 0.0


def test_some_singletons_are_left_out():
    X, y = _toy(0)
    bags = [b[:1] if i in (1, 5) else b for i, b in enumerate(X)]
    model = PCSVM(rho=0.5, C=10.0).fit(bags, y)
    assert not set(model.active_constraints_) & {1, 5}
    np.testing.assert_allclose(model.projection_variance_[[1, 5]], 0.0, atol=1e-12)


def test_memory_serves_a_grid(tmp_path, monkeypatch):
    X, y = _toy(0, n_bags=20)
    calls = {"basis": 0, "range": 0}

    def counted(name, function):
        def call(*args, **options):
            calls[name] += 1
            return function(*args, **options)

        return call

    monkeypatch.setattr(_pcsvm, "fit_basis", counted("basis", _pcsvm.fit_basis))
    monkeypatch.setattr(_pcsvm, "delta_range", counted("range", _pcsvm.delta_range))
    model = PCSVM(memory=joblib.Memory(tmp_path, verbose=0), gamma=0.5)
    grid = {"C": [0.1, 1.0, 10.0], "rho": [0.1, 0.5]}
    folds = StratifiedKFold(2)
    search = GridSearchCV(model, grid, cv=folds, error_score="raise").fit(X, y)
    assert calls == {"basis": 3, "range": 3}  # two folds, and all bags
    plain = GridSearchCV(PCSVM(gamma=0.5), grid, cv=folds).fit(X, y)
    assert calls == {"basis": 16, "range": 16}
    assert search.best_params_ == plain.best_params_
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )


def test_several_classes_share_the_basis(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(18) % 3
    bags = [rng.standard_normal((4, 2)) for _ in y]
    for bag, k in zip(bags, y, strict=True):
        bag[0] += 4.0 * np.array([np.cos(2 * k), np.sin(2 * k)])
    made = []
    make = _pcsvm._make_basis
    monkeypatch.setattr(_pcsvm, "_make_basis", lambda *a: made.append(1) or make(*a))
    model = PCSVM(C=10.0, rho=0.3).fit(bags, y)
    assert len(made) == 1
    assert model.decision_function(bags).shape == (18, 3)
    assert model.score(bags, y) > 0.9
    for k, one in enumerate(model.estimators_):
        alone = PCSVM(C=10.0, rho=0.3).fit(bags, (y == k).astype(int))
        np.testing.assert_array_equal(
            one.decision_function(bags), alone.decision_function(bags)
        )
        assert not hasattr(one, "_basis")
    assert not hasattr(model, "_basis")


@pytest.mark.parametrize("wide", [False, True])
def test_sparse_linear_equals_dense(wide):
    X, y = _toy(4)
    data = X.data * (np.abs(X.data) > 0.3)
    if wide:
        data = np.hstack([data, np.zeros((len(data), 100))])
    options = {"C": 2.0, "rho": 0.5, "kernel": "linear", "tol": 1e-7, "max_iter": 300}
    dense = PCSVM(**options).fit(X.with_data(data), y)
    sparse_bags = X.with_data(sp.csr_array(data))
    sparse = PCSVM(**options).fit(sparse_bags, y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-5)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-3)
    np.testing.assert_allclose(
        sparse.decision_function(sparse_bags),
        dense.decision_function(X.with_data(data)),
        atol=1e-3,
    )
    assert len(sparse.active_constraints_) > 0


def test_n_components_of_full_rank_is_exact_and_fewer_works():
    X, y = _toy(0)
    options = {"C": 5.0, "rho": 0.5, "tol": 1e-7, "random_state": 0, "max_iter": 300}
    exact = PCSVM(**options).fit(X, y)
    # One landmark is left out, far below the tolerance of the comparison.
    double = Bags.concatenate([X, X[:1]])
    labels = np.r_[y, y[:1]]
    whole = PCSVM(**options).fit(double, labels)
    full = PCSVM(n_components=double.n_instances - 1, **options).fit(double, labels)
    assert full.objective_ == pytest.approx(whole.objective_, rel=1e-3)
    few = PCSVM(n_components=8, **options).fit(X, y)
    assert few.support_vectors_.shape[0] == 8
    assert few.objective_ >= exact.objective_ * 0.9
    assert few.score(X, y) > 0.7


@pytest.mark.parametrize("gamma", [0.4, "scale"])
def test_weights_are_repeats(gamma):
    X, y = _toy(5)
    options = {"C": 1.0, "rho": 0.3, "gamma": gamma, "tol": 1e-7, "max_iter": 300}
    weight = np.ones(len(y))
    weight[[0, 3, 6]] = 2.0
    weighted = PCSVM(**options).fit(X, y, sample_weight=weight)
    again = np.r_[np.arange(len(y)), 0, 3, 6]
    repeated = PCSVM(**options).fit(X[again], y[again])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-5)
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-3
    )


# ------------------------------------------------------------------------- real folds


@pytest.mark.parametrize("slack", ["bag", "instance"])
@pytest.mark.parametrize("name", ["musk1", "elephant"])
def test_without_pressure_it_is_mi_svm(benchmark, name, slack):
    """From the same start, with a bias that is nearly free."""
    data = benchmark(name)
    train, test = bag_folds(data.X, data.y, 10, random_state=0)[0]
    scaler = OnInstances().fit(data.X[train])
    known, new = scaler.transform(data.X[train]), scaler.transform(data.X[test])
    options = {"C": 1.0, "slack": slack, "threshold": "zero"}
    base = MISVM(init="feature_mean", **options).fit(known, data.y[train])
    ours = PCSVM(rho=0.0, intercept=100.0, **options).fit(known, data.y[train])
    assert ours.objective_ == pytest.approx(base.objective_, rel=1e-3)
    np.testing.assert_allclose(
        ours.decision_function(new), base.decision_function(new), atol=5e-3
    )


def test_range_and_objective_on_musk1(benchmark):
    """Numbers that other solvers agree with; all instances standardized."""
    data = benchmark("musk1")
    rows = np.asarray(data.X.data, dtype=float)
    X = data.X.with_data((rows - rows.mean(axis=0)) / rows.std(axis=0))
    y = np.asarray(data.y)
    model = PCSVM(C=10.0, rho=0.0, gamma=1 / 166, intercept=1e5, tol=1e-5).fit(X, y)
    assert model.delta_lower_bound_ == pytest.approx(0.450, abs=5e-4)
    assert model.delta_min_ <= 0.5605
    assert model.delta_max_ == pytest.approx(0.707, abs=5e-4)
    assert model.objective_ == pytest.approx(91.240, abs=1e-3)


def test_an_exact_kernel_of_many_instances_is_refused_before_any_work(monkeypatch):
    X, y = _toy(0)
    monkeypatch.setattr(_pcsvm, "_EXACT_LIMIT", X.n_instances - 1)
    with pytest.raises(ValueError, match="n_components=300"):
        PCSVM().fit(X, y)
    PCSVM(n_components=10, random_state=0).fit(X, y)
    PCSVM(kernel="linear").fit(X, y)
