"""Entries of the catalogue: boosted stumps and trees."""

from __future__ import annotations

from bagwise.comparison.catalogue._method import Method

__all__ = ["BOOSTING"]

BOOSTING: list[Method] = [
    Method(
        "MILBoost",
        "bagwise.ensemble.MILBoost",
        grid={"n_estimators": [3, 10, 30, 100, 300]},
        kind="boosting",
        max_instances=100_000,
        paper="Viola, Platt and Zhang, Multiple instance boosting for object detection,"
        " NIPS 2006",
        note="Boosted stumps on instances; strong where single features tell.",
    ),
    Method(
        "MIBoosting",
        "bagwise.ensemble.MIBoosting",
        grid={"n_estimators": [3, 10, 30, 100, 300]},
        kind="boosting",
        max_instances=50_000,
        paper="Xu and Frank, Logistic regression and boosting for labeled bags of"
        " instances, PAKDD 2004",
        note="Boosted trees on instances, weighted by bags.",
        default=False,
    ),
]
