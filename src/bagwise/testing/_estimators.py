"""The estimators that are tested: how they are found, made, and what they may fail."""

import importlib
import importlib.util
import inspect
import pkgutil

from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingClassifier

import bagwise
from bagwise.compose import SimpleMIRegressor, WrapperMI

# Subpackages without estimators.
_NO_ESTIMATORS = {
    "bags",
    "base",
    "cli",
    "datasets",
    "comparison",
    "io",
    "inspection",
    "report",
    "testing",
}

# Subpackages whose estimators need another package.
_NEEDS = {"neural": "torch"}

# Estimators whose target is not one label or value per bag; the checks have no such
# data.
_OTHER_TARGETS = {"EmbeddedSurvival", "NeuralBagSurvival", "OneModelPerLabel"}


def all_estimators():
    """Return (name, class) of every exported estimator, sorted by name.

    An estimator is exported if it is in the `__all__` of a public subpackage; this is
    sufficient for it to be tested. Networks are found only if torch is installed;
    survival models have tests of their own.

    Returns
    -------
    list of (str, type)
        Names and classes.
    """
    found = {}
    for module in pkgutil.iter_modules(bagwise.__path__):
        if module.name.startswith("_") or module.name in _NO_ESTIMATORS:
            continue
        needed = _NEEDS.get(module.name)
        if needed is not None and importlib.util.find_spec(needed) is None:
            continue
        package = importlib.import_module(f"bagwise.{module.name}")
        for name in getattr(package, "__all__", ()):
            item = getattr(package, name)
            if name in _OTHER_TARGETS:
                continue
            if inspect.isclass(item) and issubclass(item, BaseEstimator):
                found[name] = item
    return sorted(found.items())


_SMALL_NET = {
    "hidden": 12,
    "attention": 6,
    "n_models": 2,
    "learning_rate": 0.03,
    "max_epochs": 8,
    "dropout": 0.25,
    "precision": "float64",  # predictions of subsets agree to 1e-7
}

# Parameters that shorten a fit. A class that is not listed is tested with its defaults.
CHEAP = {
    # Results are compared to seven digits, more than the default tolerance gives.
    **dict.fromkeys(("BagSVC", "BagSVR"), {"tol": 1e-8}),
    "NeuralBagClassifier": _SMALL_NET,
    "NeuralBagRegressor": _SMALL_NET,
    # Its members are tested in tests/ensemble; here one member is enough.
    "BagClassifier": {
        "members": [("wrapper", WrapperMI(threshold="zero"))],
        "cv": 2,
    },
    "BagRegressor": {"members": [("mean", SimpleMIRegressor())], "cv": 2},
    "BagStackingClassifier": {"cv": 2},
    # Folds depend on the order of the bags. The threshold of the training scores does
    # not, so it is used here; `check_default_threshold` uses the default.
    **dict.fromkeys(
        ("BoxKernelSVC", "MIODM", "SBMIL", "STMIL", "WrapperMI"),
        {"threshold": "train"},
    ),
    "DiverseDensity": {"n_starts": 1},
    "EMDD": {"n_starts": 1},
    "GMIL": {"n_sampled": 500, "max_boxes": 500},
    "MIBoosting": {"n_estimators": 5},
    "MILBoost": {"n_estimators": 10},
    "SAFECV": {"gammas": ("scale",), "rhos": (3.0, 30.0), "cv": 2},
    "TwoLevelClassifier": {
        "estimator": GradientBoostingClassifier(
            n_estimators=5, max_depth=1, learning_rate=0.5, random_state=0
        )
    },
}


def make_instance(cls):
    """Return an unfitted estimator of `cls` that is quick to fit."""
    return cls(**CHEAP.get(cls.__name__.removeprefix("RowsAsBags"), {}))


_SVC_TOLERANCE = "the default learner is SVC, and libsvm stops at its tolerance (1e-3)"

_ROUNDING_PATH = (
    "weights and repeated bags round differently, and a hundred quasi-Newton steps on "
    "a non-convex objective end within the solver's tolerance (1e-6), not within 1e-7"
)

_MARGIN = "the convex steps stop at tol=1e-4, not at 1e-7; SVC fails this check as well"

_TERMS = (
    "each sum of the loss is divided by the number of its terms without weights, so "
    "that class weights have an effect"
)

_EMPIRICAL_MAP = (
    "the training bags are the coordinates of the empirical map: a repeated bag is a "
    "repeated coordinate, a weight is not"
)

_RESPONSES = (
    "clusters are found without weights, and responses come from folds of the bags, "
    "into which a repeated bag is put twice"
)

_PROTOTYPES = (
    "training instances are the candidates for prototypes: a repeated bag brings its "
    "instances once more, a weight does not"
)

_FULL_TREE = (
    "min_samples_leaf counts instances, and deep in a full tree splits are equally "
    "good up to rounding, which differs for weights and repeats; shallow trees agree"
)

_FOLDS = (
    "folds are made of bags: a repeated bag may be split across folds, a weighted one "
    "may not"
)

_STEPS = (
    "folds and mini-batches are made of bags: a repeated bag takes part in two steps, "
    "a weighted one in one step of twice the length; MLPClassifier fails it as well"
)

_NEIGHBOURS = (
    "a repeated bag takes the place of another among the nearest, a weighted one does "
    "not; scikit-learn's own neighbors take no weights at all"
)

# Class name -> check name -> reason.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "NeuralBagClassifier": {
        "check_sample_weight_equivalence_on_dense_data": _STEPS,
        "check_exchanged_labels": "the random initial weights do not change sign with "
        "the labels",
    },
    "NeuralBagRegressor": {"check_sample_weight_equivalence_on_dense_data": _STEPS},
    "BagClassifier": {"check_sample_weight_equivalence_on_dense_data": _FOLDS},
    "BagKNeighborsRegressor": {
        "check_sample_weight_equivalence_on_dense_data": _NEIGHBOURS,
        "check_sample_weight_equivalence_on_sparse_data": _NEIGHBOURS,
    },
    "BagRegressor": {"check_sample_weight_equivalence_on_dense_data": _FOLDS},
    "BagStackingClassifier": {"check_sample_weight_equivalence_on_dense_data": _FOLDS},
    "BoxKernelSVC": {"check_sample_weight_equivalence_on_dense_data": _EMPIRICAL_MAP},
    "DiverseDensity": {
        "check_sample_weight_equivalence_on_dense_data": _ROUNDING_PATH,
        "check_sample_weight_equivalence_on_sparse_data": _ROUNDING_PATH,
    },
    "EMDD": {
        "check_class_weight_classifiers": (
            "the threshold that is best on training bags lies at the edge of the heavy "
            "class, and a fifth of its unseen bags fall beyond it"
        ),
        "check_sample_weight_equivalence_on_dense_data": _ROUNDING_PATH,
        "check_sample_weight_equivalence_on_sparse_data": _ROUNDING_PATH,
    },
    "MILDE": {
        "check_sample_weight_equivalence_on_dense_data": _RESPONSES,
        "check_sample_weight_equivalence_on_sparse_data": _RESPONSES,
    },
    "MILES": {
        "check_class_weight_classifiers": (
            "with a class weight of 1e7 the best model selects no feature, and a "
            "constant prediction always comes with a warning"
        ),
        "check_sample_weight_equivalence_on_dense_data": _PROTOTYPES,
        "check_sample_weight_equivalence_on_sparse_data": _PROTOTYPES,
    },
    "SimpleMI": {
        "check_sample_weight_equivalence_on_dense_data": _SVC_TOLERANCE,
        "check_sample_weight_equivalence_on_sparse_data": (
            "the default learner for sparse data is LinearSVC, which is randomized"
        ),
    },
    "TwoLevelClassifier": {
        "check_sample_weight_equivalence_on_dense_data": _FULL_TREE,
        "check_sample_weight_equivalence_on_sparse_data": _FULL_TREE,
    },
    **{
        name: {
            "check_sample_weight_equivalence_on_dense_data": _MARGIN,
            "check_sample_weight_equivalence_on_sparse_data": _MARGIN,
        }
        for name in (
            "MICA",
            "MILEAGE",
            "MISVM",
            "MiSVM",
            "MissSVM",
            "RegSVM",
            "SBMIL",
        )
    },
    **{
        name: {
            "check_sample_weight_equivalence_on_dense_data": _TERMS,
            "check_sample_weight_equivalence_on_sparse_data": _TERMS,
        }
        for name in ("SMIL", "STMIL")
    },
}
