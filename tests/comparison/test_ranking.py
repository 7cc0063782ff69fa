"""Rankings of `compare`: intervals, tests, selection and warnings."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bagwise import Bags
from bagwise.comparison import CrossValidation, compare
from bagwise.comparison.choose import choose_methods, find_method, judge, time_note
from bagwise.comparison.problem import as_problem
from bagwise.comparison.ranking import explain_test
from bagwise.compose import SimpleMI
from bagwise.report._page import render_report, report_context

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
    reason = "Intervals are unreliable and methods are not tested: only 8 bags"
    assert found.cautions[0].startswith(reason)
    assert reason in repr(found)
    assert "unreliable" in found.summary()
    assert not found.ranking_frame["reliable"].any()
    assert "95 of 100 studies. There are too few bags for that." in explain_test(found)
    assert reason in report_context(found)["cautions"][0]


def test_fewer_than_three_groups_are_not_tested():
    X, y = bags(16, shift=3.0, groups=np.arange(16) // 8)
    found = compare(X, y, methods=METHODS, protocol=CrossValidation(2), **QUIET)
    assert found.ranking[0].low < found.ranking[0].high
    assert [row.reliable for row in found.ranking] == [False, False]
    assert np.isnan(found.ranking[1].p)
    assert "only 2 groups were tested, at least 3" in found.cautions[0]


def test_failed_methods_do_not_make_a_study_unreliable():
    X, y = bags(20, shift=3.0)
    broken = ("broken", SimpleMI(LogisticRegression(C=-1.0)))
    found = compare(X, y, methods=[broken, "SimpleMI"], **QUIET)
    assert [row.reliable for row in found.ranking] == [True, False]
    assert "Holm" in explain_test(found)


def test_the_headline_is_the_corrected_figure():
    X, y = bags(60, shift=0.5)
    found = compare(X, y, methods=METHODS, **QUIET)
    corrected, own = found.winner.corrected, found.winner.uncorrected
    ends = [
        f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in (corrected, own)
    ]
    text = found.summary()
    assert text.index(f"{ends[0]}, corrected") < text.index(f"({ends[1]} without")


def test_equivalent_and_not_different_are_two_verdicts():
    """The same method twice: known to be equivalent from many bags only."""
    twice = [(name, SimpleMI()) for name in ("one", "two")]
    verdicts = []
    for n in (30, 500):
        X, y = bags(n, shift=2.0)
        protocol = CrossValidation(2)
        found = compare(X, y, methods=twice, protocol=protocol, **QUIET)
        verdicts.append(found.ranking[1].verdict)
    assert verdicts == ["not significantly different", "equivalent"]
    assert found.ranking[1].p_equivalent < 0.05
    assert "differ by less than 0.02" in explain_test(found)


def test_the_margin_decides_what_is_equivalent():
    twice = [(name, SimpleMI()) for name in ("one", "two")]
    X, y = bags(60, shift=2.0)
    verdicts = []
    for margin in (0.02, 0.2):
        found = compare(X, y, methods=twice, margin=margin, **QUIET)
        verdicts.append(found.ranking[1].verdict)
        assert found.ranking[1].margin == margin
        assert f"differ by less than {margin}" in explain_test(found)
    assert verdicts == ["not significantly different", "equivalent"]
    with pytest.raises(ValueError, match="margin must be between 0 and 1, got 2"):
        compare(X, y, margin=2, **QUIET)


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
    assert "cannot be concluded" in found.cautions[1]  # what 30 bags do not tell
    assert "nor that methods are equally good" in found.cautions[1]


def test_one_method_of_few_bags_has_a_warning_too():
    X, y = bags(30, shift=0.5)
    found = compare(X, y, methods=METHODS[:1], **QUIET)
    first = found.ranking[0]
    ends = f"between {first.low:.3f} and {first.high:.3f} holds for new data."
    assert found.cautions[1].endswith(ends)


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


def test_methods_that_take_long_are_named():
    """Medians by hand: of 1.5, 2, 3, 4 and 30 s (tuning included) it is 3 s."""
    times = {"a": (1.5, np.nan), "b": (1.0, 1.0), "c": (3.0, 0.0), "d": (4.0, np.nan)}
    rows = [
        SimpleNamespace(method=name, fit_time=fit, tune_time=tune)
        for name, (fit, tune) in {**times, "e": (10.0, 20.0)}.items()
    ]
    rows.append(SimpleNamespace(method="failed", fit_time=np.nan, tune_time=np.nan))
    assert "(3 s per fold) for e (30 s);" in time_note(rows)
    assert time_note(rows[:4]) == time_note(rows[3:5]) == ""


def test_the_report_names_the_option_for_excluded_methods():
    X, y = bags(24, shift=2.0)
    problem = as_problem(X, y)
    entry = replace(find_method("SimpleMI"), max_bags=10)
    choices = [*judge([entry], problem), *choose_methods(problem, METHODS[1:])]
    page = render_report(report_context(compare(problem, methods=choices, **QUIET)))
    assert page.count('methods=["default", "SimpleMI"]') == 1
