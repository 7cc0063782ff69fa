import importlib
import json
import linecache
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from bagwise.comparison import CrossValidation
from bagwise.comparison.description import (
    DataRef,
    Run,
    build_estimator,
    describe_estimator,
    run_key,
)
from bagwise.compose import SimpleMI, WrapperMI


def some_run(**changes):
    values = {
        "method": "SimpleMI",
        "estimator": describe_estimator(SimpleMI()),
        "data": DataRef("toy", "abc"),
        "protocol": CrossValidation(5),
        "fold": 2,
        "grid": {"pooling": ["mean"]},
    }
    return Run(**{**values, **changes})


def test_the_key_is_made_of_content_and_not_of_place(monkeypatch):
    key = run_key(some_run())
    assert key == run_key(some_run(data=DataRef("other", "abc")))
    changed = [
        run_key(some_run(data=DataRef("toy", "abd"))),
        run_key(some_run(fold=3)),
        run_key(some_run(random_state=1)),
        run_key(some_run(grid={})),
        run_key(some_run(estimator=describe_estimator(SimpleMI(SVC(C=2))))),
    ]
    monkeypatch.setattr("bagwise.comparison.description.__version__", "0.0")
    changed.append(run_key(some_run()))
    assert len({key, *changed}) == 7


def test_the_key_holds_the_source_of_ones_own_classes(tmp_path, monkeypatch):
    """Results of a class that was edited since are not taken for its own."""
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for word in ("mean", "max"):
        (tmp_path / "own_method.py").write_text(
            "from bagwise.compose import SimpleMI\n"
            f"class Mine(SimpleMI):\n    pools_by = {word!r}\n"
        )
        importlib.invalidate_caches()
        linecache.clearcache()
        sys.modules.pop("own_method", None)
        own = importlib.import_module("own_method").Mine()
        keys.append(run_key(some_run(estimator=describe_estimator(own))))
    assert keys[0] != keys[1]


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
