"""`evaluate`, and calibration, operating points and decision curves against truths."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LinearRegression
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

import bagwise
from bagwise.base.survival import kaplan_meier, log_rank
from bagwise.comparison.clinical import (
    calibration_line,
    decision_curve,
    operating_point,
    threshold_for,
)
from bagwise.comparison.validation import Evaluation
from bagwise.compose import SimpleMI, SimpleMIRegressor, WrapperMI
from bagwise.datasets import make_bags, make_survival_bags
from bagwise.io.record import ModelRecord

X, Y = make_bags(160, random_state=3)


def compared(y=Y, **options):
    result = bagwise.compare(
        X[:90],
        y[:90],
        methods=["SimpleMI", "WrapperMI"],
        grid="none",
        n_jobs=1,
        time_limit=None,
        progress=False,
        **options,
    )
    return result, result.fit_best().model


@pytest.fixture(scope="module")
def fitted():
    return compared()


def test_figures_are_those_of_scikit_learn(fitted):
    model = fitted[1]
    found = bagwise.evaluate(model, X[90:], Y[90:])
    p, label = model.predict_proba(X[90:])[:, 1], model.predict(X[90:])
    expected = {
        "accuracy": accuracy_score(Y[90:], label),
        "auroc": roc_auc_score(Y[90:], p),
        "average_precision": average_precision_score(Y[90:], p),
        "balanced_accuracy": balanced_accuracy_score(Y[90:], label),
        "log_loss": log_loss(Y[90:], p),
    }
    for name, value in expected.items():
        row = found.figure(name)
        assert row["mean"] == pytest.approx(value), name
        assert row["low"] <= value <= row["high"]
    assert found.confusion == confusion_matrix(Y[90:], label).tolist()
    assert found.notes == []


def test_the_positive_class_may_be_the_first_label(fitted):
    names = np.where(Y == 1, "bad", "good")
    _, model = compared(names, pos_label="bad")
    one = bagwise.evaluate(fitted[1], X[90:], Y[90:], sensitivity=0.8)
    two = bagwise.evaluate(model, X[90:], names[90:], sensitivity=0.8)
    assert (two.positive, two.classes) == ("bad", ["good", "bad"])
    for a, b in zip(one.figures, two.figures, strict=True):
        assert a["mean"] == pytest.approx(b["mean"]), a["name"]
    assert one.operating["counts"] == two.operating["counts"]
    assert one.operating["threshold"] == pytest.approx(two.operating["threshold"])


def test_values_of_a_regressor():
    y = np.array([bag[:, 0].mean() for bag in X]) + 0.1 * np.arange(160) / 160
    model = SimpleMIRegressor().fit(X[:90], y[:90])
    found = bagwise.evaluate(model, X[90:], y[90:])
    predicted = model.predict(X[90:])
    assert found.figure("r2")["mean"] == pytest.approx(r2_score(y[90:], predicted))
    assert found.figure("mae")["mean"] == pytest.approx(
        mean_absolute_error(y[90:], predicted)
    )
    line = LinearRegression().fit(predicted[:, None], y[90:])
    assert found.calibration["slope"]["mean"] == pytest.approx(line.coef_[0])
    assert found.calibration["intercept"]["mean"] == pytest.approx(line.intercept_)


def test_nothing_is_chosen_on_the_new_bags(fitted):
    model = fitted[1]
    one = bagwise.evaluate(model, X[90:], Y[90:], sensitivity=0.9)
    two = bagwise.evaluate(model, X[90:], 1 - Y[90:], sensitivity=0.9)
    assert one.operating["threshold"] == two.operating["threshold"]
    held = model.training_record_.held_out
    positive = np.sort(held["probability"][held["truth"] == 1])
    t = one.operating["threshold"]
    assert np.mean(positive >= t) >= 0.9 > np.mean(positive > t)


def test_a_threshold_reaches_its_sensitivity_and_no_more():
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth, values = rng.integers(0, 2, 40), rng.integers(0, 9, 40) / 9
        for wanted in (0.2, 0.5, 0.95, 1.0):
            t = threshold_for(truth, values, wanted)
            positive = values[truth == 1]
            assert np.mean(positive >= t) >= wanted
            higher = values[values > t]
            assert all(np.mean(positive >= v) < wanted for v in higher)


def test_the_operating_point_counts():
    rng = np.random.default_rng(1)
    truth, called = rng.integers(0, 2, (2, 60))
    found = operating_point(truth, called)
    (tn, fp), (fn, tp) = confusion_matrix(truth, called)
    assert found["sensitivity"].mean == pytest.approx(tp / (tp + fn))
    assert found["specificity"].mean == pytest.approx(tn / (tn + fp))
    assert found["ppv"].mean == pytest.approx(tp / (tp + fp))
    assert found["npv"].mean == pytest.approx(tn / (tn + fn))
    assert np.isnan(operating_point(truth, truth * 0)["ppv"].mean)


def test_calibration_is_the_logistic_regression_of_the_truth():
    rng = np.random.default_rng(2)
    p = rng.uniform(0.02, 0.98, 300)
    truth = rng.uniform(size=300) < expit(0.6 * logit(p) - 0.4)
    found = calibration_line(truth, p, values_are="probability")

    def loss(c, slope=None):
        z = c[0] + (c[1] if slope is None else slope) * logit(p)
        return np.sum(np.logaddexp(0, z) - truth * z)

    both = minimize(loss, [0.0, 1.0], tol=1e-12).x
    alone = minimize(loss, [0.0], args=(1.0,), tol=1e-12).x
    assert found["slope"].mean == pytest.approx(both[1], abs=1e-4)
    assert found["intercept"].mean == pytest.approx(alone[0], abs=1e-4)
    assert found["slope"].low < 0.6 < found["slope"].high
    # Every bag twice, in groups of two: the same estimate and the same intervals.
    twice = calibration_line(
        np.repeat(truth, 2),
        np.repeat(p, 2),
        np.repeat(np.arange(300), 2),
        values_are="probability",
    )
    for name in found:
        np.testing.assert_allclose(
            [twice[name].mean, twice[name].low, twice[name].high],
            [found[name].mean, found[name].low, found[name].high],
            rtol=1e-6,
        )


def test_calibration_that_does_not_exist():
    p = np.linspace(0.1, 0.9, 20)
    separated = calibration_line(p > 0.5, p, values_are="probability")
    assert np.isnan(separated["slope"].mean)
    assert np.isnan(
        calibration_line(p > 2, p, values_are="probability")["intercept"].mean
    )
    same = calibration_line(p > 0.5, np.full(20, 0.3), values_are="probability")
    assert np.isnan(same["slope"].mean)
    assert expit(same["intercept"].mean + logit(0.3)) == pytest.approx(0.5)


def test_the_decision_curve_is_the_net_benefit():
    rng = np.random.default_rng(4)
    truth, p = rng.integers(0, 2, 50), rng.uniform(size=50)
    found = decision_curve(truth, p)
    for t, net, everybody in zip(*found.values(), strict=True):
        called = p >= t
        true, false = np.mean(called & (truth == 1)), np.mean(called & (truth == 0))
        assert net == pytest.approx(true - false * t / (1 - t))
        share = truth.mean()
        assert everybody == pytest.approx(share - (1 - share) * t / (1 - t))


def test_subgroups_are_evaluations_of_parts(fitted):
    model = fitted[1]
    site = np.array(["a", "b", "b"])[np.arange(70) % 3]
    found = bagwise.evaluate(model, X[90:], Y[90:], by={"site": site})
    assert [(row["level"], row["n_bags"]) for row in found.subgroups] == [
        ("a", 24),
        ("b", 46),
    ]
    alone = bagwise.evaluate(model, X[90:][site == "b"], Y[90:][site == "b"])
    for name in ("accuracy", "auroc"):
        for end in ("mean", "low", "high"):
            assert found.subgroups[1][name][end] == alone.figure(name)[end]
    with pytest.raises(ValueError, match="70 different values"):
        bagwise.evaluate(model, X[90:], Y[90:], by={"id": np.arange(70)})


def test_two_models_are_compared_bag_by_bag(fitted):
    model = fitted[1]
    other = WrapperMI().fit(X[:20], Y[:20])
    one = bagwise.evaluate(model, X[90:], Y[90:], against=other).against
    two = bagwise.evaluate(other, X[90:], Y[90:], against=model).against
    for a, b in zip(one["tests"], two["tests"], strict=True):
        assert a["effect"] == pytest.approx(-b["effect"])
        assert a["p"] == pytest.approx(b["p"])
    same = bagwise.evaluate(model, X[90:], Y[90:], against=model).against
    assert all(test["effect"] == 0 for test in same["tests"])


def test_a_drop_is_said_in_points(fitted):
    result, model = fitted
    noise = np.random.default_rng(0).permutation(Y[90:])
    found = bagwise.evaluate(model, X[90:], noise)
    row = found.figure("auroc")
    assert row["difference"]["high"] < 0
    assert "lower than expected from cross-validation by" in row["text"]
    assert "points [" in row["text"]
    # What was expected is what the comparison says.
    name = result.metric
    expected = found.figure(name)["expected"]
    assert expected["mean"] == pytest.approx(result.winner.corrected.mean)


def test_what_limits_figures_is_said(fitted):
    model = fitted[1]
    assert "fitted to" in bagwise.evaluate(model, X[:90], Y[:90]).notes[0]
    some = bagwise.evaluate(model, X[90:][Y[90:] == 1], Y[90:][Y[90:] == 1])
    assert "one class" in some.notes[0]
    assert [row["name"] for row in some.figures][0] == "accuracy"
    plain = SimpleMI().fit(X[:90], Y[:90])
    found = bagwise.evaluate(plain, X[90:], Y[90:])
    assert "no training record" in found.notes[0]
    with pytest.raises(ValueError, match="training record"):
        bagwise.evaluate(plain, X[90:], Y[90:], sensitivity=0.9)


def test_labels_are_found_by_their_text_and_others_are_named(fitted):
    model = fitted[1]
    as_text = bagwise.evaluate(model, X[90:], Y[90:].astype(str))
    assert as_text.figure("accuracy") == (
        bagwise.evaluate(model, X[90:], Y[90:]).figure("accuracy")
    )
    wrong = Y[90:].copy()
    wrong[4] = 7
    with pytest.raises(ValueError, match="bag 94 has the label 7"):
        bagwise.evaluate(model, X[90:], wrong)
    narrow = bagwise.Bags(X[90:].data[:, :2], X[90:].offsets)
    with pytest.raises(ValueError, match="bagwise check"):
        bagwise.evaluate(model, narrow, Y[90:])


def test_more_than_two_classes():
    y = np.arange(160) % 3
    shifted = bagwise.Bags(X.data + np.repeat(y, X.sizes)[:, None], X.offsets)
    model = SimpleMI().fit(shifted[:90], y[:90])
    found = bagwise.evaluate(model, shifted[90:], y[90:])
    label = model.predict(shifted[90:])
    assert found.confusion == confusion_matrix(y[90:], label).tolist()
    assert found.operating is None
    with pytest.raises(ValueError, match="two classes"):
        bagwise.evaluate(model, shifted[90:], y[90:], threshold=0.4)


def test_the_result_is_plain_values(fitted, tmp_path):
    import json

    found = bagwise.evaluate(fitted[1], X[90:], Y[90:], groups=np.arange(70) // 2)
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert json.loads(text)["n_groups"] == 35
    assert isinstance(found, Evaluation)
    assert found.to_frame().loc["auroc", "mean"] == found.figure("auroc")["mean"]
    bagwise.save(fitted[1], tmp_path / "m.bagwise")
    again = bagwise.evaluate(
        tmp_path / "m.bagwise", X[90:], Y[90:], groups=np.arange(70) // 2
    )
    assert again.to_dict() == found.to_dict()


def test_a_record_survives_a_second_save(fitted, tmp_path):
    bagwise.save(fitted[1], tmp_path / "a.bagwise")
    once = bagwise.load(tmp_path / "a.bagwise")
    bagwise.save(once, tmp_path / "b.bagwise")
    twice = bagwise.load(tmp_path / "b.bagwise").training_record_
    assert isinstance(twice, ModelRecord)
    assert twice.about == fitted[1].training_record_.about
    for name, values in fitted[1].training_record_.held_out.items():
        np.testing.assert_array_equal(twice.held_out[name], values)


# Survival -----------------------------------------------------------------------------


def test_kaplan_meier_and_log_rank_are_those_of_scikit_survival():
    nonparametric = pytest.importorskip("sksurv.nonparametric")
    compare = pytest.importorskip("sksurv.compare")
    rng = np.random.default_rng(5)
    for n_groups in (2, 3):
        time = rng.integers(1, 12, 80).astype(float)  # with ties
        event = rng.uniform(size=80) < 0.6
        group = rng.integers(0, n_groups, 80)
        x, share = nonparametric.kaplan_meier_estimator(event, time)
        ours_x, ours = kaplan_meier(event, time)
        for t, s in zip(x, share, strict=True):
            at = np.flatnonzero(ours_x <= t)[-1]
            assert ours[at] == pytest.approx(s)
        y = np.array(
            list(zip(event, time, strict=True)),
            dtype=[("event", bool), ("time", float)],
        )
        statistic, p = compare.compare_survival(y, group)
        found = log_rank(event, time, group)
        assert found == pytest.approx((statistic, p))


def test_risk_groups_have_limits_from_training():
    pytest.importorskip("sksurv")
    from bagwise.compose import EmbeddedSurvival

    bags, y = make_survival_bags(150, random_state=0)
    model = EmbeddedSurvival().fit(bags[:80], y[:80])
    held = {"score": model.predict(bags[:80])}
    held |= {"truth": y["time"][:80], "event": y["event"][:80]}
    model.training_record_ = ModelRecord({}, held, {})
    found = bagwise.evaluate(model, bags[80:], y[80:])
    limits = np.quantile(held["score"], [1 / 3, 2 / 3])
    np.testing.assert_allclose(found.risks["limits"], limits)
    code = np.searchsorted(limits, model.predict(bags[80:]), side="right")
    counts = [curve["n"] for curve in found.risks["curves"]]
    assert counts == [c for c in np.bincount(code, minlength=3) if c]
    first = found.risks["curves"][0]
    assert first["at_risk"][0] == first["n"]
    own = np.sort(y["time"][80:][code == 0])
    for t, n in zip(found.risks["ticks"], first["at_risk"], strict=True):
        assert n == np.sum(own >= t)
    assert found.figure("concordance")["mean"] == pytest.approx(
        model.score(bags[80:], y[80:])
    )
