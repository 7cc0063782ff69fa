import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from bagwise import Bags
from bagwise.comparison.problem import Problem
from bagwise.comparison.tasks import task_of


@pytest.mark.parametrize("name", ["r2", "rmse", "mae", "spearman"])
def test_one_figure_of_values_is_that_of_all(name):
    rng = np.random.default_rng(0)
    y = rng.normal(size=20)
    problem = Problem("p", Bags(np.zeros((20, 1)), np.arange(21)), y, task="regression")
    found = {"truth": y[:9], "prediction": y[:9] + rng.normal(size=9)}
    task = task_of(problem)
    assert task.figure(name, found) == pytest.approx(task.figures(found)[name])
    truth, said = found["truth"], found["prediction"]
    assert task.figure("mae", found) == pytest.approx(mean_absolute_error(truth, said))
    rmse = root_mean_squared_error(truth, said)
    assert task.figure("rmse", found) == pytest.approx(rmse)
    assert task.figure("r2", found) == pytest.approx(1 - rmse**2 / y.var())
