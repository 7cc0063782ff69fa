"""NumPy archives: the library's own exchange format."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise._sizes import check_memory, check_unpacked
from bagwise.bags import Bags, Ragged
from bagwise.io._errors import TableError
from bagwise.io._permissions import make_readable
from bagwise.io.readers.common import NO_LABELS, fail
from bagwise.io.roles import Roles

_CSR = ("data", "indices", "indptr", "shape")


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return all arrays of an archive, or say that it is damaged."""
    _refuse_bombs(path)
    try:
        opened = np.load(path, allow_pickle=False)
        if isinstance(opened, np.ndarray):
            raise ValueError("it holds a single array")
        with opened as archive:
            return {name: archive[name] for name in archive.files}
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    # Damage shows as zip, zlib, struct, header or memory errors, whichever comes first.
    except Exception as error:
        fail(path, f"not a readable npz archive, or cut off ({error})")


def _refuse_bombs(path: Path) -> None:
    """Refuse an archive that would fill the memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            full = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return  # numpy says what is wrong with it
    try:
        check_unpacked(full, path.stat().st_size)
        check_memory(full, "the archive", "Split it.")
    except ValueError as error:
        fail(path, str(error))


def stacked_matrix(
    arrays: dict[str, Any], path: Path, prefix: str = "X", missing: str = "error"
) -> Any:
    """Return the instances of an archive, dense or CSR."""
    if prefix in arrays:
        matrix = arrays[prefix]
    elif all(part in arrays for part in _CSR):
        matrix = _csr(arrays, path)
    else:
        fail(path, f"there is neither {prefix!r} nor the CSR parts {', '.join(_CSR)}")
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        fail(path, f"the instances must be a matrix of numbers, got {matrix.dtype}")
    values = matrix.data if sp.issparse(matrix) else matrix
    if not np.isfinite(values).all():
        if missing == "keep" and not np.isinf(values).any():
            return matrix
        raise TableError(
            f"{path}: the instances hold NaN or infinity",
            "Let NaN through with {0} and fill it in a pipeline, or remove it.",
            ("missing", "keep"),
        )
    return matrix


def _csr(arrays: dict[str, Any], path: Path) -> sp.csr_array:
    data, indices, indptr, shape = (arrays[part] for part in _CSR)
    integers = all(a.dtype.kind in "iu" for a in (indices, indptr, shape))
    if not integers or data.dtype.kind not in "fiub" or shape.shape != (2,):
        fail(path, "the CSR parts have wrong types")
    try:
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        fail(path, f"the CSR parts do not fit together ({error})")
    return matrix


def bag_offsets(bag: Any, n_rows: int, path: Path) -> npt.NDArray[np.int64]:
    """Return the offsets that a sorted bag index 0..n-1 describes."""
    bag = np.asarray(bag)
    if bag.shape != (n_rows,) or bag.dtype.kind not in "iu":
        fail(path, f"the bag index must be {n_rows} integers, one per instance")
    if n_rows == 0:
        fail(path, "there is no instance")
    steps = np.diff(bag.astype(np.int64))
    if bag[0] != 0 or not np.isin(steps, (0, 1)).all():
        fail(path, "the bag index must run 0, 0, ..., 1, 1, ... without gaps")
    counts = np.bincount(bag.astype(np.int64))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def read_npz(path: Path, roles: Roles) -> Any:
    """Read an archive; see `read_bags`."""
    arrays = load_arrays(path)
    shown = ", ".join(sorted(arrays))
    for name in (roles.bag, roles.label, roles.group, roles.instance_id):
        if name is not None and name not in arrays:
            fail(path, f"there is no array {name!r}; the file has {shown}")
    offsets = None
    cube = "X" in arrays and arrays["X"].ndim == 3
    if cube and roles.bag is None and "bag" not in arrays:
        n_bags, size, width = arrays["X"].shape
        if n_bags * size == 0:
            fail(path, "there is no instance")
        arrays["X"] = arrays["X"].reshape(n_bags * size, width)
        offsets = np.arange(0, (n_bags + 1) * size, size)
    matrix = stacked_matrix(arrays, path, missing=roles.missing)
    if offsets is None:
        bag = roles.bag or "bag"
        if bag not in arrays:
            fail(path, f"there is no array {bag!r}; the file has {shown}")
        offsets = bag_offsets(arrays[bag], matrix.shape[0], path)
    more = {"groups": roles.group, "instance_ids": roles.instance_id, "coords": None}
    given = {name: arrays.get(wanted or name) for name, wanted in more.items()}
    extra = {
        name: _text(values) for name, values in given.items() if values is not None
    }
    ids, names = arrays.get("ids"), arrays.get("feature_names")
    try:
        X = Bags(matrix, offsets, ids=_text(ids), feature_names=_text(names), **extra)
    except (ValueError, TypeError) as error:
        fail(path, str(error))
    label = roles.label or ("y" if "y" in arrays else None)
    if label is None:
        return X, None
    y = arrays[label]
    if y.shape[:1] != (X.n_bags,) or y.ndim > 2:
        fail(path, f"{label!r} must have one entry for each of the {X.n_bags} bags")
    if y.dtype.kind not in "fiubU":
        fail(path, f"{label!r} must be numbers or text, got {y.dtype}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        fail(path, f"{label!r} holds NaN or infinity")
    if y.dtype.kind == "U" and np.isin(y, list(NO_LABELS)).any():
        i = int(np.flatnonzero(np.isin(y, list(NO_LABELS)))[0])
        fail(path, f"{label!r} is {str(y[i])!r} for bag {X.ids[i]}, which is no label")
    return X, y


def _text(values: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    if values is not None and values.dtype.kind == "U":
        return values.astype(object)
    return values


def write_npz(
    path: str | os.PathLike[str],
    X: Bags,
    y: npt.ArrayLike | None = None,
    *,
    instance_labels: Ragged | None = None,
    **more: npt.ArrayLike,
) -> None:
    """Write bags to a NumPy archive that `read_bags` and `fetch` understand.

    Parameters
    ----------
    path : str or path
        The file; it appears whole or not at all.
    X : Bags
        The bags, dense or sparse.
    y : array-like of shape (n_bags,), default=None
        The labels.
    instance_labels : Ragged, default=None
        Labels of the instances.
    **more : array-like
        Further arrays, stored under their names.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.io import read_bags, write_npz
    >>> X, y = make_bags(4, random_state=0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "toy.npz"
    >>> write_npz(path, X, y)
    >>> read_bags(path)[0].n_bags
    4
    """
    arrays: dict[str, Any] = {"bag": X.bag_index}
    if X.is_sparse:
        parts = (X.data.data, X.data.indices, X.data.indptr, np.array(X.data.shape))
        arrays.update(zip(_CSR, parts, strict=True))
    else:
        arrays["X"] = X.data
    if not np.array_equal(X.ids, np.arange(X.n_bags)):
        arrays["ids"] = _plain(X.ids)
    if X.feature_names is not None:
        arrays["feature_names"] = _plain(X.feature_names)
    for name in ("groups", "instance_ids", "coords"):
        if getattr(X, name, None) is not None:
            arrays[name] = _plain(getattr(X, name))
    if y is not None:
        arrays["y"] = _plain(np.asarray(y))
    if instance_labels is not None:
        arrays["inst_y"] = instance_labels.values
    arrays.update({name: _plain(np.asarray(value)) for name, value in more.items()})
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez_compressed(stream, **arrays)
        make_readable(temporary)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects cannot be stored safely; text can."""
    return values.astype(str) if values.dtype.kind == "O" else values
