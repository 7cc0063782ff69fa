"""Stacking against a sequential implementation, and against leakage."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import check_random_state

from bagwise import BagClassifier, BagRegressor, Bags
from bagwise.base import bag_folds
from bagwise.compose import SimpleMI, SimpleMIRegressor, WrapperMI
from bagwise.datasets import make_bags
from bagwise.ensemble import BagStackingClassifier
from bagwise.ensemble._combine import (
    Combination,
    PlattScale,
    instance_shares,
    logistic_stack,
    prior_weights,
    without_negligible,
)
from bagwise.ensemble._stack import Budget, Member, fit_stack


@pytest.fixture
def toy():
    return make_bags(40, n_features=4, random_state=0)


@pytest.mark.parametrize(("prior", "ridge"), [(0.0, 0.1), (1.0, 3.0)])
def test_platt_scaling_minimises_its_objective(prior, ridge):
    """The slope is shrunk to its prior."""
    rng = np.random.default_rng(0)
    score, positive = rng.normal(size=30), rng.random(30) < 0.4
    score[positive] += 1.0
    weight = rng.uniform(0.5, 2.0, size=30)
    scale = PlattScale.fit(score, positive, weight, prior=prior, ridge=ridge)
    z = (score - scale.center) / scale.spread
    n1, n0 = weight[positive].sum(), weight[~positive].sum()
    target = np.where(positive, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def loss(theta):
        p = expit(theta[0] * z + theta[1])
        entropy = target * np.log(p) + (1 - target) * np.log(1 - p)
        penalty = 0.5 * ridge * (theta[0] - prior) ** 2
        return penalty - (weight * entropy).sum()

    best = minimize(loss, [0.5, 0.0], method="Nelder-Mead", options={"xatol": 1e-8})
    np.testing.assert_allclose([scale.slope, scale.intercept], best.x, atol=1e-4)


def test_many_bags_decide_against_the_prior_of_a_slope():
    rng = np.random.default_rng(1)
    score, positive = rng.normal(size=24), np.arange(24) % 2 == 0  # no evidence
    rows = np.tile(score, 200), np.tile(positive, 200), np.ones(4_800)
    many = PlattScale.fit(*rows, prior=1.0, ridge=3.0)
    plain = PlattScale.fit(*rows)
    assert many.slope == pytest.approx(plain.slope, abs=0.01)


def test_platt_scaling_survives_anything():
    positive = np.arange(10) < 5
    weight = np.ones(10)
    for score in (np.zeros(10), np.where(positive, 1e12, -1e12), np.arange(10.0)):
        scale = PlattScale.fit(score, positive, weight)
        assert np.isfinite(scale(score)).all()
        assert scale.slope >= 0  # also where the member is worse than chance
    assert PlattScale.fit(np.arange(10.0), positive, weight).slope < 1e-6


def test_signed_stacker_is_logistic_regression():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(60, 3))
    positive = rng.random(60) < expit(logits @ [1.0, -0.5, 0.2])
    weight = rng.uniform(0.5, 2.0, size=60)
    coef, intercept = logistic_stack(
        logits, positive, weight, ridge=10.0, nonnegative=False
    )
    expected = LogisticRegression(C=0.1, tol=1e-10).fit(logits, positive, weight)
    np.testing.assert_allclose(coef, expected.coef_[0], atol=1e-5)
    assert intercept == pytest.approx(expected.intercept_[0], abs=1e-5)
    plain, _ = logistic_stack(logits, positive, weight, ridge=10.0, nonnegative=True)
    assert (plain >= 0).all()
    assert plain[1] == 0  # the member of the wrong sign has no weight


def test_without_evidence_the_weights_are_those_of_the_prior():
    positive = np.arange(20) % 2 == 1
    prior = prior_weights(np.array([4.0, 1.0, 0.0]))
    np.testing.assert_allclose(prior, [1.6, 0.4, 0.0])
    level = np.ones((20, 3))
    for signed in (True, False):
        found = Combination.fit(
            level, positive, np.ones(20), signed=signed, prior=prior
        )
        np.testing.assert_allclose(found.coef, prior, atol=1e-6)
    # Evidence moves them: the third member is right about every bag.
    level[:, 2] = np.where(positive, 1.0, -1.0)
    found = Combination.fit(
        np.tile(level, (20, 1)), np.tile(positive, 20), np.ones(400)
    )
    assert found.coef[2] > 0.5 > abs(found.coef[:2]).max()
    assert not prior_weights(np.zeros(2)).any()


def test_equals_a_sequential_implementation(toy):
    X, y = toy
    members = [("a", SimpleMI()), ("b", WrapperMI())]
    stack = BagStackingClassifier(members, cv=4, random_state=3).fit(X, y)
    seed = check_random_state(3).randint(2**31 - 1)
    folds = StratifiedKFold(4, shuffle=True, random_state=seed)
    oof = [
        cross_val_predict(m, X, y == 1, cv=folds, method="decision_function")
        for _, m in members
    ]
    np.testing.assert_allclose(stack.oof_scores_, np.column_stack(oof), atol=1e-12)
    combined = Combination.fit(np.column_stack(oof), y == 1, np.ones(len(y)))
    full = [m.fit(X, y).decision_function(X) for _, m in members]
    expected = combined(np.column_stack(full))
    np.testing.assert_allclose(stack.decision_function(X), expected, atol=1e-9)
    assert stack.member_scores_["a"] == pytest.approx(roc_auc_score(y, oof[0]))
    weights = [stack.member_weights_[name] for name, _ in members]
    np.testing.assert_allclose(weights, combined.coef)


def test_repeated_folds_are_those_of_other_seeds(toy):
    X, y = toy
    members = [Member("a", SimpleMI()), Member("b", WrapperMI())]
    options = {"n_classes": 2, "cv": 4, "random_state": 3, "n_jobs": None}
    _, seen = fit_stack(
        members, X, y, np.ones(40), budget=Budget(None), n_repeats=2, **options
    )
    seed = check_random_state(3).randint(2**31 - 1)
    for k in range(2):
        folds = StratifiedKFold(4, shuffle=True, random_state=seed + k)
        oof = [
            cross_val_predict(m, X, y == 1, cv=folds, method="decision_function")
            for m in (SimpleMI(), WrapperMI())
        ]
        rows = seen.scores[40 * k : 40 * (k + 1), :, 0]
        np.testing.assert_allclose(rows, np.column_stack(oof), atol=1e-12)


class Witness(ClassifierMixin, BaseEstimator):
    """A member that remembers its bags and scores them 1 when it meets them again."""

    def __init__(self, log=None):
        self.log = log

    def fit(self, X, y):
        self.seen_ = {int(i) for i in X.ids}
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.array([float(int(i) in self.seen_) for i in X.ids])


def test_no_bag_is_scored_by_a_member_that_saw_it(toy):
    X, y = toy
    stack = BagStackingClassifier([("w", Witness()), ("s", SimpleMI())]).fit(X, y)
    assert (stack.oof_scores_[:, 0] == 0).all()
    # The refitted member has seen them all.
    assert stack.members_["w"].decision_function(X).all()


def test_permuted_labels_give_chance(toy):
    X, _ = make_bags(60, n_features=4, random_state=0)
    hits = []
    for seed in range(6):
        y = np.random.default_rng(seed).permutation(np.arange(60) % 2)
        stack = BagStackingClassifier(random_state=0).fit(X[:40], y[:40])
        hits.append(stack.score(X[40:], y[40:]))
    assert abs(np.mean(hits) - 0.5) < 0.15  # 120 guesses: 3 standard errors


def test_instance_scores_are_weighed_by_the_largest_of_each_bag(toy):
    X, y = toy
    members = [("a", WrapperMI()), ("b", WrapperMI(LogisticRegression(C=0.01)))]
    stack = BagStackingClassifier(members, random_state=0).fit(X, y)
    seed = check_random_state(0).randint(2**31 - 1)
    tops = np.empty((len(X), 2))
    for train, test in bag_folds(X, y, 5, random_state=seed):
        for k, (_, member) in enumerate(members):
            found = clone(member).fit(X[train], y[train]).instance_scores(X[test])
            level, spread = found.values.mean(), found.values.std()
            tops[test, k] = [(bag.max() - level) / spread for bag in found]
    z = (tops - tops.mean(axis=0)) / tops.std(axis=0)

    def loss(theta):
        margin = np.where(y == 1, 1, -1) * (z @ theta[:2] + theta[2])
        return np.logaddexp(0, -margin).sum() + 2.5 * ((theta[:2] - 0.5) ** 2).sum()

    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(loss, [0.5, 0.5, 0.0], bounds=bounds, tol=1e-14)
    scores = [model.instance_scores(X).values for model in stack.members_.values()]
    parts = [(one - one.mean()) / one.std() for one in scores]
    expected = np.average(parts, axis=0, weights=best.x[:2] + 0.001)
    np.testing.assert_allclose(stack.instance_scores(X).values, expected, atol=1e-5)


def test_the_prior_gives_way_to_evidence():
    rng = np.random.default_rng(0)
    positive = np.arange(400) % 2 == 1
    good, noise = rng.normal(size=400) + 2.0 * positive, rng.normal(size=400)
    tops, prior = np.column_stack([good, noise]), np.array([0.0, 1.0])
    share = instance_shares(tops, positive, np.ones(400), prior)
    assert share.sum() == pytest.approx(1.0)
    assert share[0] > 0.8
    # Five bags hold little evidence, and a member of the wrong sign has no weight.
    few = instance_shares(tops[:5], positive[:5], np.ones(5), prior)
    assert few[1] > 0.5
    both = np.column_stack([good, -good])
    assert instance_shares(both, positive, np.ones(400), prior)[1] < 0.01


def test_contributions_sum_to_the_decision(toy):
    X, y = toy
    stack = BagStackingClassifier(random_state=0).fit(X, y)
    parts = stack.member_contributions(X)
    assert parts.shape == (len(X), 2)
    rest = stack.decision_function(X) - parts.sum(axis=1)
    np.testing.assert_allclose(rest, rest[0], atol=1e-12)  # the intercept


def test_groups_stay_on_one_side(toy):
    X, y = toy
    groups = np.arange(len(X)) // 4
    grouped = Bags(X.data, X.offsets, ids=np.arange(len(X)), groups=groups)
    labels = groups % 2

    class Neighbor(Witness):
        """Score a bag 1 when it has seen another one of the group."""

        def fit(self, X, y):
            self.seen_ = set(X.groups)
            self.classes_ = np.unique(y)
            return self

        def decision_function(self, X):
            return np.array([float(g in self.seen_) for g in X.groups])

    stack = BagStackingClassifier([("n", Neighbor())]).fit(grouped, labels)
    assert (stack.oof_scores_ == 0).all()


def test_stack_without_instance_members_says_so(toy):
    X, y = toy
    stack = BagStackingClassifier([("w", Witness())]).fit(X, y)
    assert not hasattr(stack, "instance_scores")


def test_bad_members(toy):
    X, y = toy
    with pytest.raises(ValueError, match="no name twice"):
        BagStackingClassifier([("a", SimpleMI()), ("a", SimpleMI())]).fit(X, y)
    with pytest.raises(ValueError, match="2 bags of each class"):
        BagStackingClassifier().fit(X, np.arange(len(X)) == 0)


def test_weights_reach_members_and_stackers(toy):
    X, y = toy
    weight = np.where(np.arange(len(y)) < 8, 0.0, 1.0)
    a = BagStackingClassifier(random_state=0).fit(X, y, sample_weight=weight)
    b = BagStackingClassifier(random_state=0).fit(X[8:], y[8:])
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X))
    heavy = BagStackingClassifier(class_weight={0: 1, 1: 20}, random_state=0).fit(X, y)
    assert heavy.predict(X).sum() >= b.predict(X).sum()
    assert not np.allclose(heavy.decision_function(X), b.decision_function(X))


def test_several_classes_are_one_against_the_rest():
    X, y = make_bags(45, n_features=4, n_classes=3, random_state=0)
    stack = BagStackingClassifier([("w", WrapperMI())], random_state=0).fit(X, y)
    assert stack.score(X, y) > 0.7
    scores = stack.decision_function(X)
    for k, label in enumerate(stack.classes_):
        member = stack.members_["w"][k]
        np.testing.assert_allclose(
            member.decision_function(X),
            WrapperMI().fit(X, y == label).decision_function(X),
        )
        combined = Combination.fit(stack.oof_scores_[:, :, k], y == label, np.ones(45))
        np.testing.assert_allclose(
            scores[:, k], combined(member.decision_function(X)[:, None]), atol=1e-9
        )
    assert stack.member_contributions(X).shape == (45, 1, 3)
    assert stack.instance_scores(X).values.shape == (X.n_instances, 3)


@pytest.mark.parametrize("factor", [1e-6, 1.0 / 24.0, 1e6])
def test_only_ratios_of_weights_count(factor):
    X, y = make_bags(24, n_features=3, shift=1.0, random_state=4)
    weight = np.linspace(0.5, 2.0, 24)
    for scale in (np.ones(24), weight):
        one = BagStackingClassifier(random_state=0, cv=2)
        plain = one.fit(X, y, sample_weight=scale).decision_function(X)
        moved = one.fit(X, y, sample_weight=factor * scale).decision_function(X)
        np.testing.assert_allclose(moved, plain, atol=1e-4)
    values = np.arange(24) % 7 + X.data[X.offsets[:-1], 0]
    stack = BagRegressor([("mean", SimpleMIRegressor())], random_state=0, cv=2)
    plain = stack.fit(X, values, sample_weight=weight).predict(X)
    moved = stack.fit(X, values, sample_weight=factor * weight).predict(X)
    np.testing.assert_allclose(moved, plain, rtol=1e-9)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_members_without_influence_get_no_weight(n_columns):
    rng = np.random.default_rng(0)
    positives = list(rng.random((n_columns, 900)) < 0.4)
    truth = np.column_stack(positives).astype(float)
    scores = rng.normal(size=(900, 6, n_columns))
    scores[:, :2] += truth[:, None]  # two that know different things
    scores[:, 2] = scores[:, 1] + 1e-3 * rng.normal(size=(900, n_columns))
    weight = rng.uniform(0.5, 1.5, 900)
    options = {"signed": True, "prior": np.full(6, 0.1)}
    columns = list(zip(np.moveaxis(scores, 2, 0), positives, strict=True))
    full = [Combination.fit(*column, weight, **options) for column in columns]
    cost = np.array([1.0, 1.0, 10.0, 1.0, 1.0, 1.0])
    found = without_negligible(full, scores, positives, weight, cost, **options)

    def log_loss(fits):
        p = [expit(c(s)) for c, (s, _) in zip(fits, columns, strict=True)]
        hit = np.where(truth == 1, np.transpose(p), 1 - np.transpose(p))
        missing = sum((c.coef == 0).sum() for c in fits)
        return 5.0 * 0.1**2 * missing - weight @ np.log(hit).sum(axis=1)

    assert log_loss(full) < log_loss(found) <= 1.005 * log_loss(full) + 0.3
    used = [c.coef != 0 for c in found]
    assert all(one[[0, 1]].all() for one in used)
    assert not any(one[2] for one in used)  # the more expensive of two equal ones
    again = without_negligible(full, scores, positives, weight, cost, **options)
    np.testing.assert_array_equal(again[0].coef, found[0].coef)


def test_few_bags_without_evidence_leave_members_at_the_prior():
    rng = np.random.default_rng(0)
    positive = np.arange(24) % 2 == 1
    scores = rng.normal(size=(24, 5, 1))
    options = {"prior": prior_weights(np.array([4.0, 1.0, 1.0, 1.0, 1.0]))}
    full = [Combination.fit(scores[:, :, 0], positive, np.ones(24), **options)]
    found = without_negligible(
        full, scores, [positive], np.ones(24), np.ones(5), **options
    )
    # A smaller out-of-fold loss without the first one is chance.
    assert found[0].coef[0] > 0.5


def test_members_without_weight_are_not_asked():
    X, y = make_bags(60, n_features=4, random_state=1)
    model = BagClassifier(random_state=0).fit(X[:40], y[:40])
    expected = model.predict_proba(X[40:])
    weights = np.array(list(model.member_weights_.values()))
    assert (weights == 0).any()
    parts = model.member_contributions(X[40:])
    assert (parts[:, weights == 0] == 0).all()
    for k in np.flatnonzero(weights == 0):
        model._stack.models[k] = []
    np.testing.assert_array_equal(model.predict_proba(X[40:]), expected)
