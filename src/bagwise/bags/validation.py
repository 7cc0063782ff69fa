"""What `Bags` are made of, checked: matrices, lists and rows with ids, annotations."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp
from bagwise.bags.segmented import Offsets, read_only
from bagwise.bags.stored import StoredRows


def refuse_masked(values: Any, what: str) -> None:
    """Refuse masked entries: numpy would give back what stands under the mask."""
    hidden = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    if hidden is not None and hidden.any():
        place = np.argwhere(hidden)[0].tolist()
        raise ValueError(
            f"{what} is a masked array, and its masked values would be used (the first "
            f"at {place}). Fill them, or exclude these bags."
        )


def first_missing(values: npt.NDArray[Any]) -> int | None:
    """Return where the first None, NaN, NaT or pandas' NA stands, if there is one."""
    if values.dtype.kind in "biuSU":
        return None
    return next((i for i, v in enumerate(values.tolist()) if _is_missing(v)), None)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # comparing NA gives no truth value
        return True


def names(
    values: npt.ArrayLike | None, length: int, what: str, of: str
) -> npt.NDArray[Any] | None:
    """Return one name per bag or instance, checked for its length."""
    if values is None:
        return None
    refuse_masked(values, what)
    array = np.asarray(values)
    if array.ndim != 1 or array.shape[0] != length:
        raise ValueError(
            f"{what} must have one entry for each of the {length} {of}, got shape "
            f"{array.shape}."
        )
    return read_only(array)


def refuse_missing_group(groups: npt.NDArray[Any] | None) -> None:
    """Raise if a bag has no group while others have one."""
    bag = None if groups is None else first_missing(groups)
    if bag is not None:
        raise ValueError(
            f"the group of bag {bag} is missing. Give every bag a group; a bag that "
            "belongs to none is a group of its own."
        )


def places(
    coords: npt.ArrayLike | None, n_instances: int
) -> npt.NDArray[np.float64] | None:
    """Return checked coordinates, one row per instance."""
    if coords is None:
        return None
    refuse_masked(coords, "coords")
    array = np.asarray(coords)
    if array.ndim != 2 or array.shape[0] != n_instances:
        raise ValueError(
            f"coords must have one row for each of the {n_instances} instances, got "
            f"shape {array.shape}."
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(f"coords must be real numbers, got dtype {array.dtype}.")
    array = array.astype(np.float64, copy=False)
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if wrong.size:
        raise ValueError(f"coords of instance {wrong[0]} are not finite.")
    return read_only(array)


def rows_of_bags(values: npt.ArrayLike, n_bags: int) -> npt.NDArray[Any]:
    """Return one row of finite numbers per bag."""
    rows = np.asarray(values)
    if rows.ndim != 2 or len(rows) != n_bags or rows.dtype.kind not in "biuf":
        raise ValueError(
            f"bag_rows must be one row of numbers for each of the {n_bags} bags, got "
            f"shape {rows.shape} of {rows.dtype}."
        )
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise ValueError("bag_rows must be finite numbers.")
    return read_only(rows)


def part(values: npt.NDArray[Any] | None, which: Any) -> npt.NDArray[Any] | None:
    """Return the entries of some bags or instances."""
    return None if values is None else read_only(values[which])


def joined(parts: Sequence[Any], what: str) -> npt.NDArray[Any] | None:
    """Concatenate one annotation over parts, which must all have it or all lack it."""
    found = [getattr(part, what) for part in parts]
    without = [i for i, values in enumerate(found) if values is None]
    if not without:
        return np.concatenate(found)
    if len(without) < len(parts):
        raise ValueError(
            f"part {without[0]} has no {what}, others have: give them to all parts or "
            "to none."
        )
    return None


def as_matrix(data: Any) -> Any:
    """Return `data` as a read-only float matrix, C-contiguous or CSR.

    A memory map in half precision stays what it is: whoever computes converts pieces.
    """
    if isinstance(data, StoredRows):
        return data
    if sp.issparse(data):
        refuse_other_values(data, "data")
        if data.dtype.kind not in "fiub":
            raise TypeError(f"data must be real numbers, got dtype {data.dtype}.")
        _refuse_broken(data)
        matrix = sp.csr_array(data) if isinstance(data, sp.sparray) else data.tocsr()
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return frozen(matrix)
    wanted = "data must be one matrix of shape (n_instances, n_features), got"
    hint = "A list of bags goes into Bags.from_list."
    try:
        array = np.asanyarray(data)
    except ValueError:
        raise ValueError(f"{wanted} rows of different lengths. {hint}") from None
    refuse_other_values(array, "data")
    if array.ndim != 2:
        raise ValueError(f"{wanted} {array.ndim} dimension(s). {hint}")
    if array.dtype.kind not in "fiub":
        array = _to_numbers(array)
    if array.dtype not in (np.float16, np.float32, np.float64):
        array = array.astype(np.float64)
    if not array.flags.c_contiguous:  # (np.ascontiguousarray drops np.memmap)
        array = np.ascontiguousarray(array)
    return frozen(array)


def _refuse_broken(data: Any) -> None:
    """Refuse places outside of a sparse matrix: compiled code would read them."""
    if data.format not in ("csr", "csc"):
        return
    ends, length = data.indptr, min(len(data.indices), len(data.data))
    if ends[0] != 0 or ends[-1] > length or (np.diff(ends) < 0).any():
        raise ValueError(
            "data is a broken sparse matrix: its indptr is not increasing."
        )
    inside = data.indices[: ends[-1]]
    limit = data.shape[1 if data.format == "csr" else 0]
    if inside.size and not (inside.min() >= 0 and inside.max() < limit):
        raise ValueError(
            f"data is a broken sparse matrix: it has an entry at {inside.max()} of "
            f"{limit} places ({inside.min()} is the lowest)."
        )


def refuse_other_values(array: Any, what: str) -> None:
    """Refuse what numpy would silently turn into other numbers.

    A masked value comes back as what stands under the mask, a complex number loses its
    imaginary part, a missing date becomes -9.2e18.
    """
    if np.ma.isMaskedArray(array) and np.ma.getmaskarray(array).any():
        place = np.argwhere(np.ma.getmaskarray(array))[0].tolist()
        raise ValueError(
            f"{what} is a masked array whose masked values (the first at {place}) "
            "would be used as numbers. Fill them, for instance with "
            "X.filled(np.nan), and impute them."
        )
    kind = array.dtype.kind
    if kind == "O":
        kind = _odd_kind(array)
    if kind == "c":
        raise ValueError(
            f"{what} holds complex numbers. Complex data not supported: use real and "
            "imaginary parts as columns."
        )
    if kind in "mM":
        raise TypeError(
            f"{what} holds dates or times, which are not numbers. Convert them to "
            "numbers of your choice (days since the first, hour of the day), or "
            "exclude the column."
        )


def _odd_kind(array: npt.NDArray[Any]) -> str:
    for value in array.ravel().tolist():
        if isinstance(value, (complex, np.complexfloating)):
            return "c"
        if isinstance(value, (datetime.date, datetime.timedelta)):
            return "M"
        if isinstance(value, (np.datetime64, np.timedelta64)):
            return "M"
    return "O"


def _to_numbers(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Convert an object or string matrix, naming the column that cannot be."""
    for j in range(array.shape[1]):
        try:
            array[:, j].astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"column {j} is not numeric ({error}). Encode it first, for instance "
                "with a one-hot encoding."
            ) from None
    return array.astype(np.float64)


def frozen(matrix: Any) -> Any:
    """Make a matrix read-only without touching the caller's own array."""
    if isinstance(matrix, StoredRows):
        return matrix
    if not sp.issparse(matrix):
        return read_only(matrix)
    # Trees of scikit-learn accept 32-bit indices only: use 64 bits only if needed.
    short = max(matrix.nnz, *matrix.shape) < 2**31
    index = np.int32 if short else np.int64
    parts = (
        matrix.data,
        matrix.indices.astype(index, copy=False),
        matrix.indptr.astype(index, copy=False),
    )
    frozen = type(matrix)(parts, shape=matrix.shape, copy=False)
    frozen.has_canonical_format = matrix.has_canonical_format
    frozen.data = read_only(frozen.data)
    return frozen


_SHOWN = 5


def shown_names(values: Sequence[Any]) -> str:
    """Return the first few names as text."""
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(repr(str(value)) for value in values[:_SHOWN]) + more


def column_order(
    wanted: list[Any], found: list[Any], what: str, first: str
) -> npt.NDArray[np.int64] | None:
    """Return where the wanted columns are; None if they are in their order."""
    if wanted == found:
        return None
    place = {name: j for j, name in enumerate(found)}
    missing = [name for name in wanted if name not in place]
    known = set(wanted)
    extra = [name for name in found if name not in known]
    if missing or extra or len(place) < len(found) or len(found) != len(wanted):
        text = f" Missing: {shown_names(missing)}." if missing else ""
        text += f" Only there: {shown_names(extra)}." if extra else ""
        raise ValueError(
            f"the columns of {what} differ from those of {first}.{text} All must have "
            "the same columns, each with a name of its own."
        )
    return np.array([place[name] for name in wanted], dtype=np.int64)


def of_frames(bags: list[Any]) -> tuple[list[Any], npt.NDArray[Any] | None]:
    """Return a list of bags with equal columns, and the names that data frames give.

    Data frames with other columns than the first one are refused; those with another
    order are rearranged. Numbers of columns are no names.
    """
    frames = [hasattr(bag, "columns") for bag in bags]
    if not any(frames):
        return bags, None
    wanted = list(bags[frames.index(True)].columns)
    named = all(isinstance(name, str) for name in wanted)
    if not all(frames):
        if not named:
            return bags, None
        raise ValueError(
            f"bag {frames.index(True)} is a data frame with named columns, and bag "
            f"{frames.index(False)} is not: it is not known which columns are the "
            "same. Pass data frames only, or arrays only (df.to_numpy())."
        )
    twice = [name for name, count in Counter(wanted).items() if count > 1]
    if twice:
        raise ValueError(
            f"the data frames have columns with the same name: {shown_names(twice)}. "
            "Give every column its own name."
        )
    out = []
    for i, frame in enumerate(bags):
        order = column_order(wanted, list(frame.columns), f"bag {i}", "bag 0")
        out.append(frame if order is None else frame[wanted])
    return out, np.asarray(wanted, dtype=object) if named else None


def in_bag_order(y: Any, X: Any, what: str = "y") -> Any:
    """Return a pandas Series in the order of the bags that its index names.

    A default index (0, 1, ...) says nothing, and neither does one without bag ids. A
    list of bags, and `Bags` without ids, are in the order of `y`.
    """
    numbered = type(getattr(y, "index", None)).__name__ == "RangeIndex"
    if not hasattr(y, "reindex") or numbered or getattr(X, "_ids", None) is None:
        return y
    ids, names = X.ids.tolist(), y.index.tolist()
    if not set(ids) & set(names):  # such as 7 in one table and "7" in the other
        ids, names = [str(name) for name in ids], [str(name) for name in names]
    known = set(names)
    if ids == names or not set(ids) & known:
        return y
    missing = [name for name in ids if name not in known]
    if missing or len(names) != len(ids):
        absent = f", bag {missing[0]!r} is missing" if missing else ""
        raise ValueError(
            f"the index of {what} holds ids of bags, but not those of X: {len(names)} "
            f"for {len(ids)} bags{absent}. Give {what} one entry per bag of X, or pass "
            f"{what}.to_numpy() to match them by position."
        )
    return y.set_axis(names).loc[ids]


def stack_list(bags: Sequence[Any]) -> tuple[Any, Offsets]:
    """Stack a list of matrices and return the matrix with its offsets."""
    if len(bags) == 0:
        raise ValueError("The list of bags is empty.")
    matrices = [_bag_matrix(bag, i) for i, bag in enumerate(bags)]
    width = matrices[0].shape[1]
    for i, matrix in enumerate(matrices):
        if matrix.shape[0] == 0:
            raise ValueError(
                f"bag {i} is empty: every bag needs at least one instance. Drop the "
                "bag and its label."
            )
        if matrix.shape[1] != width:
            raise ValueError(
                "All bags must have the same number of features: bag 0 has "
                f"{width}, bag {i} has {matrix.shape[1]}."
            )
    offsets = np.cumsum([0, *(m.shape[0] for m in matrices)])
    if any(sp.issparse(m) for m in matrices):
        return sp.vstack(matrices, format="csr"), offsets
    return np.concatenate(matrices), offsets


def _bag_matrix(bag: Any, i: int) -> Any:
    if sp.issparse(bag):
        return bag
    try:
        matrix = np.asanyarray(bag)
    except ValueError as error:
        raise ValueError(f"bag {i} is not a matrix: {error}") from None
    refuse_other_values(matrix, f"bag {i}")
    matrix = np.asarray(matrix)
    if matrix.ndim < 2 and matrix.dtype.kind in "SU":
        raise TypeError(
            f"bag {i} is text ({str(bag)[:30]!r}). A bag is a matrix of numbers with "
            "one row per instance, or a list of texts: encode the text first, or read "
            "files with bagwise.read_bags."
        )
    if matrix.ndim != 2:
        raise ValueError(
            f"bag {i} has {matrix.ndim} dimension(s); a bag is a 2-D array of shape "
            "(n_instances, n_features). A bag of one instance x is x[None, :]."
        )
    if matrix.dtype.kind not in "fiub":
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"bag {i} is not numeric (dtype {matrix.dtype}: {error}). Encode "
                "text and categories first."
            ) from None
    return matrix


def group_rows(
    X: Any, bag_ids: npt.ArrayLike
) -> tuple[Any, Offsets, npt.NDArray[Any], npt.NDArray[np.int64] | slice]:
    """Group rows by their bag id: the matrix, offsets, ids and the order of the rows.

    Bags come in the order of first appearance. Rows that already stand together are
    not copied.
    """
    keys = np.asarray(bag_ids)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if keys.ndim != 1 or keys.shape[0] != n_rows:
        raise ValueError(
            f"bag_ids must have one entry for each of the {n_rows} rows, got shape "
            f"{keys.shape}."
        )
    if n_rows == 0:
        raise ValueError("There are no rows.")
    _refuse_missing(keys)
    order: npt.NDArray[np.int64] | slice
    if keys.dtype.kind == "O":
        # Mixed or missing types cannot be sorted; a dict keeps the order of appearance.
        seen: dict[Any, int] = {}
        codes = np.array([seen.setdefault(k, len(seen)) for k in keys.tolist()])
        ids = np.empty(len(seen), dtype=object)
        ids[:] = list(seen)
    else:
        values, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        codes, ids = rank[inverse], values[np.argsort(first)]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.int64)
    if (np.diff(codes) >= 0).all():
        return X, offsets, ids, slice(None)
    order = np.argsort(codes, kind="stable")
    matrix = X if hasattr(X, "shape") else np.asarray(X)
    return matrix[order], offsets, ids, order


def one_per_bag(
    per_row: npt.NDArray[Any], offsets: Offsets, ids: npt.NDArray[Any], what: str
) -> npt.NDArray[Any]:
    """Return the one value that all rows of a bag share, or name a bag with two."""
    first = per_row[offsets[:-1]]
    differs = per_row != np.repeat(first, np.diff(offsets))
    if differs.any():
        row = int(np.flatnonzero(differs)[0])
        bag = int(np.searchsorted(offsets, row, side="right")) - 1
        raise ValueError(
            f"{what} differ within bag {ids[bag]}: {first[bag]} and {per_row[row]}. A "
            "bag belongs to one group."
        )
    return first


def _refuse_missing(keys: npt.NDArray[Any]) -> None:
    if keys.dtype.kind == "f":
        missing = np.isnan(keys)
    elif keys.dtype.kind == "O":
        missing = np.array([k is None or k != k for k in keys.tolist()])
    else:
        return
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"the bag id of row {row} is missing.")


def check_weights(
    sample_weight: Any, n_bags: int, y: npt.NDArray[Any], task: str
) -> npt.NDArray[np.float64]:
    """Return weights as numbers, one per bag; refuse what no method could use."""
    refuse_masked(sample_weight, "sample_weight")
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold numbers") from None
    if weight.shape != (n_bags,):
        raise ValueError(f"sample_weight has shape {weight.shape} for {n_bags} bags")
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0))
    if len(bad):
        raise ValueError(
            f"the weight of bag {bad[0]} is {weight[bad[0]]:g}; weights must be finite"
            " and not negative"
        )
    if not weight.any():
        raise ValueError("all weights are zero")
    if task == "classification":
        classes, codes = np.unique(y, return_inverse=True)
        empty = classes[np.bincount(codes, weight) == 0]
        if len(empty):
            raise ValueError(f"all bags of class {empty[0]!s} have a weight of zero")
    return weight
