"""The bordered factor against a plain solve of the changed block."""

import numpy as np
import pytest

from bagwise.solvers.bordered import BorderedFactor
from bagwise.solvers.margin_distribution import CholeskyFactor


@pytest.mark.parametrize(
    ("leaving", "joining"),
    [([3], []), ([], [4]), ([0, 5, 11], [1, 8, 20, 23]), ([2, 9], [2, 21])],
)
@pytest.mark.parametrize("n_sides", [None, 1, 4])
def test_changed_rows_against_a_plain_solve(leaving, joining, n_sides):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((24, 30))
    kernel = features @ features.T
    old = np.setdiff1d(np.arange(18), [1, 4, 8])
    rows = np.union1d(np.setdiff1d(old, leaving), joining).astype(int)
    ridge = rng.uniform(0.1, 1.0, 24)
    factor = CholeskyFactor(kernel[np.ix_(old, old)] + np.diag(ridge[old]))
    changed = np.setdiff1d(joining, np.setdiff1d(old, leaving)).astype(int)
    ridge[changed] *= 2.0  # a row that leaves and joins has another ridge
    stays, joins = ~np.isin(old, leaving), np.isin(rows, joining)
    corner = kernel[np.ix_(changed, changed)] + np.diag(ridge[changed])
    border = kernel[np.ix_(old, changed)]
    bordered = BorderedFactor(factor, stays, joins, border, corner)
    rhs = rng.standard_normal(len(rows) if n_sides is None else (len(rows), n_sides))
    exact = np.linalg.solve(kernel[np.ix_(rows, rows)] + np.diag(ridge[rows]), rhs)
    np.testing.assert_allclose(bordered.solve(rhs), exact, rtol=1e-9, atol=1e-11)
