"""Entries of the catalogue: neighbours, densities and boxes."""

from __future__ import annotations

from bagwise.comparison.catalogue._method import Method

__all__ = ["REGIONS"]

REGIONS: list[Method] = [
    Method(
        "Citation-kNN",
        "bagwise.neighbors.CitationKNN",
        grid={"n_references": [1, 2, 5, 10, 20], "n_citers": [0, 4, 7, 15, 30]},
        large_grid={
            "n_references": [1, 2, 3, 5, 10, 20],
            "n_citers": [0, 2, 4, 7, 15, 30],
            "metric": ["min", "mean", "max"],
        },
        scale="minmax",
        kind="neighbors",
        cost="instances",
        max_instances=20_000,
        paper="Wang and Zucker, Solving the multiple-instance problem, ICML 2000",
        note="Nearest bags and the bags that have this one among their nearest.",
    ),
    Method(
        "Diverse density",
        "bagwise.density.DiverseDensity",
        kind="density",
        max_instances=20_000,
        paper="Maron and Lozano-Perez, A framework for multiple-instance learning, NIPS"
        " 1998",
        note="A point near every positive bag and far from negative ones.",
        aliases=("DD",),
        default=False,
    ),
    Method(
        "EM-DD",
        "bagwise.density.EMDD",
        kind="density",
        max_instances=20_000,
        paper="Zhang and Goldman, EM-DD, NIPS 2001",
        note="Diverse density by alternation, faster on large bags.",
    ),
    Method(
        "IAPR",
        "bagwise.rectangles.IAPR",
        kind="boxes",
        max_instances=10_000,
        paper="Dietterich, Lathrop and Lozano-Perez, Solving the multiple instance"
        " problem with axis-parallel rectangles, AIJ 1997",
        note="One box that positive bags reach: good when few features matter.",
        default=False,
    ),
    Method(
        "GMIL",
        "bagwise.rectangles.GMIL",
        kind="boxes",
        max_bags=300,
        max_instances=1_000,
        paper="Scott, Zhang and Brown, On generalized multiple-instance learning, 2005",
        note="All boxes as features; for very few dimensions only.",
        default=False,
    ),
]
