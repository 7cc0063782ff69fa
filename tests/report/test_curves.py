"""Histograms and thresholds of test bags, against counts by hand."""

import numpy as np
import pytest
from cases import build, constant, good, of, perfect

from bagwise.comparison import CrossValidation, LeaveOneBagOut
from bagwise.report._curves import calibration, score_histogram, threshold_warning
from bagwise.report._page import render_report, report_context
from bagwise.report.view import View


def shifted(by, strength=4.0):
    """Return a method that ranks well and whose threshold is wrong."""

    def say(truth, rng):
        score = strength * (truth - 0.5) + 0.3 * rng.normal(size=len(truth)) + by
        return {"label": (score > 0).astype(int), "score": score}

    return say


def on_the_threshold(truth, rng):
    """Return scores that lie on the threshold, on edges and between them."""
    score = rng.integers(-2, 3, len(truth)) / 2.0
    return {"label": (score > 0).astype(int), "score": score}


def shown(method, n=120, **options):
    y = np.arange(n) % 2
    return View(build(y, {"a": method}, **options)), y


@pytest.mark.parametrize("method", [of(2), shifted(1.0), on_the_threshold])
@pytest.mark.parametrize("positive", [0, 1])
def test_bars_right_of_zero_are_the_bags_that_are_predicted_positive(method, positive):
    view, y = shown(method, pos_label=positive)
    found = score_histogram(view, "a")
    assert found["threshold"]
    middle = int(np.flatnonzero(found["edges"] == 0.0)[0])
    assert middle == len(found["own"]) // 2
    predicted = np.empty(len(y), dtype=int)
    for fold in view.folds("a"):
        predicted[fold.test] = fold.label
    for name, is_own in (("own", y == positive), ("rest", y != positive)):
        assert found[name].sum() == is_own.sum()
        right = (is_own & (predicted == positive)).sum()
        assert found[name][middle:].sum() == right


def test_repeats_do_not_count_a_bag_twice():
    view, y = shown(of(2), protocol=CrossValidation(4, n_repeats=3))
    found = score_histogram(view, "a")
    assert found["own"].sum() + found["rest"].sum() == len(y)
    assert sum(one["n"] for one in calibration(view, "a")) == len(y)


def test_scores_of_single_bags_keep_their_size():
    view, y = shown(of(2), n=40, protocol=LeaveOneBagOut())
    found = score_histogram(view, "a")
    filled = np.flatnonzero(found["own"] + found["rest"])
    assert len(filled) > 6  # divided by their own size, all would be -1 or 1


def test_a_good_ranking_with_a_bad_threshold_is_reported():
    view, y = shown(shifted(1.8))
    text = threshold_warning(view, "a")
    fold = np.concatenate([f.test for f in view.folds("a")])
    label = np.concatenate([f.label for f in view.folds("a")])
    wrong = int((label[y[fold] == 0] == 1).sum())
    assert f"{wrong} of 60 bags of 0 are predicted 1, and 0 of 60 bags of 1" in text
    assert f"Accuracy is {(label == y[fold]).mean():.3f}, and 1.000 with" in text
    context = report_context(view.comparison)
    assert context["warnings"] == [{"method": "a", "text": text}]
    assert text in render_report(context)


@pytest.mark.parametrize(
    "method", [perfect, constant, of(2), of(2, strength=0.0), shifted(0.0)]
)
def test_other_methods_have_no_warning(method):
    view, _ = shown(method)
    assert threshold_warning(view, "a") is None


def test_chance_rarely_gives_a_warning():
    """A threshold chosen on other bags does not flatter scores without information."""
    y = np.arange(60) % 2
    methods = {f"{k}": good(strength=0.0, probability=False) for k in range(60)}
    comparison = build(y, {name: _two(say) for name, say in methods.items()})
    view = View(comparison)
    found = [threshold_warning(view, name) for name in methods]
    assert sum(text is not None for text in found) <= 7  # 0.05 plus two standard errors


def test_balanced_predictions_of_a_rare_class_are_no_error():
    """More accuracy by predicting the rare class never is no better threshold."""

    def balanced(truth, rng):
        score = 1.6 * (truth - 0.5) + rng.normal(size=len(truth))
        return {"label": (score > 0).astype(int), "score": score}

    y = (np.arange(200) % 10 == 0).astype(int)
    view = View(build(y, {"a": balanced}))
    labels = np.concatenate([fold.label for fold in view.folds("a")])
    truth = np.concatenate([fold.truth for fold in view.folds("a")])
    assert (labels == truth).mean() < 0.9 - 0.05  # "never" would gain accuracy
    assert threshold_warning(view, "a") is None


def _two(say):
    return lambda truth, rng: say(truth, rng, 2)
