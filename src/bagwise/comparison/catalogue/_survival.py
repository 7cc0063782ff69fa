"""Entries of the catalogue: times until an event, on scikit-survival."""

from __future__ import annotations

from typing import Any

from bagwise.comparison.catalogue._method import Method

__all__ = ["SURVIVAL"]

_PATH = "bagwise.compose.EmbeddedSurvival"
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
_FOREST = {
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


def _entry(name: str, embedding: Any, model: Any, **more: Any) -> Method:
    params = {"embedding": embedding, "estimator": model}
    return Method(name, _PATH, params, kind="survival", needs="sksurv", **more)


SURVIVAL: list[Method] = [
    _entry(
        "Mean + Cox",
        "mean",
        _COX,
        grid=_RIDGES,
        paper=_COX_PAPER,
        note="Proportional hazards with a ridge on the means of bags: the baseline.",
    ),
    _entry(
        "Statistics + Cox",
        "statistics",
        _COX,
        grid=_RIDGES,
        paper=_COX_PAPER,
        note="The same on means, spreads and extremes of the features.",
    ),
    _entry(
        "Sliced Wasserstein + Cox",
        _SLICED,
        _COX,
        grid=_RIDGES,
        paper="Meunier, Pontil and Ciliberto, Distribution regression with sliced"
        " Wasserstein kernels, ICML 2022",
        note="The same on quantiles of random projections.",
    ),
    _entry(
        "Statistics + survival forest",
        "statistics",
        _FOREST,
        max_bags=2_000,
        paper="Ishwaran, Kogalur, Blackstone and Lauer, Random survival forests, Annals"
        " of Applied Statistics 2008",
        note="Trees on statistics of bags: no proportional hazards needed.",
    ),
    _entry(
        "Statistics + survival boosting",
        "statistics",
        _BOOSTING,
        grid={"estimator__learning_rate": [0.03, 0.1]},
        max_bags=5_000,
        paper="Ridgeway, The state of boosting, Computing Science and Statistics 1999",
        note="Boosted trees for the partial likelihood, on statistics of bags.",
    ),
]
