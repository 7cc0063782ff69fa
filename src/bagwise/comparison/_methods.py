"""Entries of the catalogue: one per method of the literature.

Default grids are for interactive use, large ones follow the papers. A width such as
``times(0.25, 1, 4)`` stands for multiples of ``gamma="scale"`` on the training fold.
"""

from __future__ import annotations

from bagwise.comparison._grids import (
    FOREST,
    FRANK,
    LINEAR_SVC,
    LOGISTIC,
    WEI,
    times,
)
from bagwise.comparison._method import Method
from bagwise.comparison._methods_margin import KERNELS, PAPERS, SVM

__all__ = ["METHODS"]

BASELINES = [
    Method(
        "BagClassifier",
        "bagwise.ensemble.BagClassifier",
        kind="ensemble",
        cost="bags",
        max_bags=2_000,
        scale="none",
        paper="a stack of views and members, see its documentation",
        note="Ten members that look at bags in different ways; nothing to tune.",
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
        params={"estimator": LOGISTIC, "threshold": "cv"},
        grid={"estimator__C": [0.01, 0.1, 1.0]},
        large_grid={
            "estimator__C": [0.001, 0.01, 0.1, 1.0, 10.0],
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
        params={"estimator": FOREST, "threshold": "cv"},
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

EMBEDDINGS = [
    Method(
        "miFV",
        "bagwise.embedding.MiFV",
        then=LINEAR_SVC,
        grid={"embed__n_components": [1, 2, 4], "classify__C": [0.1, 1.0]},
        large_grid={
            "embed__n_components": [1, 2, 3, 4, 5],
            "embed__energy": [0.8, 0.9, 1.0],
            "classify__C": [0.05, 0.5, 1.0, 10.0],
        },
        kind="embedding",
        sparse=False,
        instances=False,
        paper=WEI,
        note="Fisher vectors and a linear SVM: the fastest at scale.",
    ),
    Method(
        "miVLAD",
        "bagwise.embedding.MiVLAD",
        then=LINEAR_SVC,
        grid={"embed__n_clusters": [1, 2, 4], "classify__C": [0.1, 1.0]},
        kind="embedding",
        sparse=False,
        instances=False,
        paper=WEI,
        note="Sums of differences to cluster centres and a linear SVM.",
        default=False,
    ),
    Method(
        "MILES",
        "bagwise.embedding.MILES",
        grid={"C": [1.0, 10.0], "gamma": times(0.25, 1.0, 4.0, of="median")},
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
        grid={"C": [0.1, 1.0, 10.0]},
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
        grid={"embed__n_clusters": [20, 100], "classify__C": [1.0, 10.0]},
        kind="embedding",
        sparse=False,
        instances=False,
        paper="Sivic and Zisserman, Video Google, ICCV 2003",
        note="Histograms of clusters and an SVM.",
        aliases=("BoW",),
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
        instances=False,
        paper="Langone and Suykens, Soft kernel spectral clustering, 2013",
        note="Soft cluster memberships, then least squares: SAFE in two stages.",
        default=False,
    ),
    Method(
        "TLC",
        "bagwise.embedding.TwoLevelClassifier",
        kind="embedding",
        paper="Weidmann, Frank and Pfahringer, A two-level learning method for"
        " generalized multi-instance problems, ECML 2003",
        note="Counts instances in the nodes of a tree.",
        instances=False,
        default=False,
    ),
]

OTHERS = [
    Method(
        "MILR",
        "bagwise.linear_model.MILogisticRegression",
        grid={"C": [1.0, 10.0, 100.0]},
        large_grid={
            "C": [0.1, 1.0, 10.0, 100.0],
            "alpha": [2.5, 3.5, 10.0],
            "pooling": ["softmax", "noisy_or", "mean"],
        },
        kind="linear",
        paper="Ray and Craven, Supervised versus multiple instance learning, ICML 2005",
        note="Logistic regression on instances, pooled into bags: reads like a model.",
        aliases=("MILogisticRegression",),
    ),
    Method(
        "Citation-kNN",
        "bagwise.neighbors.CitationKNN",
        grid={"n_references": [2, 5], "n_citers": [4, 7]},
        large_grid={
            "n_references": [1, 2, 3, 5],
            "n_citers": [2, 4, 6, 9],
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
        sparse=False,
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
        sparse=False,
        max_instances=20_000,
        paper="Zhang and Goldman, EM-DD, NIPS 2001",
        note="Diverse density by alternation, faster on large bags.",
    ),
    Method(
        "IAPR",
        "bagwise.rectangles.IAPR",
        kind="boxes",
        sparse=False,
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
        sparse=False,
        multiclass=True,
        instances=False,
        max_bags=300,
        max_instances=1_000,
        paper="Scott, Zhang and Brown, On generalized multiple-instance learning, 2005",
        note="All boxes as features; for very few dimensions only.",
        default=False,
    ),
    Method(
        "MILBoost",
        "bagwise.ensemble.MILBoost",
        grid={"n_estimators": [30, 100]},
        kind="boosting",
        max_instances=100_000,
        paper="Viola, Platt and Zhang, Multiple instance boosting for object detection,"
        " NIPS 2006",
        note="Boosted stumps on instances; strong where single features tell.",
    ),
    Method(
        "MIBoosting",
        "bagwise.ensemble.MIBoosting",
        grid={"n_estimators": [20, 50]},
        kind="boosting",
        max_instances=50_000,
        paper="Xu and Frank, Logistic regression and boosting for labeled bags of"
        " instances, PAKDD 2004",
        note="Boosted trees on instances, weighted by bags.",
        default=False,
    ),
]

METHODS: list[Method] = [
    *BASELINES,
    *PAPERS,
    *SVM,
    *KERNELS,
    *EMBEDDINGS,
    *OTHERS,
]
