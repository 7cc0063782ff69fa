"""Small problems and runs of toy methods."""

import pytest
from toy_methods import make_problem

from bagwise.comparison import KFold
from bagwise.comparison._compare import make_runs
from bagwise.comparison.frozen import freeze


@pytest.fixture
def problem():
    return make_problem()


@pytest.fixture
def toy_runs(tmp_path):
    """Make the runs of some toy methods on a frozen problem."""

    def make(*methods, n_splits=2, n_repeats=1, n_bags=40):
        problem = make_problem(n_bags)
        ref = freeze(problem, tmp_path / "data")
        protocol = KFold(n_splits, n_repeats)
        return make_runs(list(methods), ref, protocol, protocol.folds(n_bags))

    return make
