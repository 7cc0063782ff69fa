"""The check of fits in another process, when loky replaces its worker."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from bagwise.compose import SimpleMI
from bagwise.testing import _check_models


class Replaced:
    """A pool that warns in its own thread that a worker was lost."""

    def __init__(self, change):
        self.change = change

    def submit(self, function, *args):
        def work():
            warnings.warn(
                "A worker stopped while some jobs were given to the executor.",
                stacklevel=1,
            )
            return function(*args) + self.change

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work)


@pytest.mark.filterwarnings("error")
def test_a_replaced_worker_is_no_failure_and_another_answer_is(monkeypatch):
    monkeypatch.setattr(_check_models, "_other_process", lambda: Replaced(0.0))
    _check_models.check_fit_in_process(SimpleMI())
    monkeypatch.setattr(_check_models, "_other_process", lambda: Replaced(1e-12))
    with pytest.raises(AssertionError, match="not equal"):
        _check_models.check_fit_in_process(SimpleMI())
