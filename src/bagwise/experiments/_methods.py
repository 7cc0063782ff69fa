"""Entries of the catalogue: one per method of the literature."""

from __future__ import annotations

from bagwise.experiments._catalogue import Method

SVC_GRID = {"C": [1.0, 10.0, 100.0]}

METHODS: list[Method] = [
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
        params={"threshold": "cv"},
        grid={
            "estimator__C": [0.01, 0.1, 1.0],
        },
        kind="instances",
        paper="Frank and Xu, Applying propositional learning algorithms, 2003",
        note="Instances inherit the label of their bag; probabilities are averaged.",
        aliases=("WrapperMI",),
    ),
]
