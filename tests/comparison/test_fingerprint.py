"""The fingerprint of a method's code: what changes it and what does not."""

import importlib
import sys
from pathlib import Path

import pytest

import bagwise
from bagwise.comparison import find_method
from bagwise.comparison import fingerprint as _fingerprint
from bagwise.comparison.description import DataRef, Run, build_estimator, import_name
from bagwise.comparison.fingerprint import classes_in, fingerprint, used_modules
from bagwise.comparison.keys import run_identity, run_key
from bagwise.comparison.protocols import KFold
from bagwise.datasets import make_bags

SOURCE = '''"""A method of one's own."""

from sklearn.dummy import DummyClassifier


class Mine(DummyClassifier):
    """Says the most frequent class."""

    # Nothing else.
    def fit(self, X, y):
        return super().fit([[0.0]] * len(y), y)
'''


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Write a module of one's own; return a function that rewrites it."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "own_method.py"

    def write(text):
        path.write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        for cached in ("_hash_of", "_imported", "_path", "_code"):
            getattr(_fingerprint, cached).cache_clear()
        return fingerprint({"class": "own_method.Mine", "params": {}})

    yield write
    for cached in ("_hash_of", "_imported", "_path", "_code"):
        getattr(_fingerprint, cached).cache_clear()


def test_words_do_not_count_and_code_does(own_module):
    first = own_module(SOURCE)
    assert own_module(SOURCE.replace("Says the", "Always says the")) == first
    assert own_module(SOURCE.replace("# Nothing", "\n    # Really nothing")) == first
    assert own_module(SOURCE.replace("[[0.0]]", "[[1.0]]")) != first


def test_a_method_depends_on_what_it_imports_and_on_nothing_else():
    modules = used_modules(("bagwise.compose._simple_mi",))
    assert "bagwise.base._folds" in used_modules(("bagwise.svm._misvm",))
    assert "bagwise.bags._bags" in modules
    assert not any(".svm" in name or ".density" in name for name in modules)
    prints = {
        name: fingerprint(find_method(name).spec())
        for name in ("SimpleMI", "MI-SVM", "MI-SVM (linear)", "MILR", "MIDR + MILR")
    }
    assert prints["MI-SVM"] == prints["MI-SVM (linear)"]  # one class
    assert len(set(prints.values())) == 4


def test_nested_estimators_count():
    spec = find_method("MIDR + MILR").spec()
    assert set(classes_in(spec)) == {
        "sklearn.pipeline.Pipeline",
        "bagwise.decomposition.MIDR",
        "bagwise.linear_model.MILogisticRegression",
    }


def test_the_key_holds_the_code_and_the_identity_does_not(monkeypatch):
    spec = find_method("SimpleMI").spec()
    run = Run("SimpleMI", spec, DataRef("toy", "abc", "/somewhere"), KFold(5))
    key, identity = run_key(run, "1"), run_identity(run)
    monkeypatch.setattr("bagwise.comparison.keys.fingerprint", lambda spec: "other")
    assert run_key(run, "1") != key
    assert run_identity(run) == identity


def test_code_that_needs_an_absent_library_counts_all_the_same():
    """The fast way of a kernel on a GPU: figures may not depend on who has one."""
    assert "bagwise.kernels.backends._triton" in used_modules(("bagwise.svm",))


@pytest.mark.parametrize("name", ["SimpleMI", "MI-SVM", "MILR"])
def test_whatever_a_fit_runs_through_counts(name):
    """No source of the library that a method uses may change and keep its figures."""
    root = Path(bagwise.__file__).parent
    X, y = make_bags(n_bags=12, random_state=0)
    spec = find_method(name).spec()
    estimator = build_estimator(spec, 0)
    estimator.fit(X, y)  # what is compiled at first is not traced
    seen = set()

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(root):
            seen.add(path)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        estimator.fit(X, y).predict(X)
    finally:
        sys.setprofile(before)
    owners = {import_name(path).__module__ for path in classes_in(spec)}
    counted = {_fingerprint._path(name) for name in used_modules(tuple(owners))}
    assert len(seen) > 3
    assert seen <= counted, seen - counted
