"""From what users pass to valid `Bags`: conversion, checks, and their messages."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._config import get_columns
from bagwise._later import sparse as sp
from bagwise.bags._bags import Bags
from bagwise.bags.stored import StoredRows, all_finite, forget_pages
from bagwise.bags.validation import shown_names


def as_bags(X: Any) -> Bags:
    """Return `X` as `Bags`.

    Parameters
    ----------
    X : Bags, sequence of 2-D arrays or sparse matrices, or 3-D array
        The bags. A bare 2-D array is refused, because it does not contain the limits of
        the bags.

    Returns
    -------
    Bags
        `X` itself if it is a `Bags` object.
    """
    if isinstance(X, Bags):
        return X
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        raise ValueError(
            f"Expected bags, got one matrix of shape {X.shape}, which does not contain "
            "where a bag ends. Use Bags.from_arrays(X, bag_ids), Bags(X, offsets), or "
            "a list with one 2-D array per bag. Reshape your data: X[:, None, :] makes "
            "every row a bag of one."
        )
    if isinstance(X, np.ndarray) and X.ndim == 3:
        n_bags, size, width = X.shape
        if n_bags == 0 or size == 0:
            raise ValueError(f"Expected at least one bag and instance, got {X.shape}.")
        offsets = np.arange(0, (n_bags + 1) * size, size)
        return Bags(X.reshape(n_bags * size, width), offsets)
    if hasattr(X, "columns"):
        raise TypeError(
            f"Expected bags, got a {type(X).__name__}. Convert the table to bags "
            'before any split: X, y = bagwise.from_frame(df, bag="...", label="...").'
        )
    if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__iter__"):
        raise TypeError(
            "Expected bags: a Bags object, a list with one 2-D array per bag, or a 3-D "
            f"array; got {type(X).__name__}."
        )
    if isinstance(X, np.ndarray) and X.ndim != 1:
        raise ValueError(
            f"Expected bags, got an array with {X.ndim} dimension(s). A 3-D array has "
            "the shape (n_bags, n_instances_per_bag, n_features)."
        )
    return Bags.from_list(list(X))


# Squares of values beyond these limits overflow or underflow, as do distances.
_LARGEST, _SMALLEST = 1e100, 1e-100

# Bytes checked at a time: a memory map larger than memory is read in chunks.
_CHUNK_BYTES = 64 * 2**20


def check_bags(
    X: Any,
    *,
    accept_sparse: bool,
    min_bags: int = 1,
    ensure_finite: bool = True,
    chunked: bool = False,
    accept_codings: bool = False,
) -> Bags:
    """Convert `X` to `Bags`; raise for data that no method can use.

    Parameters
    ----------
    X : Bags, sequence of 2-D arrays, or 3-D array
        The bags.
    accept_sparse : bool
        Whether CSR data may pass.
    min_bags : int, default=1
        Minimum number of bags.
    ensure_finite : bool, default=True
        Whether NaN is refused; infinity always is.
    chunked : bool, default=False
        Whether the caller reads bags on disk in chunks. Half precision and
        selections on disk are brought into memory for all others.
    accept_codings : bool, default=False
        Whether columns may be categories, texts or dates.

    Returns
    -------
    Bags
        The bags.
    """
    bags = as_bags(X)
    if bags.codings and not accept_codings:
        _refuse_codings(bags)
    if bags.n_bags < min_bags:
        raise ValueError(
            f"Found {bags.n_bags} bag(s) (n_samples={bags.n_bags}) while a minimum of "
            f"{min_bags} is required."
        )
    if bags.n_features == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape=({bags.n_instances}, 0)) while a "
            "minimum of 1 is required."
        )
    if bags.is_sparse and not accept_sparse:
        raise TypeError(
            "Sparse data was passed, but dense data is required here. Use "
            "X.with_data(X.data.toarray()) when it fits in memory, or reduce the "
            "dimension first: OnInstances(TruncatedSVD(100))."
        )
    stored = bags.dtype == np.float16 or isinstance(bags._stacked, StoredRows)
    if stored and not (chunked and bags.on_disk):
        bags = bags.in_memory()
    if bags.dtype == np.float64 and _is_ordinary(bags):
        return bags
    _refuse_not_finite(bags, (lambda a: ~np.isfinite(a)) if ensure_finite else np.isinf)
    if bags.dtype == np.float64:
        _refuse_magnitudes(bags)
    return bags


def _refuse_codings(bags: Bags) -> None:
    j, coding = next(iter(bags.codings.items()))
    name = j if bags.feature_names is None else repr(str(bags.feature_names[j]))
    what = {"category": "categories", "text": "texts", "date": "dates"}[coding.kind]
    example = str(coding.decode(bags.data[:1, j])[0])[:30]
    raise TypeError(
        f"column {name} holds {what} (bag {bags.ids[0]}, instance 0: {example!r}), and "
        "numbers are needed. Encode them inside the folds: make_pipeline("
        "bagwise.compose.EncodeColumns(), ...)."
    )


def _is_ordinary(bags: Bags) -> bool:
    """Whether the sum of squares of every chunk is finite and above zero.

    Then all numbers are finite and of a usable magnitude: for nearly all data one pass
    is enough.
    """
    for chunk in _chunks(bags):
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            square = float(chunk @ chunk)
        if not _SMALLEST**2 * chunk.size < square < _LARGEST**2:
            return False
    return True


def _chunks(bags: Bags) -> Iterator[npt.NDArray[Any]]:
    """Give the numbers of bags, flat."""
    if bags.is_sparse:
        yield bags.data.data
        return
    step = max(1, _CHUNK_BYTES // (bags.n_features * bags.dtype.itemsize))
    for start in range(0, bags.n_instances, step):
        chunk = bags._stacked[start : start + step]
        if isinstance(chunk, StoredRows):
            chunk = chunk.view_or_read()
        yield np.asarray(chunk).ravel()
        forget_pages(bags._stacked)


def _refuse_magnitudes(bags: Bags) -> None:
    """Raise for numbers whose squares overflow or underflow."""
    largest = 0.0
    for chunk in _chunks(bags):
        found = float(np.nanmax(np.abs(chunk), initial=0.0))
        if _LARGEST < found < np.inf:
            raise ValueError(
                f"X holds a number of magnitude {found:.1e}, whose square is beyond "
                "the range of floats. Scale the columns first, for instance with "
                "OnInstances(StandardScaler())."
            )
        largest = max(largest, found)
    if 0.0 < largest < _SMALLEST:
        raise ValueError(
            f"all numbers of X are tiny (at most {largest:.1e}), and their squares "
            "underflow. Scale the columns first, for instance by another unit."
        )


def _refuse_not_finite(bags: Bags, wrong: Callable[[Any], Any]) -> None:
    if bags.is_sparse:
        if not wrong(bags.data.data).any():
            return
        place = int(np.flatnonzero(wrong(bags.data.data))[0])
        row = int(np.searchsorted(bags.data.indptr, place, side="right")) - 1
        _say_not_finite(bags, row, int(bags.data.indices[place]))
    step = max(1, _CHUNK_BYTES // (bags.n_features * bags.dtype.itemsize))
    for start in range(0, bags.n_instances, step):
        chunk = bags._stacked[start : start + step]
        if isinstance(chunk, StoredRows):
            chunk = chunk.view_or_read()
        # A finite sum implies finite entries; otherwise the entries are inspected.
        with np.errstate(over="ignore", invalid="ignore"):
            fine = _all_finite(chunk)
        bad = np.argwhere(wrong(chunk)) if not fine else np.empty((0, 2))
        if len(bad):
            _say_not_finite(bags, start + int(bad[0, 0]), int(bad[0, 1]))
        forget_pages(bags._stacked)


def _all_finite(chunk: npt.NDArray[Any]) -> bool:
    if chunk.dtype == np.float16:  # sums in half precision could overflow
        return all_finite(chunk)
    return bool(np.isfinite(chunk.sum()))


def _say_not_finite(bags: Bags, row: int, column: int) -> None:
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    name = column if bags.feature_names is None else bags.feature_names[column]
    value = bags[bag][row - bags.offsets[bag], column]
    kind = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(
        f"Input X contains {kind}: bag {bags.ids[bag]}, instance "
        f"{row - bags.offsets[bag]}, column {name}. Impute or drop it, for instance "
        "with OnInstances(SimpleImputer())."
    )


# Columns by their names ------------------------------------------------------------


def with_columns(X: Bags, expected: Any, who: str) -> Bags:
    """Return bags with the columns that a model was fitted to, in their order.

    Parameters
    ----------
    X : Bags
        The bags; without names of columns, or with the expected ones, they come back.
    expected : array-like of str of shape (n_features,) or None
        The names that the model knows.
    who : str
        The model, for messages.

    Returns
    -------
    Bags
        Columns that the model does not know are left out, with a warning. Under
        ``config_context(columns="strict")`` names and order must be the same.
    """
    if expected is None or X.feature_names is None:
        return X  # without names, columns are matched by position
    wanted, found = list(expected), X.feature_names.tolist()
    if wanted == found:
        return X
    known, seen = set(wanted), set(found)
    missing = [name for name in wanted if name not in seen]
    extra = [name for name in found if name not in known]
    new = f" Columns that were not seen in fit: {shown_names(extra)}." if extra else ""
    if missing:
        raise ValueError(
            "The feature names should match those that were passed during fit: X has "
            f"{X.n_features} features, but {who} is expecting {len(wanted)} features "
            f"as input. Missing: {shown_names(missing)}.{new}"
        )
    if get_columns() == "strict":
        for j, (name, own) in enumerate(zip(wanted, found, strict=False)):
            if name != own:
                new = f" Column {j} was {name!r}, not {own!r}.{new}"
                break
        raise ValueError(
            "The feature names should match those that were passed during fit, in the "
            f'same order (columns="strict").{new}'
        )
    return _selected(X, wanted, extra, who)


def _selected(X: Bags, wanted: list[Any], extra: list[Any], who: str) -> Bags:
    found = [] if X.feature_names is None else X.feature_names.tolist()
    known, twice = set(wanted), Counter(wanted)
    twice.update(Counter(name for name in found if name in known))
    several = [name for name, count in twice.items() if count > 2]
    if several:
        raise ValueError(
            "The feature names should match those that were passed during fit. They "
            "cannot be matched by name, because some occur twice: "
            f"{shown_names(several)}. Give every column its own name."
        )
    if X.on_disk:
        raise ValueError(
            "The feature names should match those that were passed during fit, in the "
            "same order: columns of bags on disk are not selected, because they would "
            "be copied into memory. Write the file with the columns of the model, or "
            "use X.in_memory()."
        )
    if extra:
        warnings.warn(
            f"{who} was fitted to {len(wanted)} features. Other columns "
            f"are ignored: {shown_names(extra)}. Remove them, or use "
            'bagwise.config_context(columns="strict") to make this an error.',
            UserWarning,
            stacklevel=5,
        )
    place = {name: j for j, name in enumerate(found)}
    columns: npt.NDArray[np.int64] = np.array([place[name] for name in wanted])
    return X.take_columns(columns)
