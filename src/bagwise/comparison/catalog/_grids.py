"""Grids, base learners and references that entries of the catalog share.

Default grids are for interactive use, and wide enough that their ends are seldom chosen
on benchmark sets (studies/results/grids); large ones follow the papers. Widths such as
``times(0.25, 1, 4)`` are multiples of ``gamma="scale"`` on the training fold.
"""

from __future__ import annotations

from typing import Any

from bagwise.comparison.catalog import Method


def times(*factors: float, of: str = "scale") -> list[Any]:
    """Return widths as multiples of a named one, resolved on the training fold."""
    return [{"gamma": of, "times": factor} for factor in factors]


def tens(low: int, high: int) -> list[float]:
    """Return the powers of ten from one exponent to another."""
    return [10.0**k for k in range(low, high + 1)]


def fours(low: int, high: int, of: str = "scale") -> list[Any]:
    """Return widths at the powers of four of a named one."""
    return times(*(4.0**k for k in range(low, high + 1)), of=of)


C_GRID = tens(-1, 3)
C_LARGE = tens(-2, 4)
WIDTHS = fours(-1, 1)
WIDTHS_LARGE = fours(-4, 2)
# A flat kernel with a large C is the linear SVM: no wider grid is needed.
SVM_GRID = {"C": tens(-1, 2), "gamma": fours(-3, 2)}
SVM_LARGE = {"C": C_LARGE, "gamma": WIDTHS_LARGE}
# sMIL and stMIL divide C by the number of bags or instances of each class.
SHARED_C = {"C": tens(0, 5), "gamma": fours(-2, 2)}
RHO = [3.0 * size for size in tens(-2, 4)]
LINEAR_SVC = {"class": "sklearn.svm.LinearSVC", "params": {"C": 1.0}}
LOGISTIC = {
    "class": "sklearn.linear_model.LogisticRegression",
    "params": {"C": 0.1, "max_iter": 1000},
}
LOGISTIC_OF_ROWS = {
    "class": "sklearn.pipeline.Pipeline",
    "params": {
        "steps": [
            ["scale", {"class": "sklearn.preprocessing.StandardScaler", "params": {}}],
            ["classify", LOGISTIC],
        ]
    },
}
# Sparse rows are not centered, so that they stay sparse.
UNCENTERED = {
    "class": "sklearn.preprocessing.StandardScaler",
    "params": {"with_mean": False},
}
L1_SVC = {
    "class": "sklearn.svm.LinearSVC",
    "params": {"C": 0.1, "penalty": "l1", "dual": False, "tol": 0.01},
}
L1_SVC_OF_ROWS = {
    "class": "sklearn.pipeline.Pipeline",
    "params": {"steps": [["scale", UNCENTERED], ["classify", L1_SVC]]},
}
FOREST = {
    "class": "sklearn.ensemble.RandomForestClassifier",
    "params": {"n_estimators": 100, "min_samples_leaf": 2},
}
ANDREWS = (
    "Andrews, Tsochantaridis and Hofmann, Support vector machines for multiple-instance"
    " learning, NIPS 2002"
)
BUNESCU = (
    "Bunescu and Mooney, Multiple instance learning for sparse positive bags, ICML 2007"
)
ZHOU_GRAPH = (
    "Zhou, Sun and Li, Multi-instance learning by treating instances as non-I.I.D."
    " samples, ICML 2009"
)
FRANK = (
    "Frank and Xu, Applying propositional learning algorithms to multi-instance data,"
    " 2003"
)
GAERTNER = "Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002"
LANGONE = (
    "Langone and Suykens, Supervised aggregated feature learning for multiple instance"
    " classification, Information Sciences 2017"
)
DONG = "Dong, A comparison of multi-instance learning algorithms, 2006"
MEUNIER = (
    "Meunier, Pontil and Ciliberto, Distribution regression with sliced Wasserstein"
    " kernels, ICML 2022"
)
ZHANG_EMD = (
    "Zhang, Marszalek, Lazebnik and Schmid, Local features and kernels, IJCV 2007"
)
STACK = "a stack of views and members, see its documentation"
WEI = "Wei, Wu and Zhou, Scalable algorithms for multi-instance learning, TNNLS 2017"


def quadratic(name: str, path: str, **more: Any) -> Method:
    """Return an entry of the kernel methods on instances."""
    more.setdefault("grid", SVM_GRID)
    more.setdefault("large_grid", SVM_LARGE)
    more.setdefault("kind", "svm")
    more.setdefault("kernel_bytes", 16.0)
    more.setdefault("tuning_instances", 2_000)
    return Method(name, path, cost="instances", max_instances=6_000, **more)


def bag_kernel_method(name: str, kernel: str, **more: Any) -> Method:
    """Return an entry of the support vector machines on bag kernels."""
    more.setdefault("grid", {"C": C_GRID})
    more.setdefault("large_grid", {"C": C_LARGE})
    more.setdefault("max_bags", 3_000)
    more.setdefault("max_instances", 20_000)
    more.setdefault("tuning_instances", 5_000)
    params = {"kernel": kernel, **more.pop("params", {})}
    return Method(
        name,
        "bagwise.svm.BagSVC",
        params=params,
        kind="kernel",
        cost=more.pop("cost", "instances"),
        **more,
    )


# The best narrow network on data sets other than those it is compared on, see
# studies/results/neural. A wide one is slightly better and four times slower on a CPU.
NETWORK = {
    "hidden": 64,
    "attention": 32,
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "dropout": 0.5,
    "validation_fraction": 0.0,
    "max_epochs": 80,
}


def network(name: str, path: str, **more: Any) -> Method:
    """Return an entry of the networks."""
    return Method(
        name,
        path,
        dict(NETWORK),
        large_grid={"learning_rate": [5e-4, 1e-3, 2e-3], "dropout": [0.25, 0.5]},
        scale="none",  # they scale their inputs
        kind="network",
        max_instances=200_000,
        paper="Ilse, Tomczak and Welling, Attention-based deep multiple instance"
        " learning, ICML 2018",
        default=False,
        needs="torch",
        slow=True,
        **more,
    )
