"""Two-stage boosting: what the second stage sees, and what both learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bagwise import Bags
from bagwise.ensemble._two_stage import TwoStageBoosting, score_statistics


def test_statistics_of_scores_are_those_of_numpy():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=n) for n in (1, 2, 5, 9)]
    offsets = np.r_[0, np.cumsum([len(part) for part in parts])]
    found = score_statistics(np.concatenate(parts), offsets)
    for row, part in zip(found, parts, strict=True):
        ranked = np.sort(part)[::-1]
        largest = [ranked[min(k, len(part) - 1)] for k in (1, 2)]
        levels = np.quantile(part, [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])
        expected = [*levels, *largest, part.mean(), np.log(len(part))]
        np.testing.assert_allclose(row, expected)


@pytest.mark.parametrize("rule", ["one", "count"])
def test_a_single_instance_and_counts_are_learned(rule):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 10, 4))
    if rule == "one":
        y = (np.hypot(rows[:, :, 0] - 1.5, rows[:, :, 1] - 1.5) < 0.8).any(axis=1)
    else:
        y = (rows[:, :, 2] > 0.5).sum(axis=1) > 3
    X = Bags(rows.reshape(4_000, 4), np.arange(0, 4_001, 10))
    model = TwoStageBoosting(random_state=0).fit(X[:300], y[:300].astype(int))
    assert roc_auc_score(y[300:], model.decision_function(X[300:])) > 0.85
    assert model.instance_scores(X[300:]).values.shape == (1_000,)


def test_a_class_of_one_bag_is_learned_from():
    rng = np.random.default_rng(0)
    X = Bags(rng.normal(size=(40, 2)), np.arange(0, 41, 4))
    model = TwoStageBoosting(random_state=0).fit(X, np.arange(10) == 3)
    assert np.isfinite(model.decision_function(X)).all()
