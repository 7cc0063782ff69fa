"""Entries of the catalogue: regressors."""

from __future__ import annotations

from bagwise.comparison.catalogue._grids import WIDTHS, WIDTHS_LARGE
from bagwise.comparison.catalogue._method import Method

__all__ = ["REGRESSION"]

_ALPHAS = [1e-3, 1e-2, 1e-1, 1.0, 10.0]
_RAY = "Ray and Page, Multiple instance regression, ICML 2001"
_TREES = {
    "class": "sklearn.ensemble.ExtraTreesRegressor",
    "params": {"n_estimators": 200},
}
_RIDGE = {"class": "sklearn.linear_model.Ridge", "params": {}}
_FOREST = {
    "class": "sklearn.ensemble.RandomForestRegressor",
    "params": {"n_estimators": 100, "min_samples_leaf": 2, "max_features": "sqrt"},
}

REGRESSION: list[Method] = [
    Method(
        "Mean + ridge",
        "bagwise.compose.SimpleMIRegressor",
        {"estimator": _RIDGE},
        grid={"estimator__alpha": [0.01, 0.1, 1.0, 10.0, 100.0]},
        kind="pooling",
        paper="Dong, A comparison of multi-instance learning algorithms, 2006",
        note="Ridge regression on the means of bags: the baseline to beat.",
    ),
    Method(
        "BagRegressor",
        "bagwise.ensemble.BagRegressor",
        scale="none",
        kind="ensemble",
        paper="a stack of views and members, see its documentation",
        note="Members that look at bags in different ways; nothing to tune.",
    ),
    Method(
        "Statistics + trees",
        "bagwise.compose.SimpleMIRegressor",
        {"estimator": _TREES, "pooling": "statistics"},
        kind="pooling",
        paper="Dong, A comparison of multi-instance learning algorithms, 2006",
        note="Extra trees on means, spreads and extremes of the features.",
    ),
    Method(
        "Instance forest",
        "bagwise.compose.WrapperMIRegressor",
        {"estimator": _FOREST},
        grid={"pooling": ["mean", "median"]},
        kind="instances",
        max_instances=100_000,
        paper="Wang, Radosavljevic, Han, Obradovic and Vucetic, Aerosol optical depth"
        " prediction from satellite observations by multiple instance regression, SDM"
        " 2008",
        note="Instances inherit the value of their bag; predictions are averaged.",
    ),
    Method(
        "Linear, mean",
        "bagwise.linear_model.MILinearRegression",
        grid={"C": [0.1, 1.0, 10.0, 100.0]},
        kind="linear",
        paper=_RAY,
        note="The mean of linear values of instances.",
        default=False,
    ),
    Method(
        "Linear, max",
        "bagwise.linear_model.MILinearRegression",
        {"pooling": "max"},
        grid={"C": [0.1, 1.0, 10.0, 100.0], "pooling": ["max", "softmax"]},
        kind="linear",
        max_instances=200_000,
        paper=_RAY,
        note="The largest linear value of an instance: reads like a model.",
    ),
    Method(
        "Prime instances",
        "bagwise.linear_model.MILinearRegression",
        {"pooling": "prime"},
        grid={"C": [0.1, 1.0, 10.0, 100.0]},
        kind="linear",
        paper=_RAY,
        note="Trains on the instance that fits best; predicts the median.",
        default=False,
    ),
    Method(
        "Set-kernel ridge",
        "bagwise.least_squares.BagKernelRidge",
        {"alphas": _ALPHAS},
        grid={"gamma": WIDTHS},
        large_grid={"gamma": WIDTHS_LARGE},
        kind="kernel",
        cost="instances",
        max_bags=5_000,
        max_instances=20_000,
        paper="Gaertner, Flach, Kowalczyk and Smola, Multi-instance kernels, ICML 2002",
        note="Kernel ridge on mean similarities; leave-one-out chooses its penalty.",
    ),
    Method(
        "Distribution regression",
        "bagwise.least_squares.BagKernelRidge",
        {"kernel": "distribution", "alphas": _ALPHAS},
        grid={"gamma": WIDTHS},
        large_grid={"gamma": WIDTHS_LARGE},
        kind="kernel",
        cost="instances",
        max_bags=5_000,
        max_instances=20_000,
        paper="Szabo, Sriperumbudur, Poczos and Gretton, Learning theory for"
        " distribution regression, JMLR 2016",
        note="A Gaussian kernel between mean embeddings.",
    ),
    Method(
        "EMD ridge",
        "bagwise.least_squares.BagKernelRidge",
        {"kernel": "emd", "alphas": _ALPHAS},
        kind="kernel",
        cost="bags",
        max_bags=800,
        max_instances=12_000,
        paper="Zhang, Marszalek, Lazebnik and Schmid, Local features and kernels, IJCV"
        " 2007",
        note="Kernel ridge on earth mover's distances.",
    ),
    Method(
        "Sliced Wasserstein ridge",
        "bagwise.embedding.SlicedWassersteinEmbedding",
        then={
            "class": "sklearn.linear_model.RidgeCV",
            "params": {"alphas": [1e-3, 1e-2, 1e-1, 1.0, 10.0]},
        },
        kind="embedding",
        paper="Meunier, Pontil and Ciliberto, Distribution regression with sliced"
        " Wasserstein kernels, ICML 2022",
        note="Quantiles of random projections and ridge: linear in the instances.",
    ),
    Method(
        "BagSVR",
        "bagwise.svm.BagSVR",
        grid={"C": [1.0, 10.0, 100.0], "gamma": WIDTHS},
        kind="kernel",
        cost="instances",
        max_bags=5_000,
        max_instances=20_000,
        paper="Smola and Schoelkopf, A tutorial on support vector regression, 2004",
        note="Support vector regression on mean similarities.",
    ),
    Method(
        "SAFE regression",
        "bagwise.least_squares.SAFERegressor",
        grid={"rho": [3.0, 30.0, 300.0], "gamma": WIDTHS},
        kind="least squares",
        cost="instances",
        max_instances=10_000,
        paper="Langone and Suykens, Supervised aggregated feature learning for multiple"
        " instance classification, Information Sciences 2017",
        note="Least squares on bag sums with real values.",
    ),
    Method(
        "Nearest bags",
        "bagwise.neighbors.BagKNeighborsRegressor",
        grid={"n_neighbors": [3, 5, 10], "weights": ["uniform", "distance"]},
        kind="neighbors",
        cost="instances",
        max_bags=2_000,
        max_instances=20_000,
        paper="Wang and Zucker, Solving the multiple-instance problem, ICML 2000",
        note="The mean value of the nearest bags by a Hausdorff distance.",
    ),
]
