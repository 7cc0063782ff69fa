"""Entries of the catalogue: networks, which need torch."""

from __future__ import annotations

from typing import Any

from bagwise.comparison.catalogue._method import Method

__all__ = ["NETWORKS"]

# The best of the narrow settings on other data than those it is judged by; see
# `results/neural`. A wide one is a little better and costs four times as much on a CPU.
_SETTING = {
    "hidden": 64,
    "attention": 32,
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "dropout": 0.5,
    "validation_fraction": 0.0,
    "max_epochs": 80,
}
_ILSE = (
    "Ilse, Tomczak and Welling, Attention-based deep multiple instance learning, ICML"
    " 2018"
)


def _network(name: str, path: str, **more: Any) -> Method:
    return Method(
        name,
        path,
        dict(_SETTING),
        large_grid={
            "learning_rate": [5e-4, 1e-3, 2e-3],
            "dropout": [0.25, 0.5],
        },
        scale="none",  # they scale by themselves
        kind="network",
        max_instances=200_000,
        paper=_ILSE,
        default=False,
        needs="torch",
        **more,
    )


NETWORKS: list[Method] = [
    _network(
        "Attention network",
        "bagwise.neural.NeuralBagClassifier",
        note="A network with attention over instances, for features that must be"
        " learned; where they are numbers already, classic methods do as well.",
        aliases=("NeuralBagClassifier",),
    ),
    _network(
        "Attention network (values)",
        "bagwise.neural.NeuralBagRegressor",
        note="A network with attention over instances, for real values.",
        aliases=("NeuralBagRegressor",),
    ),
]
