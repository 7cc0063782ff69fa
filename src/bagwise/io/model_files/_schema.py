"""What the state of an object must look like before anything follows it.

Shapes are told by letters: ``d`` is the number of features the object says it takes
(which `predict` compares with the data), any other letter has to mean the same number
wherever it stands in one object, and ``*`` means any number. NumPy itself refuses what
does not fit; these checks are for what compiled code would read without asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._compat import compiled_trees
from bagwise.io.model_files._archive import DamagedFile

# name -> alternatives of (kinds of entries, axes); the first names fix the letters.
_ARRAYS: dict[str, tuple[tuple[str, str], ...]] = {
    "classes_": (("biufUO", "*"),),
    "objective_path_": (("fi", "*"), ("fi", "**")),
    "feature_names_in_": (("O", "d"),),
    # machines
    "support_vectors_": (("f", "sd"),),
    "support_instances_": (("f", "sd"),),
    "X_fit_": (("f", "sd"),),
    "dual_coef_": (("f", "s"), ("f", "s*"), ("f", "*s")),
    "support_": (("i", "*"),),
    "witnesses_": (("i", "*"), ("i", "**")),
    "assignments_": (("i", "a*"),),
    "assignment_weight_": (("f", "a"),),
    "active_constraints_": (("i", "*"),),
    "instance_labels_": (("fi", "*"), ("fi", "**")),
    "prototype_rows_": (("i", "*"),),
    "labels_": (("i", "*"),),
    "best_epoch_": (("i", "*"),),
    "codebook_": (("i", "**"),),
}
# Attributes of one class that mean something else there, or need more.
_OF_CLASS: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {
    "BagOfWords": {"cluster_centers_": (("f", "cd"),)},
    "BoxGrid": {
        "max_level_": (("i", "d"),),
        "order_": (("i", "*"),),
        "anchors_": (("u", "*d"),),
    },
    "BoxKernelSVC": {"coef_": (("f", "n"), ("f", "n*")), "log_self_": (("f", "n"),)},
    "CitationKNN": {
        "_one_hot": (("b", "n*"),),
        "citation_radius_": (("f", "n"),),
        "_instance_radius": (("f", "n"),),
    },
    "DiverseDensity": {"concept_": (("f", "d"),), "scale_": (("f", "d"),)},
    "EMDD": {"concept_": (("f", "d"),), "scale_": (("f", "d"),)},
    "GMIL": {
        "low_": (("u", "bd"),),
        "high_": (("u", "bd"),),
        "gain_": (("f", "b"),),
        "attracting_boxes_": (("f", "*d*"),),
        "repelling_boxes_": (("f", "*d*"),),
    },
    "IAPR": {
        "lower_": (("f", "d"),),
        "upper_": (("f", "d"),),
        "features_": (("i", "*"),),
        "scale_": (("f", "d"),),
        "chosen_": (("f", "*d"),),
    },
    "MILDE": {"prototypes_": (("f", "pd"),)},
    "MILES": {"prototypes_": (("f", "pd"),)},
    "PrototypeEmbedding": {"prototypes_": (("f", "pd"),)},
    "MILogisticRegression": {"coef_": (("f", "d"), ("f", "*d"))},
    "MIDR": {"components_": (("f", "*d"),), "direction_": (("f", "d"), ("f", "*d"))},
    "RandomBoxFeatures": {
        "low_": (("u", "bd"),),
        "high_": (("u", "bd"),),
        "weights_": (("f", "b"),),
    },
    "StandardScaler": {
        "mean_": (("f", "d"),),
        "scale_": (("f", "d"),),
        "var_": (("f", "d"),),
    },
    "KMeans": {"cluster_centers_": (("f", "cd"),)},
    "MiniBatchKMeans": {"cluster_centers_": (("f", "cd"),)},
    "KernelBasis": {"landmarks": (("f", "ld"),), "projection": (("f", "l*"),)},
}
_BAGS_OF_WIDTH_D = ("support_bags_", "bags_fit_")


def known_arrays(cls: type) -> set[str]:
    """Return the names of the arrays that have a schema in this class."""
    return {*_ARRAYS, *_OF_CLASS.get(cls.__name__, ())}


def check_object(value: Any) -> None:
    """Refuse an object whose state does not fit together."""
    cls = type(value)
    root = cls.__module__.split(".")[0]
    if root not in ("bagwise", "sklearn"):
        return
    try:
        _check_arrays(value, root)
        check = _CHECKS.get((root, cls.__name__))
        if check is not None:
            check(value)
        if root == "bagwise":
            _check_width_of_bags(value)
            _check_children(value)
    except DamagedFile as error:
        raise DamagedFile(f"{cls.__name__}: {error}") from None
    except (AttributeError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise DamagedFile(f"{cls.__name__} is not whole ({error})") from error


def _check_arrays(value: Any, root: str) -> None:
    state = vars(value)
    letters: dict[str, int] = {}
    if "n_features_in_" in state:
        letters["d"] = _whole(state["n_features_in_"], "n_features_in_", least=1)
    own = _OF_CLASS.get(type(value).__name__, {})
    general = _ARRAYS if root == "bagwise" else {}
    for name, alternatives in {**general, **own}.items():
        part = state.get(name)
        if part is None or name in _parameters(value):
            continue
        if not any(_fits(part, kinds, axes, letters) for kinds, axes in alternatives):
            raise DamagedFile(f"{name} does not have the shape or type it should")


def _parameters(value: Any) -> Any:
    return value._get_param_names() if hasattr(value, "_get_param_names") else ()


def _fits(part: Any, kinds: str, axes: str, letters: dict[str, int]) -> bool:
    if not (isinstance(part, np.ndarray) or sp.issparse(part)):
        return False
    if part.dtype.kind not in kinds or part.ndim != len(axes):
        return False
    found = dict(letters)
    for letter, length in zip(axes, part.shape, strict=True):
        if letter != "*" and found.setdefault(letter, length) != length:
            return False
    letters.update(found)
    return True


def _whole(value: Any, name: str, *, least: int = 0, most: int = 2**53) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise DamagedFile(f"{name} is no whole number")
    if not least <= value <= most:
        raise DamagedFile(f"{name} is {value}")
    return int(value)


def _array(part: Any, name: str, kinds: str, shape: tuple[int | None, ...]) -> Any:
    """Return an array whose shape is the given one; None stands for any length."""
    if not isinstance(part, np.ndarray) or part.dtype.kind not in kinds:
        raise DamagedFile(f"{name} is no array of the right kind")
    same = part.ndim == len(shape) and all(
        want is None or want == have
        for want, have in zip(shape, part.shape, strict=True)
    )
    if not same:
        raise DamagedFile(f"{name} has the shape {part.shape}")
    return part


def _below(part: Any, limit: Any, name: str) -> None:
    if part.size and (part.min() < 0 or (part >= limit).any()):
        raise DamagedFile(f"{name} points outside")


# ------------------------------------------------------------------------ bagwise


def _check_width_of_bags(value: Any) -> None:
    from bagwise.bags import Bags

    for name in _BAGS_OF_WIDTH_D:
        part = vars(value).get(name)
        if part is not None and not isinstance(part, Bags):
            raise DamagedFile(f"{name} holds no bags")
        width = vars(value).get("n_features_in_")
        if part is not None and width is not None and part.n_features != width:
            raise DamagedFile(f"{name} has bags of another width")


def _check_children(value: Any) -> None:
    """One machine a class: each must take the features that the whole takes."""
    width = vars(value).get("n_features_in_")
    children = vars(value).get("estimators_")
    if width is None or not isinstance(children, list):
        return
    for child in children:
        if vars(child).get("n_features_in_", width) != width:
            raise DamagedFile("a machine of one class takes other features")


def _check_segmented(value: Any) -> None:
    from bagwise.bags._segmented import check_offsets

    stacked = value._stacked
    if not (isinstance(stacked, np.ndarray) or sp.issparse(stacked)):
        raise DamagedFile("bags hold no matrix")
    try:
        check_offsets(value._offsets, stacked.shape[0])
    except ValueError as error:
        raise DamagedFile(str(error)) from None
    if value._offsets.dtype != np.int64 or value._offsets.ndim != 1:
        raise DamagedFile("offsets are not whole numbers")


def _check_bags(value: Any) -> None:
    _check_segmented(value)
    stacked = value._stacked
    if stacked.ndim != 2 or stacked.dtype.kind != "f":
        raise DamagedFile("bags hold no matrix of numbers")
    if isinstance(stacked, np.ndarray) and not stacked.flags.c_contiguous:
        raise DamagedFile("bags are not stored row by row")
    lengths = {
        "_ids": value.n_bags,
        "_groups": value.n_bags,
        "_feature_names": stacked.shape[1],
        "_instance_ids": stacked.shape[0],
        "_coords": stacked.shape[0],
    }
    for name, length in lengths.items():
        part = vars(value).get(name)
        if part is not None and (
            not isinstance(part, np.ndarray) or len(part) != length
        ):
            raise DamagedFile(f"{name} does not fit the bags")


def _check_grid(value: Any) -> None:
    d = value.n_features_in_
    edges = value.edges_
    if type(edges) is not list or len(edges) != d:
        raise DamagedFile("edges_ are not one list a feature")
    for j, edge in enumerate(edges):
        _array(edge, "edges_", "f", (None,))
        if (np.diff(edge) <= 0).any() or len(edge) != value.max_level_[j]:
            raise DamagedFile("edges_ do not grow")
    if value.max_level_.max(initial=0) >= 2**16:
        raise DamagedFile("max_level_ is too large")
    _array(value.anchors_, "anchors_", "u", (None, d))
    if (value.anchors_ > value.max_level_).any() or value.anchors_.dtype != np.uint16:
        raise DamagedFile("anchors_ lie outside of the grid")
    _below(value.order_, d, "order_")
    if len(np.unique(value.order_)) != len(value.order_):
        raise DamagedFile("order_ names a feature twice")


def _check_boxes(value: Any) -> None:
    """Boxes are corners on the grid of the same object."""
    grid = vars(value).get("grid_")
    if grid is None or "low_" not in vars(value):
        return
    if type(grid).__name__ != "BoxGrid" or grid.n_features_in_ != value.n_features_in_:
        raise DamagedFile("the grid takes other features")
    outside = (value.low_ > value.high_) | (value.high_ > grid.max_level_)
    if value.low_.dtype != np.uint16 or value.high_.dtype != np.uint16:
        raise DamagedFile("corners of boxes are stored wrongly")
    if outside.any():
        raise DamagedFile("boxes lie outside of the grid")


def _check_iapr(value: Any) -> None:
    if "features_" in vars(value):
        _below(value.features_, value.n_features_in_, "features_")


def _check_stumps(value: Any) -> None:
    for learner in vars(value).get("learners_", ()):
        feature = vars(learner).get("feature")
        if feature is not None and not (
            type(feature) is int and -1 <= feature < value.n_features_in_
        ):
            raise DamagedFile("a stump uses a feature that does not exist")
        width = vars(learner).get("n_features_in_", value.n_features_in_)
        if width != value.n_features_in_:
            raise DamagedFile("a learner takes other features")


def _check_basis(value: Any) -> None:
    if value.projection is not None:
        if value.landmarks is None:
            raise DamagedFile("a basis has no landmarks")
        if value.landmarks.shape[0] != value.projection.shape[0]:
            raise DamagedFile("the landmarks of a basis do not fit its projection")
    if not isinstance(value.params, dict):
        raise DamagedFile("a basis has no parameters")


# ------------------------------------------------------------------- scikit-learn


def _check_tree(value: Any) -> None:
    if "tree_" not in vars(value):
        return
    if type(value.tree_) is not compiled_trees()[0]:
        raise DamagedFile("a tree is none")
    if value.tree_.n_features != value.n_features_in_:
        raise DamagedFile("the tree uses features that do not exist")
    if value.tree_.n_outputs != _whole(value.n_outputs_, "n_outputs_"):
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
    _array(stages, "estimators_", "O", (None, value.n_trees_per_iteration_))
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
    flags = _array(mapper.is_categorical_, "is_categorical_", "u", (d,))
    if len(mapper.bin_thresholds_) != d:
        raise DamagedFile("features are cut another number of times")
    for j in np.flatnonzero(flags):
        categories = _array(mapper.bin_thresholds_[j], "categories", "f", (None,))
        if categories.size and not (categories.min() >= 0 and categories.max() < 256):
            raise DamagedFile("a category is out of range")
    if _whole(value._n_features, "_n_features") != d:
        raise DamagedFile("the trees take other features")
    trees = value.n_trees_per_iteration_
    _array(value._baseline_prediction, "_baseline_prediction", "f", (1, trees))
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
    sets = _array(predictor.raw_left_cat_bitsets, "bitsets", "u", (None, 8))
    chosen = nodes["bitset_idx"][inner][nodes["is_categorical"][inner] != 0]
    if (chosen >= len(sets)).any() or sets.dtype != np.uint32:
        raise DamagedFile("a tree uses categories that do not exist")


def _check_libsvm(value: Any) -> None:
    """Counts, places and coefficients of support vectors, as libsvm follows them."""
    if "_n_support" not in vars(value):
        return
    d = _whole(value.n_features_in_, "n_features_in_", least=1)
    count = _array(value._n_support, "_n_support", "i", (None,))
    support = _array(value.support_, "support_", "i", (None,))
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
        _below(support, d, "support_")
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
        _array(getattr(value, name), name, "f", (pairs,))
    for name in ("_probA", "_probB"):
        part = _array(getattr(value, name), name, "f", (None,))
        if len(part) not in (0, pairs if "classes_" in vars(value) else len(part)):
            raise DamagedFile(f"{name} has the length {len(part)}")
    if "class_weight_" in vars(value):
        _array(value.class_weight_, "class_weight_", "f", (classes,))
    if not isinstance(value.kernel, str):
        raise DamagedFile("a kernel is not known by name")


def _check_neighbours(value: Any) -> None:
    if "_fit_X" not in vars(value):
        return
    rows, d = value._fit_X, value.n_features_in_
    n = rows.shape[0]
    if rows.shape != (n, d) or rows.dtype.kind != "f" or value.n_samples_fit_ != n:
        raise DamagedFile("the rows of neighbours do not fit")
    if _whole(value.n_neighbors, "n_neighbors", least=1) > n:
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
                _below(column, count, "_y")


def _check_kmeans(value: Any) -> None:
    if "cluster_centers_" not in vars(value):
        return
    centers = value.cluster_centers_
    if not centers.flags.c_contiguous or centers.shape[0] != value.n_clusters:
        raise DamagedFile("cluster_centers_ do not fit")
    _whole(value._n_threads, "_n_threads", least=1, most=4096)


def _check_bagging(value: Any) -> None:
    drawn = vars(value).get("estimators_features_", ())
    members = vars(value).get("estimators_", ())
    if [len(places) for places in drawn] != [m.n_features_in_ for m in members]:
        raise DamagedFile("a member of the ensemble takes other features")
    for places in drawn:
        _below(
            _array(places, "estimators_features_", "iu", (None,)),
            value.n_features_in_,
            "estimators_features_",
        )


_CHECKS: dict[tuple[str, str], Callable[[Any], None]] = {
    ("bagwise", "Bags"): _check_bags,
    ("bagwise", "Ragged"): _check_segmented,
    ("bagwise", "BoxGrid"): _check_grid,
    ("bagwise", "GMIL"): _check_boxes,
    ("bagwise", "RandomBoxFeatures"): _check_boxes,
    ("bagwise", "IAPR"): _check_iapr,
    ("bagwise", "KernelBasis"): _check_basis,
    ("bagwise", "MIBoosting"): _check_stumps,
    ("bagwise", "MILBoost"): _check_stumps,
    **{
        ("sklearn", kind + task): _check_tree
        for kind in ("DecisionTree", "ExtraTree")
        for task in ("Classifier", "Regressor")
    },
    **{
        ("sklearn", kind + task): _check_forest
        for kind in ("RandomForest", "ExtraTrees")
        for task in ("Classifier", "Regressor")
    },
    **{
        ("sklearn", kind + task): check
        for kind, check in (
            ("GradientBoosting", _check_boosted),
            ("HistGradientBoosting", _check_hist),
            ("KNeighbors", _check_neighbours),
            ("Bagging", _check_bagging),
        )
        for task in ("Classifier", "Regressor")
    },
    ("sklearn", "NearestNeighbors"): _check_neighbours,
    **{
        ("sklearn", name): _check_libsvm
        for name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
    },
    ("sklearn", "KMeans"): _check_kmeans,
    ("sklearn", "MiniBatchKMeans"): _check_kmeans,
}
