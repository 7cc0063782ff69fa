"""What the parts of bagwise's own objects must be to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.io.model_files._archive import DamagedFile
from bagwise.io.model_files._state import array, below, whole

_BAGS_OF_WIDTH_D = ("support_bags_", "bags_fit_")


def check_any(value: Any) -> None:
    """Check what is the same in every class."""
    _check_width_of_bags(value)
    _check_children(value)


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
    from bagwise.bags.segmented import check_offsets

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
        array(edge, "edges_", "f", (None,))
        if (np.diff(edge) <= 0).any() or len(edge) != value.max_level_[j]:
            raise DamagedFile("edges_ do not grow")
    if value.max_level_.max(initial=0) >= 2**16:
        raise DamagedFile("max_level_ is too large")
    array(value.anchors_, "anchors_", "u", (None, d))
    if (value.anchors_ > value.max_level_).any() or value.anchors_.dtype != np.uint16:
        raise DamagedFile("anchors_ lie outside of the grid")
    below(value.order_, d, "order_")
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
            raise DamagedFile("a learner takes other features")


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


CHECKS: dict[str, Callable[[Any], None]] = {
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
}
