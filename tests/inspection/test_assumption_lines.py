"""The measured assumptions, the tags and the lines agree."""

import pytest
from sklearn.utils import get_tags

from bagwise.comparison import list_methods
from bagwise.comparison.description import build_estimator
from bagwise.inspection import assumption_line, measured_assumptions
from bagwise.svm import MISVM, BagSVC

CLASSIFIERS = [m for m in list_methods() if m.task == "classification"]


@pytest.mark.parametrize("method", CLASSIFIERS, ids=lambda m: m.name)
def test_tags_say_what_was_measured(method):
    """A tag that is set must be the measured one; what is measured "yes" must be set.

    A method that was not measured sets no tag. Pipelines have none: their last step
    sees a matrix.
    """
    measured = measured_assumptions().get(method.name)
    respects = None if measured is None else measured.respects
    estimator = build_estimator(method.spec())
    tags = get_tags(estimator).input_tags
    promised = getattr(tags, "respects_standard_assumption", None)
    if promised is not None:
        assert measured is not None
        assert promised == bool(respects)
    elif method.then is None:
        assert respects is not True


def test_lines():
    known = measured_assumptions()
    assert known["MI-SVM"].label == "standard"
    line = assumption_line("MI-SVM")
    assert line.startswith("respects the standard assumption: yes, measured (worst")
    assert "no, measured" in assumption_line("EMD + SVC")
    hard = next(one for one in known.values() if one.respects is None)
    assert "not shown, presence not learned" in hard.line
    assert assumption_line("mine") == "respects the standard assumption: not measured"
    assert assumption_line(MISVM()).endswith("yes, measured")
    assert assumption_line(BagSVC()).endswith("no, measured")
    assert assumption_line(BagSVC(kernel="precomputed")).endswith("not measured")


def test_figures_are_areas():
    for one in measured_assumptions().values():
        assert one.draws >= 5
        assert set(one.worst) == {"distractors", "frequency"}
        assert all(0 <= area <= 1 for area in one.auroc.values())
        assert all(one.worst[name] <= one.auroc[name] + 1e-3 for name in one.worst)
