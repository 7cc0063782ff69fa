"""Grids, base learners and references that entries of the catalogue share.

Default grids are for interactive use and wide enough that their ends are seldom chosen
on benchmark sets (results/grids); large ones follow the papers. A width such as
``times(0.25, 1, 4)`` stands for multiples of ``gamma="scale"`` on the training fold.
"""

from __future__ import annotations

from typing import Any

from bagwise.comparison.catalogue._method import Method


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
# A flat kernel with a large penalty is the linear machine: nothing else lies beyond.
SVM_GRID = {"C": tens(-1, 2), "gamma": fours(-3, 2)}
SVM_LARGE = {"C": C_LARGE, "gamma": WIDTHS_LARGE}
# sMIL and stMIL divide C by the number of units of each kind: C is that much larger.
SHARED_C = {"C": tens(0, 5), "gamma": fours(-2, 2)}
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
WEI = "Wei, Wu and Zhou, Scalable algorithms for multi-instance learning, TNNLS 2017"


def quadratic(name: str, path: str, **more: Any) -> Method:
    """Return an entry of the kernel methods on instances."""
    more.setdefault("grid", SVM_GRID)
    more.setdefault("large_grid", SVM_LARGE)
    more.setdefault("kind", "svm")
    return Method(name, path, cost="instances", max_instances=6_000, **more)


def bag_kernel_method(name: str, kernel: str, **more: Any) -> Method:
    """Return an entry of the support vector machines on bag kernels."""
    more.setdefault("grid", {"C": C_GRID})
    more.setdefault("large_grid", {"C": C_LARGE})
    more.setdefault("max_bags", 3_000)
    more.setdefault("max_instances", 20_000)
    params = {"kernel": kernel, **more.pop("params", {})}
    return Method(
        name,
        "bagwise.svm.BagSVC",
        params=params,
        kind="kernel",
        cost=more.pop("cost", "instances"),
        **more,
    )
