import numpy as np
import pytest
from sklearn import metrics

from bagwise.comparison.evaluate import auroc, bag_metrics


def test_metrics_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60)
    score = np.round(rng.normal(size=60) + truth, 1)  # with ties
    probability = 1 / (1 + np.exp(-score))
    label = (score > 0).astype(int)
    found = bag_metrics(truth, label, score, probability, 2)
    assert found["auroc"] == pytest.approx(metrics.roc_auc_score(truth, score))
    assert found["accuracy"] == metrics.accuracy_score(truth, label)
    assert found["balanced_accuracy"] == pytest.approx(
        metrics.balanced_accuracy_score(truth, label)
    )
    assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, probability))


def test_auroc_of_several_classes_is_the_mean_of_one_against_the_rest():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 50)
    score = rng.normal(size=(50, 3))
    expected = np.mean(
        [metrics.roc_auc_score(truth == k, score[:, k]) for k in range(3)]
    )
    assert auroc(truth, score) == pytest.approx(expected)


def test_one_bag_has_no_auroc():
    assert (
        bag_metrics(np.array([1]), np.array([1]), np.ones(1), None, 2)["auroc"] is None
    )
