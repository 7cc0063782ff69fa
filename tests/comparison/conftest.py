"""Small problems and runs of toy methods."""

import pytest
from toy_methods import make_problem

from bagwise.comparison import CrossValidation
from bagwise.comparison._compare import make_runs
from bagwise.comparison.description import DataRef


@pytest.fixture
def problem():
    return make_problem()


@pytest.fixture
def problems():
    """Return the data of the runs that `toy_runs` has made, by their hash."""
    return {}


@pytest.fixture
def toy_runs(problems):
    """Make the runs of some toy methods."""

    def make(*methods, n_splits=2, n_repeats=1, n_bags=40):
        problem = make_problem(n_bags)
        data = DataRef(problem.name, problem.hash())
        problems[data.hash] = problem
        protocol = CrossValidation(n_splits, n_repeats)
        return make_runs(list(methods), data, protocol, protocol.folds(n_bags))

    return make
