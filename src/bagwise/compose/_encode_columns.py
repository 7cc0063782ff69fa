"""EncodeColumns: categories, texts and dates of the instances become numbers."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, _fit_context
from bagwise.base import BagTransformerMixin, BaseBagEstimator

_DAY = 86_400.0
_HASHED = 2**12
_NEEDS = {"category": "categories", "text": "texts", "date": "dates"}


class DateParts(BaseEstimator):
    """Elapsed days since the first training date, and parts of the calendar.

    Parts that are the same in all training rows are left out.
    """

    def fit(self, seconds):
        """Learn the first date, and which parts of the calendar differ."""
        known = seconds[np.isfinite(seconds)]
        self.start_ = float(known.min()) if known.size else 0.0
        found = _calendar(known)
        self.parts_ = [name for name, part in found.items() if np.ptp(part) > 0]
        return self

    def transform(self, seconds):
        """Return the elapsed days and the parts; NaN for a missing date."""
        columns = np.full((len(seconds), 1 + len(self.parts_)), np.nan)
        known = np.isfinite(seconds)
        columns[known, 0] = (seconds[known] - self.start_) / _DAY
        found = _calendar(seconds[known])
        for k, name in enumerate(self.parts_, start=1):
            columns[known, k] = found[name]
        return columns

    def get_feature_names_out(self):
        """Return what the columns hold."""
        return ["elapsed_days", *self.parts_]


def _calendar(seconds):
    """Return month, day, weekday (Monday is 0) and hour of dates in UTC."""
    if not len(seconds):
        return {}
    days = np.floor(seconds / _DAY).astype(np.int64).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    return {
        "month": months.astype(np.int64) % 12 + 1.0,
        "day": (days - months.astype("datetime64[D]")).astype(np.int64) + 1.0,
        "weekday": (days.astype(np.int64) + 3) % 7 * 1.0,
        "hour": np.floor(seconds % _DAY / 3600.0),
    }


class EncodeColumns(BagTransformerMixin, BaseBagEstimator):
    """Encode the columns of bags that are not numbers.

    Categories with at most `max_categories` values in training are one-hot encoded;
    values that did not occur in training are zero in all columns, and missing values
    are a separate category. Categories with more values, such as short texts, become
    hashed n-grams of characters, texts become tf-idf weights of words, and both are
    reduced to `n_components` columns. Dates become days since the first training date,
    and month, day of the month, weekday and hour where these differ. Columns of numbers
    stay as they are.

    Parameters
    ----------
    max_categories : int, default=40
        Largest number of different values that are one-hot encoded.
    n_components : int, default=30
        Columns that hashed n-grams, or words, are reduced to.
    random_state : int, RandomState instance or None, default=0
        Random seed of the reduction.

    Attributes
    ----------
    encoders_ : dict of str to estimator
        The fitted scikit-learn encoder of each column that is not a number.
    kinds_ : dict of str to str
        "category", "text" or "date" for each of these columns.
    sources_ : ndarray of str
        The column that each new column was made from.

    Notes
    -----
    No labels are used, so that encoders can be fitted once for the training bags of a
    fold. `compare` and `BagClassifier` do so automatically.

    Examples
    --------
    >>> import pandas as pd
    >>> import bagwise
    >>> from bagwise.compose import EncodeColumns
    >>> table = pd.DataFrame({"bag": [1, 1, 2], "city": ["Rome", "Oslo", "Rome"]})
    >>> X = bagwise.from_frame(table, bag="bag", encode="auto")
    >>> EncodeColumns().fit_transform(X).feature_names.tolist()
    ['city_Oslo', 'city_Rome']
    """

    _parameter_constraints: dict = {
        "max_categories": [Interval(Integral, 0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, *, max_categories=40, n_components=30, random_state=0):
        self.max_categories = max_categories
        self.n_components = n_components
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Fit one encoder per column that is not a number.

        Parameters
        ----------
        X : Bags
            The training bags.
        y : ignored
            Not used.

        Returns
        -------
        self
        """
        X = self._check_bags(X, reset=True)
        names = _names(X)
        self.kinds_ = {names[j]: coding.kind for j, coding in X.codings.items()}
        self.encoders_ = {
            names[j]: self._fit_column(X.data[:, j], coding)
            for j, coding in sorted(X.codings.items())
        }
        sources = [name for name, part in self._parts() for _ in part]
        self.sources_ = np.array(sources, dtype=object)
        return self

    def _fit_column(self, numbers, coding):
        if coding.kind == "date":
            return DateParts().fit(numbers)
        texts = coding.decode(numbers)
        few = len(np.unique(numbers)) <= self.max_categories
        if coding.kind == "category" and few:
            encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            return encoder.fit(texts.astype(str)[:, None])
        if coding.kind == "category":
            words = HashingVectorizer(
                analyzer="char_wb", ngram_range=(2, 4), n_features=_HASHED
            )
        else:
            words = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
        rows = words.fit_transform(texts)
        if rows.shape[1] <= self.n_components:
            return Pipeline([("words", words)])
        n_components = min(self.n_components, *rows.shape)
        svd = TruncatedSVD(n_components, random_state=self.random_state).fit(rows)
        return Pipeline([("words", words), ("svd", svd)])

    def transform(self, X):
        """Encode the instances of each bag.

        Parameters
        ----------
        X : Bags
            The bags.

        Returns
        -------
        Bags
            The same bags, with columns of numbers only.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        if not self.encoders_ and not X.codings:
            return X
        names, columns = _names(X), []
        self._refuse_other_kinds(X, names)
        for j, name in enumerate(names):
            rows = X.data[:, [j]]
            if name in self.encoders_:
                rows = self._encode(name, rows[:, 0], X.codings[j])
            columns.append(rows)
        found = np.column_stack(columns)
        return X.with_data(found, feature_names=self.get_feature_names_out())

    def _encode(self, name, numbers, coding):
        encoder = self.encoders_[name]
        if coding.kind == "date":
            return encoder.transform(numbers)
        # Equal texts are encoded once.
        codes, inverse = np.unique(numbers, return_inverse=True)
        texts = coding.decode(codes)
        if isinstance(encoder, OneHotEncoder):
            return encoder.transform(texts.astype(str)[:, None])[inverse]
        rows = encoder.transform(texts)
        return (rows.toarray() if hasattr(rows, "toarray") else rows)[inverse]

    def _refuse_other_kinds(self, X, names):
        """Refuse a column of numbers where texts were in training, and so on."""
        found = {names[j]: coding.kind for j, coding in X.codings.items()}
        for name in names:
            was, now = self.kinds_.get(name), found.get(name)
            if was != now:
                raise ValueError(
                    f"column {name!r} held {_NEEDS.get(was, 'numbers')} in training "
                    f"and holds {_NEEDS.get(now, 'numbers')} now. Read the data with "
                    f"encode={[*self.kinds_]!r}."
                )

    def get_feature_names_out(self, input_features=None):
        """Return the names of the new columns.

        Parameters
        ----------
        input_features : ignored
            Not used: names are those seen in `fit`.

        Returns
        -------
        ndarray of str
            One name per column.
        """
        names = [name for _, part in self._parts() for name in part]
        return np.array(names, dtype=object)

    def _parts(self):
        """Return every column seen in `fit` with the names of what it becomes."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        return [(str(name), self._names_of(str(name))) for name in names]

    def _names_of(self, name):
        encoder = self.encoders_.get(name)
        if encoder is None:
            return [name]
        if isinstance(encoder, OneHotEncoder):
            return [f"{name}_{value}" for value in encoder.categories_[0]]
        if isinstance(encoder, DateParts):
            return [f"{name}_{part}" for part in encoder.get_feature_names_out()]
        last = encoder.steps[-1][1]
        if hasattr(last, "components_"):
            return [f"{name}_{k}" for k in range(len(last.components_))]
        return [f"{name}_{part}" for part in last.get_feature_names_out()]


def _names(X):
    names = X.feature_names
    if names is None:
        names = [f"x{j}" for j in range(X.n_features)]
    return [str(name) for name in names]
