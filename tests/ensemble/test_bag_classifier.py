"""The default classifier: its plan, its members, and awkward data."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

import bagwise
from bagwise import BagClassifier, Bags
from bagwise.compose import WrapperMI
from bagwise.datasets import make_bags
from bagwise.ensemble import _bag_classifier, _stack
from bagwise.ensemble import _plan as module
from bagwise.ensemble._bag_classifier import compare_sides
from bagwise.ensemble._inputs import Made, StandardRows
from bagwise.ensemble._members import classification_members
from bagwise.ensemble._plan import Plan, Size, make_plan
from bagwise.ensemble._stack import Budget, Member, decision_values, fit_member
from bagwise.svm import MISVM, BagSVC
from bagwise.testing._assumptions import check_standard_assumption


@pytest.fixture(scope="module")
def fitted():
    X, y = make_bags(60, n_features=4, random_state=0)
    return X, y, BagClassifier(random_state=0).fit(X[:40], y[:40])


def test_learns_and_explains(fitted, tmp_path):
    X, y, model = fitted
    assert roc_auc_score(y[40:], model.decision_function(X[40:])) > 0.9
    assert len(model.members_) == len(model.member_weights_) == 11
    assert model.plan_["dropped"] == {}
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p[:, 1] > 0.5, model.decision_function(X) > 0)
    assert model.key_instances(X).shape == (60,)
    bagwise.save(model, tmp_path / "m")
    again = bagwise.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.decision_function(X), model.decision_function(X)
    )


def test_workers_change_nothing(fitted):
    X, y, _ = fitted
    members = [("wrapper", WrapperMI()), ("kernel", BagSVC())]
    one = BagClassifier(members, random_state=0).fit(X[:40], y[:40])
    two = BagClassifier(members, random_state=0, n_jobs=2).fit(X[:40], y[:40])
    np.testing.assert_allclose(
        two.decision_function(X), one.decision_function(X), atol=1e-12
    )


def test_large_data_change_the_plan(monkeypatch):
    X, y = make_bags(40, n_features=3, random_state=0)
    monkeypatch.setattr(module, "_EXACT_BASIS", 20)
    monkeypatch.setattr(module, "_PROTOTYPES", ((20, 40), (None, 30)))
    monkeypatch.setattr(module, "_TREE_ROWS", 50)
    monkeypatch.setattr(module, "_EXACT_SECONDS", 0.0)
    model = BagClassifier(random_state=0, cv=2).fit(X, y)
    assert model.plan_["max_prototypes"] == 30
    assert model.plan_["exact_distances"] is False
    assert model.members_["MILES"].n_features_in_ == 30
    assert model.members_["MI-SVM"].n_components == 100
    forest = model.members_["instance forest"].estimator_
    assert [len(rows) for rows in forest.estimators_samples_] == [50] * 100
    assert np.mean(model.predict(X) == y) > 0.8
    monkeypatch.setattr(module, "_QUADRATIC_LIMIT", 30)
    quadratic = {
        "statistics SVC",
        "Wasserstein",
        "Wasserstein (min-max)",
    }
    model = BagClassifier(random_state=0, cv=2).fit(X, y)
    assert set(model.plan_["dropped"]) == quadratic
    assert not quadratic & set(model.members_)
    monkeypatch.setattr(module, "_QUADRATIC_LIMIT", 5000)
    monkeypatch.setenv("BAGWISE_MEMORY", "10KB")
    size = Size.of(X)
    plan = make_plan(size)
    assert not quadratic & {m.name for m in classification_members(plan, size)}
    assert "memory" in plan.dropped["Wasserstein"]


def test_original_columns_of_sparse_rows_come_first_with_few_bags():
    rows = sp.random(1_600, 400, 0.02, format="csr", random_state=0)
    few = Bags(rows[:120], np.arange(0, 121, 4))
    many = Bags(rows, np.arange(0, 1_601, 4))
    dense = few.with_data(np.random.default_rng(0).normal(size=(120, 400)))
    shares = [
        {m.name: m.share for m in classification_members(make_plan(size), size)}
        for size in map(Size.of, (few, many, dense))
    ]
    for found in shares:
        rest = found.keys() - {"statistics trees", "statistics logistic"}
        assert {found[name] for name in rest} == {1.0}
    assert shares[0]["statistics logistic"] == shares[0]["statistics trees"] == 32.0
    assert shares[1]["statistics trees"] == 32.0
    assert shares[2]["statistics trees"] == 4.0
    assert not any("statistics logistic" in found for found in shares[1:])


def test_few_bags_have_two_sets_of_folds(monkeypatch):
    X, y = make_bags(60, n_features=3, random_state=0)
    calls, folds = [], _stack.stack_folds

    def counted(bags, *others):
        calls.append((len(bags), others[-1]))
        return folds(bags, *others)

    monkeypatch.setattr(_stack, "stack_folds", counted)
    names = [("wrapper", WrapperMI()), ("kernel", BagSVC())]
    for n, members in ((59, "default"), (60, "default"), (30, names)):
        model = BagClassifier(members, random_state=0, cv=2).fit(X[:n], y[:n])
        assert model.oof_scores_.shape == (n, len(model.members_))
    assert [n for n, _ in calls] == [59, 59, 60, 30]
    assert calls[0][1] != calls[1][1]  # other seeds, other folds


def test_time_budget_drops_the_most_expensive_and_warns():
    X, y = make_bags(30, n_features=3, random_state=0)
    with pytest.warns(UserWarning, match="excludes .*statistics trees"):
        model = BagClassifier(random_state=0, cv=2, time_budget=0.5).fit(X, y)
    assert "statistics trees" in model.plan_["dropped"]
    assert model.plan_["estimated_seconds"] <= 0.5


def test_a_budget_keeps_the_strongest_members_of_a_trial(monkeypatch):
    X, y = make_bags(60, n_features=3, random_state=0)
    monkeypatch.setattr(module, "_LEAST_TRIAL", 15)
    monkeypatch.setattr(Member, "seconds", lambda _, n, __: 10.0 * (n != 3))
    with pytest.warns(UserWarning, match="excludes"):
        model = BagClassifier(random_state=0, cv=3).fit(X, y)
    trial = model.plan_["trial"]
    kept, left = set(model.members_), set(model.plan_["dropped"])
    assert kept | left == set(trial)
    assert 0 < len(kept) < len(trial)
    assert min(trial[k] for k in kept) >= max(trial[k] for k in left)


def test_the_strongest_that_fit_are_kept():
    plan = Plan()
    strength = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}
    plan.keep_within({"a": 5.0, "b": 9.0, "c": 3.0, "d": 1.0}, 10.0, 1.0, strength)
    assert plan.members == ["a", "c", "d"]
    assert plan.estimated_seconds == 10.0
    assert "0.800 on a part" in plan.dropped["b"]
    plan.keep_within({"a": 50.0, "b": 90.0}, 10.0, 1.0, {"a": 0.9, "b": 0.8})
    assert plan.members == ["a"]


def test_the_clock_is_watched_while_fitting(monkeypatch):
    # An estimate that is far too low: the clock says that no time is left.
    X, y = make_bags(30, n_features=3, random_state=0)
    monkeypatch.setattr(Member, "seconds", lambda *_: 0.0)
    monkeypatch.setattr(module, "shared_seconds", lambda _: 0.0)
    with pytest.warns(UserWarning, match="excludes"):
        model = BagClassifier(random_state=0, cv=2, time_budget=1e-3).fit(X, y)
    assert len(model.members_) == 1
    assert "time budget was used up" in " ".join(model.plan_["dropped"].values())
    assert np.isfinite(model.decision_function(X)).all()


def test_weights_reach_every_member():
    X, y = make_bags(40, n_features=3, shift=1.0, random_state=3)
    X, y, others = X[:30], y[:30], X[30:]
    seen, unseen = Made(X, fit=True), Made(others)
    weight, size = np.linspace(0.05, 2.0, len(y)), Size.of(X)
    for member in classification_members(Plan(), size):
        learned = seen.of(member.input)
        rows = unseen.of(member.input.scored)
        (plain,) = fit_member(member, learned, [y == 1], np.ones(len(y)), 0)
        (moved,) = fit_member(member, learned, [y == 1], weight, 0)
        difference = decision_values(plain, rows) - decision_values(moved, rows)
        assert np.abs(difference).max() > 1e-3, member.name


def test_five_classes_are_fitted_and_planned_as_such(monkeypatch):
    X, y = make_bags(40, n_features=4, n_classes=5, random_state=0)
    labels = np.array(["red", "blue", "green", "gray", "black"])[y]
    names = ("statistics trees", "MI-SVM", "Wasserstein")

    def few(plan, size, **options):
        members = classification_members(plan, size, **options)
        return [m for m in members if m.name in names]

    monkeypatch.setattr(_bag_classifier, "classification_members", few)
    model = BagClassifier(random_state=0, cv=2).fit(X, labels)
    assert list(model.classes_) == ["black", "blue", "gray", "green", "red"]
    assert model.decision_function(X).shape == (40, 5)
    assert model.score(X, labels) > 0.8
    assert len(model.members_["MI-SVM"]) == 5
    assert list(model.members_["statistics trees"].classes_) == list(range(5))
    pair = BagClassifier(random_state=0, cv=2).fit(X, y == 1).plan_["costs"]
    five = model.plan_["costs"]
    assert five["statistics trees"] == pair["statistics trees"]  # one fit serves all
    assert five["MI-SVM"] == pytest.approx(5.0 * pair["MI-SVM"])
    # Distances once, five fits.
    assert 1.0 < five["Wasserstein"] / pair["Wasserstein"] < 5.0


def test_the_default_budget_is_named(monkeypatch):
    X, y = make_bags(30, n_features=3, random_state=0)
    monkeypatch.setattr(_stack, "_AUTO_SECONDS", 0.4)
    with pytest.warns(UserWarning, match=r"excludes .* a time budget of 0.4 s"):
        model = BagClassifier(random_state=0, cv=2).fit(X, y)
    assert all("over the time budget" in why for why in model.plan_["dropped"].values())
    assert not set(model.plan_["dropped"]) & set(model.members_)


def test_groups_that_hold_both_classes_alone_are_refused():
    X, y = make_bags(24, n_features=3, random_state=0)
    grouped = X.with_groups(np.arange(24) // 2 % 2)
    with pytest.raises(ValueError, match="2 groups of each class"):
        BagClassifier().fit(grouped, np.arange(24) // 2 % 2)


@pytest.fixture
def mapped(tmp_path):
    """Bags in half precision on disk, and labels."""
    X, y = make_bags(24, n_features=4, random_state=3)
    np.save(tmp_path / "rows.npy", X.data.astype(np.float16))
    return Bags(np.load(tmp_path / "rows.npy", mmap_mode="r"), X.offsets), y


def test_halves_on_disk_are_read_in_pieces(mapped, monkeypatch):
    X, y = mapped
    plain = X.with_data(np.array(X.data, dtype=np.float32))
    expected = BagClassifier(random_state=0, cv=2).fit(plain[:20], y[:20])
    monkeypatch.setattr("bagwise.bags.chunks._CHUNK_BYTES", 16 * 20)
    monkeypatch.setattr("bagwise.bags.stored.COPIED_BELOW", 0)
    in_memory = Bags.in_memory

    def refuse(bags):
        assert not bags.on_disk
        return in_memory(bags)

    monkeypatch.setattr(Bags, "in_memory", refuse)
    model = BagClassifier(random_state=0, cv=2).fit(X[np.arange(20)], y[:20])
    np.testing.assert_allclose(
        StandardRows().fit_transform(X).data,
        StandardRows().fit_transform(plain).data,
        rtol=1e-10,
    )
    # Rounding goes through iterations that stop at a tolerance.
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(plain), atol=1e-4
    )


def test_rows_on_disk_keep_to_the_memory_budget(mapped, monkeypatch):
    X, y = mapped
    monkeypatch.setenv("BAGWISE_MEMORY", "1KB")
    with pytest.raises(ValueError, match="4 standardized columns of .* would take"):
        BagClassifier(random_state=0, cv=2).fit(X, y)


@pytest.mark.parametrize("sparse", [False, True])
def test_infinity_is_no_missing_value(sparse):
    X, y = make_bags(20, n_features=4, random_state=3)
    data = X.data.copy()
    data[[2, 7], [1, 2]] = np.nan, np.inf
    bags = X.with_data(sp.csr_matrix(data) if sparse else data)
    with pytest.raises(ValueError, match=r"contains infinity: bag .*column 2"):
        BagClassifier().fit(bags, y)


def test_the_next_member_is_timed_at_the_pace_of_those_before(monkeypatch):
    budget = Budget(10.0)
    now = 0.0
    monkeypatch.setattr(budget, "elapsed", lambda: now)
    pace = _stack._Pace(budget, n_fits=1, n_classes=2)
    now = 6.0
    pace.after(Member("a", None, per_fit=2.0))
    # Estimated at 2 s, it took 6: the next takes three times its estimate as well.
    assert pace.next_seconds(Member("b", None, per_fit=6.0)) == pytest.approx(18.0)
    assert pace.next_seconds(Member("without an estimate", None)) == 6.0
    assert budget.allows(6.5)
    assert not budget.allows(18.0)


def test_standard_assumption_scores_only_rise_with_an_instance():
    X, y = make_bags(40, n_features=4, random_state=0)
    model = BagClassifier(assumption="standard", random_state=0, cv=3).fit(X, y)
    assert all(weight >= 0 for weight in model.member_weights_.values())
    before = model.decision_function(X)
    rng = np.random.default_rng(0)
    for scale in (0.5, 3.0):
        extra = rng.normal(scale=scale, size=(len(X), X.n_features))
        grown = [np.vstack([bag, row]) for bag, row in zip(X, extra, strict=True)]
        assert (model.decision_function(grown) >= before - 1e-9).all()
    assert model.assumption_check_ == {}  # there is no other kind to disagree with
    assert "assumption_check" not in model._fit_arrays()


def test_the_check_of_the_assumption_is_stored_for_reports(fitted):
    _, _, model = fitted
    check = model.assumption_check_
    names = ("disagree", "standard_accuracy", "others_accuracy", "warn")
    stored = model._fit_arrays()["assumption_check"]
    assert stored.tolist() == [float(check[name]) for name in names]


def test_the_standard_assumption_is_kept():
    # Three tests on simulated bags; the default stack fails the one of frequency.
    model = BagClassifier(assumption="standard", random_state=0, cv=2)
    check_standard_assumption(model, n_bags=50)


def test_the_sides_of_the_assumption_are_compared_out_of_fold():
    rng = np.random.default_rng(0)
    positive = np.arange(80) % 2 == 1
    sign = np.where(positive, 1.0, -1.0)
    good, poor = sign + 0.3 * rng.normal(size=80), rng.normal(size=80)
    weight, respects = np.ones(80), np.array([True, False])
    found = compare_sides(np.column_stack([poor, good]), respects, positive, weight)
    assert found["warn"]
    assert found["others_accuracy"] == 1.0
    assert found["disagree"] == pytest.approx(1.0 - found["standard_accuracy"])
    # Two that are weak in their own ways disagree as often, and no one is right.
    also = rng.normal(size=80)
    found = compare_sides(np.column_stack([poor, also]), respects, positive, weight)
    assert not found["warn"]
    found = compare_sides(np.column_stack([good, good]), respects, positive, weight)
    assert found["disagree"] == 0.0
    assert found["correlation"] == pytest.approx(1.0)


def test_an_offset_changes_nothing_of_weight():
    X, y = make_bags(40, n_features=4, random_state=0)
    plain = BagClassifier(random_state=0, cv=2).fit(X, y)
    for bags in (X.with_data(X.data + 1e6), X.with_data((X.data + 1e4).astype("f4"))):
        moved = BagClassifier(random_state=0, cv=2).fit(bags, y)
        assert np.mean(moved.predict(bags) == plain.predict(X)) > 0.95


def test_a_numpy_seed_is_a_seed():
    X, y = make_bags(20, n_features=3, random_state=0)
    one = BagClassifier(random_state=7, cv=2).fit(X, y)
    two = BagClassifier(random_state=np.int64(7), cv=2).fit(X, y)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X[:6],
        lambda X: Bags(X.data[X.offsets[:-1]], np.arange(len(X) + 1))[:20],
        lambda X: X.with_data(sp.csr_matrix(np.round(X.data)))[:20],
        lambda X: X.with_data(np.column_stack([X.data, 1e-9 * X.data]))[:20],
        lambda X: X.with_data(X.data.astype(np.float32))[:20],
    ],
    ids=["six bags", "bags of one", "sparse", "nearly constant", "float32"],
)
def test_awkward_data(make):
    X, y = make_bags(30, n_features=3, random_state=5)
    bags = make(X)
    model = BagClassifier(random_state=0, cv=2).fit(bags, y[: len(bags)])
    assert np.isfinite(model.decision_function(bags)).all()
    assert np.isfinite(model.instance_scores(bags).values).all()


def test_default_members_that_learn_nothing_do_not_warn():
    X, y = make_bags(24, n_features=3, random_state=0)
    level = X.with_data(np.full_like(X.data, 3.0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = BagClassifier(random_state=0, cv=2).fit(level, y)
    found = [str(one.message) for one in caught]
    assert found == ["all columns of X are constant: bags differ only in their sizes."]
    assert {"MILBoost", "MI-SVM"} <= set(model.members_)
    # A member that the user chose warns.
    with pytest.warns(UserWarning, match="the optimum is constant"):
        BagClassifier([("svm", MISVM())], cv=2, random_state=0).fit(level, y)


def test_what_is_refused_is_named():
    X, y = make_bags(12, n_features=3, random_state=0)
    with pytest.raises(ValueError, match="^members must be a list of"):
        BagClassifier([]).fit(X, y)
    with pytest.raises(ValueError, match="one class only: 1.$"):
        BagClassifier().fit(X, np.ones(12, dtype=int))
    gap = y.astype(float)
    gap[5] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="y contains NaN.*label of bag 5 is nan"):
            BagClassifier().fit(X, gap)


def test_a_bar_of_progress_does_not_ask_for_ipywidgets(monkeypatch, recwarn):
    """In a notebook rich would warn at every update; warnings are errors here."""
    from rich import console

    monkeypatch.setattr(console, "_is_jupyter", lambda: True)
    monkeypatch.setattr(_stack.importlib.util, "find_spec", lambda name: None)
    assert list(_stack._shown(["a", "b"], "BagClassifier")) == ["a", "b"]
    assert not recwarn.list
