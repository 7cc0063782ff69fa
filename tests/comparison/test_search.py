"""The search for the best candidate: as good as a full one, for fewer fits."""

import functools
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, ParameterGrid, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.comparison._search import (
    FEW,
    LEADERS,
    LEAST,
    MOST,
    SHARE,
    Search,
    expand,
    resolved,
    score_candidates,
    shared_scores,
)
from bagwise.comparison.tuning import part_for_tuning
from bagwise.compose import OnInstances
from bagwise.datasets import make_bags
from bagwise.least_squares import SAFE
from bagwise.neighbors import CitationKNN, _citation_knn
from bagwise.svm import PCSVM, BagSVC, BoxKernelSVC, _bag_svc, _box_svc, _pcsvm

SIZES = []


class Wrong(ClassifierMixin, BaseEstimator):
    """Is wrong about a share of the bags that its parameters fix; counts its fits."""

    def __init__(self, a=0.0, b=0.0):
        self.a, self.b = a, b

    def fit(self, X, y):
        SIZES.append(len(X))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        true = X.data[X.offsets[:-1], 0].astype(int)
        share = min(1.0, 0.05 * (abs(self.a - 3) + abs(self.b - 1)))
        wrong = np.arange(len(X)) < round(share * len(X))
        return np.where(wrong, 1 - true, true)


def bags(n):
    y = np.arange(n) % 2
    X = Bags(np.column_stack([y, np.arange(n)]).astype(float), np.arange(n + 1))
    return X, y


def search(n, model=None, weights=None):
    X, y = bags(n)
    model = Wrong() if model is None else model
    splits = bag_folds(X, y, 3, 0)
    return Search(model, X, y, y, splits, "accuracy", 0, weights or {})


def grid(n_a, n_b=1):
    return expand({"a": [float(k) for k in range(n_a)], "b": [1.0, 2.0, 3.0][:n_b]})


def test_many_candidates_first_see_a_third_of_the_bags():
    SIZES.clear()
    one = search(180)
    candidates = grid(8, 3)
    best, score = one.best(candidates, extend=False)
    assert best.values == {"a": 3.0, "b": 1.0}
    assert score == 1.0
    assert sorted(set(SIZES)) == [40, 120]
    assert SIZES.count(40) == 3 * 24
    assert SIZES.count(120) == 3 * 24 / SHARE


@pytest.mark.parametrize(("n", "n_candidates"), [(180, FEW), (120, 24)])
def test_few_candidates_or_bags_are_not_screened(n, n_candidates):
    SIZES.clear()
    candidates = expand({"a": [float(k) for k in range(n_candidates)]})
    best, _ = search(n).best(candidates, extend=False)
    assert best.values == {"a": 3.0}
    assert SIZES == [2 * n // 3] * 3 * n_candidates


def test_what_is_kept_stands_in_its_order_and_holds_the_best_third():
    candidates = grid(7, 3)
    one = search(180)
    kept = one.screened(candidates)
    assert len(kept) == max(LEAST, 7)
    places = [candidates.index(item) for item in kept]
    assert places == sorted(places)
    scores = one.scores(candidates)
    rest = np.delete(scores, places)
    assert scores[places].min() >= rest.max()


def test_twelve_are_kept_of_very_many():
    assert len(search(180).screened(grid(20, 3))) == MOST == 12


def test_shared_paths_are_not_screened():
    """All candidates of SAFE see all bags: their scores are those of full fits."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = Bags(rng.normal(size=(240, 3)) + y.repeat(2)[:, None], np.arange(121) * 2)
    splits = bag_folds(X, y, 3, 0)
    candidates = expand({"rho": [10.0**k for k in range(-3, 9)]})
    one = Search(SAFE(), X, y, y, splits, "accuracy", 0)
    _, score = one.best(candidates, extend=False)
    full = [
        np.mean(
            [
                SAFE(**item.values).fit(X[train], y[train]).score(X[test], y[test])
                for train, test in splits
            ]
        )
        for item in candidates
    ]
    assert score == pytest.approx(max(full))


@pytest.mark.parametrize("last", [SAFE(), BagSVC(gamma=0.1)], ids=["SAFE", "BagSVC"])
def test_a_pipeline_shares_what_comes_before_its_last_step(last):
    rng = np.random.default_rng(1)
    y = np.arange(40) % 2
    X = Bags(rng.normal(size=(80, 4)) + 0.4 * y.repeat(2)[:, None], np.arange(41) * 2)
    splits = bag_folds(X, y, 3, 0)
    model = Pipeline([("reduce", OnInstances(PCA(2))), ("model", last)])
    name = "model__rho" if isinstance(last, SAFE) else "model__C"
    params = [{name: 10.0**k} for k in range(-2, 3)]
    shared = shared_scores(model, params, X, y, splits, "accuracy")
    full = GridSearchCV(model, [{name: [p[name]]} for p in params], cv=splits)
    full.fit(X, y)
    np.testing.assert_allclose(shared, full.cv_results_["mean_test_score"])
    before = [{"reduce__transformer__n_components": 2}]
    assert shared_scores(model, before, X, y, splits, "accuracy") is None


def test_a_parameter_is_tuned_after_the_others():
    SIZES.clear()
    one = search(60)
    one.later = ("b",)
    candidates = expand({"a": [float(k) for k in range(8)], "b": [3.0, 2.0, 1.0]})
    best, score = one.best(candidates, extend=False)
    assert best.values == {"a": 3.0, "b": 1.0}
    assert score == 1.0
    assert len(SIZES) == 3 * (8 + 2 * LEADERS)  # not 3 * 24


def test_steps_that_do_not_depend_on_the_candidate_are_kept(monkeypatch):
    """PC-SVM computes a basis per width and fold; the scores are those of full fits."""
    X, y = make_bags(24, random_state=0)
    splits = bag_folds(X, y, 2, 0)
    made = []
    make = _pcsvm._make_basis

    def counted(data, options, matrix):
        made.append(options["gamma"])
        return make(data, options, matrix)

    monkeypatch.setattr(_pcsvm, "_make_basis", counted)
    params = [
        {"C": C, "gamma": gamma, "rho": rho}
        for C in (1.0, 100.0)
        for gamma in (0.1, 1.0)
        for rho in (0.0, 0.9)
    ]
    found = score_candidates(PCSVM(), params, X, y, splits, "accuracy")
    assert made == [0.1, 0.1, 1.0, 1.0]
    full = [
        np.mean([PCSVM(**p).fit(X[a], y[a]).score(X[b], y[b]) for a, b in splits])
        for p in params
    ]
    np.testing.assert_array_equal(found, full)
    assert len(set(full)) > 1


def test_features_of_bags_are_kept_between_fits(monkeypatch):
    """One Nystroem basis per width and fold; the scores are those of full fits."""
    X, y = make_bags(24, random_state=0)
    splits, made, make = bag_folds(X, y, 2, 0), [], _bag_svc.fit_basis

    def counted(data, **options):
        made.append(options["gamma"])
        return make(data, **options)

    monkeypatch.setattr(_bag_svc, "fit_basis", counted)
    model = BagSVC("set", n_components=10, random_state=0)
    params = [{"C": C, "gamma": g} for C in (0.1, 1.0, 100.0) for g in (0.1, 1.0)]
    found = score_candidates(model, params, X, y, splits, "accuracy")
    assert made == [0.1, 0.1, 1.0, 1.0]
    full = [
        np.mean(
            [
                clone(model).set_params(**one).fit(X[a], y[a]).score(X[b], y[b])
                for a, b in splits
            ]
        )
        for one in params
    ]
    np.testing.assert_array_equal(found, full)
    assert len(set(full)) > 1


def test_large_data_are_tuned_on_a_part():
    """About as many instances as allowed, whole groups, and enough of each class."""
    rng = np.random.default_rng(0)
    y = (np.arange(400) % 4 == 0).astype(int)
    groups = np.arange(400) // 4
    X = Bags(rng.normal(size=(4000, 2)), 10 * np.arange(401), groups=groups)

    def part(limit, y=y):
        return part_for_tuning(X, y, {"max_instances": limit}, 0)

    assert part_for_tuning(X, y, {}, 0) is None
    assert part(4000) is None
    found = part(1000)
    assert len(found) == 100
    assert y[found].mean() == 0.25
    assert set(np.unique(groups[found], return_counts=True)[1]) == {4}
    assert len(part(10)) == 80  # never fewer
    assert part(1000, (np.arange(400) % 20 == 0).astype(int)) is None


def test_a_share_of_the_instances_is_a_number_of_them():
    X, y = make_bags(20, random_state=0)
    (one,) = expand({"a": [{"instances": 10}]})
    assert resolved(one, X, 0) == {"a": 10 / X.n_instances}
    assert resolved(one, X[:1], 0) == {"a": min(1.0, 10 / X[:1].n_instances)}


@pytest.mark.parametrize(
    ("model", "params", "module", "name", "calls"),
    [
        (
            CitationKNN(),
            [{"n_citers": k, "n_references": r} for k in (0, 4) for r in (1, 5)],
            _citation_knn,
            "hausdorff",
            4,
        ),
        (
            BoxKernelSVC(random_state=0),
            [{"C": 0.01}, {"C": 100.0}],
            _box_svc,
            "box_kernel",
            4,
        ),
    ],
    ids=["Citation-kNN", "box kernel"],
)
def test_what_candidates_share_is_computed_once(
    monkeypatch, model, params, module, name, calls
):
    """Per fold: the matrix of training bags, and that of test bags."""
    X, y = make_bags(20, n_features=3, random_state=0)
    splits = bag_folds(X, y, 2, 0)
    plain, made = getattr(module, name), []
    full = [
        np.mean([clone(model).set_params(**p).fit(X[a], y[a]).score(X[b], y[b])])
        for p in params
        for a, b in splits
    ]

    @functools.wraps(plain)
    def counted(*args, **options):
        made.append(args)
        return plain(*args, **options)

    monkeypatch.setattr(module, name, counted)
    found = score_candidates(model, params, X, y, splits, "accuracy")
    assert len(made) == calls
    np.testing.assert_array_equal(found, np.reshape(full, (-1, 2)).mean(axis=1))


class CountedPCA(PCA):
    """Counts its fits, and refuses five components."""

    fits: ClassVar[list[int]] = []

    def fit_transform(self, X, y=None):
        self.fits.append(self.n_components)
        if self.n_components == 5:
            raise ValueError("too many")
        return super().fit_transform(X, y)


def test_first_steps_are_fitted_once_for_candidates_of_the_last_one():
    """Scores are those of whole pipelines, with a NaN where these fail."""
    X, y = make_bags(30, n_features=4, random_state=0)
    pool = FunctionTransformer(lambda X: np.stack([bag.mean(axis=0) for bag in X]))
    model = Pipeline([("pool", pool), ("reduce", CountedPCA()), ("last", LinearSVC())])
    grid = {"reduce__n_components": [1, 3, 5], "last__C": [0.01, 0.1, 1.0]}
    candidates = list(ParameterGrid(grid))
    splits = bag_folds(X, y, 3)
    CountedPCA.fits.clear()
    found = score_candidates(model, candidates, X, y, splits, "accuracy")
    assert sorted(CountedPCA.fits) == [1] * 3 + [3] * 3 + [5] * 3  # not 27 fits
    for one, score in zip(candidates, found, strict=True):
        if one["reduce__n_components"] == 5:
            assert np.isnan(score)
            continue
        plain = clone(model).set_params(**one)
        assert score == pytest.approx(cross_val_score(plain, X, y, cv=splits).mean())
    failing = [one for one in candidates if one["reduce__n_components"] == 5]
    with pytest.raises(ValueError, match="too many"):
        score_candidates(model, failing, X, y, splits, "accuracy")
