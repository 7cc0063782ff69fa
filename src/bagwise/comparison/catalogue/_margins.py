"""Entries of the catalogue: large margins on instances."""

from __future__ import annotations

from bagwise.comparison.catalogue._grids import (
    ANDREWS,
    BUNESCU,
    C_LARGE,
    SHARED_C,
    SVM_LARGE,
    WIDTHS,
    WIDTHS_LARGE,
    fours,
    quadratic,
    tens,
)
from bagwise.comparison.catalogue._method import Method

__all__ = ["MARGINS"]

MARGINS: list[Method] = [
    quadratic(
        "MI-ODM",
        "bagwise.svm.MIODM",
        grid={},
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
        grid={"C": tens(-1, 3), "gamma": fours(-2, 2), "rho": [0.0, 0.3, 0.6, 0.9]},
        large_grid={**SVM_LARGE, "rho": [0.0, 0.1, 0.3, 0.6, 0.9, 0.95]},
        paper="Han, Tao and Wang, Avoiding false positive in multi-instance learning,"
        " NIPS 2010",
        note="MI-SVM whose positive bags must spread along the normal.",
    ),
    quadratic(
        "MI-SVM",
        "bagwise.svm.MISVM",
        paper=ANDREWS,
        note="The classic.",
        larger="MI-SVM (linear)",
    ),
    Method(
        "MI-SVM (linear)",
        "bagwise.svm.MISVM",
        params={"kernel": "linear"},
        grid={"C": tens(-4, 3)},
        kind="svm",
        paper=ANDREWS,
        note="MI-SVM without a kernel matrix, for many instances.",
        default=False,
    ),
    quadratic(
        "mi-SVM",
        "bagwise.svm.MiSVM",
        grid={"C": tens(-1, 3), "gamma": fours(-2, 2)},
        paper=ANDREWS,
        note="Labels for all instances of positive bags.",
        default=False,
    ),
    quadratic(
        "KI-SVM",
        "bagwise.svm.KISVM",
        grid={"C": tens(-1, 4), "gamma": fours(-3, 1)},
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
        grid={"C": tens(-1, 3), "gamma": fours(-2, 2), "eta": [0.1, 0.3, 0.7, 1.0]},
        large_grid={"C": C_LARGE, "gamma": WIDTHS, "eta": [0.1, 0.3, 0.5, 0.7, 0.9]},
        paper=BUNESCU,
        note="sMIL with a known share of positive instances.",
        default=False,
    ),
    quadratic(
        "MissSVM",
        "bagwise.svm.MissSVM",
        grid={"C": tens(-1, 5), "gamma": fours(-3, 2)},
        paper="Zhou and Xu, On the relation between multi-instance learning and"
        " semi-supervised learning, ICML 2007",
        note="Instances of positive bags as unlabelled data.",
        default=False,
    ),
    quadratic(
        "MICA",
        "bagwise.svm.MICA",
        grid={"C": tens(-2, 5), "gamma": fours(-4, 2)},
        paper="Mangasarian and Wild, Multiple instance classification via successive"
        " linear programming, JOTA 2008",
        note="Convex combinations of instances stand for positive bags.",
        default=False,
    ),
    quadratic(
        "reg-SVM",
        "bagwise.svm.RegSVM",
        grid={
            "C": tens(-1, 4),
            "gamma": fours(-3, 2),
            "consistency": [0.01, 0.1, 1.0],
        },
        large_grid={**SVM_LARGE, "consistency": [0.001, 0.01, 0.1, 1.0]},
        paper="Cheung and Kwok, A regularization framework for multiple-instance"
        " learning, ICML 2006",
        note="Bag and instance outputs tied by a regulariser.",
        default=False,
    ),
    quadratic(
        "MILEAGE",
        "bagwise.svm.MILEAGE",
        grid={"C": tens(-1, 5), "gamma": fours(-3, 2)},
        large_grid={**SVM_LARGE, "local_share": [0.25, 0.5, 0.75]},
        paper="Zhang, He, Si and Lawrence, MILEAGE: multiple instance learning with"
        " global embedding, ICML 2013",
        note="Best instance and whole bag, weighed bag by bag; a reconstruction.",
        default=False,
    ),
]
