import json

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from bagwise.comparison import KFold
from bagwise.comparison.description import (
    DataRef,
    Run,
    build_estimator,
    describe_estimator,
)
from bagwise.comparison.keys import run_key
from bagwise.compose import SimpleMI, WrapperMI


def some_run(**changes):
    values = {
        "method": "SimpleMI",
        "estimator": describe_estimator(SimpleMI()),
        "data": DataRef("toy", "abc", "/somewhere"),
        "protocol": KFold(5),
        "fold": 2,
        "grid": {"pooling": ["mean"]},
    }
    return Run(**{**values, **changes})


def test_a_run_survives_json():
    run = some_run()
    assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_the_key_is_made_of_content_and_not_of_place():
    key = run_key(some_run(), "1.0")
    assert key == run_key(some_run(data=DataRef("other", "abc", "/elsewhere")), "1.0")
    changed = [
        run_key(some_run(), "1.1"),
        run_key(some_run(data=DataRef("toy", "abd", "/somewhere")), "1.0"),
        run_key(some_run(fold=3), "1.0"),
        run_key(some_run(seed=1), "1.0"),
        run_key(some_run(grid={}), "1.0"),
        run_key(some_run(estimator=describe_estimator(SimpleMI(SVC(C=2)))), "1.0"),
    ]
    assert len({key, *changed}) == 7


def test_nested_estimators_are_rebuilt():
    model = Pipeline(
        [
            ("wrap", WrapperMI(RandomForestClassifier(max_depth=np.int64(3)))),
        ]
    )
    spec = json.loads(json.dumps(describe_estimator(model)))
    again = build_estimator(spec, random_state=7)
    inner = again.steps[0][1].estimator
    assert isinstance(inner, RandomForestClassifier)
    assert inner.max_depth == 3
    assert inner.random_state == 7


def test_a_class_inside_a_function_is_refused():
    class Local(SVC):
        pass

    with pytest.raises(ValueError, match="top of a module"):
        describe_estimator(Local())


def test_an_unknown_class_names_itself():
    with pytest.raises(ImportError, match="NoSuchThing"):
        build_estimator({"class": "bagwise.compose.NoSuchThing"})
