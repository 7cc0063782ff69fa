"""Measure each solver of ``bagwise.solvers`` against the next best one.

Every solver that is kept is chosen for some problems. This script solves problems of
that kind with it and with the alternatives, and prints CPU seconds and objective
values::

    python studies/scripts/solver_choice.py

It needs the classic sets in the folder that ``BAGWISE_DATA`` names. The figures are in
``studies/results/solver-choice.md``.
"""

import time
import warnings

import numba
import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from bagwise import Bags
from bagwise.compose import OnInstances
from bagwise.datasets import fetch
from bagwise.density._base import density_objective, screened_starts
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import instance_kernel, resolve_gamma
from bagwise.solvers import smo as smo_loops
from bagwise.solvers.hinge import BasisSpace, GramSpace, HingeRows
from bagwise.solvers.interior_point import working_set
from bagwise.solvers.l1 import l1_squared_hinge
from bagwise.solvers.lbfgs import Descent
from bagwise.solvers.sparse_ascent import sparse_ascent
from bagwise.svm import PCSVM, _pcsvm_steps


def seconds(function, repeats=3):
    """CPU seconds of the fastest of some calls after a first one, and the result."""
    found, best = function(), np.inf
    for _ in range(repeats):
        start = time.process_time()
        found = function()
        best = min(best, time.process_time() - start)
        if best > 5.0:
            break
    return best, found


def standardized(name):
    """Bags of a classic set with standardized features, and labels -1 and 1."""
    data = fetch(name)
    X = OnInstances().fit_transform(data.X)
    return X, np.where(data.y == np.unique(data.y)[1], 1.0, -1.0)


def simulated(n_bags, n_features):
    """Bags of 5 to 15 instances, one of which is moved in positive bags."""
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(rng.integers(5, 16, n_bags))]
    rows = rng.normal(size=(offsets[-1], n_features))
    y = np.where(np.arange(n_bags) % 2, 1.0, -1.0)
    rows[offsets[:-1][y > 0], :5] += 2.0
    return Bags(rows, offsets), y


def rows_of(X, y, C=1.0):
    """Hinge rows that share a slack in each bag: the first step of mi-SVM's kind."""
    sign = y[X.bag_index]
    cap = np.full(len(X), C)
    return HingeRows(
        np.arange(X.n_instances), sign, np.ones(len(sign)), cap, X.bag_index
    )


def report(what, **found):
    """Print seconds and objective of every solver."""
    print(what)
    for name, (spent, value) in found.items():
        print(f"    {name:32} {spent:9.3f} s   objective {value:.6g}", flush=True)


def kernel_rows():
    """Rows by their kernel: SMO and the interior point on exact coordinates."""
    for name in ("musk1", "elephant"):
        X, y = standardized(name)
        data = np.asarray(X.data, dtype=np.float64)
        options = {"kernel": "rbf", "gamma": resolve_gamma("scale", data)}
        K, rows = instance_kernel(data, **options), rows_of(X, y)
        Z = fit_basis(data, method="cholesky", matrix=K.copy(), **options).Z
        smo = seconds(lambda K=K, rows=rows: GramSpace(K).solve(rows, 1e-4).objective)
        inner = seconds(
            lambda Z=Z, rows=rows: BasisSpace(Z).solve(rows, 1e-4).objective
        )
        report(f"{name}, RBF kernel, {len(K)} rows", smo=smo, interior_point=inner)


def few_coordinates():
    """Rows by few coordinates: the interior point, SMO and coordinate ascent."""
    for what, (X, y) in {
        "elephant, 230 columns": standardized("elephant"),
        "simulated, 50 columns": simulated(600, 50),
    }.items():
        Z = np.ascontiguousarray(X.data, dtype=np.float64)
        rows = rows_of(X, y)
        problem = {"cap": rows.cap, "margin": rows.margin, "group": rows.group}

        def value(found, Z=Z, rows=rows):
            _, w, b, _ = found
            return 0.5 * w @ w + rows.hinge_loss(Z @ w, b)

        inner = seconds(
            lambda Z=Z, rows=rows, o=problem: working_set(Z, rows.sign, tol=1e-6, **o)
        )
        ascent = seconds(
            lambda Z=Z, rows=rows, o=problem: sparse_ascent(Z, rows.sign, **o), 1
        )
        smo = seconds(
            lambda Z=Z, rows=rows: GramSpace(Z @ Z.T).solve(rows, 1e-4).objective, 1
        )
        report(
            f"{what}, {len(Z)} rows",
            interior_point=(inner[0], value(inner[1])),
            sparse_ascent=(ascent[0], value(ascent[1])),
            smo=smo,
        )


def sparse_rows():
    """Many sparse columns: coordinate ascent, and SMO with its Gram matrix."""
    rng = np.random.default_rng(0)
    X, y = simulated(400, 1)
    n = X.n_instances
    Z = sp.random_array((n, 5000), density=0.01, rng=rng, format="csr")
    Z.data[:] = 1.0
    Z = sp.csr_array(Z + sp.csr_array((y[X.bag_index] > 0)[:, None] * np.eye(1, 5000)))
    rows = rows_of(X, y)
    problem = {"cap": rows.cap, "margin": rows.margin, "group": rows.group}
    ascent = seconds(lambda: sparse_ascent(Z, rows.sign, **problem), 1)
    _, w, b, _ = ascent[1]
    value = 0.5 * w @ w + rows.hinge_loss(Z @ w, b)
    smo = seconds(lambda: GramSpace((Z @ Z.T).toarray()).solve(rows, 1e-3).objective, 1)
    report(f"sparse, {n} x 5,000", sparse_ascent=(ascent[0], value), smo=smo)


def balls():
    """Steps of PC-SVM: Newton steps on the faces of the dual, and coordinate ascent."""
    for name in ("musk1", "elephant", "fox", "tiger"):
        X, y = standardized(name)
        # Both solve to the same accuracy: Newton steps reach it at any tolerance.
        options = {"rho": 0.5, "threshold": "zero", "tol": 1e-5}
        newton = seconds(lambda X=X, y=y, o=options: PCSVM(**o).fit(X, y).objective_)
        most, _pcsvm_steps._MOST_ROWS = _pcsvm_steps._MOST_ROWS, 0
        ascent = seconds(lambda X=X, y=y, o=options: PCSVM(**o).fit(X, y).objective_, 1)
        _pcsvm_steps._MOST_ROWS = most
        report(f"{name}, PC-SVM", face_newton=newton, coordinate_ascent=ascent)


def one_norm():
    """The 1-norm SVM of MILES: interior point, and scikit-learn's coordinate descent.

    liblinear penalizes the intercept; a large scaling makes that penalty small.
    """
    for name in ("musk1", "elephant"):
        X, y = standardized(name)
        data = np.asarray(X.data, dtype=np.float64)
        gamma = resolve_gamma("scale", data)
        K = instance_kernel(data, kernel="rbf", gamma=gamma)
        M = np.maximum.reduceat(K, X.offsets[:-1], axis=0)
        cost = np.ones(len(y))

        def value(w, b, M=M, y=y):
            loss = np.maximum(1.0 - y * (M @ w + b), 0.0)
            return np.abs(w).sum() + (loss**2).sum()

        own = seconds(lambda M=M, y=y, c=cost: l1_squared_hinge(M, y, c))
        svc = LinearSVC(
            penalty="l1", dual=False, tol=1e-5, intercept_scaling=100.0, max_iter=20_000
        )
        theirs = seconds(lambda M=M, y=y, s=svc: s.fit(M, y), 1)
        report(
            f"{name}, 1-norm SVM, {M.shape[0]} x {M.shape[1]}",
            l1=(own[0], own[1][2]),
            liblinear=(theirs[0], value(svc.coef_[0], svc.intercept_[0])),
        )


def descents():
    """The diverse density: compiled descents, and L-BFGS-B of scipy."""
    stop = {"maxcor": 10, "maxiter": 200, "ftol": 2.2e-9, "gtol": 1e-5}
    for name in ("musk1", "elephant"):
        X, y = standardized(name)
        labels = (X.offsets, y > 0, np.ones(len(y)))
        starts = screened_starts(X, labels[1], labels[2], 5)
        for mode in ("noisy_or", "max"):
            f = density_objective(X.data, *labels, mode)
            own = seconds(lambda f=f, s=starts: [f.descend(Descent(x), 200) for x in s])
            scipys = seconds(
                lambda f=f, s=starts: [
                    minimize(f, x, jac=True, method="L-BFGS-B", options=stop) for x in s
                ]
            )
            found = {"lbfgs": own, "L-BFGS-B": scipys}
            report(
                f"{name}, diverse density ({mode}), five starts",
                **{k: (s, min(each.fun for each in r)) for k, (s, r) in found.items()},
            )


@numba.njit(error_model="numpy")
def plain_largest(values):
    """Where the largest value comes first, by one comparison per value."""
    most, found = 0.0, -1
    for row in range(len(values)):
        if values[row] > most:
            most, found = values[row], row
    return found


@numba.njit
def repeated(function, values, n_calls):
    """Call a compiled function many times."""
    total = 0
    for _ in range(n_calls):
        total += function(values)
    return total


def largest_gain():
    """The row that SMO moves next: compare bits as integers, and compare numbers."""
    for n in (476, 1391, 6598):
        gains = np.abs(np.random.default_rng(0).normal(size=n)) ** 3
        calls = 10_000_000 // n
        bits = seconds(
            lambda g=gains, n=calls: repeated(smo_loops._largest, g.view(np.int64), n)
        )
        plain = seconds(lambda g=gains, n=calls: repeated(plain_largest, g, n))
        report(f"largest of {n} gains, {calls} times", bits=bits, numbers=plain)


def main():
    """Run all comparisons."""
    warnings.simplefilter("ignore")
    for compare in (
        kernel_rows,
        few_coordinates,
        sparse_rows,
        balls,
        one_norm,
        descents,
        largest_gain,
    ):
        compare()


if __name__ == "__main__":
    main()
