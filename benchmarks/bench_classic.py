"""Boosting and embeddings: speed against direct implementations, and scale.

Run ``python benchmarks/bench_classic.py [--quick]``. Times are of one processor thread
in this run (the machine may be busy with other work); the yardsticks are written here
with NumPy, SciPy and scikit-learn. The data sets are read from the folder named by
BAGWISE_DATA; artificial bags of the same shape take their place where they are absent.
"""

import os
import sys

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import time  # noqa: E402

import numpy as np  # noqa: E402
from _classic_data import artificial, load  # noqa: E402
from _timing import best_of, show  # noqa: E402
from scipy.spatial.distance import cdist  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

from bagwise.compose import SimpleMI, WrapperMI  # noqa: E402
from bagwise.embedding import (  # noqa: E402
    MILES,
    MiFV,
    MiVLAD,
    PrototypeEmbedding,
)
from bagwise.ensemble import MILBoost  # noqa: E402
from bagwise.solvers.stumps import SortedColumns  # noqa: E402


def cpu(function, repeats=5):
    return best_of(function, repeats, clock=time.process_time)


def stumps(sets):
    """One round of weak learning: search and prediction on all instances."""
    rows = []
    for name in sets:
        X, y = load(name)
        rng = np.random.default_rng(0)
        wanted = np.where(np.repeat(y, X.sizes) == 1, 1, -1)
        size = rng.random(X.n_instances)
        columns = SortedColumns(X.data)
        n_rounds = 20  # a single one is too short for the clock

        def ours(X=X, columns=columns, w=size * wanted, n=n_rounds):
            for _ in range(n):
                columns.best_stump(w).predict(X.data)

        def theirs(X=X, wanted=wanted, size=size):
            tree = DecisionTreeClassifier(max_depth=1)
            tree.fit(X.data, wanted, sample_weight=size).predict(X.data)

        ours()
        fast, slow = cpu(ours) / n_rounds, cpu(theirs, 3)
        detail = f"at least 10x ({slow * 1e3:.2f} ms / {fast * 1e3:.3f} ms)"
        rows.append((f"tree of depth 1 / stump, {name}", f"{slow / fast:.1f}x", detail))
    show("One round of boosting", rows)


def plain_distances(a, b):
    return ((a[:, None] - b[None]) ** 2).sum(axis=2)


def compiled_distances(a, b):
    return cdist(a, b, "sqeuclidean")


def pair_loop(X, gamma, distances):
    """MILES' embedding, one pair of bags at a time."""
    bags, starts = list(X), X.offsets
    M = np.empty((len(X), X.n_instances))
    for i, a in enumerate(bags):
        for j, b in enumerate(bags):
            nearest = distances(a, b).min(axis=0)
            M[i, starts[j] : starts[j + 1]] = np.exp(-gamma * nearest)
    return M


def embedding(sets):
    rows = []
    for name in sets:
        X, _ = load(name)
        model = PrototypeEmbedding(gamma=1.0 / X.n_features).fit(X)
        ours = model.transform(X)
        fast = cpu(lambda X=X, model=model: model.transform(X))
        for kind, distances in (
            ("NumPy", plain_distances),
            ("SciPy's cdist", compiled_distances),
        ):
            start = time.process_time()
            theirs = pair_loop(X, model.gamma_, distances)
            slow = time.process_time() - start
            gap = np.abs(ours - theirs).max()
            bar = "at least 20x" if kind == "NumPy" else "for comparison"
            detail = f"{bar} ({slow:.2f} s / {fast:.4f} s, within {gap:.0e})"
            what = f"loop over pairs with {kind} / ours, {name}"
            rows.append((what, f"{slow / fast:.1f}x", detail))
    show("MILES' embedding", rows)


def scale(quick):
    n_bags = 1_000 if quick else 10_000
    X, y = artificial(n_bags, 3, 100)
    models = {
        "SimpleMI": SimpleMI(),
        "WrapperMI": WrapperMI(),
        "miFV": make_pipeline(MiFV(random_state=0), LinearSVC(dual=False)),
        "miVLAD": make_pipeline(MiVLAD(random_state=0), LinearSVC(dual=False)),
        "MILBoost": MILBoost(100),
        "MILES, 2000 prototypes": MILES(max_prototypes=2000, random_state=0),
    }
    train = np.arange(n_bags) // 2 % 10 != 0  # labels alternate: hold out pairs
    rows = []
    for name, model in models.items():
        start = time.process_time()
        model.fit(X[train], y[train])
        right = (model.predict(X[~train]) == y[~train]).mean()
        used = time.process_time() - start
        detail = f"at most 30 s (accuracy {right:.3f} on held out bags)"
        rows.append((name, f"{used:.2f} s", detail))
    show(f"{n_bags} bags, {X.n_instances} instances, 100 features: fit, predict", rows)


def main():
    quick = "--quick" in sys.argv
    sets = ("musk1", "elephant") if quick else ("musk1", "elephant", "musk2")
    stumps(sets)
    embedding(sets[:2])
    scale(quick)


if __name__ == "__main__":
    main()
