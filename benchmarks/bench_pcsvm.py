"""Speed of PC-SVM: a convex step, a fit against its MI-SVM, growth with the data.

Ratios of CPU time measured in one run. Musk1 comes from the folder named by
BAGWISE_DATA; without it, made-up bags of about the same size take its place.

    python benchmarks/bench_pcsvm.py [--quick]
"""

import argparse
import os
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from _timing import best_of, show

from bagwise.datasets import fetch, make_key_instance_bags
from bagwise.kernels import fit_basis
from bagwise.solvers.conic import conic_step
from bagwise.solvers.dual_coordinate import dual_coordinate
from bagwise.svm import PCSVM
from bagwise.svm._base import Layout
from bagwise.svm.pcsvm._projection import Spread, delta_range
from bagwise.svm.pcsvm._steps import Alternation, Constraints

RANK = 100


def cpu(function, repeats=3):
    """Return the least CPU time of some calls."""
    return best_of(function, repeats, clock=time.process_time)


def musk1():
    """Return Musk1 with standard features, or bags of about its size."""
    folder = os.environ.get("BAGWISE_DATA")
    if folder and (Path(folder) / "musk1.npz").exists():
        data = fetch("musk1")
        X, y, name = data.X, np.asarray(data.y) > 0, "Musk1"
    else:
        X, y = make_key_instance_bags(92, n_features=166, random_state=0)
        y, name = y > 0, "made-up like Musk1"
    rows = np.asarray(X.data, dtype=np.float64)
    return name, X.with_data((rows - rows.mean(axis=0)) / rows.std(axis=0)), y


class Prepared:
    """A basis with what a fit does on it, part by part."""

    def __init__(self, X, y, C, Z):
        self.Z = Z
        self.layout = Layout.of(X, np.where(y, 1.0, -1.0), np.ones(len(y)))
        self.C = C

    def alternation(self):
        """Return a cold start."""
        return Alternation(
            self.Z,
            self.layout,
            C=self.C,
            intercept=1.0,
            solver="dual",
            max_iter=50,
            tol=1e-3,
            name="PCSVM",
        )

    def mi_svm(self):
        """Run MI-SVM and return the alternation with its warm starts, and the path."""
        run = self.alternation()
        return run, run.mi_svm(self.layout.witnesses(run.first_scores()))

    def one_pass(self):
        """Do one pass of coordinate ascent, from zero, over all rows."""
        run = self.alternation()
        witnesses = self.layout.positive[self.layout.positive_offsets[:-1]]
        index = np.r_[self.layout.negative, witnesses]
        options = {"cap": run.cap, "bias_scale": 1.0, "max_passes": 1}
        return dual_coordinate(self.Z, index, run.sign, **options)

    def find(self):
        """Return the positive bags and the range of delta."""
        rows = self.Z[self.layout.positive]
        spread = Spread.of(rows, self.layout.positive_offsets)
        return spread, delta_range(spread)

    def fit(self, rho):
        """Do all that a fit does once the basis is there."""
        spread, found = self.find()
        run, path = self.mi_svm()
        delta = found.delta_max - rho * (found.delta_max - found.delta_min)
        constraints, bags = Constraints.of(spread, delta)
        w = path.solution.w
        if len(bags) and not constraints.hold(w):
            return run.constrained(constraints, constraints.start(w, found.direction))
        return path


def one_step(name, X, y, Z):
    """Compare both solvers on the first constrained step."""
    rows = []
    for C, rho in ((1.0, 0.3), (10.0, 0.3), (10.0, 0.5)):
        case = Prepared(X, y, C, Z)
        spread, found = case.find()
        run, path = case.mi_svm()
        delta = found.delta_max - rho * (found.delta_max - found.delta_min)
        constraints, _ = Constraints.of(spread, delta)
        w = constraints.start(path.solution.w, found.direction)
        point = run.at(w, 0.0, None)
        index = np.r_[case.layout.negative, point.witnesses]
        options = {
            "cap": run.cap,
            "bias_scale": 1.0,
            "balls": constraints.balls(w),
        }
        reference = conic_step(Z, index, run.sign, **options)
        loose = conic_step(Z, index, run.sign, tol=1e-4, **options)
        off = abs(loose.primal - reference.primal) / reference.primal
        slow = cpu(lambda: conic_step(Z, index, run.sign, tol=1e-4, **options), 1)  # noqa: B023
        tol = 1e-3
        while True:  # the estimator's default, unless that is not enough
            ours = dual_coordinate(Z, index, run.sign, tol=tol, **options)
            error = abs(ours.primal - reference.primal) / reference.primal
            if error <= 1e-4 or tol < 1e-9:
                break
            tol *= 0.1
        fast = cpu(lambda: dual_coordinate(Z, index, run.sign, tol=tol, **options), 10)  # noqa: B023
        what = (
            f"C={C:g} rho={rho:g}: {fast * 1e3:.1f} ms, errors {off:.0e} (clarabel), "
            f"{error:.0e} (ours)"
        )
        rows.append((what, f"{slow / fast:.0f}x", "(bar: at least 50x)"))
    show(f"{name}, one cold convex step: clarabel at a gap of 1e-4 / ours", rows)


def whole_fit(name, X, y, Z):
    """Compare a fit with the MI-SVM fit it starts from, basis apart."""
    rows = []
    for C in (1.0, 10.0, 100.0):
        case = Prepared(X, y, C, Z)
        base = cpu(case.mi_svm, 5)
        for rho in (0.1, 0.3, 0.5):
            full = cpu(lambda: case.fit(rho), 5)  # noqa: B023
            what = f"C={C:g} rho={rho:g}: {full * 1e3:.0f} ms"
            rows.append((what, f"{full / base:.1f}x", "(bar: at most 6x)"))
    show(f"{name}, full fit / MI-SVM, basis apart", rows)


def growth(quick):
    """Measure exponents of time in the number of instances at a fixed rank.

    The number of passes, rounds and steps depends on the data: one pass and one round
    show the cost of the loops, the whole fit what a user sees.
    """
    sizes = (250, 500, 1000) if quick else (500, 1000, 2000, 4000)
    counts, parts = [], {}
    for n_bags in sizes:
        X, y = make_key_instance_bags(
            n_bags, n_features=20, bag_size=(18, 30), random_state=0
        )
        options = {"gamma": 0.02, "n_components": RANK, "random_state": 0}
        Z = np.ascontiguousarray(fit_basis(X.data, **options).Z)
        case = Prepared(X, y > 0, 1.0, Z)
        spread = Spread.of(Z[case.layout.positive], case.layout.positive_offsets)
        work = [
            ("basis", 3, partial(fit_basis, X.data, **options)),
            ("one pass over all rows", 5, case.one_pass),
            ("tangents of one round", 5, partial(spread.tangent, np.ones(RANK))),
            ("whole fit, basis apart", 1, partial(case.fit, 0.3)),
        ]
        for part, repeats, function in work:
            parts.setdefault(part, []).append(cpu(function, repeats))
        counts.append(X.n_instances)
    rows = []
    for part, seconds in parts.items():
        slope = np.polyfit(np.log(counts), np.log(seconds), 1)[0]
        shown = ", ".join(f"{s:.3f}" for s in seconds)
        rows.append((f"{part}: {shown} s", f"{slope:.2f}", "(bar: linear, 1)"))
    title = ", ".join(map(str, counts))
    show(f"exponents at rank {RANK}, over {title} instances", rows)


def large(quick):
    """Fit many instances with a Nystroem basis."""
    X, y = make_key_instance_bags(
        500 if quick else 5000, n_features=100, bag_size=(18, 30), random_state=0
    )
    model = PCSVM(C=1.0, rho=0.3, n_components=RANK, random_state=0)
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    what = (
        f"{X.n_instances} instances in {len(X)} bags, {model.n_iter_} steps, "
        f"{len(model.active_constraints_)} active, accuracy {model.score(X, y):.2f}"
    )
    show("large data, n_components", [(what, f"{seconds:.0f} s", "(bar: it works)")])


def main():
    """Run the four measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    name, X, y = musk1()
    Z = np.ascontiguousarray(fit_basis(X.data, gamma=1.0 / X.n_features).Z)
    Prepared(X, y, 1.0, Z).fit(0.5)  # compiled loops are loaded outside the measures
    one_step(name, X, y, Z)
    whole_fit(name, X, y, Z)
    growth(quick)
    large(quick)


if __name__ == "__main__":
    main()
