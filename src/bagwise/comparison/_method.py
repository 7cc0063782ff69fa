"""What the catalogue knows of a method.

A method joins by one entry in `_methods.py`. Classes are looked up when they are
asked for, so that an entry whose class is not there is simply not listed.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from bagwise.comparison._description import Spec

__all__ = ["Method"]


@dataclass(frozen=True)
class Method:
    """An entry of the catalogue.

    Parameters
    ----------
    name : str
        Name in tables, as the literature has it.
    path : str
        Class, as ``package.Class``.
    params : dict
        Parameters it is built with.
    grid, large_grid : dict or list of dict
        Candidates for tuning: a few for interactive use, and those of the literature.
    then : dict, optional
        Description of the scikit-learn classifier that follows, for embeddings; its
        parameters are ``classify__...`` in grids and the embedding's ``embed__...``.
    scale : {"standard", "minmax", "l2", "none"}
        Scaler of instances.
    kind : str
        Family: pooling, instances, svm, kernel, embedding, density, neighbors,
        boosting, boxes, least squares, reduction, ensemble.
    cost : {"linear", "bags", "instances"}
        What it is quadratic in, if anything.
    max_bags, max_instances : int, optional
        Above these the method is not chosen by default.
    sparse, multiclass, instances : bool
        Takes CSR data; takes more than two classes; scores instances.
    paper : str
        Reference.
    note : str
        One sentence for whoever chooses.
    default : bool
        Whether `compare` may choose it on its own.
    aliases : tuple of str
        Other names.
    """

    name: str
    path: str
    params: dict[str, Any] = field(default_factory=dict)
    grid: Any = field(default_factory=dict)
    large_grid: Any = None
    then: Spec | None = None
    scale: str = "standard"
    kind: str = "other"
    cost: str = "linear"
    max_bags: int | None = None
    max_instances: int | None = None
    sparse: bool = True
    multiclass: bool = True
    instances: bool = True
    paper: str = ""
    note: str = ""
    default: bool = True
    aliases: tuple[str, ...] = ()

    def spec(self) -> Spec:
        """Return the description of the estimator."""
        own = {"class": self.path, "params": dict(self.params)}
        if self.then is None:
            return own
        steps = [["embed", own], ["classify", self.then]]
        return {"class": "sklearn.pipeline.Pipeline", "params": {"steps": steps}}

    def grid_of(self, size: str) -> Any:
        """Return the grid named "default", "large" or "none"."""
        if size == "default":
            return self.grid
        if size == "large":
            return self.grid if self.large_grid is None else self.large_grid
        if size == "none":
            return {}
        raise ValueError(f"unknown grid {size!r}; known: default, large, none")

    def available(self) -> bool:
        """Tell whether the class is there."""
        module, _, name = self.path.rpartition(".")
        try:
            return hasattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            return False

    def names(self) -> tuple[str, ...]:
        """Return every name the method answers to."""
        return (self.name, self.path.rpartition(".")[2], *self.aliases)
