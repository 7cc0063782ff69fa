import numpy as np
import pytest
import scipy.sparse as sp

from bagwise import Bags


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def make(rng):
    """Give random bags of the sizes asked for."""

    def bags(sizes, n_features=3, sparse=False, shift=0.0):
        data = rng.normal(size=(sum(sizes), n_features)) + shift
        if sparse:
            data[rng.random(data.shape) < 0.5] = 0.0
        return Bags(data, np.cumsum([0, *sizes]))

    return bags


@pytest.fixture
def as_csr():
    return lambda X: X.with_data(sp.csr_array(X.data))
