"""Objects of scikit-learn and scikit-survival: compiled parts, and valid states."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._compat import compiled_trees
from bagwise.io._schema import CHECKS, DamagedFile, array, below, whole
from bagwise.io.record import ATTRIBUTE, ModelRecord

TAGS = ("tree", "scorer")
# Omitted from files: not used by a fitted model, or rebuilt from the rest of it.
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
        raise DamagedFile("a tree is incomplete")
    n_features, n_outputs, n_classes, max_depth, nodes, values = (
        parts[name] for name in names
    )
    whole = all(type(v) is int for v in (n_features, n_outputs, max_depth))
    arrays = all(isinstance(a, np.ndarray) for a in (n_classes, nodes, values))
    if not whole or not arrays or n_features < 1 or not 1 <= n_outputs < 2**20:
        raise DamagedFile("the parts of a tree do not fit together")
    if n_classes.shape != (n_outputs,) or n_classes.dtype.kind != "i":
        raise DamagedFile("the number of classes of a tree is missing")
    if nodes.dtype != NODE_DTYPE or nodes.ndim != 1 or not len(nodes) < _LARGEST_TREE:
        raise DamagedFile("the nodes of a tree have the wrong type")
    if n_classes.min() < 1 or n_classes.max() >= 2**31 or values.dtype != np.float64:
        raise DamagedFile("the values of a tree have the wrong type")
    if values.shape != (len(nodes), n_outputs, int(n_classes.max())) or not len(nodes):
        raise DamagedFile("the values of a tree do not fit its nodes")
    left, right = nodes["left_child"], nodes["right_child"]
    inner = np.flatnonzero(left != -1)
    for child in (left[inner], right[inner]):
        # A child comes after its parent, so that no path is infinite.
        if (child <= inner).any() or (child >= len(nodes)).any():
            raise DamagedFile("a node of a tree has an index out of range")
    feature = nodes["feature"][inner]
    if (feature < 0).any() or (feature >= n_features).any():
        raise DamagedFile("a tree uses a feature that does not exist")
    if not 0 <= max_depth <= len(nodes):
        raise DamagedFile("the depth of a tree is invalid")
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
    if isinstance(state.get(ATTRIBUTE), ModelRecord):
        del state[ATTRIBUTE]  # stored separately in the file
    if "memory" in state and not is_number_or_none(state["memory"]):
        state["memory"] = None  # a folder of pickles, which the next fit would read
    if type(value).__module__.split(".")[0] in ("sklearn", "sksurv"):
        state = {k: v for k, v in state.items() if k not in _NOT_KEPT}
        if type(value).__name__ == "IsotonicRegression":
            state.pop("f_", None)
        if type(value).__name__ == "_PassthroughScorer":
            state.pop("_metadata_request", None)  # scikit-learn 1.6; not used to score
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
            raise DamagedFile("the name of a loss is unknown")
        value._loss = value._get_loss(sample_weight=None)
    elif type(value).__name__ == "GradientBoostingSurvivalAnalysis":
        _rebuild_survival_loss(value)
    elif type(value) is IsotonicRegression and "X_thresholds_" in state:
        _rebuild_isotonic(value)
    elif type(value) in (KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors):
        if "_fit_method" in state:
            _rebuild_neighbours(value)


def _rebuild_survival_loss(value: Any) -> None:
    from sksurv.ensemble.survival_loss import LOSS_FUNCTIONS

    if "estimators_" in vars(value):
        if value.loss not in LOSS_FUNCTIONS:
            raise DamagedFile("the name of a loss is unknown")
        value._loss = LOSS_FUNCTIONS[value.loss]()


def _rebuild_isotonic(value: Any) -> None:
    x, y = value.X_thresholds_, value.y_thresholds_
    arrays = all(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in (x, y))
    if not arrays or x.ndim != 1 or x.shape != y.shape or (np.diff(x) < 0).any():
        raise DamagedFile("an isotonic curve is invalid")
    if value.out_of_bounds not in ("nan", "clip", "raise"):
        raise DamagedFile("an isotonic curve is invalid")
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
        raise DamagedFile("the search method for neighbors is unknown")
    value._tree = None
    kind = trees[value._fit_method]
    if kind is not None:
        leaves = value.leaf_size
        dense = isinstance(rows, np.ndarray) and rows.ndim == 2
        if not dense or rows.dtype.kind != "f" or type(leaves) is not int or leaves < 1:
            raise DamagedFile("the rows of a neighbor tree are invalid")
        if metric not in kind.valid_metrics:
            raise DamagedFile("the search method for neighbors is unknown")
        value._tree = kind(rows, leaves, metric=metric, **params)


# ------------------------------------------------------------------- valid states


def _check_tree(value: Any) -> None:
    if "tree_" not in vars(value):
        return
    if type(value.tree_) is not compiled_trees()[0]:
        raise DamagedFile("an object is not a tree")
    if value.tree_.n_features != value.n_features_in_:
        raise DamagedFile("the tree uses features that do not exist")
    if value.tree_.n_outputs != whole(value.n_outputs_, "n_outputs_"):
        raise DamagedFile("the tree has another number of outputs")
    if "n_classes_" in vars(value):
        counts = np.atleast_1d(np.asarray(value.n_classes_))
        if not np.array_equal(counts, value.tree_.n_classes):
            raise DamagedFile("the tree has another number of classes")


def _check_forest(value: Any) -> None:
    """Every tree of an ensemble takes the features that the ensemble takes."""
    members = vars(value).get("estimators_")
    if members is None:
        return
    for member in np.asarray(members, dtype=object).ravel():
        if not type(member).__module__.startswith(("sklearn.tree", "sksurv.tree")):
            raise DamagedFile("an object in the ensemble is not a tree")
        if member.n_features_in_ != value.n_features_in_:
            raise DamagedFile("a tree of the ensemble has another number of features")


def _check_boosted(value: Any) -> None:
    _check_forest(value)
    if "estimators_" not in vars(value):
        return
    stages = value.estimators_
    array(stages, "estimators_", "O", (None, value.n_trees_per_iteration_))
    for member in stages.ravel():
        tree = member.tree_
        if tree.n_outputs != 1 or tree.max_n_classes != 1:
            raise DamagedFile("a tree of the ensemble is not a regression tree")


def _check_hist(value: Any) -> None:
    _, _, node_type = compiled_trees()
    state = vars(value)
    if "_predictors" not in state:
        return
    d = value.n_features_in_
    mapper = value._bin_mapper
    flags = array(mapper.is_categorical_, "is_categorical_", "u", (d,))
    if len(mapper.bin_thresholds_) != d:
        raise DamagedFile("the number of bin thresholds does not fit the features")
    for j in np.flatnonzero(flags):
        categories = array(mapper.bin_thresholds_[j], "categories", "f", (None,))
        if categories.size and not (categories.min() >= 0 and categories.max() < 256):
            raise DamagedFile("a category is out of range")
    if whole(value._n_features, "_n_features") != d:
        raise DamagedFile("the trees have another number of features")
    trees = value.n_trees_per_iteration_
    array(value._baseline_prediction, "_baseline_prediction", "f", (1, trees))
    for row in value._predictors:
        if len(row) != trees:
            raise DamagedFile("an iteration lacks a tree")
        for predictor in row:
            if type(predictor).__name__ != "TreePredictor":
                raise DamagedFile("an object is not a tree")
            if predictor.nodes.dtype != node_type:
                raise DamagedFile("the nodes of a tree have the wrong type")
            _check_predictor(predictor, d)


def _check_predictor(predictor: Any, n_features: int) -> None:
    nodes = predictor.nodes
    if nodes.ndim != 1 or not len(nodes):
        raise DamagedFile("a tree has no nodes")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    for side in ("left", "right"):
        child = nodes[side][inner].astype(np.int64)
        if (child <= inner).any() or (child >= len(nodes)).any():
            raise DamagedFile("a node of a tree has an index out of range")
    feature = nodes["feature_idx"][inner]
    if (feature < 0).any() or (feature >= n_features).any():
        raise DamagedFile("a tree uses a feature that does not exist")
    sets = array(predictor.raw_left_cat_bitsets, "bitsets", "u", (None, 8))
    chosen = nodes["bitset_idx"][inner][nodes["is_categorical"][inner] != 0]
    if (chosen >= len(sets)).any() or sets.dtype != np.uint32:
        raise DamagedFile("a tree uses categories that do not exist")


def _check_libsvm(value: Any) -> None:
    """Counts, places and coefficients of support vectors, as libsvm follows them."""
    if "_n_support" not in vars(value):
        return
    d = whole(value.n_features_in_, "n_features_in_", least=1)
    count = array(value._n_support, "_n_support", "i", (None,))
    support = array(value.support_, "support_", "i", (None,))
    if count.dtype != np.int32 or support.dtype != np.int32 or (count < 0).any():
        raise DamagedFile("the numbers of support vectors do not fit together")
    classes = len(value.classes_) if "classes_" in vars(value) else 2
    # Regression and one-class models use the first of two entries.
    total = int(count[0]) if "classes_" not in vars(value) else int(count.sum())
    if len(count) != classes or total != len(support):
        raise DamagedFile("the numbers of support vectors do not fit together")
    pairs = classes * (classes - 1) // 2
    vectors = value.support_vectors_
    if not isinstance(value._sparse, bool | np.bool_):
        raise DamagedFile("_sparse is neither true nor false")
    if value.kernel == "precomputed":
        below(support, d, "support_")
        if isinstance(vectors, np.ndarray) and vectors.shape not in (
            (0, 0),
            (len(support), 0),
        ):
            raise DamagedFile("a precomputed kernel has no support vectors")
    elif vectors.shape != (len(support), d) or vectors.dtype != np.float64:
        raise DamagedFile("support vectors have the wrong shape")
    if bool(sp.issparse(vectors)) != bool(value._sparse):
        raise DamagedFile("support vectors are not stored in the declared format")
    for name in ("dual_coef_", "_dual_coef_"):
        part = getattr(value, name)
        if part.shape != (classes - 1, len(support)) or part.dtype != np.float64:
            raise DamagedFile(f"{name} has the shape {part.shape}")
        if bool(sp.issparse(part)) != bool(value._sparse):
            raise DamagedFile(f"{name} is not stored in the declared format")
        if sp.issparse(part) and part.nnz != (classes - 1) * len(support):
            raise DamagedFile(f"{name} is not complete")
    for name in ("intercept_", "_intercept_"):
        array(getattr(value, name), name, "f", (pairs,))
    for name in ("_probA", "_probB"):
        part = array(getattr(value, name), name, "f", (None,))
        if len(part) not in (0, pairs if "classes_" in vars(value) else len(part)):
            raise DamagedFile(f"{name} has the length {len(part)}")
    if "class_weight_" in vars(value):
        array(value.class_weight_, "class_weight_", "f", (classes,))
    if not isinstance(value.kernel, str):
        raise DamagedFile("the name of a kernel is unknown")


def _check_neighbours(value: Any) -> None:
    if "_fit_X" not in vars(value):
        return
    rows, d = value._fit_X, value.n_features_in_
    n = rows.shape[0]
    if rows.shape != (n, d) or rows.dtype.kind != "f" or value.n_samples_fit_ != n:
        raise DamagedFile("the rows of neighbors do not fit the model")
    if whole(value.n_neighbors, "n_neighbors", least=1) > n:
        raise DamagedFile("there are fewer rows than neighbors")
    params = value.effective_metric_params_.values()
    if not all(type(v) in (int, float, np.float64) for v in params):
        raise DamagedFile("a parameter of the metric of neighbors is not a number")
    if "_y" in vars(value):
        y = value._y
        if not isinstance(y, np.ndarray) or len(y) != n:
            raise DamagedFile("labels of neighbors do not fit the rows")
        if "classes_" in vars(value):
            single = isinstance(value.classes_, np.ndarray)
            counts = [len(value.classes_)] if single else map(len, value.classes_)
            columns = y.reshape(n, -1).T
            for column, count in zip(columns, counts, strict=True):
                if column.dtype.kind not in "iu":
                    raise DamagedFile("labels of neighbors are not integers")
                below(column, count, "_y")


def _check_kmeans(value: Any) -> None:
    if "cluster_centers_" not in vars(value):
        return
    centers = value.cluster_centers_
    if not centers.flags.c_contiguous or centers.shape[0] != value.n_clusters:
        raise DamagedFile("cluster_centers_ do not fit the number of features")
    whole(value._n_threads, "_n_threads", least=1, most=4096)


def _check_bagging(value: Any) -> None:
    drawn = vars(value).get("estimators_features_", ())
    members = vars(value).get("estimators_", ())
    if [len(places) for places in drawn] != [m.n_features_in_ for m in members]:
        raise DamagedFile("a member of the ensemble has another number of features")
    for places in drawn:
        below(
            array(places, "estimators_features_", "iu", (None,)),
            value.n_features_in_,
            "estimators_features_",
        )


def _check_search(value: Any) -> None:
    """Candidates of a search must not name a folder of pickles, as in `Pipeline`."""
    for attribute in ("param_grid", "param_distributions"):
        grids = vars(value).get(attribute)
        for grid in grids if isinstance(grids, list | tuple) else [grids]:
            for name in grid if isinstance(grid, dict) else ():
                if str(name).rpartition("__")[2] == "memory":
                    raise DamagedFile(
                        f"{attribute} sets {str(name)[:80]!r}, a folder of pickles; "
                        "remove it from the search"
                    )


def _check_words(value: Any) -> None:
    """Texts are no names of files, and every word has a column of its own."""
    if value.input != "content":
        raise DamagedFile(f"a vectorizer reads its input as {str(value.input)[:20]!r}")
    words = vars(value).get("vocabulary_")
    if words is None:
        return
    places = sorted(words.values()) if isinstance(words, dict) else [-1]
    if [int(p) for p in places] != list(range(len(places))):
        raise DamagedFile("the words of a vocabulary have no columns")


_OF_BOTH_TASKS = {
    "DecisionTree": _check_tree,
    "ExtraTree": _check_tree,
    "RandomForest": _check_forest,
    "ExtraTrees": _check_forest,
    "GradientBoosting": _check_boosted,
    "HistGradientBoosting": _check_hist,
    "KNeighbors": _check_neighbours,
    "Bagging": _check_bagging,
}
CHECKS["sklearn"] |= {
    **{name + "Classifier": check for name, check in _OF_BOTH_TASKS.items()},
    **{name + "Regressor": check for name, check in _OF_BOTH_TASKS.items()},
    **{name: _check_libsvm for name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")},
    "NearestNeighbors": _check_neighbours,
    "CountVectorizer": _check_words,
    "HashingVectorizer": _check_words,
    "TfidfVectorizer": _check_words,
    "GridSearchCV": _check_search,
    "RandomizedSearchCV": _check_search,
    "KMeans": _check_kmeans,
    "MiniBatchKMeans": _check_kmeans,
}
CHECKS["sksurv"] = {
    "ExtraSurvivalTree": _check_tree,
    "SurvivalTree": _check_tree,
    "RandomSurvivalForest": _check_forest,
    "ExtraSurvivalTrees": _check_forest,
    "GradientBoostingSurvivalAnalysis": _check_boosted,
}
