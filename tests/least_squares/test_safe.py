"""SAFE as an estimator: against the direct solution, brute force and itself."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_sum
from bagwise.datasets import make_safe_toy
from bagwise.least_squares import SAFE
from bagwise.least_squares.safe_problem import BagDesign, aggregation_weights

# The linear kernel as a matrix, instead of products with the data.
AS_MATRIX = {"kernel": "poly", "degree": 1, "coef0": 0.0, "gamma": 1.0}


def draw(seed=0, n_bags=40, n_features=4, n_classes=2, shift=1.0):
    """Bags of 1 to 6 instances whose mean depends on the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % n_classes
    sizes = rng.integers(1, 7, n_bags)
    bags = [
        rng.normal(shift * label, 1.0, (size, n_features))
        for label, size in zip(y, sizes, strict=True)
    ]
    return Bags.from_list(bags), np.array(["a", "b", "c", "d"])[y]


KERNELS = {
    "rbf": lambda A, B: rbf_kernel(A, B, gamma=0.2),
    "linear": lambda A, B: A @ B.T,
    "poly": lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.2, coef0=1.0),
}


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("core", ["kpca", "ksc"])
@pytest.mark.parametrize("aggregation", ["sum", "mean", "sqrt"])
def test_fit_is_the_solution_of_the_optimality_system(
    kernel, core, aggregation, solve_directly
):
    X, y = draw(1, shift=2.0)
    if kernel == "linear" and core == "ksc":
        X = X.with_data(np.abs(X.data))  # positive degrees
    model = SAFE(
        0.8,
        rho_scale="absolute",
        variance_weight=0.6,
        core=core,
        aggregation=aggregation,
        kernel=kernel,
        gamma=0.2,
        degree=2,
    ).fit(X, y)
    omega = KERNELS[kernel](X.data, X.data)
    v = np.ones(len(omega)) if core == "kpca" else 1.0 / omega.sum(axis=1)
    design = BagDesign(
        X.offsets,
        aggregation_weights(aggregation, X.offsets),
        np.full(len(X), 0.8),
        v,
    )
    Y = np.where(y == "b", 1.0, -1.0)[:, None]
    gamma = model.variance_weight_abs_
    assert gamma == pytest.approx(0.6 * model.gamma_max_)
    alpha, b, e = solve_directly(omega, design, gamma, Y)
    np.testing.assert_allclose(model.dual_coef_, alpha.T, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.instance_scores(X).values, e[:, 0], atol=1e-7)
    bags = design.to_bags(e)[:, 0]
    np.testing.assert_allclose(model.decision_function(X), bags, atol=1e-7)
    new, _ = draw(2)
    if kernel == "linear" and core == "ksc":
        new = new.with_data(np.abs(new.data))
    scores = KERNELS[kernel](new.data, X.data) @ alpha + b
    np.testing.assert_allclose(
        model.instance_scores(new).values, scores[:, 0], atol=1e-7
    )


def test_relative_rho_is_what_the_documentation_says():
    X, y = draw(3)
    model = SAFE(12.0, gamma=0.2).fit(X, y)
    omega = KERNELS["rbf"](X.data, X.data)
    unit = np.mean(X.sizes**2.0) * (np.trace(omega) / len(omega) - omega.mean())
    assert model.rho_ == pytest.approx(12.0 / unit)
    same = SAFE(model.rho_, rho_scale="absolute", gamma=0.2).fit(X, y)
    np.testing.assert_allclose(same.decision_function(X), model.decision_function(X))
    moments = SAFE(12.0, kernel="linear").fit(X, y)
    wide = SAFE(12.0, **AS_MATRIX).fit(X, y)
    assert moments.rho_ == pytest.approx(wide.rho_, rel=1e-10)


def test_one_huge_bag_leaves_the_others_their_weight():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    bags = [rng.normal(2.0 * k, 1.0, (rng.integers(2, 6), 5)) for k in y]
    plain = SAFE().fit(bags[1:], y[1:])
    bags[0] = rng.normal(0.0, 1.0, (2_000, 5))
    with pytest.warns(
        UserWarning, match="bag 0 has 2000 instances.*aggregation='mean'"
    ):
        model = SAFE().fit(bags, y)
    assert 0.1 * plain.rho_ < model.rho_ < plain.rho_
    assert model.score(bags, y) > 0.9  # 0.78 where the mean squared size is the unit
    assert SAFE(aggregation="mean").fit(bags, y).score(bags, y) == 1.0


def test_more_classes_are_one_against_the_rest():
    X, y = draw(4, n_classes=3, n_bags=45)
    for options in ({}, {"kernel": "linear", "core": "kpca"}, {"loss": "huber"}):
        model = SAFE(variance_weight=0.5, **options).fit(X, y)
        assert model.decision_function(X).shape == (45, 3)
        assert model.instance_scores(X).values.shape == (X.n_instances, 3)
        for k, label in enumerate(model.classes_):
            one = SAFE(variance_weight=0.5, **options).fit(X, y == label)
            np.testing.assert_allclose(
                model.decision_function(X)[:, k], one.decision_function(X), atol=1e-6
            )


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear"},
        {"kernel": "linear", "variance_weight": 0.7, "core": "kpca"},
        {"n_components": 30, "approximation": "rff", "gamma": 0.2, "random_state": 3},
        {"landmarks": True, "gamma": 0.2, "variance_weight": 0.4, "core": "kpca"},
        {
            "landmarks": True,
            "gamma": 0.2,
            "aggregation": "mean",
            "class_weight": {"a": 1.0, "b": 2.5, "c": 1.0},
        },
    ],
    ids=["linear", "linear-variance", "rff", "nystroem", "class-weight"],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_partial_fit_equals_fit(options, n_classes):
    X, y = draw(5, n_classes=n_classes, n_bags=60)
    if "class_weight" in options and n_classes == 2:
        options = {**options, "class_weight": {"a": 1.0, "b": 2.5}}
    if options.get("landmarks"):
        options = {**options, "landmarks": X.data[::7]}
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    whole = SAFE(**options).fit(X, y, sample_weight=weight)
    stream = SAFE(**options)
    for start in range(0, 60, 15):
        part = slice(start, start + 15)
        stream.partial_fit(X[part], y[part], sample_weight=weight[part])
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(stream.intercept_, whole.intercept_, rtol=1e-9)
    assert stream.gamma_max_ == pytest.approx(whole.gamma_max_, rel=1e-9)
    assert stream.rho_ == pytest.approx(whole.rho_, rel=1e-12)


def test_partial_fit_takes_classes_as_they_come():
    X, y = draw(6, n_classes=3, n_bags=45)
    order = np.argsort(y, kind="stable")[::-1]  # all c, then all b, then all a
    X, y = X[order], y[order]
    stream = SAFE(kernel="linear").partial_fit(X[:15], y[:15])
    with pytest.raises(ValueError, match="Only one class was seen so far: c"):
        stream.predict(X)
    stream.partial_fit(X[15:30], y[15:30])
    assert set(stream.predict(X)) <= {"b", "c"}
    stream.partial_fit(X[30:], y[30:])
    whole = SAFE(kernel="linear").fit(X, y)
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-9)
    assert list(stream.classes_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="y holds a, which is not among"):
        SAFE(kernel="linear").partial_fit(X[30:], y[30:], classes=["b", "c"])


@pytest.mark.parametrize("options", [{}, {"class_weight": {"a": 1.0, "b": 3.0}}])
def test_a_stream_knows_its_positive_class(options):
    X, y = draw(6)
    options = {"kernel": "linear", "aggregation": "mean", **options}
    plain = SAFE(**options).fit(X, y)
    whole = SAFE(pos_label="a", **options).fit(X, y)
    stream = SAFE(pos_label="a", **options)
    for part in (slice(0, 1), slice(1, 25), slice(25, 40)):
        stream.partial_fit(X[part], y[part])
    for model in (whole, stream):
        assert model.pos_label_ == "a"
        np.testing.assert_allclose(
            model.decision_function(X), plain.decision_function(X), rtol=1e-9
        )
        np.testing.assert_allclose(
            model.instance_scores(X).values, -plain.instance_scores(X).values, rtol=1e-9
        )


def test_partial_fit_says_what_it_cannot_stream():
    X, y = draw(7)
    with pytest.raises(AttributeError) as error:
        SAFE().partial_fit(X, y)
    assert "set n_components" in str(error.value.__cause__)
    with pytest.raises(AttributeError) as error:
        SAFE(kernel="linear", loss="huber").partial_fit(X, y)
    assert "Huber weights" in str(error.value.__cause__)
    with pytest.raises(ValueError, match=r"bagwise\.distributed\.fit"):
        SAFE(n_components=5, core="ksc", variance_weight=0.5).partial_fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        SAFE(kernel="linear", class_weight="balanced").partial_fit(X, y)


@pytest.mark.parametrize("variance_weight", [0.0, 0.6])
def test_wide_sparse_data_are_not_densified(variance_weight, monkeypatch):
    rng = np.random.default_rng(8)
    rows = sp.random_array((150, 30_000), density=2e-3, rng=rng, format="csr")
    X = Bags(rows, np.arange(0, 151, 3))
    y = np.arange(50) % 2
    options = {"kernel": "linear", "variance_weight": variance_weight, "core": "ksc"}
    dense = SAFE(**{**options, **AS_MATRIX}).fit(X, y)  # the kernel matrix itself

    convert = sp.csr_array.toarray

    def refuse(matrix, *args, **kwargs):
        assert matrix.shape[1] < 1000, "the data were densified"
        return convert(matrix, *args, **kwargs)

    for name in ("toarray", "todense"):
        monkeypatch.setattr(sp.csr_array, name, refuse)
    model = SAFE(**options).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, dense.decision_function(X), rtol=1e-6, atol=1e-8)
    assert model.gamma_max_ == pytest.approx(dense.gamma_max_, rel=1e-8)
    assert model.coef_.shape == (1, 30_000)


def test_linear_kernel_over_columns_equals_over_bags():
    X, y = draw(9)
    few = SAFE(kernel="linear", variance_weight=0.7, core="kpca").fit(X, y)
    wide = X.with_data(np.hstack([X.data, np.zeros((X.n_instances, 500))]))
    many = SAFE(kernel="linear", variance_weight=0.7, core="kpca").fit(wide, y)
    assert hasattr(few, "moments_")
    assert not hasattr(many, "moments_")
    np.testing.assert_allclose(few.coef_, many.coef_[:, :4], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(few.dual_coef_, many.dual_coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(few.dual_coef_ @ X.data, few.coef_, atol=1e-9)
    assert few.gamma_max_ == pytest.approx(many.gamma_max_, rel=1e-8)


def test_all_landmarks_are_the_exact_kernel():
    X, y = draw(10, n_bags=20)
    for core in ("kpca", "ksc"):
        options = {"gamma": 0.2, "core": core, "variance_weight": 0.5}
        exact = SAFE(**options).fit(X, y)
        features = SAFE(n_components=X.n_instances, **options).fit(X, y)
        np.testing.assert_allclose(
            features.decision_function(X), exact.decision_function(X), atol=1e-5
        )
        assert features.gamma_max_ == pytest.approx(exact.gamma_max_, rel=1e-6)


def test_sample_weight_is_repetition_and_zero_is_absence():
    X, y = draw(11)
    count = np.random.default_rng(1).integers(0, 3, len(X))
    repeated = X[np.repeat(np.arange(len(X)), count)]
    for core in ("ksc", "kpca"):
        options = {"variance_weight": 0.5, "core": core}
        one = SAFE(**options).fit(X, y, sample_weight=count)
        two = SAFE(**options).fit(repeated, np.repeat(y, count))
        np.testing.assert_allclose(
            one.decision_function(X), two.decision_function(X), atol=1e-7
        )


@pytest.mark.parametrize(
    "options",
    [{}, {"kernel": "linear"}, {"aggregation": "mean"}, {"variance_weight": 0.5}],
    ids=["rbf", "linear", "mean", "variance"],
)
def test_class_weight_is_sample_weight(options):
    X, y = draw(12, shift=0.3)
    X, y = X[:37], y[:37]
    count = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    heavy = SAFE(class_weight={"a": 1.0, "b": 5.0}, **options).fit(X, y, count)
    same = SAFE(**options).fit(X, y, np.where(y == "b", 5.0, 1.0) * count)
    np.testing.assert_allclose(
        heavy.decision_function(X), same.decision_function(X), atol=1e-9
    )
    # Balanced classes have the same total weight.
    total = np.array([count[y == "a"].sum(), count[y == "b"].sum()])
    factor = total.sum() / (2.0 * total)
    balanced = SAFE(class_weight="balanced", **options).fit(X, y, count)
    same = SAFE(**options).fit(X, y, np.where(y == "b", *factor[::-1]) * count)
    np.testing.assert_allclose(
        balanced.decision_function(X), same.decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize("variance", [0.0, 0.3])
def test_huber_is_the_minimum_of_its_objective(variance):
    X, y = draw(13, n_bags=24, n_features=2)
    Y = np.where(y == "b", 1.0, -1.0)
    Y[[2, 5]] *= -1.0  # wrong labels
    delta, rho = 0.3, 0.4
    model = SAFE(
        rho,
        rho_scale="absolute",
        loss="huber",
        delta=delta,
        kernel="linear",
        core="kpca",
        variance_weight=variance,
        tol=1e-14,
        max_iter=5000,
    ).fit(X, Y)
    gamma = model.variance_weight_abs_

    def objective(theta):
        e = X.data @ theta[:-1] + theta[-1]
        size = np.abs(segment_sum(e, X.offsets) - Y)
        loss = np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))
        return theta[:-1] @ theta[:-1] / 2 - gamma * e @ e / 2 + rho * loss.sum()

    found = np.append(model.coef_, model.intercept_)
    assert model.objective_[0] == pytest.approx(objective(found), rel=1e-9)
    # With variance weight the objective falls without bound far away (the loss grows
    # only linearly), so that the minimum is local.
    best = minimize(objective, found if variance else np.zeros(3), tol=1e-12)
    assert objective(found) <= best.fun + 1e-9
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    if not variance:
        assert np.all(np.diff(model.objective_path_[0]) <= 1e-12)


def test_max_aggregation_is_a_fixed_point_or_the_best_seen():
    X, y = draw(14, n_bags=30, n_features=2)
    model = SAFE(aggregation="max", pos_label="b", gamma=0.5).fit(X, y)
    scores = model.instance_scores(X).values
    np.testing.assert_allclose(
        model.decision_function(X), segment_max(scores, X.offsets)
    )
    assert model.objective_[0] == pytest.approx(min(model.objective_path_[0]))
    omega = rbf_kernel(X.data, gamma=0.5)
    alpha = model.dual_coef_[0]
    Y = np.where(y == "b", 1.0, -1.0)
    value = alpha @ omega @ alpha / 2
    value += model.rho_ / 2 * ((model.decision_function(X) - Y) ** 2).sum()
    assert model.objective_[0] == pytest.approx(value, rel=1e-6)
    features = SAFE(
        aggregation="max", pos_label="b", gamma=0.5, n_components=X.n_instances
    ).fit(X, y)
    assert features.objective_[0] == pytest.approx(model.objective_[0], rel=1e-3)


def test_absolute_variance_weight_is_refused_where_not_convex():
    X, y = draw(15)
    for options in ({}, {"kernel": "linear"}, {"n_components": 20, "random_state": 0}):
        bound = SAFE(**options).fit(X, y).gamma_max_
        fine = SAFE(variance_weight_abs=0.99 * bound, **options).fit(X, y)
        assert fine.variance_weight_abs_ == 0.99 * bound
        same = SAFE(variance_weight=0.99, **options).fit(X, y)
        np.testing.assert_allclose(
            fine.decision_function(X), same.decision_function(X), rtol=1e-4
        )
        message = re.escape(f"gamma_max = {bound:.6g}")
        with pytest.raises(ValueError, match=message):
            SAFE(variance_weight_abs=1.01 * bound, **options).fit(X, y)
    with pytest.raises(ValueError, match="not both"):
        SAFE(variance_weight=0.5, variance_weight_abs=0.1).fit(X, y)


def test_degrees_that_are_not_positive_are_named():
    X = Bags.from_list([[[1.0]], [[2.0]], [[-1.0], [3.0]], [[1.0]]])
    y = [0, 1, 0, 1]
    for linear in ({"kernel": "linear"}, AS_MATRIX):
        options = {**linear, "core": "ksc"}
        with pytest.raises(ValueError, match="instance 0 of bag 2 has degree -6"):
            SAFE(variance_weight=0.5, **options).fit(X, y)
        with pytest.raises(ValueError, match="core='kpca', or kernel='rbf'"):
            SAFE(variance_weight=0.5, **options).fit(X, y)
        # Without variance weight the degrees play no part.
        assert np.isfinite(SAFE(**options).fit(X, y).decision_function(X)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.0}, "'rho' parameter of SAFE must be a float in the range"),
        ({"rho": -1.0}, "'rho' parameter"),
        ({"variance_weight": 1.0}, r"range \[0.0, 1.0\)"),
        ({"variance_weight": -0.1}, r"range \[0.0, 1.0\)"),
        ({"kernel": "sinc"}, "'kernel' parameter of SAFE must be a str among"),
        ({"n_components": 3, "kernel": "poly", "approximation": "rff"}, "'nystroem'"),
        ({"landmarks": np.ones((3, 7))}, "landmarks have 7 columns"),
    ],
)
def test_bad_parameters_are_named(options, message):
    X, y = draw(16)
    with pytest.raises(ValueError, match=message):
        SAFE(**options).fit(X, y)


def test_singular_bag_kernel_is_reported():
    X, y = draw(17)
    twice = Bags.concatenate([X, X])
    with pytest.raises(ValueError, match="numerically singular.*smaller rho"):
        SAFE(1e30).fit(twice, np.concatenate([y, y]))


def test_too_large_a_kernel_is_refused_before_it_is_made(monkeypatch):
    X, y = draw(18)
    monkeypatch.setenv("BAGWISE_MEMORY", "10KB")
    with pytest.raises(ValueError, match="Set n_components"):
        SAFE().fit(X, y)
    with pytest.raises(ValueError, match="moments of 400 features"):
        SAFE(n_components=400, approximation="rff").fit(X, y)


def test_identical_instances_and_constant_columns_work():
    X = Bags.from_list([np.ones((size, 2)) for size in (1, 2, 3, 4)])
    for options in ({}, {"kernel": "linear"}, {"n_components": 3}):
        model = SAFE(variance_weight=0.5, **options).fit(X, [0, 1, 0, 1])
        assert np.isfinite(model.decision_function(X)).all()


def test_toy_two_needs_the_supervision():
    X, y = make_safe_toy(2, 400, random_state=0)
    new, y_new = make_safe_toy(2, 1000, random_state=1)
    for options in (
        {},
        {"variance_weight": 0.5},
        {"core": "kpca"},
        {"n_components": 40, "random_state": 0},
    ):
        assert SAFE(gamma=5.0, **options).fit(X, y).score(new, y_new) > 0.98


def test_text_with_sixty_seven_thousand_columns(benchmark):
    X, y = (benchmark("trec1")[key] for key in ("X", "y"))
    model = SAFE(kernel="linear", variance_weight=0.5, core="ksc").fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.85
