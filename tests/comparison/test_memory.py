"""What no method may do: run into memory without a word."""

import contextlib
import tracemalloc

import numpy as np
import pytest

from bagwise import Bags
from bagwise.comparison import list_methods
from bagwise.comparison.description import build_estimator
from bagwise.embedding import MILES

BUDGET = 8e6
# What does not grow with the data: samples for kernel widths, chunks of rows. A matrix
# between the 2,700 instances below would be 58 MB, one between 1,500 bags 18 MB.
WORKSPACE = 16e6
# They ask the budget before they choose members, or are trees: tested on their own.
# So are networks, whose memory is not Python's to trace.
ELSEWHERE = {"BagClassifier", "BagRegressor", "WrapperMI (forest)", "Instance forest"}
METHODS = {
    method.name: method
    for method in list_methods()
    if method.task != "survival"
    and method.name not in ELSEWHERE
    and not method.path.startswith("bagwise.neural.")
}
OF_BAGS = [name for name, method in METHODS.items() if method.cost == "bags"]


def bags(n_bags, size):
    """Return bags of two classes, separated by one instance."""
    rng = np.random.default_rng(0)
    offsets = size * np.arange(n_bags + 1)
    data, y = rng.normal(size=(offsets[-1], 4)), np.arange(n_bags) % 2
    data[offsets[:-1][y == 1]] += 2.0
    return Bags(data, offsets), y


def peak_of(estimator, X, y):
    """Return the largest rise in memory of a fit, and what was said instead."""
    tracemalloc.start()
    try:
        estimator.fit(X, y).predict(X)
    except ValueError as error:
        return tracemalloc.get_traced_memory()[1], str(error)
    else:
        return tracemalloc.get_traced_memory()[1], ""
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def budget(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY", str(int(BUDGET)))


def check(name, X, y):
    """Fit a method of the catalog: it keeps to the budget or refuses before."""
    method = METHODS[name]
    target = y + 0.1 * np.sin(np.arange(len(y))) if method.task == "regression" else y
    estimator = build_estimator(method.spec(), 0)
    with contextlib.suppress(ValueError):  # what is imported and compiled once
        estimator.fit(X[:8], target[:8])
    peak, said = peak_of(estimator, X, target)
    assert peak < 2 * BUDGET + WORKSPACE, f"{peak / 1e6:.0f} MB; {said}"
    if said:
        assert "more than the budget of 8 MB" in said
        assert "BAGWISE_MEMORY" in said


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_many_instances_stay_within_the_budget(name):
    check(name, *bags(30, 90))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_BAGS)
def test_many_bags_stay_within_the_budget(name):
    check(name, *bags(1_500, 2))


@pytest.mark.parametrize("n_bags", [2_600, 26_000])
def test_miles_on_very_many_instances_samples_and_refuses(n_bags, monkeypatch):
    """260,000 prototypes for as many instances were more than any machine has."""
    monkeypatch.setenv("BAGWISE_MEMORY", "60MB")
    X = Bags(np.zeros((260_000, 1)), 260_000 // n_bags * np.arange(n_bags + 1))
    y = np.arange(n_bags) % 2
    model = MILES(gamma=1.0)
    with pytest.warns(UserWarning, match="5000 of 260000 instances were sampled"):
        peak, said = peak_of(model, X, y)
    assert f"{n_bags} bags to 5000 instances would take" in said
    assert "Set max_prototypes" in said
    assert peak < 60e6
