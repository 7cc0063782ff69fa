"""Entries of the catalogue: bags as vectors."""

from __future__ import annotations

from bagwise.comparison.catalogue._grids import (
    LINEAR_SVC,
    WEI,
    fours,
    tens,
)
from bagwise.comparison.catalogue._method import Method

__all__ = ["EMBEDDINGS"]

EMBEDDINGS: list[Method] = [
    Method(
        "miFV",
        "bagwise.embedding.MiFV",
        then=LINEAR_SVC,
        grid={"embed__n_components": [1, 2, 4, 8, 16], "classify__C": tens(-3, 3)},
        large_grid={
            "embed__n_components": [1, 2, 3, 4, 5],
            "embed__energy": [0.8, 0.9, 1.0],
            "classify__C": tens(-3, 2),
        },
        kind="embedding",
        paper=WEI,
        note="Fisher vectors and a linear SVM: the fastest at scale.",
    ),
    Method(
        "miVLAD",
        "bagwise.embedding.MiVLAD",
        then=LINEAR_SVC,
        grid={"embed__n_clusters": [1, 2, 4, 8], "classify__C": tens(-3, 2)},
        kind="embedding",
        paper=WEI,
        note="Sums of differences to cluster centres and a linear SVM.",
        default=False,
    ),
    Method(
        "MILES",
        "bagwise.embedding.MILES",
        grid={"C": tens(-1, 3), "gamma": fours(-4, 1, of="median")},
        kind="embedding",
        cost="instances",
        max_instances=10_000,
        paper="Chen, Bi and Wang, MILES: multiple-instance learning via embedded"
        " instance selection, TPAMI 2006",
        note="Distances to all training instances, few of which are kept.",
    ),
    Method(
        "MILDE",
        "bagwise.embedding.MILDE",
        grid={"C": tens(-2, 3)},
        kind="embedding",
        cost="instances",
        max_instances=10_000,
        paper="Amores, MILDE: multiple instance learning by discriminative embedding,"
        " KAIS 2015",
        note="MILES on the instances that tell bags apart best.",
        default=False,
    ),
    Method(
        "Bag of words",
        "bagwise.embedding.BagOfWords",
        then={"class": "sklearn.svm.SVC", "params": {"C": 10.0}},
        grid={"embed__n_clusters": [5, 20, 100, 300], "classify__C": tens(-1, 4)},
        kind="embedding",
        paper="Sivic and Zisserman, Video Google, ICCV 2003",
        note="Histograms of clusters and an SVM.",
        aliases=("BoW",),
        default=False,
    ),
    Method(
        "TLC",
        "bagwise.embedding.TwoLevelClassifier",
        kind="embedding",
        paper="Weidmann, Frank and Pfahringer, A two-level learning method for"
        " generalized multi-instance problems, ECML 2003",
        note="Counts instances in the nodes of a tree.",
        default=False,
    ),
]
