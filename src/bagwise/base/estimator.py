"""Base classes of estimators and transformers of bags, their tags and weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from functools import cache, wraps
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import InputTags, compute_class_weight
from sklearn.utils.validation import column_or_1d, has_fit_parameter

from bagwise._compat import _check_sample_weight
from bagwise._config import get_site
from bagwise.bags import Bags, as_bags, check_bags, with_columns
from bagwise.bags.validation import first_missing, in_bag_order, refuse_masked

# Evenly spaced rows that are examined: only the order of magnitude is needed.
_ROWS = 1_000
# A column whose range is this many times another's dominates distances and penalties.
_APART = 1e5
# Smaller ranges, relative to the largest or to their own values, are rounding errors.
_ROUNDING = 1e-10, 1e-9
# Outside of these ranges, an absolute penalty dominates the loss or has no effect.
_SMALL, _LARGE = 1e-2, 1e5


def warn_of_scales(X, scale_sensitive):
    """Warn if the scales of the columns hide some of them, or all.

    Parameters
    ----------
    X : Bags
        The training bags.
    scale_sensitive : {"no", "relative", "absolute"}
        What the method assumes of scales; see `BagInputTags`.
    """
    if scale_sensitive == "no":
        return
    width, size = _ranges(X)
    widest = width.max(initial=0.0)
    counted = np.flatnonzero(
        (width > _ROUNDING[0] * widest) & (width > _ROUNDING[1] * size)
    )
    if not counted.size:
        return
    low, high = counted[[width[counted].argmin(), width[counted].argmax()]]
    text = None
    if width[high] > _APART * width[low]:
        text = (
            f"{_name(X, high)} has a range of {width[high]:.1e} and {_name(X, low)} "
            f"one of {width[low]:.1e}: on such different scales columns with a small "
            "range have no effect."
        )
    elif scale_sensitive == "absolute" and width[high] < _SMALL:
        text = (
            f"no column has a range above {width[high]:.1e} ({_name(X, high)}): on "
            "this scale the penalty outweighs the data."
        )
    elif scale_sensitive == "absolute" and width[high] > _LARGE:
        text = (
            f"{_name(X, high)} has a range of {width[high]:.1e}: on this scale the "
            "penalty has no effect."
        )
    if text is not None:
        warnings.warn(
            f"{text} Scale the columns first, for instance with make_pipeline("
            "OnInstances(StandardScaler()), ...).",
            UserWarning,
            stacklevel=2,
        )


def _ranges(X):
    """Return the range of each column and its largest absolute value, of some rows."""
    step = max(1, X.n_instances // _ROWS)
    if X.on_disk:  # only these rows are read
        rows = X.take_rows(np.arange(0, X.n_instances, step))
    else:
        rows = X.data[::step]
    if sp.issparse(rows):
        top, bottom = rows.max(axis=0), rows.min(axis=0)
        top, bottom = (np.ravel(side.toarray()) for side in (top, bottom))
    else:
        top, bottom = rows.max(axis=0), rows.min(axis=0)
    top, bottom = top.astype(np.float64), bottom.astype(np.float64)
    return top - bottom, np.maximum(np.abs(top), np.abs(bottom))


def _name(X, j):
    return f"column {j if X.feature_names is None else repr(str(X.feature_names[j]))}"


@dataclass(slots=True)
class BagInputTags(InputTags):
    """scikit-learn's input tags, with further tags for bags.

    Parameters
    ----------
    duplicate_invariant : bool or None, default=None
        Whether the decision is unchanged if every instance of every bag is repeated.
        None: not guaranteed.
    order_invariant : bool, default=True
        Whether the decision does not depend on the order of the training bags and of
        the instances in them, up to the tolerance of the solver.
    asymmetric : bool, default=False
        Whether the method treats the positive class differently from the negative one:
        exchanging the labels does more than change the sign of the decision.
    respects_standard_assumption : bool or None, default=None
        Whether the score of a bag depends on its most positive instance, so that
        further negative instances never make a bag positive. None: not known.
    scale_sensitive : {"no", "relative", "absolute"}, default="relative"
        Whether the result depends on the scales of the columns: not at all ("no"), on
        their ratios, as with distances ("relative"), or also on a common factor, as
        with penalties ("absolute"). `fit` warns about scales at which some columns have
        no effect.
    chunked : bool, default=False
        Whether bags on a memory map are read in chunks, so that they may be larger
        than memory. Other methods read them into memory.
    """

    duplicate_invariant: bool | None = None
    order_invariant: bool = True
    asymmetric: bool = False
    respects_standard_assumption: bool | None = None
    scale_sensitive: str = "relative"
    chunked: bool = False


_KNOWN_TAGS = tuple(field.name for field in fields(InputTags))


class DocumentedEstimator(BaseEstimator):
    """An estimator whose diagram in a notebook links to its page; see `get_site`."""

    _doc_link_module = "bagwise"

    @property
    def _doc_link_template(self):
        site = get_site()
        if site is None:
            return ""
        site = site.replace("{", "{{").replace("}", "}}")  # str.format is applied later
        return site + "/estimators.html#{estimator_name}"


class BaseBagEstimator(DocumentedEstimator):
    """Base of all estimators whose samples are bags.

    `_check_bags` converts the input to valid `Bags` and stores, or compares, the
    features.
    """

    # Parameters that a fitted model reads when it predicts, as the docstring states.
    # All others take effect at the next fit.
    _prediction_parameters: tuple[str, ...] = ()

    @classmethod
    @cache  # called twice per fit; inspecting a signature costs as much as a solve
    def _get_param_names(cls):
        return super()._get_param_names()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        known = {name: getattr(tags.input_tags, name) for name in _KNOWN_TAGS}
        tags.input_tags = BagInputTags(**known)
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _check_bags(self, X, y=None, *, reset, min_bags=1):
        """Return `X` as valid `Bags`, with the checked `y` if one is given."""
        tags = self.__sklearn_tags__()
        if y is None and reset and tags.target_tags.required:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None. Pass one label per bag."
            )
        X = as_bags(X)
        if not reset:
            expected = getattr(self, "feature_names_in_", None)
            X = with_columns(X, expected, type(self).__name__)
        X = check_bags(
            X,
            accept_sparse=tags.input_tags.sparse,
            min_bags=min_bags,
            ensure_finite=not tags.input_tags.allow_nan,
            chunked=self._reads_chunks(tags),
            accept_codings=tags.input_tags.categorical,
        )
        self._check_features(X, reset=reset)
        if y is None:
            return X
        refuse_masked(y, "y")
        y = self._check_target(in_bag_order(y, X))
        if y.ndim == 1 and y.dtype.kind in "OmM":
            bag = first_missing(y)
            if bag is not None:
                raise ValueError(f"the label of bag {bag} is missing: {y[bag]!r}.")
        if len(y) != len(X):
            extra = ""
            if len(y) == X.n_instances:
                extra = " It has one entry per instance: labels belong to bags."
            raise ValueError(
                f"y has {len(y)} entries for {len(X)} bags: inconsistent numbers of "
                f"samples.{extra}"
            )
        if reset and getattr(self, "estimator", None) is None:  # `estimator` warns
            warn_of_scales(X, tags.input_tags.scale_sensitive)
        return X, y

    def _reads_chunks(self, tags):
        """Whether bags on disk may stay there: nothing asks for all of them at once."""
        return tags.input_tags.chunked

    def _check_target(self, y):
        plain = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuf"
        if plain and y.flags.c_contiguous:
            return y  # already in the final form
        shape = np.shape(y)
        if len(shape) == 2 and shape[1] > 1:
            raise ValueError(
                f"y should be a 1d array of one label per bag, got shape {shape}. For "
                "several yes-or-no labels per bag, use "
                f"bagwise.compose.OneModelPerLabel({type(self).__name__}())."
            )
        return column_or_1d(y, warn=True)

    def _check_features(self, X, *, reset):
        if reset:
            self.n_features_in_ = X.n_features
            if X.feature_names is not None:
                self.feature_names_in_ = np.asarray(X.feature_names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        if X.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {X.n_features} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input."
            )


def scores_instances(estimator):
    """Whether a method has instance scores; used with `available_if`."""
    if hasattr(type(estimator), "_score_instances"):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} has no scores for single instances"
    )


# Larger weights are not plausible counts: all other weights would be lost by rounding.
_LARGEST_WEIGHT = 1e9


def check_bag_weight(sample_weight, n_bags, X=None):
    """Return one non-negative weight per bag; ones when None is given.

    Parameters
    ----------
    sample_weight : array-like of shape (n_bags,) or None
        The weights.
    n_bags : int
        Number of bags.
    X : Bags, default=None
        The bags: a Series whose index holds their ids is put in their order.

    Returns
    -------
    ndarray of shape (n_bags,)
        Finite weights, none of them negative or above 1e9.
    """
    if sample_weight is None:
        return np.ones(n_bags)
    refuse_masked(sample_weight, "sample_weight")
    if X is not None:
        sample_weight = in_bag_order(sample_weight, X, "sample_weight")
    weight = _check_sample_weight(sample_weight, np.empty((n_bags, 1)))
    for wrong, what in (
        (weight < 0, "must not be negative"),
        (weight > _LARGEST_WEIGHT, f"must not exceed {_LARGEST_WEIGHT:.0e}"),
    ):
        if wrong.any():
            bag = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"sample_weight {what}, got {weight[bag]} for bag {bag}.")
    return weight


def weight_arguments(
    model: Any, sample_weight: NDArray[np.float64] | None
) -> dict[str, NDArray[np.float64]]:
    """Return how `fit` of a model is given the weights; empty if it takes none.

    A pipeline of an embedding and a classifier takes them in its last step: the
    embedding sees every bag alike.
    """
    if sample_weight is None:
        return {}
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        inner = weight_arguments(last, sample_weight)
        return {f"{name}__{key}": value for key, value in inner.items()}
    if has_fit_parameter(model, "sample_weight"):
        return {"sample_weight": sample_weight}
    return {}


def class_factors(
    class_weight: dict[Any, float] | str | None,
    classes: NDArray[Any],
    codes: NDArray[np.int64] | None = None,
    count: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the factor that `class_weight` gives to the weight of each class.

    A factor is the same as a `sample_weight` for all samples of the class.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        The parameter of the estimator. "balanced" makes the weights of all classes
        equal; samples count as often as they weigh.
    classes : ndarray of shape (n_classes,)
        The labels.
    codes, count : ndarray of shape (n_samples,), default=None
        Position in `classes` and weight of each sample; only for "balanced".
    """
    if class_weight == "balanced":
        total = np.bincount(codes, weights=count, minlength=len(classes))
        return total.sum() / (len(classes) * total)
    return compute_class_weight(class_weight, classes=classes, y=classes)


_CONTAINERS = ("default", "pandas", "polars")


class BagTransformerMixin(TransformerMixin):
    """Transformer of bags, to bags or to a matrix with one row per bag.

    A matrix comes as a data frame where `set_output` asks for one, with the names of
    the features as columns and, in pandas, the ids of the bags as index. Bags are
    always bags.
    """

    def __init_subclass__(cls, **kwargs):
        # Bags are not data frames: disable scikit-learn's wrapping of outputs.
        kwargs.setdefault("auto_wrap_output_keys", None)
        super().__init_subclass__(**kwargs)
        for method in ("transform", "fit_transform"):
            if method in vars(cls):
                setattr(cls, method, _in_container(vars(cls)[method]))

    def set_output(self, *, transform=None):
        """Choose the container of `transform`.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            Container of a matrix with one row per bag; None keeps the current setting.

        Returns
        -------
        self
        """
        if transform is None:
            return self
        if transform not in _CONTAINERS:
            raise ValueError(
                f"transform must be one of {', '.join(_CONTAINERS)}, got {transform!r}."
            )
        self._sklearn_output_config = {"transform": transform}
        return self


def _in_container(method):
    @wraps(method)
    def wrapped(self, X, *args, **kwargs):
        return _wrap(self, X, method(self, X, *args, **kwargs))

    return wrapped


def _wrap(transformer, X, out):
    """Return a matrix as the data frame that was asked for."""
    chosen = getattr(transformer, "_sklearn_output_config", {}).get("transform")
    chosen = chosen or get_config()["transform_output"]
    if chosen == "default" or getattr(out, "ndim", 0) != 2 or hasattr(out, "columns"):
        return out
    if sp.issparse(out):
        raise ValueError(
            f"{type(transformer).__name__} gives a sparse matrix, and {chosen} output "
            "is dense. Use set_output(transform='default')."
        )
    columns = list(transformer.get_feature_names_out())
    if chosen == "polars":
        import polars as pl

        return pl.DataFrame(out, schema=columns, orient="row")
    import pandas as pd

    index = X.ids if isinstance(X, Bags) else getattr(X, "index", None)
    return pd.DataFrame(out, columns=columns, index=index)
