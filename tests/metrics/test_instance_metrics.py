"""Instance metrics against counts by hand, and scorers inside scikit-learn."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate

from bagwise import Ragged
from bagwise.datasets import make_key_instance_bags
from bagwise.metrics import (
    instance_average_precision,
    instance_roc_auc,
    key_instance_scorer,
    key_instance_success,
)
from bagwise.svm import KISVM

OFFSETS = np.array([0, 3, 5, 7])
TRUTH = Ragged(np.array([0, 1, 0, 1, 0, 0, 0]), OFFSETS)
SCORES = Ragged(np.array([0.5, 0.9, 0.1, 0.2, 0.8, 1.0, 0.0]), OFFSETS)


def test_counts_by_hand():
    assert key_instance_success(TRUTH, SCORES) == 0.5
    # Pooled: positives 0.9 and 0.2 against 0.5, 0.1, 0.8, 1.0, 0.0.
    assert instance_roc_auc(TRUTH, SCORES) == pytest.approx((4 + 2) / 10)
    assert instance_roc_auc(TRUTH, SCORES, average="bags") == pytest.approx(0.5)
    assert instance_average_precision(TRUTH, SCORES) == pytest.approx((1 + 0.5) / 2)
    pooled = instance_average_precision(TRUTH, SCORES, average="pooled")
    assert pooled == pytest.approx((1 / 2 + 2 / 5) / 2)


def test_ties_count_as_chance_and_only_positive_bags_count():
    offsets = np.array([0, 2, 6, 9, 11])
    scores = Ragged(np.array([1, 0, 5, 5, 0, 0, 9, 9, 9, 1, 2.0]), offsets)
    truth = Ragged(np.array([1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0]), offsets)
    by_hand = [1.0, 1 / 2, 1 / 3]  # the last bag holds no positive instance
    assert key_instance_success(truth, scores) == pytest.approx(np.mean(by_hand))
    positive = [True, True, False, True]
    found = key_instance_success(truth, scores, bags=positive)
    assert found == pytest.approx(np.mean(by_hand[:2]))
    with pytest.raises(ValueError, match="shape"):
        key_instance_success(truth, scores, bags=[True])


def test_order_of_bags_and_monotone_maps_change_nothing():
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 6, 20))])
    truth = Ragged(rng.integers(0, 2, offsets[-1]), offsets)
    scores = Ragged(rng.normal(size=offsets[-1]), offsets)
    order = rng.permutation(20)
    bent = Ragged(np.exp(scores.values), offsets)
    for metric in (key_instance_success, instance_roc_auc, instance_average_precision):
        value = metric(truth, scores)
        assert metric(truth[order], scores[order]) == pytest.approx(value)
        assert metric(truth, bent) == pytest.approx(value)


def test_what_is_wrong_is_named():
    with pytest.raises(TypeError, match="Ragged"):
        key_instance_success(TRUTH.values, SCORES)
    with pytest.raises(ValueError, match="do not have the same offsets"):
        key_instance_success(TRUTH, Ragged(SCORES.values, [0, 2, 5, 7]))
    none = Ragged(np.zeros(7), OFFSETS)
    with pytest.raises(ValueError, match="no positive bag holds a positive"):
        key_instance_success(none, SCORES)
    with pytest.raises(ValueError, match="all instance labels are equal"):
        instance_roc_auc(none, SCORES)
    with pytest.raises(ValueError, match="average='pooled'"):
        instance_average_precision(none, SCORES)
    with pytest.raises(ValueError, match="'pooled' or 'bags'"):
        instance_roc_auc(TRUTH, SCORES, average="macro")
    with pytest.raises(ValueError, match="one class"):
        instance_roc_auc(TRUTH, Ragged(np.zeros((7, 2)), OFFSETS))
    with pytest.raises(ValueError, match="NaN"):
        instance_roc_auc(TRUTH, Ragged(np.full(7, np.nan), OFFSETS))


def test_scorers_in_cross_validation_and_search():
    X, y, z = make_key_instance_bags(
        30, n_features=3, bag_size=(3, 5), random_state=0, return_instance_labels=True
    )
    model = KISVM(random_state=0)
    folds = StratifiedKFold(3)
    by_hand = [
        key_instance_success(
            z[test], model.fit(X[train], y[train]).instance_scores(X[test])
        )
        for train, test in folds.split(np.zeros(30), y)
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        result = cross_validate(
            model,
            X,
            y,
            cv=folds,
            scoring={"key_instance_success": key_instance_scorer},
            params={"instance_labels": z},
        )
        search = GridSearchCV(
            model, {"C": [1.0, 10.0]}, scoring=key_instance_scorer, cv=folds
        )
        search.fit(X, y, instance_labels=z)
    np.testing.assert_allclose(result["test_key_instance_success"], by_hand)
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(by_hand))
    assert key_instance_scorer(model, X, z) == key_instance_scorer(
        model, X, y, instance_labels=z
    )
    assert "key_instance_success" in repr(key_instance_scorer)
