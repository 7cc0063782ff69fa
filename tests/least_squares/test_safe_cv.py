"""SAFECV gives the fold scores of a grid search, for less."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
)

from bagwise.bags import Bags
from bagwise.least_squares import SAFE, SAFECV


def draw(seed=0, n_bags=36, n_classes=2, shift=0.5):
    """Bags that overlap enough for scores of folds to differ."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % n_classes
    sizes = rng.integers(1, 6, n_bags)
    bags = [
        rng.normal(shift * k, 1.0, (size, 3)) for k, size in zip(y, sizes, strict=True)
    ]
    return Bags.from_list(bags), y


GRID = {"gamma": [0.05, 0.5], "rho": [0.3, 30.0], "variance_weight": [0.0, 0.5, 0.9]}
FOLDS = StratifiedKFold(4, shuffle=True, random_state=0)


def compare(X, y, cv, *, grid=GRID, scoring=None, fit=None, **options):
    """Fit both searches and compare every score of every fold."""
    fit = fit or {}
    search = GridSearchCV(
        SAFE(**options), grid, cv=cv, scoring=scoring, error_score="raise"
    ).fit(X, y, **fit)
    ours = SAFECV(
        grid.get("gamma"),
        rhos=grid["rho"],
        variance_weights=grid["variance_weight"],
        cv=cv,
        scoring=scoring,
        **options,
    ).fit(X, y, **fit)
    n_splits = search.n_splits_
    for j in range(n_splits):
        name = f"split{j}_test_score"
        np.testing.assert_allclose(ours.cv_results_[name], search.cv_results_[name])
    assert ours.cv_results_["params"] == search.cv_results_["params"]
    assert ours.best_params_ == search.best_params_
    assert ours.best_score_ == pytest.approx(search.best_score_)
    np.testing.assert_allclose(
        ours.decision_function(X), search.decision_function(X), rtol=1e-8, atol=1e-10
    )
    return ours


@pytest.mark.parametrize("core", ["ksc", "kpca"])
@pytest.mark.parametrize("aggregation", ["sum", "mean", "sqrt"])
def test_exact_kernel(core, aggregation):
    X, y = draw(1)
    grid = {**GRID, "gamma": [0.3]}
    compare(
        X, y, FOLDS, grid=grid, core=core, aggregation=aggregation, scoring="roc_auc"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"rho_scale": "absolute"},
        {"kernel": "poly", "degree": 2, "core": "kpca"},
        {"landmarks": np.random.default_rng(0).normal(size=(12, 3))},
        {"landmarks": np.random.default_rng(0).normal(size=(12, 3)), "core": "ksc"},
        {"n_components": 15, "approximation": "rff", "random_state": 0},
    ],
    ids=["absolute", "poly", "landmarks", "landmarks-ksc", "rff"],
)
def test_other_settings(options):
    X, y = draw(2, n_bags=33)
    compare(X, y, FOLDS, **options)


def test_more_classes_and_named_widths():
    X, y = draw(3, n_bags=45, n_classes=3, shift=0.8)
    grid = {**GRID, "gamma": ["scale", 0.5, "median"]}
    compare(X, y, FOLDS, grid=grid)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weight": "balanced"},
        {"class_weight": {0: 1.0, 1: 3.0, 2: 0.5}},
        {
            "n_components": 15,
            "approximation": "rff",
            "random_state": 0,
            "class_weight": "balanced",
        },
    ],
    ids=["sample-weight", "balanced", "class-weight", "rff-balanced"],
)
def test_weights_count_in_fits_and_in_scores(options):
    """By hand: scikit-learn's searches weigh their scores in later versions only."""
    X, y = draw(3, n_bags=45, n_classes=3, shift=0.8)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    ours = SAFECV(
        GRID["gamma"],
        rhos=GRID["rho"],
        variance_weights=GRID["variance_weight"],
        cv=FOLDS,
        **options,
    ).fit(X, y, sample_weight=weight)
    factor = options.get("class_weight", dict.fromkeys(range(3), 1.0))
    if factor == "balanced":
        factor = {k: weight.sum() / (3 * weight[y == k].sum()) for k in range(3)}
    in_scores = weight * np.array([factor[label] for label in y])
    found = np.empty((FOLDS.n_splits, len(ours.cv_results_["params"])))
    for j, (train, test) in enumerate(FOLDS.split(y, y)):
        for k, params in enumerate(ours.cv_results_["params"]):
            model = SAFE(**params, **options).fit(X[train], y[train], weight[train])
            found[j, k] = model.score(X[test], y[test], in_scores[test])
        name = f"split{j}_test_score"
        np.testing.assert_allclose(ours.cv_results_[name], found[j])
    best = ours.cv_results_["params"][found.mean(axis=0).argmax()]
    assert ours.best_params_ == best
    np.testing.assert_allclose(
        ours.decision_function(X),
        SAFE(**best, **options).fit(X, y, weight).decision_function(X),
        rtol=1e-8,
        atol=1e-10,
    )


@pytest.mark.parametrize("wide", [False, True])
def test_linear_kernel(wide):
    X, y = draw(4)
    if wide:
        zeros = sp.csr_array((X.n_instances, 500))
        X = X.with_data(sp.hstack([sp.csr_array(X.data), zeros], format="csr"))
    grid = {key: GRID[key] for key in ("rho", "variance_weight")}
    compare(X, y, FOLDS, grid=grid, kernel="linear", core="kpca")


@pytest.mark.parametrize(
    "cv",
    [LeaveOneOut(), KFold(3), ShuffleSplit(3, train_size=0.5, random_state=0)],
    ids=["leave-one-out", "k-fold", "shuffle"],
)
@pytest.mark.parametrize("options", [{}, {"kernel": "linear", "core": "kpca"}])
def test_other_folds(cv, options):
    X, y = draw(5, n_bags=14)
    grid = GRID if not options else {k: v for k, v in GRID.items() if k != "gamma"}
    compare(X, y, cv, grid=grid, **options)


def test_leave_one_out_decisions_are_those_of_refits():
    X, y = draw(6, n_bags=15)
    seen = []

    def remember(estimator, X_test, y_test):
        seen.append(float(estimator.decision_function(X_test)[0]))
        return 0.0

    SAFECV(
        [0.2],
        rhos=[5.0],
        variance_weights=[0.0, 0.8],
        cv=LeaveOneOut(),
        scoring=remember,
    ).fit(X, y)
    expected = []
    for share in (0.0, 0.8):
        for k in range(15):
            keep = np.arange(15) != k
            model = SAFE(5.0, gamma=0.2, variance_weight=share).fit(X[keep], y[keep])
            expected.append(model.decision_function(X[[k]])[0])
    np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-8)


def test_batches_of_columns_change_nothing(monkeypatch):
    from bagwise.least_squares import _safe_grid as _cv_kernel

    X, y = draw(7)
    whole = SAFECV([0.2], cv=FOLDS, scoring="roc_auc").fit(X, y)
    monkeypatch.setattr(_cv_kernel, "_BATCH_BYTES", 1)
    single = SAFECV([0.2], cv=FOLDS, scoring="roc_auc").fit(X, y)
    np.testing.assert_allclose(
        whole.cv_results_["mean_test_score"], single.cv_results_["mean_test_score"]
    )


def test_default_grid_and_best_estimator():
    X, y = draw(8, shift=1.5)
    model = SAFECV(cv=3).fit(X, y)
    assert len(model.cv_results_["params"]) == 6 * 4 * 3
    again = SAFE(**model.best_params_).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), again.decision_function(X), rtol=1e-9
    )
    np.testing.assert_allclose(
        model.instance_scores(X).values, again.instance_scores(X).values, rtol=1e-9
    )


def test_bad_folds_and_grids_are_named():
    X, y = draw(9)
    with pytest.raises(ValueError, match="'variance_weight' parameter of SAFE"):
        SAFECV(variance_weights=[0.0, 1.0]).fit(X, y)
    with pytest.raises(ValueError, match="'rho' parameter of SAFE"):
        SAFECV(rhos=[0.0]).fit(X, y)
    with pytest.raises(ValueError, match="rhos is empty"):
        SAFECV(rhos=[]).fit(X, y)
    one_class = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    with pytest.raises(ValueError, match="Fold 0 has no training bag of class 1"):
        SAFECV(cv=one_class).fit(X, y)
    with pytest.raises(ValueError, match=r"Fold 0: core='ksc'.*kpca"):
        SAFECV(kernel="poly", degree=3, coef0=0.0, core="ksc").fit(X, y)
    twice = Bags.concatenate([X, X])
    with pytest.raises(ValueError, match="Fold 0 with rho=.*numerically singular"):
        SAFECV([0.2], rhos=[1e30]).fit(twice, np.concatenate([y, y]))
