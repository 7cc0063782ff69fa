"""What scikit-learn's compiled code would follow without asking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._compat import compiled_trees
from bagwise.io.model_files._archive import DamagedFile
from bagwise.io.model_files._state import array, below, whole


def _check_tree(value: Any) -> None:
    if "tree_" not in vars(value):
        return
    if type(value.tree_) is not compiled_trees()[0]:
        raise DamagedFile("a tree is none")
    if value.tree_.n_features != value.n_features_in_:
        raise DamagedFile("the tree uses features that do not exist")
    if value.tree_.n_outputs != whole(value.n_outputs_, "n_outputs_"):
        raise DamagedFile("the tree has other outputs")
    if "n_classes_" in vars(value):
        counts = np.atleast_1d(np.asarray(value.n_classes_))
        if not np.array_equal(counts, value.tree_.n_classes):
            raise DamagedFile("the tree has other classes")


def _check_forest(value: Any) -> None:
    """Every tree of an ensemble takes the features that the ensemble takes."""
    members = vars(value).get("estimators_")
    if members is None:
        return
    for member in np.asarray(members, dtype=object).ravel():
        if not type(member).__module__.startswith("sklearn.tree"):
            raise DamagedFile("a tree of the ensemble is none")
        if member.n_features_in_ != value.n_features_in_:
            raise DamagedFile("a tree of the ensemble takes other features")


def _check_boosted(value: Any) -> None:
    _check_forest(value)
    if "estimators_" not in vars(value):
        return
    stages = value.estimators_
    array(stages, "estimators_", "O", (None, value.n_trees_per_iteration_))
    for member in stages.ravel():
        tree = member.tree_
        if tree.n_outputs != 1 or tree.max_n_classes != 1:
            raise DamagedFile("a tree of the ensemble is no regression tree")


def _check_hist(value: Any) -> None:
    _, _, node_type = compiled_trees()
    state = vars(value)
    if "_predictors" not in state:
        return
    d = value.n_features_in_
    mapper = value._bin_mapper
    flags = array(mapper.is_categorical_, "is_categorical_", "u", (d,))
    if len(mapper.bin_thresholds_) != d:
        raise DamagedFile("features are cut another number of times")
    for j in np.flatnonzero(flags):
        categories = array(mapper.bin_thresholds_[j], "categories", "f", (None,))
        if categories.size and not (categories.min() >= 0 and categories.max() < 256):
            raise DamagedFile("a category is out of range")
    if whole(value._n_features, "_n_features") != d:
        raise DamagedFile("the trees take other features")
    trees = value.n_trees_per_iteration_
    array(value._baseline_prediction, "_baseline_prediction", "f", (1, trees))
    for row in value._predictors:
        if len(row) != trees:
            raise DamagedFile("an iteration lacks a tree")
        for predictor in row:
            if type(predictor).__name__ != "TreePredictor":
                raise DamagedFile("a tree is none")
            if predictor.nodes.dtype != node_type:
                raise DamagedFile("the nodes of a tree are not nodes")
            _check_predictor(predictor, d)


def _check_predictor(predictor: Any, n_features: int) -> None:
    nodes = predictor.nodes
    if nodes.ndim != 1 or not len(nodes):
        raise DamagedFile("a tree has no nodes")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    for side in ("left", "right"):
        child = nodes[side][inner].astype(np.int64)
        if (child <= inner).any() or (child >= len(nodes)).any():
            raise DamagedFile("the nodes of a tree point outside of it")
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
        raise DamagedFile("support vectors are counted wrongly")
    classes = len(value.classes_) if "classes_" in vars(value) else 2
    # Regression and one-class machines count in the first of two places.
    total = int(count[0]) if "classes_" not in vars(value) else int(count.sum())
    if len(count) != classes or total != len(support):
        raise DamagedFile("support vectors are counted wrongly")
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
        raise DamagedFile("support vectors have another shape")
    if bool(sp.issparse(vectors)) != bool(value._sparse):
        raise DamagedFile("support vectors are stored in another way than said")
    for name in ("dual_coef_", "_dual_coef_"):
        part = getattr(value, name)
        if part.shape != (classes - 1, len(support)) or part.dtype != np.float64:
            raise DamagedFile(f"{name} has the shape {part.shape}")
        if bool(sp.issparse(part)) != bool(value._sparse):
            raise DamagedFile(f"{name} is stored in another way than said")
        if sp.issparse(part) and part.nnz != (classes - 1) * len(support):
            raise DamagedFile(f"{name} leaves entries out")
    for name in ("intercept_", "_intercept_"):
        array(getattr(value, name), name, "f", (pairs,))
    for name in ("_probA", "_probB"):
        part = array(getattr(value, name), name, "f", (None,))
        if len(part) not in (0, pairs if "classes_" in vars(value) else len(part)):
            raise DamagedFile(f"{name} has the length {len(part)}")
    if "class_weight_" in vars(value):
        array(value.class_weight_, "class_weight_", "f", (classes,))
    if not isinstance(value.kernel, str):
        raise DamagedFile("a kernel is not known by name")


def _check_neighbours(value: Any) -> None:
    if "_fit_X" not in vars(value):
        return
    rows, d = value._fit_X, value.n_features_in_
    n = rows.shape[0]
    if rows.shape != (n, d) or rows.dtype.kind != "f" or value.n_samples_fit_ != n:
        raise DamagedFile("the rows of neighbours do not fit")
    if whole(value.n_neighbors, "n_neighbors", least=1) > n:
        raise DamagedFile("there are fewer rows than neighbours")
    params = value.effective_metric_params_.values()
    if not all(type(v) in (int, float, np.float64) for v in params):
        raise DamagedFile("the metric of neighbours has other than plain numbers")
    if "_y" in vars(value):
        y = value._y
        if not isinstance(y, np.ndarray) or len(y) != n:
            raise DamagedFile("labels of neighbours do not fit")
        if "classes_" in vars(value):
            single = isinstance(value.classes_, np.ndarray)
            counts = [len(value.classes_)] if single else map(len, value.classes_)
            columns = y.reshape(n, -1).T
            for column, count in zip(columns, counts, strict=True):
                if column.dtype.kind not in "iu":
                    raise DamagedFile("labels of neighbours are no whole numbers")
                below(column, count, "_y")


def _check_kmeans(value: Any) -> None:
    if "cluster_centers_" not in vars(value):
        return
    centers = value.cluster_centers_
    if not centers.flags.c_contiguous or centers.shape[0] != value.n_clusters:
        raise DamagedFile("cluster_centers_ do not fit")
    whole(value._n_threads, "_n_threads", least=1, most=4096)


def _check_bagging(value: Any) -> None:
    drawn = vars(value).get("estimators_features_", ())
    members = vars(value).get("estimators_", ())
    if [len(places) for places in drawn] != [m.n_features_in_ for m in members]:
        raise DamagedFile("a member of the ensemble takes other features")
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
                        "leave it out of the search"
                    )


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
CHECKS: dict[str, Callable[[Any], None]] = {
    **{name + "Classifier": check for name, check in _OF_BOTH_TASKS.items()},
    **{name + "Regressor": check for name, check in _OF_BOTH_TASKS.items()},
    **{name: _check_libsvm for name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")},
    "NearestNeighbors": _check_neighbours,
    "GridSearchCV": _check_search,
    "RandomizedSearchCV": _check_search,
    "KMeans": _check_kmeans,
    "MiniBatchKMeans": _check_kmeans,
}
