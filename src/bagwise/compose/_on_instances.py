"""OnInstances: any scikit-learn transformer, applied to the instances of bags."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import HasMethods, _fit_context
from bagwise.bags.chunks import Chunks, larger_than_chunk
from bagwise.bags.segments import repeat
from bagwise.bags.stored import forget_pages, temporary_map
from bagwise.base import BagTransformerMixin, BaseBagEstimator
from bagwise.compose.from_pieces import (
    column_ends,
    common_range,
    fit_from_pieces,
    fits_from_pieces,
    result_ends,
)


def _inner_has(name):
    def check(self):
        inner = getattr(self, "transformer_", self.transformer)
        return hasattr(StandardScaler() if inner is None else inner, name)

    return check


def _first_step(transformer):
    """Return what sees the rows first; a pipeline that does nothing is returned."""
    while isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps]
        real = [step for step in steps if step not in (None, "passthrough")]
        if not real:
            return transformer
        transformer = real[0]
    return transformer


def _takes_nan(transformer):
    """Whether NaN is accepted: a pipeline accepts what its first step accepts."""
    first = _first_step(transformer)
    if isinstance(first, Pipeline):
        return False
    return bool(get_tags(first).input_tags.allow_nan)


def _takes_texts(transformer):
    """Whether a sequence of texts is expected, as by vectorizers of texts."""
    tags = get_tags(_first_step(transformer)).input_tags
    return tags.string and not tags.two_d_array


class OnInstances(BagTransformerMixin, BaseBagEstimator):
    """Apply a scikit-learn transformer to the instances of bags.

    The transformer is fitted on the stacked instances of all bags and applied to them;
    the result is `Bags` with the same bags and the new columns. Columns that are not
    numbers are given to it as texts and dates, and bags of texts as one sequence of
    texts: ``OnInstances(TfidfVectorizer())``.

    Parameters
    ----------
    transformer : estimator, default=None
        Any transformer of rows; ``StandardScaler()`` by default.
    label_instances : bool, default=False
        Whether every instance gets the label of its bag, for transformers that need
        labels (linear discriminant analysis, feature selection).
    clip : bool, default=False
        Whether results are clipped to the range that they have on the training
        instances, column by column. A column that hardly varies in training can be
        thousands of standard deviations away in new instances. Clipping tends to help
        linear methods with such columns, and to harm kernels of distances, for which a
        distant instance is informative.

    Attributes
    ----------
    transformer_ : estimator
        The fitted transformer.
    range_ : ndarray of shape (2, n_columns) or None
        With `clip`, lowest and highest results on the training instances.

    Notes
    -----
    Every instance has the same weight, so that large bags have more influence. The cost
    is that of the transformer on `n_instances` rows. Scalers and random features read
    memory maps larger than memory in chunks, and write the result into a temporary
    file, in half precision if the input is.

    Examples
    --------
    >>> from bagwise.compose import OnInstances
    >>> from sklearn.decomposition import PCA
    >>> bags = [[[0.0, 1.0], [2.0, 1.0]], [[4.0, 3.0]]]
    >>> OnInstances(PCA(1)).fit_transform(bags)
    Bags(n_bags=2, n_instances=3, n_features=1, sizes 1/1.5/2 (min/median/max))
    """

    _parameter_constraints: dict = {
        "transformer": [HasMethods(["fit", "transform"]), None],
        "label_instances": ["boolean"],
        "clip": ["boolean"],
    }

    def __init__(self, transformer=None, *, label_instances=False, clip=False):
        self.transformer = transformer
        self.label_instances = label_instances
        self.clip = clip

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = _takes_nan(self._inner())
        tags.target_tags.required = self.label_instances
        tags.input_tags.chunked = self._chunked()
        tags.input_tags.categorical = True
        return tags

    def _chunked(self):
        """Whether the transformer is fitted from sums over pieces."""
        return not self.label_instances and fits_from_pieces(self._inner())

    def _inner(self):
        return StandardScaler() if self.transformer is None else self.transformer

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None):
        """Fit the transformer on all instances.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,), default=None
            Labels of the bags; used only with `label_instances`.

        Returns
        -------
        self
        """
        if self.label_instances:
            X, y = self._check_bags(X, y, reset=True)
            rows_y = repeat(y, X.offsets)
        else:
            X, rows_y = self._check_bags(X, reset=True), None
        self.__dict__.pop("transformer_", None)
        pieces = self._chunked() and not X.codings and larger_than_chunk(X)
        if pieces:
            self.transformer_ = fit_from_pieces(clone(self._inner()), Chunks(X))
        else:
            self.transformer_ = clone(self._inner()).fit(self._rows(X), rows_y)
        self.range_ = None
        if self.clip:
            ends = Chunks(X).each(result_ends, self) if pieces else self._ends(X)
            self.range_ = common_range(ends if pieces else [ends])
        return self

    def _ends(self, X):
        return column_ends(self.transformer_.transform(self._rows(X)))

    def _transformed(self, rows):
        """Return the results of rows, clipped where that is wanted."""
        found = self.transformer_.transform(rows)
        return found if self.range_ is None else clipped(found, *self.range_)

    def _rows(self, X):
        """Return the instances as the transformer takes them."""
        inner = getattr(self, "transformer_", self._inner())
        if not X.codings or not _takes_texts(inner):
            return X.decoded()
        if X.n_features != 1:
            raise ValueError(
                f"{type(_first_step(inner)).__name__} takes bags of texts, which have "
                f"one column: X has {X.n_features} columns, and {len(X.codings)} of "
                "them hold texts or dates. bagwise.compose.EncodeColumns takes others "
                "as well."
            )
        return X.decoded()[:, 0].tolist()

    def transform(self, X):
        """Transform the instances of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Bags
            The same bags with the transformed instances.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        if self._chunked() and not X.codings and larger_than_chunk(X):
            return self._transform_on_disk(X)
        return self._rewrap(X, self._transformed(self._rows(X)))

    def _transform_on_disk(self, X):
        """Transform piece by piece, into a temporary file."""
        out, row = None, 0
        for piece in Chunks(X):
            rows = self._transformed(piece.X.data)
            if out is None:
                kind = np.float16 if X.dtype == np.float16 else rows.dtype
                out = temporary_map((X.n_instances, rows.shape[1]), kind)
            out[row : row + len(rows)] = rows
            row += len(rows)
            forget_pages(out)
        return self._rewrap(X, out)

    @available_if(_inner_has("inverse_transform"))
    def inverse_transform(self, X):
        """Undo the transformation.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            Transformed bags.

        Returns
        -------
        Bags
            Bags in the original features.
        """
        from bagwise.bags import as_bags

        check_is_fitted(self)
        X = as_bags(X)
        names = getattr(self, "feature_names_in_", None)
        rows = self.transformer_.inverse_transform(X.data)
        return X.with_data(rows, feature_names=names)

    @available_if(_inner_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features=None):
        """Return the names of the new columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the old columns; those seen in `fit` by default.

        Returns
        -------
        ndarray of str
            One name per column.
        """
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        return self.transformer_.get_feature_names_out(input_features)

    def _rewrap(self, X, rows):
        if rows.shape[0] != X.n_instances:
            raise ValueError(
                f"{type(self.transformer_).__name__} returned {rows.shape[0]} rows for "
                f"{X.n_instances} instances; OnInstances needs one row per instance."
            )
        names = None
        if X.feature_names is not None and hasattr(self, "get_feature_names_out"):
            names = np.asarray(self.get_feature_names_out(), dtype=object)
        return X.with_data(
            np.asarray(rows) if hasattr(rows, "columns") else rows, feature_names=names
        )


def clipped(rows, low, high):
    """Return rows with all values within `low` and `high` of their columns."""
    if not sp.issparse(rows):
        return np.clip(np.asarray(rows), low, high)
    rows = sp.csr_matrix(rows, copy=True)
    rows.data = np.clip(rows.data, low[rows.indices], high[rows.indices])
    return rows
