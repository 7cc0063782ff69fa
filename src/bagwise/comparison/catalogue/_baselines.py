"""Entries of the catalogue: what every other method has to beat."""

from __future__ import annotations

from bagwise.comparison.catalogue._grids import (
    FOREST,
    FRANK,
    LOGISTIC,
    LOGISTIC_OF_ROWS,
    tens,
)
from bagwise.comparison.catalogue._method import Method

__all__ = ["BASELINES"]

BASELINES: list[Method] = [
    Method(
        "Mean + logistic",
        "bagwise.compose.SimpleMI",
        params={"pooling": "mean", "estimator": LOGISTIC_OF_ROWS},
        grid={"estimator__classify__C": tens(-5, 3)},
        scale="none",  # the means are scaled instead, which are fewer
        kind="pooling",
        paper="logistic regression on the mean instance of each bag",
        note="Logistic regression on the mean of each bag: what others must beat.",
        baseline=True,
    ),
    Method(
        "BagClassifier",
        "bagwise.ensemble.BagClassifier",
        kind="ensemble",
        cost="bags",
        max_bags=2_000,
        scale="none",
        paper="a stack of views and members, see its documentation",
        note="Members that look at bags in different ways; nothing to tune.",
    ),
    Method(
        "SimpleMI",
        "bagwise.compose.SimpleMI",
        grid={"pooling": ["mean", "minmax", "mean+std"]},
        large_grid={
            "pooling": ["mean", "max", "min", "minmax", "midpoint", "mean+std"]
        },
        kind="pooling",
        paper="Dong, A comparison of multi-instance learning algorithms, 2006",
        note="One vector per bag and an SVM: the baseline to beat, at no cost.",
    ),
    Method(
        "WrapperMI (logistic)",
        "bagwise.compose.WrapperMI",
        params={"estimator": LOGISTIC},
        grid={"estimator__C": tens(-5, 4)},
        large_grid={
            "estimator__C": tens(-5, 3),
            "aggregation": ["arithmetic", "geometric", "max"],
        },
        kind="instances",
        paper=FRANK,
        note="Instances inherit the label of their bag; probabilities are averaged.",
        aliases=("WrapperMI",),
    ),
    Method(
        "WrapperMI (forest)",
        "bagwise.compose.WrapperMI",
        params={"estimator": FOREST},
        large_grid={
            "estimator__min_samples_leaf": [1, 2, 5],
            "aggregation": ["arithmetic", "max"],
        },
        kind="instances",
        max_instances=100_000,
        paper=FRANK,
        note="A random forest on instances, strong where single features tell.",
    ),
]
