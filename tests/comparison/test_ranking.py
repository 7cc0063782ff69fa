"""Rankings of `compare`: intervals, tests, selection and warnings."""

import numpy as np
import pytest

from bagwise import Bags
from bagwise.comparison import CrossValidation, compare
from bagwise.compose import SimpleMI

QUIET = {"grid": "none", "n_jobs": 1, "time_limit": None, "progress": False}
METHODS = ["SimpleMI", "WrapperMI"]


def bags(n, *, shift, groups=None, seed=0):
    """Return bags of four instances, all of them shifted in positive bags."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) // 2 % 2
    X = rng.normal(size=(n, 4, 3)) + shift * y[:, None, None]
    return Bags(X.reshape(-1, 3), np.arange(0, 4 * n + 1, 4), groups=groups), y


def test_perfect_results_of_patients_have_a_bound():
    X, y = bags(40, shift=9.0, groups=np.arange(40) // 2)
    found = compare(X, y, methods=METHODS, **QUIET)
    first = found.ranking[0]
    assert first.mean == first.high == 1.0
    assert 0.75 < first.low < 0.87  # 20 patients, not 40 slides
    per_group = found.group_interval(first.method)
    assert per_group.mean == 1.0
    assert 0.6 < per_group.low < 0.87


def test_few_bags_are_not_tested_and_the_reason_is_given():
    X, y = bags(8, shift=1.0)
    found = compare(X, y, methods=METHODS, protocol=CrossValidation(2), **QUIET)
    assert found.ranking[1].verdict == "untested"
    assert np.isnan(found.ranking[1].p)
    assert found.ranking[0].low < found.ranking[0].high
    assert found.winner is None
    assert "only 8 bags" in found.cautions[0]


def test_effects_point_away_from_the_best_method():
    X, y = bags(60, shift=0.5)
    found = compare(X, y, methods=METHODS, **QUIET)
    best, other = found.ranking
    assert other.effect == pytest.approx(best.mean - other.mean)
    assert other.effect_low <= other.effect <= other.effect_high
    assert other.margin == 0.02
    assert found.winner.method == best.method
    assert found.winner.corrected.mean <= found.winner.uncorrected.mean
    assert "60 bags" in found.cautions[0]


def test_one_method_twice_is_never_worse():
    X, y = bags(30, shift=0.5)
    twice = [(name, SimpleMI()) for name in ("one", "two")]
    found = compare(X, y, methods=twice, **QUIET)
    assert found.ranking[1].verdict == "not significantly different"
    assert found.ranking[1].p == 1.0
    assert found.ranking[1].effect_low < 0 < found.ranking[1].effect_high
    assert len(found.cautions) == 2  # what 30 bags cannot tell


def test_repeats_are_averaged():
    X, y = bags(40, shift=0.5)
    once = compare(X, y, methods=METHODS[:1], **QUIET).ranking[0]
    protocol = CrossValidation(5, n_repeats=3)
    found = compare(X, y, methods=METHODS[:1], protocol=protocol, **QUIET)
    accuracy = [row["accuracy"] for row in found.runs("SimpleMI")]
    assert len(accuracy) == 15
    assert found.ranking[0].mean == pytest.approx(np.mean(accuracy))
    width = [row.high - row.low for row in (once, found.ranking[0])]
    assert width[1] < 1.2 * width[0]
