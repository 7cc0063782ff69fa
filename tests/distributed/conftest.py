"""Bags, parts of them, and a small cluster."""

import numpy as np
import pytest

from bagwise.bags import Bags

dask = pytest.importorskip("dask")


def draw(n_bags=60, n_classes=2, n_features=3):
    """Simulate bags of 1 to 5 instances whose mean depends on the class."""
    rng = np.random.default_rng(0)
    y = np.arange(n_bags) % n_classes
    bags = [rng.normal(k, 1.0, (rng.integers(1, 6), n_features)) for k in y]
    return Bags.from_list(bags), y


def cut(X, y, *extra, size=13):
    """Return delayed parts of whole bags."""
    make = dask.delayed(lambda *part: part)
    return [
        make(*(item[i : i + size] for item in (X, y, *extra)))
        for i in range(0, len(y), size)
    ]


@pytest.fixture(name="draw")
def draw_fixture():
    """Return the function that simulates bags."""
    return draw


@pytest.fixture(name="cut")
def cut_fixture():
    """Return the function that splits bags into parts."""
    return cut


@pytest.fixture
def here():
    """Compute in this process."""
    with dask.config.set(scheduler="synchronous"):
        yield
