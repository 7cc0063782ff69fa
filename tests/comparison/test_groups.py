"""Metrics per group: which groups count, and when nothing is reported."""

import numpy as np
import pytest

from bagwise import Bags, compare
from bagwise.comparison import CrossValidation
from bagwise.comparison.evaluate import GroupCounts, group_labels, group_metrics
from bagwise.comparison.problem import as_problem
from bagwise.report._page import report_context

QUIET = {"progress": False, "n_jobs": 1, "grid": "none", "methods": ["SimpleMI"]}


def noise(n_groups, mixed, bags_per_group=4, n_test_only=0):
    """Bags of noise; the first `mixed` groups hold bags of both classes."""
    rng = np.random.default_rng(0)
    groups = np.repeat([f"p{k:02d}" for k in range(n_groups)], bags_per_group)
    y = np.repeat(np.arange(n_groups) % 2, bags_per_group)
    y[: mixed * bags_per_group] = np.arange(mixed * bags_per_group) % 2
    X = Bags.from_list([rng.normal(size=(3, 2)) for _ in y])
    return X.with_groups(groups), y


def test_labels_of_groups_by_brute_force():
    rng = np.random.default_rng(1)
    truth, groups = rng.integers(0, 3, 60), rng.choice(list("abcdefgh"), 60)
    labels, codes = group_labels(truth, groups)
    for k, name in enumerate(np.unique(groups)):
        own = set(truth[groups == name].tolist())
        assert labels[k] == (own.pop() if len(own) == 1 else -1)
        assert set(groups[codes == k]) == {name}


def test_score_of_a_group_is_the_mean_of_its_bags():
    truth = np.array([1, 1, 0, 0, 1, 0])
    groups = np.array(["a", "a", "b", "b", "c", "c"])  # c has both classes
    score = np.array([3.0, -1.0, 0.5, -0.1, 9.0, 9.0])
    found = group_metrics(truth, score, None, groups)
    assert found == {"group_accuracy": 0.5, "group_auroc": 1.0}  # means 1.0 and 0.2
    p = np.array([0.6, 0.6, 0.1, 0.2, 0.0, 0.0])
    assert group_metrics(truth, score, p, groups)["group_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("n_groups", "mixed", "enough"),
    [(12, 0, True), (20, 10, True), (20, 11, False), (9, 0, False), (40, 31, False)],
)
def test_when_enough_groups_count(n_groups, mixed, enough):
    X, y = noise(n_groups, mixed)
    counts = GroupCounts.of(y, X.groups, 2)
    assert counts == GroupCounts(n_groups, n_groups - mixed, enough)


def test_every_class_needs_groups():
    groups = np.arange(20)
    assert GroupCounts.of(np.repeat([0, 1], [17, 3]), groups, 2).enough
    assert not GroupCounts.of(np.repeat([0, 1], [18, 2]), groups, 2).enough


def test_a_selected_few_groups_give_no_figure():
    X, y = noise(20, 12)  # 8 of 20 groups have bags of one class
    result = compare(X, y, protocol=CrossValidation(4), **QUIET)
    assert "Per group" not in result.summary()
    assert np.isnan(result.ranking[0].group_auroc)
    assert np.isnan(result.group_interval("SimpleMI").mean)
    shown = report_context(result)["groups"]
    assert (shown["n"], shown["counted"], shown["rows"]) == ("20", "8", [])
    with pytest.raises(ValueError, match="8 of 20 groups have bags of one class"):
        compare(X, y, protocol=CrossValidation(4), metric="group_auroc", **QUIET)


def test_the_summary_says_how_many_groups_count():
    X, y = noise(20, 4)
    result = compare(X, y, protocol=CrossValidation(4), **QUIET)
    text = "Per group (16 of 20 groups, those with bags of one class): AUROC 0."
    assert text in result.summary()


def test_only_groups_of_test_bags_are_counted():
    train, y = noise(30, 0)
    test, y_test = noise(14, 2)
    test = test.with_data(test.data + 1.0)  # no copies of training bags
    test = test.with_groups([f"t{g}" for g in test.groups])
    result = compare(train, y, test=as_problem(test, y_test), **QUIET)
    assert (result.group_counts.n, result.group_counts.counted) == (14, 12)
    assert "Per group (12 of 14 groups" in result.summary()


def test_figures_per_group_come_first():
    X, y = noise(20, 0)
    result = compare(X, y, protocol=CrossValidation(4), **QUIET)
    text = result.summary()
    assert text.index("Per group (20 groups)") < text.index("Per bag: accuracy")
    assert text.count("Per group") == 1
    frame = result.ranking_frame
    first = ["method", "group_auroc", "group_low", "group_high", "n_folds"]
    assert list(frame.columns[:5]) == first
    low, value, high = frame.iloc[0][["group_low", "group_auroc", "group_high"]]
    assert 0 <= low < value < high <= 1
    context = report_context(result)
    assert context["group_column"]
    assert context["ranking"][0]["group_interval"] == f"{low:.3f} to {high:.3f}"


def test_the_figure_per_group_is_corrected_for_the_selection():
    X, y = noise(20, 0)
    methods = ["SimpleMI", "WrapperMI"]
    result = compare(X, y, protocol=CrossValidation(4), **QUIET | {"methods": methods})
    winner = result.group_winner
    assert winner.method == result.winner.method == result.best
    assert winner.uncorrected == result.group_interval(result.best)
    own = winner.corrected
    text = f"(20 groups): AUROC {own.mean:.3f} [{own.low:.3f}, {own.high:.3f}],"
    assert f"{text} corrected for its selection" in result.summary()
    assert result.to_json()["group_winner"]["corrected"]["low"] == own.low


def test_groups_without_figures_are_not_in_front():
    X, y = noise(20, 12)
    result = compare(X, y, protocol=CrossValidation(4), **QUIET)
    assert list(result.ranking_frame.columns[:2]) == ["method", "n_folds"]
    assert not report_context(result)["group_column"]
