"""Speed of MI-ODM: Newton against mirror prox, and a fit against one SVC.

Ratios of CPU time measured in one run. Real data come from the folder named by
BAGWISE_DATA; without it, made-up bags of about the same size take their place.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.svm import SVC

from bagwise.bags.segments import repeat
from bagwise.datasets import fetch, make_key_instance_bags
from bagwise.kernels.instance import instance_kernel
from bagwise.solvers.margin_distribution import OdmLoss
from bagwise.svm import MIODM
from bagwise.svm.miodm._mirror_prox import mirror_prox_mixture
from bagwise.svm.miodm._pool import kernel_units
from bagwise.svm.miodm._solvers import newton_mixture, saddle_gap, solve_relaxation


def load(name, n_bags, n_features):
    """Return a standardised benchmark set, or bags of about its size."""
    folder = os.environ.get("BAGWISE_DATA")
    if folder and (Path(folder) / f"{name}.npz").exists():
        data = fetch(name)
        X, y = data.X, np.asarray(data.y) > 0
    else:
        X, y = make_key_instance_bags(n_bags, n_features=n_features, random_state=0)
        name, y = f"made-up like {name}", y > 0
    rows = np.asarray(X.data, dtype=np.float64)
    spread = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return name, X.with_data(rows), y


def cpu(function, repeats=1):
    """Return the least CPU time of some calls, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return min(times), result


def restricted_problem(X, y):
    """Return units, loss and a start over the choices the active set ends with."""
    plus, minus = X[y], X[~y]

    def kernel(a, b):
        return instance_kernel(a, b, gamma=1.0 / X.n_features) + 1.0

    units = kernel_units(plus.data, minus.data, plus.offsets, kernel)
    weight = np.concatenate(
        [
            np.full(len(plus), 1000 / len(plus)),
            np.full(minus.n_instances, 100 / len(minus)),
        ]
    )
    loss = OdmLoss(weight, 0.2, 0.5)
    found = solve_relaxation(
        units,
        loss,
        restricted=newton_mixture,
        tol=1e-3,
        max_iter=100,
        rng=np.random.default_rng(0),
    )
    choices = found.mixture.choices
    uniform = np.full(len(choices), 1.0 / len(choices))
    return units, loss, (choices, uniform, np.zeros(units.n_rows))


def relative_gap(loss, mixture):
    """Return the gap of a mixture over its objective."""
    gap = saddle_gap(loss, mixture.delta, mixture.margins, mixture.norms.max())
    return gap / mixture.objective


def newton_against_mirror_prox(quick):
    """Print how much sooner Newton reaches 1e-6 than mirror prox 1e-3."""
    name, X, y = load("musk1", 90, 166)
    units, loss, start = restricted_problem(X, y)
    seconds, mixture = cpu(
        lambda: newton_mixture(units, loss, *start, tol=1e-6), repeats=3
    )
    gap = relative_gap(loss, mixture)
    print(f"{name}: Newton reached {gap:.1e} in {seconds:.3f} s of CPU time")
    for variant in ("adaptive", "accelerated", "stochastic"):
        cap = 2000 if quick or variant == "stochastic" else 40000
        slow, mixture = cpu(
            lambda v=variant, c=cap: mirror_prox_mixture(
                units,
                loss,
                *start,
                tol=1e-3,
                max_iter=c,
                variant=v,
                rng=np.random.default_rng(0),
            )
        )
        gap = relative_gap(loss, mixture)
        sign = "=" if gap <= 1e-3 else ">"
        print(
            f"  mirror prox ({variant:11s}) {mixture.n_iter:6d} iterations, gap "
            f"{gap:.1e}, {slow:7.2f} s: Newton {sign} {slow / seconds:6.0f}x sooner"
            "   (bar: at least 50x)"
        )


def fit_against_svc():
    """Print the cost of a bag-level fit in fits of one SVC on the instances."""
    name, X, y = load("elephant", 200, 230)
    model = MIODM(level="bag", gamma="auto", random_state=0)
    model.fit(X, y)  # compiled loops are loaded outside the measured time
    ours, _ = cpu(lambda: model.fit(X, y), repeats=3)
    labels = repeat(y, X.offsets)
    svc, _ = cpu(lambda: SVC(gamma="auto").fit(X.data, labels), repeats=3)
    print(
        f"{name}: bag-level fit {ours:.2f} s, SVC on the instances {svc:.2f} s: "
        f"{ours / svc:.1f}x   (bar: below 5x)"
    )


def large(quick):
    """Print the time of a linear bag-level fit on many bags."""
    n_bags = 500 if quick else 5000
    X, y = make_key_instance_bags(
        n_bags, n_features=100, bag_size=(18, 30), random_state=0
    )
    # Time and gap only: the relaxation is slack on such data and its labels are worth
    # nothing; bench_miodm_scale.py shows which settings are useful there.
    model = MIODM(level="bag", kernel="linear", threshold="train", random_state=0)
    seconds, _ = cpu(lambda: model.fit(X, y))
    print(
        f"{X.n_instances} instances x 100 in {n_bags} bags, linear, bag level: "
        f"{seconds:.0f} s of CPU time, {model.n_iter_} rounds, duality gap "
        f"{model.duality_gap_:.2g} at J = {model.objective_:.2g}, training accuracy "
        f"{model.score(X, y):.3f}   (bar: minutes)"
    )


def main():
    """Run the three measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small caps and data")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    fit_against_svc()
    newton_against_mirror_prox(quick)
    large(quick)


if __name__ == "__main__":
    main()
