"""The two batteries and the composition test, over every exported estimator."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

import bagwise.testing
from bagwise.compose import OnInstances
from bagwise.datasets import make_bags
from bagwise.testing import (
    EXPECTED_FAILURES,
    all_estimators,
    make_instance,
    rows_as_bags,
)
from bagwise.testing._battery import BATTERY

ESTIMATORS = all_estimators()
BAG_ESTIMATORS = [
    pytest.param(cls, id=name)
    for name, cls in ESTIMATORS
    if not get_tags(make_instance(cls)).input_tags.two_d_array
]


def scikit_learn_checks():
    """Every check of scikit-learn, on the adapter for those that take bags only."""
    seen = Counter()
    for name, cls in ESTIMATORS:
        takes_rows = get_tags(make_instance(cls)).input_tags.two_d_array
        subject = make_instance(cls if takes_rows else rows_as_bags(cls))
        expected = EXPECTED_FAILURES.get(name, {})
        for estimator, check in estimator_checks_generator(subject):
            title = getattr(check, "func", check).__name__
            seen[name, title] += 1
            marks = (
                pytest.mark.xfail(reason=expected[title]) if title in expected else ()
            )
            label = f"{name}-{title}-{seen[name, title]}"
            yield pytest.param(estimator, check, id=label, marks=marks)


# Some checks fit unlearnable labels, and bags of one instance, for which PC-SVM has no
# constraints; the warnings are correct. Some labels of scikit-learn's checks are words,
# and asymmetric methods ask which of them is positive.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treats the positive class differently"),
    pytest.mark.filterwarnings("ignore:the optimum is constant"),
    pytest.mark.filterwarnings("ignore:every positive bag has a single instance"),
]


SCIKIT_LEARN_CHECKS = list(scikit_learn_checks())


@pytest.mark.parametrize(("estimator", "check"), SCIKIT_LEARN_CHECKS)
def test_scikit_learn_battery(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", BATTERY, ids=lambda c: c.__name__)
@pytest.mark.parametrize("cls", BAG_ESTIMATORS)
def test_bag_battery(cls, check, request):
    reason = EXPECTED_FAILURES.get(cls.__name__, {}).get(check.__name__)
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    check(make_instance(cls))


@pytest.mark.parametrize("cls", BAG_ESTIMATORS)
def test_composition(cls):
    X, y = make_bags(24, n_features=4, bag_size=(2, 4), random_state=3)
    if is_regressor(make_instance(cls)):
        model = make_pipeline(OnInstances(), make_instance(cls))
        search = GridSearchCV(model, {"oninstances": [OnInstances()]}, cv=2)
        assert np.isfinite(cross_val_score(search, X, y, cv=2)).all()
        return
    if not is_classifier(make_instance(cls)):
        final = make_pipeline(make_instance(cls), _last_step(cls, X, y))
    else:
        final = make_instance(cls)
    model = make_pipeline(OnInstances(), final)
    search = GridSearchCV(clone(model), {"oninstances": [OnInstances()]}, cv=2)
    scores = cross_val_score(search, X, y, cv=2)
    assert np.isfinite(scores).all()
    stack = StackingClassifier([("m", model)], LogisticRegression(), cv=2).fit(X, y)
    assert stack.predict(X).shape == y.shape
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(X), 2)


def _last_step(cls, X, y):
    from bagwise.bags import Bags
    from bagwise.compose import SimpleMI

    made = make_instance(cls).fit(X, y).transform(X)
    return SimpleMI() if isinstance(made, Bags) else LogisticRegression()


# Classifiers for which the order of the training data may matter, and why.
ORDER_MATTERS = {
    "NeuralBagClassifier": "steps and folds",
    "BagClassifier": "folds",
    "BagStackingClassifier": "folds",
    "SAFECV": "folds",
    "MILDE": "folds",
    "MIODM": "ties between choices",
}


def test_checks_are_left_out_for_reasons_that_are_known():
    """The number of skipped checks is known, so none is skipped unnoticed."""
    classifiers = {
        param.id: get_tags(make_instance(param.values[0])).input_tags
        for param in BAG_ESTIMATORS
        if is_classifier(make_instance(param.values[0]))
    }
    ordered = {name for name, tags in classifiers.items() if not tags.order_invariant}
    assert ordered == set(ORDER_MATTERS)
    skipped = sum(
        2 * (not tags.order_invariant)
        + (not tags.duplicate_invariant)
        + tags.asymmetric
        + 3 * (not tags.sparse)
        + ("n_jobs" not in make_instance(dict(ESTIMATORS)[name]).get_params(deep=False))
        for name, tags in classifiers.items()
    )
    # The order, two tags and the parameters can skip a check.
    assert skipped == 106


def test_every_expected_failure_is_of_a_check_that_runs():
    run = {tuple(param.id.split("-")[:2]) for param in SCIKIT_LEARN_CHECKS}
    run |= {(param.id, check.__name__) for param in BAG_ESTIMATORS for check in BATTERY}
    expected = {
        (name, title) for name in EXPECTED_FAILURES for title in EXPECTED_FAILURES[name]
    }
    assert expected - run == set()


def test_no_check_returns_early():
    """No check returns early, and the places that skip are known."""
    folder = Path(bagwise.testing.__file__).parent
    skips = Counter()
    for path in sorted(folder.glob("_check_*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                early = isinstance(node, ast.Return) and node.value is None
                assert not early, f"{function.name} in {path.name} returns early"
                if isinstance(node, ast.Call):
                    skips[ast.unparse(node.func)] += 1
    assert skips["need_classifier"] == 7
    assert skips["_need_order_invariant"] == 2
    assert skips["_need_sparse"] == 3
    assert skips["_need_importable"] == 2
    assert skips["_need_target"] == 3
    named = (
        "order, repeats, n_jobs, sides, weights twice, seeds, embeddings, dense,"
        " local classes, nothing separated, nothing to set"
    )
    assert skips["skip"] == 12, named


def test_every_exported_estimator_is_found():
    names = [name for name, _ in ESTIMATORS]
    assert {"OnInstances", "SimpleMI", "WrapperMI"} <= set(names)
    assert len(names) == len(set(names))
