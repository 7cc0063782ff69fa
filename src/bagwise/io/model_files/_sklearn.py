"""What scikit-learn keeps in compiled classes: taken apart, checked, built again."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise._compat import compiled_trees
from bagwise.io.model_files._archive import DamagedFile

TAGS = ("tree", "scorer")
# Left out of files: not used by a fitted model, or built again from the rest of it.
_NOT_KEPT = frozenset(
    (
        "_curve_scorer",
        "_feature_subsample_rng",
        "_loss",
        "_loss_function_",
        "_rng",
        "_scorer",
        "_sklearn_output_config",
        "_tree",
        "loss_function_",
    )
)
_LARGEST_TREE = 2**31
Tree, NODE_DTYPE, _ = compiled_trees()


def describe(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the tag and the parts of a compiled or callable object, or None."""
    if type(value) is Tree:
        _, arguments, state = value.__reduce__()
        n_features, n_classes, n_outputs = arguments
        return "tree", {
            "n_features": int(n_features),
            "n_outputs": int(n_outputs),
            "n_classes": np.asarray(n_classes),
            "max_depth": int(state["max_depth"]),
            "nodes": state["nodes"],
            "values": state["values"],
        }
    if type(value).__module__ == "sklearn.metrics._scorer":
        name = _scorer_name(value)
        return None if name is None else ("scorer", {"name": name})
    return None


def _scorer_name(value: Any) -> str | None:
    from sklearn.metrics import get_scorer, get_scorer_names

    for name in get_scorer_names():
        if repr(get_scorer(name)) == repr(value) and type(value).__name__ == "_Scorer":
            return str(name)
    return None


def rebuild(tag: str, parts: dict[str, Any]) -> Any:
    """Build what `describe` took apart, or refuse its parts."""
    if tag == "scorer":
        from sklearn.metrics import get_scorer, get_scorer_names

        if parts.get("name") not in get_scorer_names():
            raise DamagedFile("there is no such scorer")
        return get_scorer(parts["name"])
    return _tree(parts)


def _tree(parts: dict[str, Any]) -> Any:
    names = ("n_features", "n_outputs", "n_classes", "max_depth", "nodes", "values")
    if set(parts) != set(names):
        raise DamagedFile("a tree lacks a part")
    n_features, n_outputs, n_classes, max_depth, nodes, values = (
        parts[name] for name in names
    )
    whole = all(type(v) is int for v in (n_features, n_outputs, max_depth))
    arrays = all(isinstance(a, np.ndarray) for a in (n_classes, nodes, values))
    if not whole or not arrays or n_features < 1 or not 1 <= n_outputs < 2**20:
        raise DamagedFile("a tree has wrong parts")
    if n_classes.shape != (n_outputs,) or n_classes.dtype.kind != "i":
        raise DamagedFile("the classes of a tree are not counted")
    if nodes.dtype != NODE_DTYPE or nodes.ndim != 1 or not len(nodes) < _LARGEST_TREE:
        raise DamagedFile("the nodes of a tree are not nodes")
    if n_classes.min() < 1 or n_classes.max() >= 2**31 or values.dtype != np.float64:
        raise DamagedFile("the values of a tree are not values")
    if values.shape != (len(nodes), n_outputs, int(n_classes.max())) or not len(nodes):
        raise DamagedFile("the values of a tree do not fit its nodes")
    left, right = nodes["left_child"], nodes["right_child"]
    inner = np.flatnonzero(left != -1)
    for child in (left[inner], right[inner]):
        # A child stands after its parent, so that no path can be endless.
        if (child <= inner).any() or (child >= len(nodes)).any():
            raise DamagedFile("the nodes of a tree point outside of it")
    feature = nodes["feature"][inner]
    if (feature < 0).any() or (feature >= n_features).any():
        raise DamagedFile("a tree uses a feature that does not exist")
    if not 0 <= max_depth <= len(nodes):
        raise DamagedFile("the depth of a tree is not one")
    tree = Tree(n_features, n_classes.astype(np.intp), n_outputs)
    tree.__setstate__(
        {
            "max_depth": max_depth,
            "node_count": len(nodes),
            "nodes": np.ascontiguousarray(nodes),
            "values": np.ascontiguousarray(values),
        }
    )
    return tree


def state_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that belong into a file."""
    state = dict(vars(value))
    if "memory" in state and not is_number_or_none(state["memory"]):
        state["memory"] = None  # a folder of pickles, which the next fit would read
    if type(value).__module__.split(".")[0] == "sklearn":
        state = {k: v for k, v in state.items() if k not in _NOT_KEPT}
        if type(value).__name__ == "IsotonicRegression":
            state.pop("f_", None)
    return state


def is_number_or_none(value: Any) -> bool:
    """Whether a parameter called `memory` cannot name a folder."""
    return value is None or type(value) in (int, float)


def finish(value: Any) -> None:
    """Build again what a file does not keep, from the checked rest of the object."""
    from sklearn.ensemble import (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from sklearn.isotonic import IsotonicRegression
    from sklearn.neighbors import (
        KNeighborsClassifier,
        KNeighborsRegressor,
        NearestNeighbors,
    )

    state = vars(value)
    boosted = (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    if type(value) in boosted and "n_trees_per_iteration_" in state:
        if not isinstance(value.loss, str):
            raise DamagedFile("a loss is not known by name")
        value._loss = value._get_loss(sample_weight=None)
    elif type(value) is IsotonicRegression and "X_thresholds_" in state:
        _rebuild_isotonic(value)
    elif type(value) in (KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors):
        if "_fit_method" in state:
            _rebuild_neighbours(value)


def _rebuild_isotonic(value: Any) -> None:
    x, y = value.X_thresholds_, value.y_thresholds_
    arrays = all(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in (x, y))
    if not arrays or x.ndim != 1 or x.shape != y.shape or (np.diff(x) < 0).any():
        raise DamagedFile("an isotonic curve is not one")
    if value.out_of_bounds not in ("nan", "clip", "raise"):
        raise DamagedFile("an isotonic curve is not one")
    value._build_f(x, y)


def _rebuild_neighbours(value: Any) -> None:
    from sklearn.neighbors import BallTree, KDTree

    rows, metric = value._fit_X, value.effective_metric_
    params = value.effective_metric_params_
    trees = {"kd_tree": KDTree, "ball_tree": BallTree, "brute": None}
    plain = isinstance(params, dict) and all(
        type(v) in (int, float, np.float64) for v in params.values()
    )
    if value._fit_method not in trees or not isinstance(metric, str) or not plain:
        raise DamagedFile("neighbours are sought in an unknown way")
    value._tree = None
    kind = trees[value._fit_method]
    if kind is not None:
        leaves = value.leaf_size
        dense = isinstance(rows, np.ndarray) and rows.ndim == 2
        if not dense or rows.dtype.kind != "f" or type(leaves) is not int or leaves < 1:
            raise DamagedFile("the rows of a tree of neighbours are not rows")
        if metric not in kind.valid_metrics:
            raise DamagedFile("neighbours are sought in an unknown way")
        value._tree = kind(rows, leaves, metric=metric, **params)
