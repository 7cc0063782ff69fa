"""What the state of an object of bagwise must look like before it is used.

Shapes are written with letters: ``d`` is the number of features of the object, which
`predict` compares with the data; any other letter is the same number everywhere in one
object, and ``*`` is any number. NumPy refuses shapes that do not fit together. These
checks are for compiled code, which would read beyond the end of an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp


class DamagedFile(ValueError):
    """The file is not a model file, or not a valid one."""


# name -> alternatives of (kinds of entries, axes); the first names define the letters.
_ARRAYS: dict[str, tuple[tuple[str, str], ...]] = {
    "classes_": (("biufUO", "*"),),
    "feature_names_in_": (("O", "d"),),
    # SVMs
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
# Attributes with another meaning, or further requirements, in one class.
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
    "MILDE": {
        "cluster_centers_": (("f", "cd"),),
        "instance_coef_": (("f", "cd"),),
        "instance_intercept_": (("f", "c"),),
        "coef_": (("f", "c"),),
    },
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
    "SlicedWassersteinEmbedding": {"directions_": (("f", "d*"),)},
    "GaussianMixture": {
        "weights_": (("f", "k"),),
        "means_": (("f", "kd"),),
        "covariances_": (("f", "kd"), ("f", "kdd"), ("f", "dd"), ("f", "k")),
        "precisions_cholesky_": (("f", "kd"), ("f", "kdd"), ("f", "dd"), ("f", "k")),
    },
    "KMeans": {"cluster_centers_": (("f", "cd"),)},
    "MiniBatchKMeans": {"cluster_centers_": (("f", "cd"),)},
    "KernelBasis": {"landmarks": (("f", "ld"),), "projection": (("f", "l*"),)},
}
_BAGS_OF_WIDTH_D = ("support_bags_", "bags_fit_")


def whole(value: Any, name: str, *, least: int = 0, most: int = 2**53) -> int:
    """Return a whole number between two bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise DamagedFile(f"{name} is not an integer")
    if not least <= value <= most:
        raise DamagedFile(f"{name} is {value}")
    return int(value)


def array(part: Any, name: str, kinds: str, shape: tuple[int | None, ...]) -> Any:
    """Return an array whose shape is the given one; None stands for any length."""
    if not isinstance(part, np.ndarray) or part.dtype.kind not in kinds:
        raise DamagedFile(f"{name} is not an array of the required kind")
    same = part.ndim == len(shape) and all(
        want is None or want == have
        for want, have in zip(shape, part.shape, strict=True)
    )
    if not same:
        raise DamagedFile(f"{name} has the shape {part.shape}")
    return part


def below(part: Any, limit: Any, name: str) -> None:
    """Refuse places that are negative or not below the limit."""
    if part.size and (part.min() < 0 or (part >= limit).any()):
        raise DamagedFile(f"{name} has an index out of range")


def known_arrays(cls: type) -> set[str]:
    """Return the names of the arrays that have a schema in this class."""
    return {*_ARRAYS, *_OF_CLASS.get(cls.__name__, ())}


def check_object(value: Any) -> None:
    """Refuse an object whose state does not fit together."""
    cls = type(value)
    root = cls.__module__.split(".")[0]
    if root not in CHECKS:
        return
    try:
        _check_arrays(value, root)
        check = CHECKS[root].get(cls.__name__)
        if check is not None:
            check(value)
        if root == "bagwise":
            _check_width_of_bags(value)
            _check_children(value)
    except DamagedFile as error:
        raise DamagedFile(f"{cls.__name__}: {error}") from None
    except (AttributeError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise DamagedFile(f"{cls.__name__} is incomplete ({error})") from error


def _check_arrays(value: Any, root: str) -> None:
    state = vars(value)
    letters: dict[str, int] = {}
    if "n_features_in_" in state:
        letters["d"] = whole(state["n_features_in_"], "n_features_in_", least=1)
    own = _OF_CLASS.get(type(value).__name__, {})
    general = _ARRAYS if root == "bagwise" else {}
    for name, alternatives in {**general, **own}.items():
        part = state.get(name)
        if part is None or name in _parameters(value):
            continue
        if not any(_fits(part, kinds, axes, letters) for kinds, axes in alternatives):
            raise DamagedFile(f"{name} does not have the required shape or type")


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


def _check_width_of_bags(value: Any) -> None:
    from bagwise.bags import Bags

    for name in _BAGS_OF_WIDTH_D:
        part = vars(value).get(name)
        if part is not None and not isinstance(part, Bags):
            raise DamagedFile(f"{name} holds no bags")
        width = vars(value).get("n_features_in_")
        if part is not None and width is not None and part.n_features != width:
            raise DamagedFile(f"{name} has bags with another number of features")


def _check_children(value: Any) -> None:
    """One model per class: each must have the number of features of the whole."""
    width = vars(value).get("n_features_in_")
    children = vars(value).get("estimators_")
    if width is None or not isinstance(children, list):
        return
    for child in children:
        if vars(child).get("n_features_in_", width) != width:
            raise DamagedFile("the model of one class has another number of features")


def _check_segmented(value: Any) -> None:
    from bagwise.bags.segmented import check_offsets

    stacked = value._stacked
    if not (isinstance(stacked, np.ndarray) or sp.issparse(stacked)):
        raise DamagedFile("bags contain no matrix")
    try:
        check_offsets(value._offsets, stacked.shape[0])
    except ValueError as error:
        raise DamagedFile(str(error)) from None
    if value._offsets.dtype != np.int64 or value._offsets.ndim != 1:
        raise DamagedFile("offsets are not integers")


def _check_bags(value: Any) -> None:
    _check_segmented(value)
    stacked = value._stacked
    if stacked.ndim != 2 or stacked.dtype.kind != "f":
        raise DamagedFile("bags contain no numeric matrix")
    if isinstance(stacked, np.ndarray) and not stacked.flags.c_contiguous:
        raise DamagedFile("bags are not C-contiguous")
    if vars(value).get("_codings"):
        raise DamagedFile("bags in a model must contain numbers only")
    lengths = {
        "_ids": value.n_bags,
        "_groups": value.n_bags,
        "_feature_names": stacked.shape[1],
        "_instance_ids": stacked.shape[0],
        "_coords": stacked.shape[0],
        "_bag_rows": value.n_bags,
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
        raise DamagedFile("edges_ must have one list per feature")
    for j, edge in enumerate(edges):
        array(edge, "edges_", "f", (None,))
        if (np.diff(edge) <= 0).any() or len(edge) != value.max_level_[j]:
            raise DamagedFile("edges_ are not increasing")
    if value.max_level_.max(initial=0) >= 2**16:
        raise DamagedFile("max_level_ is too large")
    array(value.anchors_, "anchors_", "u", (None, d))
    if (value.anchors_ > value.max_level_).any() or value.anchors_.dtype != np.uint16:
        raise DamagedFile("anchors_ are outside of the grid")
    below(value.order_, d, "order_")
    if len(np.unique(value.order_)) != len(value.order_):
        raise DamagedFile("order_ names a feature twice")


def _check_boxes(value: Any) -> None:
    """Boxes are corners on the grid of the same object."""
    grid = vars(value).get("grid_")
    if grid is None or "low_" not in vars(value):
        return
    if type(grid).__name__ != "BoxGrid" or grid.n_features_in_ != value.n_features_in_:
        raise DamagedFile("the grid has another number of features")
    outside = (value.low_ > value.high_) | (value.high_ > grid.max_level_)
    if value.low_.dtype != np.uint16 or value.high_.dtype != np.uint16:
        raise DamagedFile("corners of boxes have the wrong shape or type")
    if outside.any():
        raise DamagedFile("boxes are outside of the grid")


def _check_iapr(value: Any) -> None:
    if "features_" in vars(value):
        below(value.features_, value.n_features_in_, "features_")


def _check_stumps(value: Any) -> None:
    for learner in vars(value).get("learners_", ()):
        feature = vars(learner).get("feature")
        if feature is not None and not (
            type(feature) is int and -1 <= feature < value.n_features_in_
        ):
            raise DamagedFile("a stump uses a feature that does not exist")
        width = vars(learner).get("n_features_in_", value.n_features_in_)
        if width != value.n_features_in_:
            raise DamagedFile("a learner has another number of features")


def _check_basis(value: Any) -> None:
    if value.projection is not None:
        if value.landmarks is None:
            raise DamagedFile("a basis has no landmarks")
        if value.landmarks.shape[0] != value.projection.shape[0]:
            raise DamagedFile("the landmarks of a basis do not fit its projection")
    if not isinstance(value.params, dict):
        raise DamagedFile("a basis has no parameters")


def _check_mixture(value: Any) -> None:
    """The Gaussians of Fisher vectors lie in the space that rows are projected to."""
    if "mixture_" not in vars(value):
        return
    mixture, project = value.mixture_, value._project
    names = (type(mixture).__name__, type(project).__name__)
    if names != ("GaussianMixture", "EnergyProjection"):
        raise DamagedFile("the mixture or its projection is of another class")
    k, n_kept = mixture.means_.shape
    array(mixture.weights_, "weights_", "f", (k,))
    array(mixture.covariances_, "covariances_", "f", (k, n_kept))
    array(project.axes, "axes", "f", (n_kept, value.n_features_in_))
    array(project.mean, "mean", "f", (value.n_features_in_,))
    array(value.components_, "components_", "f", (n_kept, value.n_features_in_))


def _check_directions(value: Any) -> None:
    """As many directions as the parameter says, which `transform` makes room for."""
    if "directions_" in vars(value):
        n = whole(value.n_projections, "n_projections", least=1)
        array(value.directions_, "directions_", "f", (value.n_features_in_, n))
        if value._n_features_out != n * whole(value.n_quantiles, "n_quantiles"):
            raise DamagedFile("the quantiles do not fit the number of columns")


# Checks by library; those of scikit-learn are added by `_sklearn`.
CHECKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "bagwise": {
        "Bags": _check_bags,
        "Ragged": _check_segmented,
        "BoxGrid": _check_grid,
        "GMIL": _check_boxes,
        "RandomBoxFeatures": _check_boxes,
        "IAPR": _check_iapr,
        "KernelBasis": _check_basis,
        "MiFV": _check_mixture,
        "SlicedWassersteinEmbedding": _check_directions,
        "MIBoosting": _check_stumps,
        "MILBoost": _check_stumps,
    },
    "sklearn": {},
}
