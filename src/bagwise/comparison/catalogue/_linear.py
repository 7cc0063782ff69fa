"""Entries of the catalogue: linear models of instances, and projections."""

from __future__ import annotations

from bagwise.comparison.catalogue._grids import tens
from bagwise.comparison.catalogue._method import Method

__all__ = ["LINEAR"]

LINEAR: list[Method] = [
    Method(
        "MILR",
        "bagwise.linear_model.MILogisticRegression",
        grid={"C": tens(-2, 4)},
        large_grid={
            "C": tens(-2, 4),
            "alpha": [2.5, 3.5, 10.0],
            "pooling": ["softmax", "noisy_or", "mean"],
        },
        kind="linear",
        paper="Ray and Craven, Supervised versus multiple instance learning, ICML 2005",
        note="Logistic regression on instances, pooled into bags: reads like a model.",
        aliases=("MILogisticRegression",),
    ),
    Method(
        "MIDR + MILR",
        "bagwise.decomposition.MIDR",
        then={"class": "bagwise.linear_model.MILogisticRegression", "params": {}},
        grid={"embed__n_components": [0.3], "classify__C": tens(-1, 5)},
        large_grid={
            "embed__n_components": [0.2, 0.3, 0.4, 0.5, 0.6],
            "embed__C1": [0.0, 0.001, 0.01],
            "classify__C": tens(-1, 5),
        },
        kind="reduction",
        max_instances=50_000,
        paper="Sun, Ng and Zhou, Multi-instance dimensionality reduction, AAAI 2010",
        note="A sparse projection learned with multi-instance logistic regression.",
        aliases=("MIDR",),
    ),
]
