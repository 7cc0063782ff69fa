"""Entries of the catalogue: least squares on sums over bags."""

from __future__ import annotations

from bagwise.comparison.catalogue._grids import (
    WIDTHS_LARGE,
    fours,
    quadratic,
    tens,
)
from bagwise.comparison.catalogue._method import Method

__all__ = ["LEAST_SQUARES"]

RHO = [3.0 * size for size in tens(-2, 4)]

LEAST_SQUARES: list[Method] = [
    quadratic(
        "SAFE",
        "bagwise.least_squares.SAFE",
        grid={"rho": RHO, "gamma": fours(-4, 2)},
        large_grid={
            "rho": RHO,
            "gamma": WIDTHS_LARGE,
            "variance_weight": [0.0, 0.5, 0.9],
            "aggregation": ["sum", "mean"],
        },
        kind="least squares",
        paper="Langone and Suykens, Supervised aggregated feature learning for multiple"
        " instance classification, Information Sciences 2017",
        note="Least squares on bag sums; one linear system.",
        larger="SAFE (features)",
    ),
    Method(
        "SAFE (features)",
        "bagwise.least_squares.SAFE",
        params={"n_components": 300},
        grid={"rho": RHO[1:-1], "gamma": fours(-2, 2)},
        kind="least squares",
        paper="Langone and Suykens, Supervised aggregated feature learning for multiple"
        " instance classification, Information Sciences 2017",
        note="SAFE on 300 Nystroem features, for many instances.",
        default=False,
    ),
    Method(
        "SKSC + LS-SVM",
        "bagwise.embedding.SoftKSCEmbedding",
        then={"class": "bagwise.least_squares.LSSVC", "params": {}},
        grid={"embed__n_clusters": [2, 4, 8]},
        kind="embedding",
        cost="instances",
        max_instances=4_000,
        paper="Langone and Suykens, Soft kernel spectral clustering, 2013",
        note="Soft cluster memberships, then least squares: SAFE in two stages.",
        default=False,
    ),
]
