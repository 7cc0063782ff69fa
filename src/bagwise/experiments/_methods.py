"""Entries of the catalogue: one per method of the literature.

Default grids are for interactive use, large ones follow the papers. A width such as
``times(0.25, 1, 4)`` stands for multiples of ``gamma="scale"`` on the training fold.
"""

from __future__ import annotations

from typing import Any

from bagwise.experiments._catalogue import Method

__all__ = ["METHODS"]


def times(*factors: float, of: str = "scale") -> list[Any]:
    """Return widths as multiples of a named one, resolved on the training fold."""
    return [{"gamma": of, "times": factor} for factor in factors]


C_GRID = [1.0, 10.0, 100.0]
C_LARGE = [0.1, 1.0, 10.0, 100.0, 1000.0]
WIDTHS = times(0.25, 1.0, 4.0)
WIDTHS_LARGE = times(0.0625, 0.25, 1.0, 4.0, 16.0)
SVM_GRID = {"C": [1.0, 10.0], "gamma": WIDTHS}
SVM_LARGE = {"C": C_LARGE, "gamma": WIDTHS_LARGE}
LINEAR_SVC = {"class": "sklearn.svm.LinearSVC", "params": {"C": 1.0}}
LOGISTIC = {
    "class": "sklearn.linear_model.LogisticRegression",
    "params": {"C": 0.1, "max_iter": 1000},
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


def _quadratic(name: str, path: str, **more: Any) -> Method:
    """Return an entry of the kernel methods on instances."""
    more.setdefault("grid", SVM_GRID)
    more.setdefault("large_grid", SVM_LARGE)
    more.setdefault("kind", "svm")
    return Method(name, path, cost="instances", max_instances=6_000, **more)


def _bag_kernel(name: str, kernel: str, **more: Any) -> Method:
    """Return an entry of the support vector machines on bag kernels."""
    more.setdefault("grid", {"C": C_GRID})
    more.setdefault("large_grid", {"C": C_LARGE})
    more.setdefault("max_bags", 3_000)
    more.setdefault("max_instances", 20_000)
    params = {"kernel": kernel, "C": 10.0, **more.pop("params", {})}
    return Method(
        name,
        "bagwise.svm.BagSVC",
        params=params,
        kind="kernel",
        cost=more.pop("cost", "instances"),
        **more,
    )


BASELINES = [
    Method(
        "BagClassifier",
        "bagwise.ensemble.BagClassifier",
        kind="ensemble",
        cost="bags",
        max_bags=2_000,
        scale="none",
        instances=False,
        paper="a stack of views and members, see its documentation",
        note="Needs no tuning and ranks first on average.",
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

PAPERS = [
    _quadratic(
        "SAFE",
        "bagwise.least_squares.SAFE",
        grid={"rho": [3.0, 30.0, 300.0], "gamma": WIDTHS},
        large_grid={
            "rho": [0.3, 3.0, 30.0, 300.0, 3000.0],
            "gamma": WIDTHS_LARGE,
            "variance_weight": [0.0, 0.5, 0.9],
            "aggregation": ["sum", "mean"],
        },
        kind="least squares",
        paper="Langone and Suykens, Supervised aggregated feature learning for multiple"
        " instance classification, Information Sciences 2017",
        note="Least squares on bag sums; one linear system.",
    ),
    _quadratic(
        "MI-ODM",
        "bagwise.svm.MIODM",
        params={"threshold": "cv"},
        grid={"gamma": times(0.25, 1.0)},
        large_grid={
            "lambda1": [10.0, 100.0, 1000.0],
            "lambda2": [10.0, 100.0],
            "theta": [0.2, 0.6],
            "gamma": WIDTHS_LARGE,
        },
        paper="Zhang and Jin, Optimal margin distribution machine for multi-instance"
        " learning, IJCAI 2020",
        note="Learns the key instance of every positive bag and a margin distribution.",
    ),
    _quadratic(
        "PC-SVM",
        "bagwise.svm.PCSVM",
        grid={"C": [1.0, 10.0], "gamma": times(0.25, 1.0)},
        large_grid={**SVM_LARGE, "rho": [0.0, 0.1, 0.3, 0.5]},
        paper="Multi-instance learning with projection constraints: PC-SVM",
        note="MI-SVM whose projections must spread inside positive bags.",
    ),
    Method(
        "MIDR + MILR",
        "bagwise.decomposition.MIDR",
        then={"class": "bagwise.linear_model.MILogisticRegression", "params": {}},
        grid={"embed__n_components": [0.3], "classify__C": [1.0, 10.0, 100.0]},
        large_grid={
            "embed__n_components": [0.2, 0.3, 0.4, 0.5, 0.6],
            "embed__C1": [0.0, 0.001, 0.01],
            "classify__C": [0.1, 1.0, 10.0, 100.0],
        },
        kind="reduction",
        sparse=False,
        max_instances=50_000,
        paper="Sun, Ng and Zhou, Multi-instance dimensionality reduction, AAAI 2010",
        note="A sparse projection learned with multi-instance logistic regression.",
        aliases=("MIDR",),
    ),
    Method(
        "Box kernel SVC",
        "bagwise.svm.BoxKernelSVC",
        grid={"C": [1.0, 10.0, 100.0, 1000.0]},
        large_grid={"C": [1.0, 10.0, 100.0, 1e3, 1e4]},
        kind="kernel",
        scale="none",
        cost="bags",
        max_bags=1_000,
        max_instances=10_000,
        sparse=False,
        instances=False,
        paper="Tao, Scott, Vinodchandran and Osugi, SVM-based generalized"
        " multiple-instance learning via approximate box counting, ICML 2004",
        note="Counts the boxes two bags have in common; several instances may decide.",
        aliases=("k_wedge", "box kernel"),
    ),
]

SVM = [
    _quadratic("MI-SVM", "bagwise.svm.MISVM", paper=ANDREWS, note="The classic."),
    _quadratic(
        "mi-SVM",
        "bagwise.svm.MiSVM",
        paper=ANDREWS,
        note="Labels for all instances of positive bags.",
        default=False,
    ),
    _quadratic(
        "KI-SVM",
        "bagwise.svm.KISVM",
        grid={"C": [1.0, 10.0, 100.0], "gamma": times(0.25, 1.0)},
        paper="Li, Kwok, Tsang and Zhou, A convex method for locating regions of"
        " interest with multi-instance learning, ECML 2009",
        note="Key instances by a convex relaxation.",
        default=False,
    ),
    _quadratic(
        "sMIL",
        "bagwise.svm.SMIL",
        paper=BUNESCU,
        note="For positive bags with few positive instances.",
        default=False,
    ),
    _quadratic(
        "stMIL",
        "bagwise.svm.STMIL",
        paper=BUNESCU,
        note="sMIL with a transductive loss on positive bags.",
        default=False,
    ),
    _quadratic(
        "sbMIL",
        "bagwise.svm.SBMIL",
        grid={"C": [10.0], "gamma": times(0.25, 1.0), "eta": [0.1, 0.3, 0.7]},
        large_grid={"C": C_LARGE, "gamma": WIDTHS, "eta": [0.1, 0.3, 0.5, 0.7, 0.9]},
        paper=BUNESCU,
        note="sMIL with a known share of positive instances.",
        default=False,
    ),
    _quadratic(
        "MissSVM",
        "bagwise.svm.MissSVM",
        paper="Zhou and Xu, On the relation between multi-instance learning and"
        " semi-supervised learning, ICML 2007",
        note="Instances of positive bags as unlabelled data.",
        default=False,
    ),
    _quadratic(
        "MICA",
        "bagwise.svm.MICA",
        paper="Mangasarian and Wild, Multiple instance classification via successive"
        " linear programming, JOTA 2008",
        note="Convex combinations of instances stand for positive bags.",
        default=False,
    ),
    _quadratic(
        "reg-SVM",
        "bagwise.svm.RegSVM",
        paper="Cheung and Kwok, A regularization framework for multiple-instance"
        " learning, ICML 2006",
        note="Bag and instance outputs tied by a regulariser.",
        default=False,
    ),
]

KERNELS = [
    _bag_kernel(
        "MI-Kernel",
        "set",
        grid={"C": C_GRID, "gamma": WIDTHS},
        large_grid={"C": C_LARGE, "gamma": WIDTHS_LARGE},
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="An SVM on the mean similarity of instances; hard to beat.",
        aliases=("NSK", "set kernel"),
    ),
    _bag_kernel(
        "Statistics kernel",
        "statistics",
        instances=False,
        cost="bags",
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="An SVM on minima and maxima of the features.",
        default=False,
    ),
    _bag_kernel(
        "miGraph",
        "mi_graph",
        grid={"C": C_GRID, "gamma": times(0.25, 1.0, 4.0, of="median")},
        paper=ZHOU_GRAPH,
        note="MI-Kernel with instances weighted down in crowds.",
    ),
    _bag_kernel(
        "MIGraph",
        "graph",
        instances=False,
        paper=ZHOU_GRAPH,
        note="Nodes and edges of a graph over each bag; slow on large bags.",
        default=False,
    ),
    _bag_kernel(
        "EMD + SVC",
        "emd",
        instances=False,
        max_bags=800,
        max_instances=12_000,
        cost="bags",
        paper="Zhang, Marszalek, Lazebnik and Schmid, Local features and kernels, IJCV"
        " 2007",
        note="Earth mover's distance between bags: the best single method on average.",
        aliases=("EMD",),
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
