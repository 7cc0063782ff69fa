"""The classes and functions that a model file or a description may name."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.base.survival import require_survival

# Subpackages with estimators and other parts of models. They open no files.
SUBPACKAGES = (
    "bags",
    "base",
    "compose",
    "decomposition",
    "density",
    "embedding",
    "ensemble",
    "kernels",
    "least_squares",
    "linear_model",
    "neighbors",
    "neural",
    "rectangles",
    "solvers",
    "svm",
)

# Classes inside fitted models that are not estimators, by their subpackage.
PARTS = {
    "bags": "Bags Ragged",
    "embedding": "EnergyProjection",
    "ensemble": "Combination CubeRows DenseRows EarthMover Embedded Input "
    "InstanceCombination NearBags PlattScale Prototypes SetKernel SlicedDistance "
    "Stack StandardRows Statistics ThinnedRows TrainingDistances",
    "kernels": "BoxKernelReport FittedKernel KernelBasis",
    "least_squares": "FeatureMap FourierFeatures IdentityFeatures KernelBorder "
    "LandmarkFeatures MomentBorder BagMoments Settings",
    "solvers": "Stump",
}

# Classes of scikit-learn by the package that exports them.
SKLEARN = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "cluster": "KMeans MiniBatchKMeans",
    "decomposition": "FastICA KernelPCA NMF PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": "AdaBoostClassifier AdaBoostRegressor BaggingClassifier "
    "BaggingRegressor ExtraTreesClassifier ExtraTreesRegressor "
    "GradientBoostingClassifier GradientBoostingRegressor "
    "HistGradientBoostingClassifier HistGradientBoostingRegressor "
    "RandomForestClassifier RandomForestRegressor StackingClassifier "
    "StackingRegressor VotingClassifier VotingRegressor",
    "ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer "
    "TfidfVectorizer",
    "feature_selection": "SelectFromModel SelectKBest SelectPercentile "
    "VarianceThreshold",
    "impute": "KNNImputer MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "kernel_approximation": "Nystroem RBFSampler",
    "kernel_ridge": "KernelRidge",
    "linear_model": "ElasticNet Lasso LinearRegression LogisticRegression "
    "LogisticRegressionCV Perceptron Ridge RidgeCV RidgeClassifier RidgeClassifierCV "
    "SGDClassifier SGDRegressor",
    "metrics._scorer": "_PassthroughScorer",
    "mixture": "BayesianGaussianMixture GaussianMixture",
    "model_selection": "FixedThresholdClassifier GridSearchCV GroupKFold "
    "GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut RandomizedSearchCV "
    "RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedGroupKFold "
    "StratifiedKFold StratifiedShuffleSplit",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier "
    "_ConstantPredictor",
    "naive_bayes": "BernoulliNB ComplementNB GaussianNB MultinomialNB",
    "neighbors": "KNeighborsClassifier KNeighborsRegressor NearestCentroid "
    "NearestNeighbors",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer "
    "LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder "
    "OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer "
    "RobustScaler StandardScaler",
    "random_projection": "GaussianRandomProjection SparseRandomProjection",
    "svm": "LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier "
    "ExtraTreeRegressor",
}

# The same of scikit-survival.
SKSURV = {
    "ensemble": "ExtraSurvivalTrees GradientBoostingSurvivalAnalysis "
    "RandomSurvivalForest",
    "functions": "StepFunction",
    "linear_model": "CoxPHSurvivalAnalysis",
    "linear_model.coxph": "BreslowEstimator",
    "tree": "ExtraSurvivalTree SurvivalTree",
}
_LISTED = {"sklearn": SKLEARN, "sksurv": SKSURV}

_NUMPY_FUNCTIONS = "abs cbrt exp expm1 log log10 log1p log2 sign sqrt square tanh"
_SKLEARN_FUNCTIONS = {
    "feature_selection": "chi2 f_classif f_regression mutual_info_classif "
    "mutual_info_regression"
}
_TYPES = {
    "bool": bool,
    "float": float,
    "int": int,
    "str": str,
    "float32": np.float32,
    "float64": np.float64,
    "int32": np.int32,
    "int64": np.int64,
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def name_of(cls: type) -> str | None:
    """Return the name under which a class is registered, or None."""
    module = cls.__module__
    parts = module.split(".")
    if parts[0] == "bagwise":
        name = f"{module}:{cls.__qualname__}"
        return name if find_class(name) is cls else None
    for package, classes in _LISTED.get(parts[0], {}).items():
        inside = f"{parts[0]}.{package}".split(".")
        if parts[: len(inside)] == inside and cls.__name__ in classes.split():
            name = f"{parts[0]}.{package}:{cls.__name__}"
            return name if find_class(name) is cls else None
    return None


def find_class(name: Any, trusted: Mapping[str, type] | None = None) -> type | None:
    """Return the class that is registered under a name, or None.

    Only modules of the listed subpackages and packages are imported, never one that a
    file made up.
    """
    if not isinstance(name, str) or name.count(":") != 1:
        return None
    if trusted and name in trusted:
        return trusted[name]
    module, attribute = name.split(":")
    package, _, rest = module.partition(".")
    if attribute in _LISTED.get(package, {}).get(rest, "").split():
        if package == "sksurv":
            require_survival("the model")
        return _defined(module, attribute, package)
    subpackage = rest.split(".")[0]
    if (
        package != "bagwise"
        or subpackage not in SUBPACKAGES
        or not _NAME.fullmatch(module)
    ):
        return None
    found = _defined(module, attribute, module)
    if found is None:
        return None
    registered = attribute in PARTS.get(subpackage, "").split()
    return found if registered or issubclass(found, BaseEstimator) else None


def _defined(module: str, attribute: str, owner: str) -> type | None:
    """Return the class only if `owner` itself defines it, not merely imports it."""
    try:
        found = vars(importlib.import_module(module)).get(attribute)
    except ImportError:
        return None
    if not isinstance(found, type) or found.__qualname__ != attribute:
        return None
    if owner in _LISTED:
        return found if found.__module__.split(".")[0] == owner else None
    return found if found.__module__ == owner else None


def require_libraries(cls: type) -> None:
    """Raise if a class needs torch, which is not installed."""
    if cls.__module__.startswith("bagwise.neural.") and find_spec("torch") is None:
        raise ImportError(
            f"{cls.__name__} needs torch, which is not installed: pip install "
            "'bagwise[torch]'."
        )


def find_described(path: Any) -> Any:
    """Return what a description may name by ``package.module.Name``, or None.

    That is an estimator of bagwise, a listed class of scikit-learn or scikit-survival,
    a listed function or a plain type. No other module is imported.
    """
    if not isinstance(path, str) or not _NAME.fullmatch(path):
        return None
    module, _, name = path.rpartition(".")
    library, _, rest = module.partition(".")
    if library == "bagwise" and rest.split(".")[0] in SUBPACKAGES:
        return _own_estimator(module, name) or _values().get(path)
    for package, classes in _LISTED.get(library, {}).items():
        inside = rest == package or rest.startswith(f"{package}._")
        if inside and name in classes.split() and not name.startswith("_"):
            public = f"{library}.{package}"
            found = getattr(importlib.import_module(public), name)
            return found if module in (public, found.__module__) else None
    return _values().get(path)


def _own_estimator(module: str, name: str) -> type | None:
    """Return an estimator that a module of bagwise's subpackages offers, or None."""
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "bagwise":
            raise  # an optional package is missing, and the message says which
        return None
    if not isinstance(found, type) or not issubclass(found, BaseEstimator):
        return None
    return found if name_of(found) is not None else None


def function_name(function: Any) -> str | None:
    """Return the name under which a function is registered, or None."""
    for name, known in _functions().items():
        if known is function:
            return name
    return None


def find_function(name: Any) -> Any:
    """Return the function that is registered under a name, or None."""
    return _functions().get(name) if isinstance(name, str) else None


@lru_cache(maxsize=1)
def _functions() -> dict[str, Any]:
    """List the functions that models may hold: kernels, ufuncs, scores of features."""
    kernels = importlib.import_module("bagwise.kernels")
    found: dict[str, Any] = {
        f"bagwise.kernels.{name}": function
        for name in kernels.__all__
        if inspect.isfunction(function := getattr(kernels, name))
        and isinstance(function, FunctionType)
        and function.__module__.startswith("bagwise.kernels")
    }
    found |= {f"numpy.{name}": getattr(np, name) for name in _NUMPY_FUNCTIONS.split()}
    for package, names in _SKLEARN_FUNCTIONS.items():
        module = importlib.import_module(f"sklearn.{package}")
        found |= {f"sklearn.{package}.{n}": getattr(module, n) for n in names.split()}
    return found


@lru_cache(maxsize=1)
def _values() -> dict[str, Any]:
    """List functions and plain types by their names here and where they are defined."""
    known = _functions()
    defined = [f for f in known.values() if isinstance(f, FunctionType)]
    places: dict[str, Any] = {
        f"{v.__module__}.{v.__qualname__}": v for v in _TYPES.values()
    }
    places |= {f"{v.__module__}.{v.__qualname__}": v for v in defined}
    return known | places


def type_name(kind: Any) -> str | None:
    """Return the name of a plain type, such as one given as ``dtype=``."""
    return next((name for name, known in _TYPES.items() if known is kind), None)


def find_type(name: Any) -> type | None:
    """Return the plain type of a name, or None."""
    return _TYPES.get(name) if isinstance(name, str) else None
