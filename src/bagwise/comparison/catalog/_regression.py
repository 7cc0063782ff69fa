"""The regressors of the catalog, and its models of times until an event."""

from __future__ import annotations

from typing import Any

from bagwise.comparison.catalog import Method
from bagwise.comparison.catalog._grids import (
    DONG,
    GAERTNER,
    LANGONE,
    MEUNIER,
    STACK,
    WIDTHS,
    WIDTHS_LARGE,
    ZHANG_EMD,
    network,
)

__all__ = ["PREDICT_FROM_BAG_ROWS", "REGRESSORS", "SURVIVAL"]

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
_COX_PAPER = "Cox, Regression models and life-tables, JRSS B 1972"
_COX = {
    "class": "sklearn.pipeline.Pipeline",
    "params": {
        "steps": [
            ["scale", {"class": "sklearn.preprocessing.StandardScaler", "params": {}}],
            [
                "cox",
                {
                    "class": "sksurv.linear_model.CoxPHSurvivalAnalysis",
                    "params": {"alpha": 1.0},
                },
            ],
        ]
    },
}
_RIDGES = {"estimator__cox__alpha": [0.1, 1.0, 10.0, 100.0, 1000.0]}
_SURVIVAL_FOREST = {
    "class": "sksurv.ensemble.RandomSurvivalForest",
    "params": {"n_estimators": 100, "min_samples_leaf": 5},
}
_BOOSTING = {
    "class": "sksurv.ensemble.GradientBoostingSurvivalAnalysis",
    "params": {"n_estimators": 100, "max_depth": 2, "subsample": 0.7},
}
_SLICED = {
    "class": "bagwise.embedding.SlicedWassersteinEmbedding",
    "params": {"n_projections": 20, "n_quantiles": 10},
}


def _regressor(name: str, path: str, params: Any = None, **more: Any) -> Method:
    return Method(name, path, params or {}, task="regression", **more)


def _survival(name: str, embedding: Any, model: Any, **more: Any) -> Method:
    params = {"embedding": embedding, "estimator": model}
    return Method(
        name,
        "bagwise.compose.EmbeddedSurvival",
        params,
        kind="survival",
        task="survival",
        needs="sksurv",
        **more,
    )


# Chosen for molecules only.
PREDICT_FROM_BAG_ROWS = _regressor(
    "2-D fingerprint + ridge",
    "bagwise.compose.SimpleMIRegressor",
    {"estimator": _RIDGE, "pooling": "bag_rows"},
    grid={"estimator__alpha": [0.1, 1.0, 10.0, 100.0, 1000.0]},
    scale="none",
    kind="pooling",
    paper="Rogers and Hahn, Extended-connectivity fingerprints, J. Chem. Inf."
    " Model. 2010",
    note="Ridge regression on the 2-D fingerprint of each molecule, without its"
    " conformers: the baseline that 3-D descriptors have to beat.",
    baseline=True,
)

REGRESSORS: list[Method] = [
    network(
        "Attention network (values)",
        "bagwise.neural.NeuralBagRegressor",
        task="regression",
        note="A network with attention over instances, for real values.",
        aliases=("NeuralBagRegressor",),
    ),
    _regressor(
        "Mean + ridge",
        "bagwise.compose.SimpleMIRegressor",
        {"estimator": _RIDGE},
        grid={"estimator__alpha": [0.01, 0.1, 1.0, 10.0, 100.0]},
        kind="pooling",
        paper=DONG,
        note="Ridge regression on the means of bags: the baseline.",
    ),
    _regressor(
        "BagRegressor",
        "bagwise.ensemble.BagRegressor",
        scale="none",
        kind="ensemble",
        paper=STACK,
        note="A stack of models on different views of the bags; needs no tuning.",
        slow=True,
    ),
    _regressor(
        "Statistics + trees",
        "bagwise.compose.SimpleMIRegressor",
        {"estimator": _TREES, "pooling": "statistics"},
        kind="pooling",
        paper=DONG,
        note="Extra trees on means, spreads and extremes of the features.",
    ),
    _regressor(
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
    _regressor(
        "Linear, mean",
        "bagwise.linear_model.MILinearRegression",
        grid={"C": [0.1, 1.0, 10.0, 100.0]},
        kind="linear",
        paper=_RAY,
        note="The mean of linear values of instances.",
        default=False,
    ),
    _regressor(
        "Linear, max",
        "bagwise.linear_model.MILinearRegression",
        {"pooling": "max"},
        grid={"C": [0.1, 1.0, 10.0, 100.0], "pooling": ["max", "softmax"]},
        kind="linear",
        max_instances=200_000,
        paper=_RAY,
        note="The largest linear value of an instance; interpretable.",
    ),
    _regressor(
        "Prime instances",
        "bagwise.linear_model.MILinearRegression",
        {"pooling": "prime"},
        grid={"C": [0.1, 1.0, 10.0, 100.0]},
        kind="linear",
        paper=_RAY,
        note="Fitted to the instance that fits best; predicts the median.",
        default=False,
    ),
    _regressor(
        "Set-kernel ridge",
        "bagwise.least_squares.BagKernelRidge",
        {"alphas": _ALPHAS},
        grid={"gamma": WIDTHS},
        large_grid={"gamma": WIDTHS_LARGE},
        kind="kernel",
        cost="instances",
        max_bags=5_000,
        max_instances=20_000,
        paper=GAERTNER,
        note="Kernel ridge on mean similarities; leave-one-out chooses its penalty.",
    ),
    _regressor(
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
    _regressor(
        "EMD ridge",
        "bagwise.least_squares.BagKernelRidge",
        {"kernel": "emd", "alphas": _ALPHAS},
        kind="kernel",
        cost="bags",
        max_bags=800,
        max_instances=12_000,
        paper=ZHANG_EMD,
        note="Kernel ridge on earth mover's distances.",
    ),
    _regressor(
        "Sliced Wasserstein ridge",
        "bagwise.embedding.SlicedWassersteinEmbedding",
        then={
            "class": "sklearn.linear_model.RidgeCV",
            "params": {"alphas": [1e-3, 1e-2, 1e-1, 1.0, 10.0]},
        },
        kind="embedding",
        paper=MEUNIER,
        note="Quantiles of random projections and ridge: linear in the instances.",
    ),
    _regressor(
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
    _regressor(
        "SAFE regression",
        "bagwise.least_squares.SAFERegressor",
        grid={"rho": [3.0, 30.0, 300.0], "gamma": WIDTHS},
        kind="least squares",
        cost="instances",
        max_instances=10_000,
        paper=LANGONE,
        note="Least squares on bag sums with real values.",
    ),
    _regressor(
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

# Times until an event, on scikit-survival.
SURVIVAL: list[Method] = [
    network(
        "Attention network (survival)",
        "bagwise.neural.NeuralBagSurvival",
        task="survival",
        note="A network with attention over instances and Cox's partial likelihood.",
        aliases=("NeuralBagSurvival",),
    ),
    _survival(
        "Mean + Cox",
        "mean",
        _COX,
        grid=_RIDGES,
        paper=_COX_PAPER,
        note="Proportional hazards with a ridge on the means of bags: the baseline.",
    ),
    _survival(
        "Statistics + Cox",
        "statistics",
        _COX,
        grid=_RIDGES,
        paper=_COX_PAPER,
        note="The same on means, spreads and extremes of the features.",
    ),
    _survival(
        "Sliced Wasserstein + Cox",
        _SLICED,
        _COX,
        grid=_RIDGES,
        paper=MEUNIER,
        note="The same on quantiles of random projections.",
    ),
    _survival(
        "Statistics + survival forest",
        "statistics",
        _SURVIVAL_FOREST,
        max_bags=2_000,
        paper="Ishwaran, Kogalur, Blackstone and Lauer, Random survival forests, Annals"
        " of Applied Statistics 2008",
        note="Trees on statistics of bags: no proportional hazards needed.",
    ),
    _survival(
        "Statistics + survival boosting",
        "statistics",
        _BOOSTING,
        grid={"estimator__learning_rate": [0.03, 0.1]},
        max_bags=5_000,
        paper="Ridgeway, The state of boosting, Computing Science and Statistics 1999",
        note="Boosted trees for the partial likelihood, on statistics of bags.",
    ),
]
