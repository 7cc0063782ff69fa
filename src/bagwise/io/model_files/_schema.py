"""What the state of an object must look like before anything follows it.

Shapes are told by letters: ``d`` is the number of features the object says it takes
(which `predict` compares with the data), any other letter has to mean the same number
wherever it stands in one object, and ``*`` means any number. NumPy itself refuses what
does not fit; these checks are for what compiled code would read without asking. What
the parts of one class must be to each other stands in `_state_bagwise` and
`_state_sklearn`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.io.model_files import _state_bagwise, _state_sklearn
from bagwise.io.model_files._archive import DamagedFile
from bagwise.io.model_files._state import whole

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
_CHECKS = {"bagwise": _state_bagwise.CHECKS, "sklearn": _state_sklearn.CHECKS}


def known_arrays(cls: type) -> set[str]:
    """Return the names of the arrays that have a schema in this class."""
    return {*_ARRAYS, *_OF_CLASS.get(cls.__name__, ())}


def check_object(value: Any) -> None:
    """Refuse an object whose state does not fit together."""
    cls = type(value)
    root = cls.__module__.split(".")[0]
    if root not in _CHECKS:
        return
    try:
        _check_arrays(value, root)
        check = _CHECKS[root].get(cls.__name__)
        if check is not None:
            check(value)
        if root == "bagwise":
            _state_bagwise.check_any(value)
    except DamagedFile as error:
        raise DamagedFile(f"{cls.__name__}: {error}") from None
    except (AttributeError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise DamagedFile(f"{cls.__name__} is not whole ({error})") from error


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
