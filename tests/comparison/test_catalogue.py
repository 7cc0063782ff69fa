import pytest
from sklearn.model_selection import ParameterGrid
from sklearn.svm import SVC

from bagwise.comparison import (
    Method,
    build_estimator,
    catalogue,
    choose_methods,
    find_method,
)
from bagwise.comparison._catalogue import resolve
from bagwise.comparison._methods import METHODS
from bagwise.compose import OnInstances, SimpleMI

AVAILABLE = catalogue()


@pytest.mark.parametrize("method", AVAILABLE, ids=lambda method: method.name)
def test_grids_name_real_parameters(method):
    model = build_estimator(method.spec(), random_state=0)
    known = model.get_params(deep=True)
    for size in ("default", "large"):
        for grid in [method.grid_of(size)]:
            assert set(grid) <= set(known), f"{size} grid of {method.name}"
    assert len(ParameterGrid(method.grid or [{}])) <= 12


def test_names_are_unique_and_every_name_finds_its_method():
    assert len({method.name for method in METHODS}) == len(METHODS)
    for method in AVAILABLE:
        assert find_method(method.name) is method
    assert find_method("wrappermi FOREST").name == "WrapperMI (forest)"


def test_every_method_has_a_paper_and_a_note():
    for method in METHODS:
        assert method.paper, method.name
        assert method.note, method.name


def test_an_absent_class_is_not_listed():
    absent = Method("none", "bagwise.compose.NotYet")
    nowhere = Method("none", "bagwise.nowhere.NotYet")
    assert not absent.available()
    assert not nowhere.available()


def test_an_unknown_method_lists_near_matches():
    with pytest.raises(ValueError, match=r"unknown method 'SimpelMI'.*'SimpleMI'"):
        find_method("SimpelMI")


def test_capitals_matter_only_where_they_must():
    assert find_method("simplemi").name == "SimpleMI"
    assert find_method("MISVM").name == "MI-SVM"
    assert find_method("mi-SVM").name == "mi-SVM"
    with pytest.raises(ValueError, match="capitals matter"):
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
    small = Method("small", "x.Y", max_bags=10, cost="bags")
    two = Method("two", "x.Y", multiclass=False)
    asked = Method("asked", "x.Y", default=False, note="slow")
    chosen = {c.method.name: c for c in choose_methods(problem, [small, two, asked])}
    assert not chosen["small"].chosen
    assert "40 bags are more than 10" in chosen["small"].reason
    assert chosen["two"].chosen
    assert not chosen["asked"].chosen
