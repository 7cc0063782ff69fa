"""The methods that can be compared: a class, how it is built, and its grids.

A method is added by one entry in the list of its task. What a method can do (sparse
data, several classes, instance scores, probabilities) is not written down: it is read
from the tags and methods of the class when it is asked for. Entries name classes by
text, so that nothing is imported before.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from bagwise.base.estimator import weight_arguments
from bagwise.comparison.description import (
    Spec,
    build_estimator,
    check_names,
    trust,
)
from bagwise.inspection import assumption_line, measured_assumptions

# The extra of bagwise that installs a package.
_EXTRAS = {"torch": "torch", "sksurv": "survival"}


@dataclass(frozen=True)
class Method:
    """An entry of the catalog.

    Parameters
    ----------
    name : str
        Name in tables, as in the literature.
    path : str
        Class, as ``package.Class``.
    params : dict
        Parameters of the class.
    grid, large_grid : dict or list of dict
        Candidates for tuning: few for interactive use, and those of the literature.
    then : dict, optional
        Description of the classifier that follows, for embeddings; in grids its
        parameters are ``classify__...``, those of the embedding ``embed__...``.
    scale : {"standard", "clipped", "minmax", "l2", "none"}
        Scaler of instances.
    kind : str
        Family: pooling, instances, svm, kernel, embedding, density, neighbors,
        boosting, boxes, least squares, reduction, ensemble, network, survival.
    task : {"classification", "regression", "survival"}
        What is predicted.
    cost : {"linear", "bags", "instances"}
        The number in which the time grows quadratically, if any.
    max_bags, max_instances : int, optional
        Above these numbers the method is not chosen by default.
    larger : str
        Name of the entry that replaces it above these numbers: the same method with a
        linear kernel, or on explicit features.
    kernel_bytes : float
        Bytes of memory per pair of training instances, of methods that keep their
        kernel matrix; `compare` refuses what cannot fit.
    paper : str
        Reference.
    note : str
        One sentence about the method, for choosing.
    default : bool
        Whether `compare` may choose it by default.
    only_sparse : bool
        Whether it may choose it for sparse data only.
    baseline : bool
        Whether it is listed first in every report, regardless of its rank.
    aliases : tuple of str
        Other names.
    needs : str
        Another package that has to be installed.
    later : tuple of str
        Parameters of the grid that are tuned after the others, with the others at their
        best values.
    tuning_instances : int, optional
        Tuning sees a part of the training bags with about this many instances, except
        with the large grid.
    slow : bool
        Whether it takes several times longer than most methods. In every fold, its runs
        come last.

    Attributes
    ----------
    sparse, multiclass, instances, probability, weights, chunked : bool
        Takes CSR data; takes more than two classes; scores instances; gives
        probabilities; takes weights of bags; reads bags on disk in chunks. From the
        tags and methods of the class.
    """

    name: str
    path: str
    params: dict[str, Any] = field(default_factory=dict)
    grid: Any = field(default_factory=dict)
    large_grid: Any = None
    then: Spec | None = None
    scale: str = "standard"
    kind: str = "other"
    task: str = "classification"
    cost: str = "linear"
    max_bags: int | None = None
    max_instances: int | None = None
    larger: str = ""
    kernel_bytes: float = 0.0
    paper: str = ""
    note: str = ""
    default: bool = True
    only_sparse: bool = False
    baseline: bool = False
    aliases: tuple[str, ...] = ()
    needs: str = ""
    later: tuple[str, ...] = ()
    tuning_instances: int | None = 20_000
    slow: bool = False

    def __post_init__(self) -> None:
        """Allow descriptions to name the class: entries come from programs."""
        trust({self.path: None})

    def spec(self) -> Spec:
        """Return the description of the estimator.

        Returns
        -------
        dict
            The class and its parameters.
        """
        own = {"class": self.path, "params": dict(self.params)}
        if self.then is None:
            return own
        steps = [["embed", own], ["classify", self.then]]
        return {"class": "sklearn.pipeline.Pipeline", "params": {"steps": steps}}

    def grid_of(self, size: str) -> Any:
        """Return a grid by its name.

        Parameters
        ----------
        size : {"default", "large", "auto", "none"}
            Few candidates, those of the literature, few with automatic extension, or
            none.

        Returns
        -------
        dict or list of dict
            Values by parameter.
        """
        if size in ("default", "auto"):
            return self.grid
        if size == "large":
            return self.grid if self.large_grid is None else self.large_grid
        if size == "none":
            return {}
        raise ValueError(f"unknown grid {size!r}; known: default, large, auto, none")

    def tuning_of(self, size: str, tuning: Mapping[str, Any] | None) -> Any:
        """Return how a grid is searched.

        Parameters
        ----------
        size : {"default", "large", "auto", "none"}
            Which grid.
        tuning : mapping or None
            The inner cross-validation, see `fit_method`.

        Returns
        -------
        dict or None
            The same with what is tuned later; None where there is nothing to tune.
        """
        if tuning is None or not self.grid_of(size):
            return None
        how = dict(tuning)
        if self.later:
            how["later"] = list(self.later)
        if size != "large" and self.tuning_instances is not None:
            how["max_instances"] = self.tuning_instances
        return how

    def with_params(self, **params: Any) -> Method:
        """Return the entry with some parameters fixed; these are not tuned.

        Parameters
        ----------
        **params
            Parameters of the class, of nested estimators as ``estimator__C``, of the
            classifier that follows an embedding as ``classify__C``.

        Returns
        -------
        Method
            The new entry.

        Examples
        --------
        >>> from bagwise.comparison.choose import find_method
        >>> method = find_method("SimpleMI").with_params(pooling="max")
        >>> method.params["pooling"], method.grid
        ('max', {})
        """
        check_names(list(params.values()))
        known = self._built.get_params()
        own, then, fixed = dict(self.params), self.then, set()
        for name, value in params.items():
            full = name if self.then is None or name in known else f"embed__{name}"
            if full not in known:
                near = difflib.get_close_matches(name, list(known), n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"{self.name} has no parameter {name!r}{hint}")
            fixed.add(full)
            if then is not None and full.startswith("classify__"):
                then = _with(then, full.removeprefix("classify__"), value)
            else:
                plain = full.removeprefix("embed__") if then is not None else full
                own = _with({"params": own}, plain, value)["params"]
        return replace(
            self,
            params=own,
            then=then,
            grid=_without(self.grid, fixed),
            large_grid=_without(self.large_grid, fixed),
        )

    @cached_property
    def _built(self) -> Any:
        return build_estimator(self.spec())

    @property
    def _steps(self) -> list[Any]:
        """The steps of the estimator, from the first to the last."""
        built = self._built
        steps = [built]
        while isinstance(steps[-1], Pipeline):
            steps[-1:] = [step for _, step in steps[-1].steps]
        return steps

    @property
    def sparse(self) -> bool:
        """Whether CSR data are taken; what follows an embedding sees a matrix."""
        return bool(get_tags(self._steps[0]).input_tags.sparse)

    @property
    def multiclass(self) -> bool:
        """Whether more than two classes are taken."""
        tags = get_tags(self._steps[-1]).classifier_tags
        return tags is not None and bool(tags.multi_class)

    @property
    def instances(self) -> bool:
        """Whether single instances are scored."""
        return hasattr(self._steps[-1], "instance_scores")

    @property
    def probability(self) -> bool:
        """Whether there are probabilities."""
        return hasattr(self._steps[-1], "predict_proba")

    @property
    def weights(self) -> bool:
        """Whether weights of bags are taken."""
        return bool(weight_arguments(self._built, np.ones(1)))

    @property
    def chunked(self) -> bool:
        """Whether scaler and method read bags on disk in chunks."""
        scaled = self.scale in ("standard", "clipped", "minmax", "none")
        tags = get_tags(self._steps[0]).input_tags
        return scaled and bool(getattr(tags, "chunked", False))

    @property
    def assumption(self) -> str:
        """Whether it respects the standard assumption: one line, measured.

        Of an estimator outside the catalog the tag is read.
        """
        if self.name in measured_assumptions():
            return assumption_line(self.name)
        try:
            return assumption_line(self._built)
        except ImportError:  # its package is not installed
            return assumption_line(self.name)

    @property
    def missing(self) -> str:
        """What is not installed, and how to get it; empty when nothing is missing."""
        if not self.needs or importlib.util.find_spec(self.needs) is not None:
            return ""
        extra = _EXTRAS.get(self.needs)
        package = self.needs if extra is None else f"'bagwise[{extra}]'"
        return (
            f"{self.name} needs {self.needs}, which is not installed: pip install"
            f" {package}"
        )

    def names(self) -> tuple[str, ...]:
        """Return all names of the method.

        Returns
        -------
        tuple of str
            The name, the name of the class, and the aliases.
        """
        return (self.name, self.path.rpartition(".")[2], *self.aliases)


def _with(spec: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return a description with a parameter set, also one of a nested estimator."""
    head, _, rest = name.partition("__")
    params = dict(spec.get("params", {}))
    if rest and isinstance(params.get(head), Mapping):
        params[head] = _with(params[head], rest, value)
    elif rest:
        raise ValueError(f"{head!r} has to be given before {name!r} can be set")
    else:
        params[head] = value
    return {**spec, "params": params}


def _without(grid: Any, names: set[str]) -> Any:
    """Return a grid without some parameters."""
    if grid is None:
        return None
    if isinstance(grid, Mapping):
        return {key: values for key, values in grid.items() if key not in names}
    parts = [_without(part, names) for part in grid]
    kept = [part for k, part in enumerate(parts) if part not in parts[:k]]
    return kept[0] if len(kept) == 1 else kept
