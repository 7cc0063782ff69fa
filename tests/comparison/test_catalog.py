import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import ParameterGrid
from sklearn.svm import SVC
from sklearn.utils import get_tags

from bagwise import Bags
from bagwise.comparison import Method, list_methods
from bagwise.comparison._search import FEW, LEAST, MOST, SHARE
from bagwise.comparison.choose import (
    METHODS,
    choose_methods,
    find_method,
    judge,
    missing_methods,
    resolve,
)
from bagwise.comparison.description import build_estimator, describe_estimator
from bagwise.comparison.problem import Problem
from bagwise.comparison.tuning import fit_method
from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_bags
from bagwise.inspection import instance_scores
from bagwise.svm import MISVM, BagSVC

AVAILABLE = list_methods()


@pytest.mark.parametrize("method", AVAILABLE, ids=lambda method: method.name)
def test_grids_name_real_parameters(method):
    model = build_estimator(method.spec(), random_state=0)
    known = model.get_params(deep=True)
    for size in ("default", "large"):
        for grid in [method.grid_of(size)]:
            assert set(grid) <= set(known), f"{size} grid of {method.name}"
    n = len(ParameterGrid(method.grid or [{}]))
    # Candidates that share no work are many fits: a third of the bags costs a ninth of
    # all bags where cost grows with their square.
    n_full = n if n <= FEW else min(max(LEAST, math.ceil(n / SHARE)), MOST)
    assert hasattr(model, "_score_candidates") or n_full + n / SHARE**2 <= 25


def test_names_are_unique_and_every_name_finds_its_method():
    assert len({method.name for method in METHODS}) == len(METHODS)
    for method in AVAILABLE:
        assert find_method(method.name) is method
    assert find_method("wrappermi FOREST").name == "WrapperMI (forest)"


def test_every_method_has_a_paper_and_a_note():
    for method in METHODS:
        assert method.paper, method.name
        assert method.note, method.name


@pytest.mark.parametrize("method", AVAILABLE, ids=lambda method: method.name)
def test_the_task_is_that_of_the_class(method):
    kind = get_tags(build_estimator(method.spec())).estimator_type
    named = {"classifier": "classification", "regressor": "regression"}
    assert method.task == named.get(kind, "survival")


@pytest.mark.parametrize("name", ["SimpleMI", "MI-SVM", "Mean + ridge"])
def test_nothing_is_built_that_is_not_run(problem, monkeypatch, name):
    """To choose by size and task, no class is needed."""
    built = []

    def note(spec, random_state=None):
        built.append(spec["class"])
        return build_estimator(spec, random_state)

    monkeypatch.setattr("bagwise.comparison.catalog.build_estimator", note)
    chosen = [choice for choice in choose_methods(problem) if choice.chosen]
    assert len(chosen) > 10
    assert built == []
    values = Problem("values", problem.X, 1.5 * np.arange(40), task="regression")
    choose_methods(values if name == "Mean + ridge" else problem, [name])
    assert built == []


def test_a_missing_package_is_named(monkeypatch):
    from importlib import util

    found = util.find_spec
    monkeypatch.setattr(
        util, "find_spec", lambda name, *a: None if name == "torch" else found(name, *a)
    )
    names = {method.name for method in missing_methods()}
    assert names >= {"Attention network", "Attention network (values)"}
    assert not names & {method.name for method in list_methods()}
    line = r"Attention network needs torch.*pip install 'bagwise\[torch\]'"
    for name in ("Attention network", "neuralbagclassifier"):
        with pytest.raises(ImportError, match=line):
            find_method(name)


def test_an_unknown_method_lists_near_matches():
    with pytest.raises(ValueError, match=r"unknown method 'SimpelMI'.*'SimpleMI'"):
        find_method("SimpelMI")


def test_capitals_matter_only_where_they_must():
    assert find_method("simplemi").name == "SimpleMI"
    assert find_method("MISVM").name == "MI-SVM"
    assert find_method("mi-SVM").name == "mi-SVM"
    with pytest.raises(ValueError, match="is ambiguous.*case-sensitive"):
        find_method("misvm")


def test_estimators_and_pairs_are_methods_too():
    own, named = resolve([SimpleMI(SVC(C=3)), ("mine", SimpleMI())])
    assert build_estimator(own.spec()).estimator.C == 3
    assert named.name == "mine"
    with pytest.raises(ValueError, match="two methods are called"):
        resolve([SimpleMI(), SimpleMI()])
    with pytest.raises(TypeError, match="has no predict"):
        resolve([OnInstances()])
    with pytest.raises(TypeError, match="not the class itself"):
        resolve([SimpleMI])


def test_size_and_kind_of_the_data_decide(problem):
    small = Method("small", "toy_methods.Toy", max_bags=10, cost="bags")
    asked = Method("asked", "toy_methods.Toy", default=False, note="slow")
    chosen = {c.method.name: c for c in judge([small, asked], problem)}
    assert not chosen["small"].chosen
    assert "40 bags are more than 10" in chosen["small"].reason
    assert not chosen["asked"].chosen


def test_a_larger_variant_takes_the_place_of_a_method(problem):
    small = Method("small", "toy_methods.Toy", max_bags=10, larger="wide")
    wide = Method("wide", "toy_methods.Toy", default=False, max_bags=1000)
    chosen = {c.method.name: c for c in judge([small, wide], problem)}
    assert not chosen["small"].chosen
    assert "wide is used instead" in chosen["small"].reason
    assert chosen["wide"].chosen
    assert "in place of small, as 40 bags are more than 10" in chosen["wide"].reason
    few = Problem("few", problem.X[:8], problem.y[:8])
    chosen = {c.method.name: c for c in judge([small, wide], few)}
    assert (chosen["small"].chosen, chosen["wide"].chosen) == (True, False)


def test_variants_for_large_data_are_in_the_catalog():
    names = {method.name: method for method in METHODS}
    pairs = [m for m in METHODS if m.larger]
    assert {m.name for m in pairs} >= {"MI-SVM", "SAFE", "MI-Kernel"}
    for method in pairs:
        assert names[method.larger].path == method.path
        limit = names[method.larger].max_instances
        assert limit is None or limit > method.max_instances


def tiny_bags(n_classes, *, sparse=False):
    rng = np.random.default_rng(0)
    y = np.arange(8 * n_classes) % n_classes
    bags = [np.abs(rng.normal(size=(3, 4))) + 2 * np.eye(4)[label] for label in y]
    X = Bags.from_list(bags)
    return (X.with_data(sp.csr_matrix(X.data)) if sparse else X), y


CLASSIFIERS = [method for method in AVAILABLE if method.task == "classification"]
REGRESSORS = [method for method in AVAILABLE if method.task == "regression"]


def quick(method):
    """Return the description with few trees and few folds, where it has some."""
    known = build_estimator(method.spec()).get_params(deep=True)
    few = {"n_estimators": 5, "cv": 2, "max_epochs": 2}
    changed = {
        name: few[name.rpartition("__")[2]]
        for name in known
        if name.rpartition("__")[2] in few
    }
    model = build_estimator(method.spec()).set_params(**changed)
    return describe_estimator(model)


@pytest.mark.parametrize("method", REGRESSORS, ids=lambda method: method.name)
def test_what_the_catalog_says_of_a_regressor_is_true(method):
    X, y = tiny_bags(3)
    y = y + 0.1 * np.arange(len(y))
    model = fit_method(quick(method), X, y, scale="none").model
    assert not method.multiclass
    assert not method.probability
    assert not hasattr(model, "classes_")
    assert np.isfinite(model.predict(X)).all()
    assert method.instances == (instance_scores(model, X) is not None)
    X = X.with_data(sp.csr_matrix(X.data))
    if method.sparse:
        model = fit_method(quick(method), X, y, scale="none").model
        assert np.isfinite(model.predict(X)).all()
    else:
        with pytest.raises((TypeError, ValueError), match="[Ss]parse|dense"):
            fit_method(quick(method), X, y, scale="none")


@pytest.mark.parametrize("method", CLASSIFIERS, ids=lambda method: method.name)
def test_what_the_catalog_says_of_a_method_is_true(method):
    """Sparse data, several classes, instance scores, probabilities: by doing it."""
    X, y = tiny_bags(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit_method(quick(method), X, y, scale="none").model
        assert method.multiclass
        assert method.probability == hasattr(model, "predict_proba")
        assert method.instances == (instance_scores(model, X) is not None)
        X, y = tiny_bags(2, sparse=True)
        if method.sparse:
            model = fit_method(quick(method), X, y, scale="none").model
            assert set(model.predict(X)) <= {0, 1}
        else:
            with pytest.raises((TypeError, ValueError), match="[Ss]parse|dense"):
                fit_method(quick(method), X, y, scale="none")


def test_assumptions_are_measured_or_read_from_the_tag():
    assert "worst AUROC of" in find_method("MI-SVM").assumption
    assert find_method(MISVM()).assumption.endswith("yes, measured")
    assert find_method(BagSVC(kernel="precomputed")).assumption.endswith("not measured")


def test_default_among_names_stands_for_the_default_methods():
    problem = Problem("toy", *make_bags(40, random_state=0))
    plain = [c.method.name for c in choose_methods(problem) if c.chosen]
    found = choose_methods(problem, ["default", "IAPR", "SimpleMI"])
    taken = [c.method.name for c in found if c.chosen]
    assert sorted(taken) == sorted([*plain, "IAPR"])
    assert [c.reason for c in found if c.method.name == "IAPR"] == ["as asked"]
