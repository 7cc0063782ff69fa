"""Regressors of bags: exact properties, against Ridge, brute force and clean folds."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor, StackingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from bagwise import BagRegressor, Bags
from bagwise.compose import SimpleMIRegressor, WrapperMIRegressor
from bagwise.datasets import load_digit_bags, make_regression_bags
from bagwise.ensemble import _plan as plan_module
from bagwise.ensemble._combine import shrinkage, stack_values
from bagwise.ensemble._stack import Member
from bagwise.io import load, save
from bagwise.kernels import distribution_kernel, emd_distances, hausdorff
from bagwise.kernels.registry import BAG_KERNELS
from bagwise.least_squares import BagKernelRidge
from bagwise.linear_model import MILinearRegression
from bagwise.neighbors import BagKNeighborsRegressor
from bagwise.svm import BagSVR

LINEAR = {"kernel": "linear", "normalization": "average"}
ALL = [
    SimpleMIRegressor(),
    WrapperMIRegressor(),
    WrapperMIRegressor(pooling="trimmed"),
    MILinearRegression("mean"),
    BagKernelRidge(),
    BagKernelRidge("distribution"),
    BagSVR(),
    BagKNeighborsRegressor(2),
    BagKNeighborsRegressor(2, metric="emd", weights="distance"),
]


@pytest.fixture
def toy():
    return make_regression_bags(30, n_features=3, random_state=0)


def singles(seed=0, n=20, d=3):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    return rows, Bags(rows, np.arange(n + 1)), rows @ np.arange(1.0, d + 1) + 5.0


@pytest.mark.parametrize("pooling", ["mean", "max", "min", "softmax", "prime"])
def test_bags_of_one_are_ridge_regression(pooling):
    rows, X, y = singles()
    model = MILinearRegression(pooling, C=2.0, random_state=0).fit(X, y)
    expected = Ridge(alpha=len(y) / 4.0).fit(rows, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(rows), atol=1e-6)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


def test_bags_of_one_are_scikit_learns_machines():
    rows, X, y = singles()
    simple = SimpleMIRegressor(Ridge()).fit(X, y).predict(X)
    np.testing.assert_allclose(simple, Ridge().fit(rows, y).predict(rows))
    machine = BagKernelRidge(alpha=0.7, kernel_params=LINEAR, fit_intercept=False).fit(
        X, y
    )
    expected = KernelRidge(alpha=0.7).fit(rows, y).predict(rows)
    np.testing.assert_allclose(machine.predict(X), expected)
    machine = BagKernelRidge(alpha=0.7, kernel_params=LINEAR).fit(X, y)
    expected = Ridge(alpha=0.7).fit(rows, y).predict(rows)
    np.testing.assert_allclose(machine.predict(X), expected)
    z = (y - y.mean()) / y.std()
    expected = SVR(C=3.0, gamma=0.5, tol=1e-6).fit(rows, z).predict(rows)
    machine = BagSVR(C=3.0, gamma=0.5, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(
        machine.predict(X), expected * y.std() + y.mean(), atol=1e-4
    )


@pytest.mark.parametrize("model", ALL, ids=str)
def test_shifting_and_scaling_y(model, toy):
    X, y = toy
    plain = model.fit(X, y).predict(X)
    moved = model.fit(X, y + 100.0).predict(X)
    np.testing.assert_allclose(moved, plain + 100.0, atol=1e-3)
    scaled = model.fit(X, 10.0 * y).predict(X)
    np.testing.assert_allclose(scaled, 10.0 * plain, atol=1e-2)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leave_one_out_against_brute_force(fit_intercept, toy):
    X, y = toy
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    # A width that does not depend on which bags are there.
    options = {"gamma": 0.3, "fit_intercept": fit_intercept}
    alphas = [0.01, 0.1, 1.0]
    model = BagKernelRidge(alphas=alphas, **options).fit(X, y, sample_weight=weight)
    scores = []
    for alpha in alphas:
        errors = np.empty(len(y))
        for i in range(len(y)):
            rest = np.delete(np.arange(len(y)), i)
            one = BagKernelRidge(alpha=alpha, **options)
            one.fit(X[rest], y[rest], sample_weight=weight[rest])
            errors[i] = one.predict(X[i : i + 1])[0] - y[i]
        scores.append(np.average(errors**2, weights=weight))
        if alpha == model.alpha_:
            np.testing.assert_allclose(model.loo_errors_, errors, atol=1e-8)
    np.testing.assert_allclose(model.loo_scores_, scores, rtol=1e-7)
    assert model.alpha_ == alphas[int(np.argmin(scores))]


def test_several_outputs_share_a_kernel(toy):
    X, y = toy
    both = np.column_stack([y, -2.0 * y])
    model = BagKernelRidge(alpha=0.1).fit(X, both)
    one = BagKernelRidge(alpha=0.1).fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X), np.column_stack([one, -2.0 * one]))


def brute_force_max(X, y, C):
    """Smallest objective over all choices of one instance per bag, each polished."""
    best = np.inf
    for choice in itertools.product(*[range(n) for n in X.sizes]):
        rows = np.array([bag[j] for bag, j in zip(X, choice, strict=True)])
        ridge = Ridge(alpha=0.5 * len(y) / C).fit(rows, y)
        values = [np.max(bag @ ridge.coef_) + ridge.intercept_ for bag in X]
        error = np.mean((np.array(values) - y) ** 2)
        best = min(best, error + 0.5 * ridge.coef_ @ ridge.coef_ / C)
    return best


def test_max_pooling_finds_the_best_choice():
    X, y = make_regression_bags(6, n_features=2, bag_size=(2, 3), random_state=3)
    model = MILinearRegression("max", C=10.0, n_init=20, random_state=0).fit(X, y)
    assert model.objective_ <= brute_force_max(X, y, 10.0) + 1e-9
    values = [np.max(bag @ model.coef_) + model.intercept_ for bag in X]
    np.testing.assert_allclose(model.predict(X), values)
    error = np.mean((np.array(values) - y) ** 2)
    assert model.objective_ == pytest.approx(error + model.coef_ @ model.coef_ / 20.0)


@pytest.mark.parametrize("pooling", ["max", "min", "softmax", "prime"])
def test_the_objective_never_rises(pooling, toy):
    X, y = toy
    model = MILinearRegression(pooling, random_state=0).fit(X, y)
    assert (np.diff(model.objective_path_) <= 0).all()
    assert model.objective_path_[0] > model.objective_


def test_the_softmax_step_is_its_linearization(toy):
    # Towards the step's solution the objective falls, unless it is a minimum.
    from bagwise.linear_model._mi_linear_regression import PooledRegression

    X, y = toy
    settings = MILinearRegression("softmax", C=5.0)
    problem = PooledRegression(X, y, np.ones(len(y)), settings)
    rng = np.random.default_rng(0)
    for _ in range(5):
        w, b = rng.normal(size=3), rng.normal()
        new_w, new_b = problem.step(w, b)
        small = 1e-4
        moved = problem.objective(w + small * (new_w - w), b + small * (new_b - b))
        assert moved < problem.objective(w, b)


def test_duplicates(toy):
    X, y = toy
    doubled = Bags(np.repeat(X.data, 2, axis=0), 2 * X.offsets)
    for pooling in ("mean", "max", "softmax"):
        one = MILinearRegression(pooling, random_state=0).fit(X, y)
        two = MILinearRegression(pooling, random_state=0).fit(doubled, y)
        np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-4)
    # A single copy changes nothing under the maximum.
    key = MILinearRegression("max", random_state=0).fit(X, y)
    again = Bags.from_list([np.vstack([bag, bag[:1]]) for bag in X])
    np.testing.assert_array_equal(key.predict(again), key.predict(X))


def test_poolings_of_the_wrapper(toy):
    X, y = toy
    scores = WrapperMIRegressor().fit(X, y).instance_scores(X)
    for pooling, rule in {
        "mean": np.mean,
        "median": np.median,
        "trimmed": lambda v: np.sort(v)[
            int(0.2 * len(v)) : len(v) - int(0.2 * len(v))
        ].mean(),
    }.items():
        model = WrapperMIRegressor(pooling=pooling).fit(X, y)
        np.testing.assert_allclose(model.predict(X), [rule(s) for s in scores])


def test_neighbours_against_distances(toy):
    X, y = toy
    for metric in ("mean", "emd"):
        D = hausdorff(X, mode="mean") if metric == "mean" else emd_distances(X)
        near = np.argsort(D, axis=1)[:, :3]
        model = BagKNeighborsRegressor(3, metric=metric).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y[near].mean(axis=1))
    model = BagKNeighborsRegressor(3, metric="emd", weights="distance").fit(X, y)
    np.testing.assert_allclose(model.predict(X), y)  # each is its own nearest


def test_distribution_kernel_against_its_formula(toy):
    X, _ = toy
    X = X[:6]
    D = np.empty((6, 6))
    for i, a in enumerate(X):
        for j, b in enumerate(X):
            D[i, j] = (
                rbf_kernel(a, a, 0.2).mean()
                + rbf_kernel(b, b, 0.2).mean()
                - 2 * rbf_kernel(a, b, 0.2).mean()
            )
    K = distribution_kernel(X, gamma=0.2, outer_gamma=3.0)
    np.testing.assert_allclose(K, np.exp(-3.0 * D), atol=1e-10)
    width = 1.0 / D[~np.eye(6, dtype=bool)].mean()
    K = distribution_kernel(X, gamma=0.2)
    np.testing.assert_allclose(K, np.exp(-width * D), atol=1e-8)
    part = distribution_kernel(X[:2], X, gamma=0.2)
    np.testing.assert_allclose(part, K[:2], atol=1e-8)
    assert np.linalg.eigvalsh(K).min() > -1e-10
    assert BAG_KERNELS["distribution"] is distribution_kernel


@pytest.mark.parametrize("model", ALL, ids=str)
def test_composition(model, toy):
    X, y = toy
    outer = TransformedTargetRegressor(model, transformer=StandardScaler())
    assert cross_val_predict(outer, X, y, cv=3).shape == y.shape
    search = GridSearchCV(StackingRegressor([("m", model)], Ridge(), cv=2), {}, cv=2)
    assert np.isfinite(search.fit(X, y).best_score_)
    scores = model.fit(X, y).instance_scores(X)
    assert scores.values.shape == (X.n_instances,)
    assert model.key_instances(X).shape == y.shape


def test_bad_targets(toy):
    X, y = toy
    holes = y.copy()
    holes[3] = np.nan
    with pytest.raises(ValueError, match="position 3"):
        SimpleMIRegressor().fit(X, holes)
    with pytest.raises(ValueError, match="alphas must be"):
        BagKernelRidge(alphas=[0.0, 1.0]).fit(X, y)
    constant = np.full(len(y), 7.0)
    for model in (*ALL, BagRegressor([("a", SimpleMIRegressor())])):
        np.testing.assert_allclose(model.fit(X, constant).predict(X), 7.0, atol=1e-6)


def test_sparse_rows_stay_sparse(toy):
    X, y = toy
    rows = X.with_data(sp.csr_array(X.data))
    for model in (MILinearRegression("max", random_state=0), BagKernelRidge()):
        dense = model.fit(X, y).predict(X)
        np.testing.assert_allclose(model.fit(rows, y).predict(rows), dense, atol=1e-4)


# The stack --------------------------------------------------------------------------


def test_stack_is_never_much_worse_than_its_best_member():
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    parts = np.column_stack([y + rng.normal(size=50), 0.1 * y, rng.normal(size=50)])
    weight = rng.uniform(0.5, 2.0, size=50)
    coef, constant = stack_values(parts, y, weight)
    assert (coef >= 0).all()
    share = weight / weight.sum()
    value = share @ (parts @ coef + constant - y) ** 2 + 0.01 * coef @ coef
    for k in range(3):  # the member alone, as it is, is among the candidates
        alone = share @ (parts[:, k] - y) ** 2 + 0.01
        assert value <= alone + 1e-12
    # No feasible step lowers it: the conditions of Karush, Kuhn and Tucker.
    error = parts @ coef + constant - y
    slope = 2 * parts.T @ (share * error) + 0.02 * coef
    assert abs(share @ error) < 1e-12
    assert (slope >= -1e-9).all()
    assert np.abs(slope[coef > 0]).max() < 1e-9


@pytest.fixture(scope="module")
def stack():
    X, y = make_regression_bags(60, n_features=4, random_state=1)
    return X, y, BagRegressor(random_state=0, cv=3).fit(X[:40], y[:40])


def test_stack_predicts_and_explains(stack):
    X, y, model = stack
    assert model.score(X[40:], y[40:]) > 0.8
    parts = model.member_contributions(X)
    np.testing.assert_allclose(
        parts.sum(axis=1) + model.intercept_, model.predict(X), atol=1e-12
    )
    assert parts.shape[1] == len(model.members_) == 10
    values = model.instance_scores(X).values
    assert values.shape == (X.n_instances,)
    assert abs(values.mean() - y.mean()) < 3 * y.std()
    assert np.corrcoef(values, X.data @ np.linalg.lstsq(X.data, values)[0])[0, 1] > 0


def test_several_targets_are_stacks_of_their_own(tmp_path):
    X, y = make_regression_bags(30, n_features=3, random_state=4)
    Y = np.column_stack([y, 100.0 + 3.0 * np.random.default_rng(5).permutation(y)])
    weight = 1.0 + np.arange(30) % 3
    model = BagRegressor(random_state=0, cv=2).fit(X, Y, weight)
    several = model.predict(X), model.instance_scores(X).values
    parts = model.member_contributions(X)
    assert several[0].shape == (30, 2)
    assert several[1].shape == (X.n_instances, 2)
    assert model.oof_predictions_.shape == parts.shape == (30, 10, 2)
    np.testing.assert_allclose(
        parts.sum(axis=1) + model.intercept_, several[0], atol=1e-10
    )
    for k, column in enumerate(Y.T):
        one = clone(model).fit(X, column, weight)
        for found, alone in zip(
            several, (one.predict(X), one.instance_scores(X).values), strict=True
        ):
            np.testing.assert_allclose(found[:, k], alone, rtol=1e-9, atol=1e-9)
        assert model.shrinkage_[k] == pytest.approx(one.shrinkage_)
        for name, own in one.member_weights_.items():
            assert model.member_weights_[name][k] == pytest.approx(own)
    save(model, tmp_path / "model.bagwise")
    again = load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.predict(X), several[0])


def test_useless_members_leave_the_mean():
    rng = np.random.default_rng(0)
    y, noise = rng.normal(size=60), rng.normal(size=(60, 3))
    weight, folds = np.ones(60), list(KFold(5).split(y))
    useful = np.column_stack([y + rng.normal(size=60), noise[:, 0]])
    assert shrinkage(useful, y, weight, folds) == 1.0
    # The same evidence from few groups may be chance.
    assert shrinkage(useful, y, weight, folds, np.arange(60) // 20) < 1.0
    # The slope of y on the stack of the other folds, or zero.
    found = []
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=(60, 3))
        stack = np.empty(60)
        for train, test in folds:
            coef, _ = stack_values(noise[train], y[train], np.ones(48))
            stack[test] = (noise[test] - noise[train].mean(axis=0)) @ coef
        slope = stack @ (y - y.mean()) / max(stack @ stack, 1e-300)
        found.append(shrinkage(noise, y, weight, folds))
        assert found[-1] == 1.0 or found[-1] == pytest.approx(np.clip(slope, 0, 1))
    assert np.mean(found) < 0.4


def test_a_stack_that_learns_nothing_predicts_the_mean():
    X, y = make_regression_bags(40, n_features=3, random_state=2)
    y = np.random.default_rng(1).permutation(y)
    members = [("wrapper", WrapperMIRegressor()), ("mean", SimpleMIRegressor())]
    model = BagRegressor(members, random_state=0).fit(X, y)
    assert model.shrinkage_ == 0.0
    np.testing.assert_allclose(model.predict(X), y.mean())
    assert np.ptp(model.instance_scores(X).values) > 0  # their order is still shown


def test_stack_keeps_groups_together_and_takes_gaps():
    X, y = make_regression_bags(24, n_features=3, random_state=2)
    data = X.data.copy()
    data[::4, 0] = np.nan
    groups = np.arange(24) // 4
    bags = Bags(data, X.offsets, groups=groups)
    members = [("one", Neighbor())]
    model = BagRegressor(members, cv=3).fit(bags.with_data(X.data), y)
    assert np.ptp(model.oof_predictions_) == 0  # no member met a bag of its group
    full = BagRegressor(random_state=0, cv=2).fit(bags, y)
    assert np.isfinite(full.predict(bags)).all()


class Neighbor(SimpleMIRegressor):
    """Predicts 1 when it has seen another bag of the group."""

    def _fit_bags(self, X, y, weight):
        self.seen_ = set(X.groups)

    def _predict_bags(self, X):
        return np.array([float(g in self.seen_) for g in X.groups])


def test_time_budget_of_the_stack():
    X, y = make_regression_bags(20, n_features=3, random_state=2)
    with pytest.warns(UserWarning, match="BagRegressor excludes"):
        model = BagRegressor(random_state=0, cv=2, time_budget=0.3).fit(X, y)
    assert model.plan_["dropped"]


def test_a_budget_keeps_the_strongest_regressors_of_a_trial(monkeypatch):
    X, y = make_regression_bags(60, n_features=3, kind="mean", random_state=2)
    monkeypatch.setattr(plan_module, "_LEAST_TRIAL", 15)
    monkeypatch.setattr(Member, "seconds", lambda _, n, __: 10.0 * (n != 3))
    with pytest.warns(UserWarning, match="excludes"):
        model = BagRegressor(random_state=0, cv=3).fit(X, y)
    trial = model.plan_["trial"]
    kept, left = set(model.members_), set(model.plan_["dropped"])
    assert kept | left == set(trial)
    assert 0 < len(kept) < len(trial)
    assert min(trial[k] for k in kept) >= max(trial[k] for k in left)
    # Coefficients of determination: high where the mean of the instances is the value.
    assert "mean ridge" in kept
    assert 0.8 < trial["mean ridge"] <= 1.0
    assert max(trial.values()) <= 1.0


def test_nothing_about_new_persons_leaves_nearly_the_mean():
    """The rows identify a person, but say nothing about the value of a person."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(24), 4)
    where, value = rng.normal(size=(24, 3)), rng.normal(size=24)
    rows = where[person][:, None] + 0.1 * rng.normal(size=(96, 5, 3))
    y = value[person] + 0.1 * rng.normal(size=96)
    X = Bags(rows.reshape(-1, 3), np.arange(97) * 5, groups=person)
    old, new = person < 16, person >= 16
    model = BagRegressor(random_state=0, cv=4).fit(X[old], y[old])
    flat = np.mean((y[new] - y[old].mean()) ** 2)
    trees = ExtraTreesRegressor(100, random_state=0)
    means = rows.mean(axis=1)
    guess = trees.fit(means[old], y[old]).predict(means[new])
    assert np.mean((y[new] - guess) ** 2) > 1.2 * flat  # what pooling would lose
    assert np.mean((y[new] - model.predict(X[new])) ** 2) < 1.05 * flat
    assert model.shrinkage_ < 0.5


# Data -------------------------------------------------------------------------------


def test_values_of_drawn_bags():
    for kind in ("prime", "mean", "distribution"):
        X, y, values = make_regression_bags(
            40, kind=kind, noise=0.0, random_state=0, return_instance_values=True
        )
        if kind == "prime":
            np.testing.assert_allclose(y, [v.max() for v in values])
        elif kind == "mean":
            np.testing.assert_allclose(y, [v.mean() for v in values])
        else:
            means = np.array([bag.mean(axis=0) for bag in X])
            line = Ridge(1e-6).fit(means, y)
            spread = np.log([v.std() for v in values])
            assert np.corrcoef(spread, y)[0, 1] > 0.7 > line.score(means, y)
    with pytest.raises(ValueError, match="kind must be one of"):
        make_regression_bags(kind="max")


def test_values_of_digit_bags():
    for target, rule in {
        "max": np.max,
        "mean": np.mean,
        "count": lambda d: np.sum(d == 3),
    }.items():
        data = load_digit_bags(30, target=target, positive=3)
        np.testing.assert_allclose(data.y, [rule(d) for d in data.digits])
    with pytest.raises(ValueError, match="target must be one of"):
        load_digit_bags(target="sum")
