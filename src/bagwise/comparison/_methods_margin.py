"""Entries of the catalogue: the papers' methods, margins and kernels."""

from __future__ import annotations

from bagwise.comparison._grids import (
    ANDREWS,
    BUNESCU,
    C_GRID,
    C_LARGE,
    SHARED_C,
    SVM_LARGE,
    WIDTHS,
    WIDTHS_LARGE,
    ZHOU_GRAPH,
    bag_kernel_method,
    quadratic,
    times,
)
from bagwise.comparison._method import Method

PAPERS = [
    quadratic(
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
    quadratic(
        "MI-ODM",
        "bagwise.svm.MIODM",
        grid={},
        params={"threshold": "cv"},  # six fits in one, so that nothing is tuned
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
    quadratic(
        "PC-SVM",
        "bagwise.svm.PCSVM",
        grid={"C": [1.0, 10.0], "gamma": times(0.25, 1.0), "rho": [0.0, 0.3]},
        large_grid={**SVM_LARGE, "rho": [0.0, 0.1, 0.3, 0.5]},
        paper="Han, Tao and Wang, Avoiding false positive in multi-instance learning,"
        " NIPS 2010",
        note="MI-SVM whose positive bags must spread along the normal.",
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
    quadratic("MI-SVM", "bagwise.svm.MISVM", paper=ANDREWS, note="The classic."),
    quadratic(
        "mi-SVM",
        "bagwise.svm.MiSVM",
        paper=ANDREWS,
        note="Labels for all instances of positive bags.",
        default=False,
    ),
    quadratic(
        "KI-SVM",
        "bagwise.svm.KISVM",
        grid={"C": [1.0, 10.0, 100.0], "gamma": times(0.25, 1.0)},
        paper="Li, Kwok, Tsang and Zhou, A convex method for locating regions of"
        " interest with multi-instance learning, ECML 2009",
        note="Key instances by a convex relaxation.",
        default=False,
    ),
    quadratic(
        "sMIL",
        "bagwise.svm.SMIL",
        grid=SHARED_C,
        paper=BUNESCU,
        note="For positive bags with few positive instances.",
        default=False,
    ),
    quadratic(
        "stMIL",
        "bagwise.svm.STMIL",
        grid=SHARED_C,
        paper=BUNESCU,
        note="sMIL with a transductive loss on positive bags.",
        default=False,
    ),
    quadratic(
        "sbMIL",
        "bagwise.svm.SBMIL",
        grid={"C": [10.0], "gamma": times(0.25, 1.0), "eta": [0.1, 0.3, 0.7]},
        large_grid={"C": C_LARGE, "gamma": WIDTHS, "eta": [0.1, 0.3, 0.5, 0.7, 0.9]},
        paper=BUNESCU,
        note="sMIL with a known share of positive instances.",
        default=False,
    ),
    quadratic(
        "MissSVM",
        "bagwise.svm.MissSVM",
        paper="Zhou and Xu, On the relation between multi-instance learning and"
        " semi-supervised learning, ICML 2007",
        note="Instances of positive bags as unlabelled data.",
        default=False,
    ),
    quadratic(
        "MICA",
        "bagwise.svm.MICA",
        paper="Mangasarian and Wild, Multiple instance classification via successive"
        " linear programming, JOTA 2008",
        note="Convex combinations of instances stand for positive bags.",
        default=False,
    ),
    quadratic(
        "reg-SVM",
        "bagwise.svm.RegSVM",
        paper="Cheung and Kwok, A regularization framework for multiple-instance"
        " learning, ICML 2006",
        note="Bag and instance outputs tied by a regulariser.",
        default=False,
    ),
]

KERNELS = [
    bag_kernel_method(
        "MI-Kernel",
        "set",
        grid={"C": C_GRID, "gamma": WIDTHS},
        large_grid={"C": C_LARGE, "gamma": WIDTHS_LARGE},
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="An SVM on the mean similarity of instances; hard to beat.",
        aliases=("NSK", "set kernel"),
    ),
    bag_kernel_method(
        "Statistics kernel",
        "statistics",
        instances=False,
        cost="bags",
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="An SVM on minima and maxima of the features.",
        default=False,
    ),
    bag_kernel_method(
        "miGraph",
        "mi_graph",
        grid={"C": C_GRID, "gamma": times(0.25, 1.0, 4.0, of="median")},
        paper=ZHOU_GRAPH,
        note="MI-Kernel with instances weighted down in crowds.",
    ),
    bag_kernel_method(
        "MIGraph",
        "graph",
        instances=False,
        paper=ZHOU_GRAPH,
        note="Nodes and edges of a graph over each bag; slow on large bags.",
        default=False,
    ),
    bag_kernel_method(
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
