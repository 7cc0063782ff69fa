"""NumPy archives: the library's own exchange format."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags import Bags, Ragged
from bagwise.io.readers._common import fail

_CSR = ("data", "indices", "indptr", "shape")


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return all arrays of an archive, or say that it is damaged."""
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


def stacked_matrix(arrays: dict[str, Any], path: Path, prefix: str = "X") -> Any:
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
        fail(path, "the instances hold NaN or infinity")
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


def read_npz(path: Path, bag: str | None, label: str | None) -> Any:
    """Read an archive; see `read_bags`."""
    arrays = load_arrays(path)
    bag = bag or "bag"
    matrix = stacked_matrix(arrays, path)
    shown = ", ".join(sorted(arrays))
    for name in (bag, label):
        if name is not None and name not in arrays:
            fail(path, f"there is no array {name!r}; the file has {shown}")
    offsets = bag_offsets(arrays[bag], matrix.shape[0], path)
    ids, names = arrays.get("ids"), arrays.get("feature_names")
    try:
        X = Bags(matrix, offsets, ids=_text(ids), feature_names=_text(names))
    except (ValueError, TypeError) as error:
        fail(path, str(error))
    name = label or ("y" if "y" in arrays else None)
    if name is None:
        return X, None
    y = arrays[name]
    if y.shape != (X.n_bags,):
        fail(path, f"{name!r} must have one entry for each of the {X.n_bags} bags")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        fail(path, f"{name!r} holds NaN or infinity")
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
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects cannot be stored safely; text can."""
    return values.astype(str) if values.dtype.kind == "O" else values
