"""Readers of bag files: one module per format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bagwise.io.readers._npz import write_npz

__all__ = ["FORMATS", "read_bags", "write_npz"]

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".data": "musk",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".arff": "arff",
}
FORMATS = ("arff", "csv", "musk", "npz", "parquet", "svmlight")


def read_bags(
    path: str | os.PathLike[str],
    bag: str | None = None,
    label: str | None = None,
    *,
    format: str | None = None,
    drop: Sequence[str] = (),
    n_features: int | None = None,
    sparse: bool | None = None,
) -> Any:
    r"""Read bags from a file.

    ============  =====================  ==============================================
    format        suffix                 content
    ============  =====================  ==============================================
    ``csv``       .csv .tsv .txt         header; one row per instance; comma,
                                         semicolon or tab
    ``parquet``   .parquet .pq           one row per instance (pyarrow or polars)
    ``npz``       .npz                   arrays ``X`` (or ``data``, ``indices``,
                                         ``indptr``, ``shape``), ``bag``, ``y``
    ``musk``      .data                  UCI Musk: molecule, conformation, features,
                                         class
    ``svmlight``  .svm .svmlight         ``instance:bag:label index:value ...``
    ``arff``      .arff                  WEKA, one relational attribute
    ============  =====================  ==============================================

    Parameters
    ----------
    path : str or path
        The file.
    bag : str, default=None
        Name of the bag column. Needed for ``csv`` and ``parquet``; for ``npz`` and
        ``arff`` it defaults to ``"bag"`` and to the first attribute that is neither
        the relation nor the label. ``musk`` and ``svmlight`` have a fixed place.
    label : str, default=None
        Name of the label column. Without it ``csv`` and ``parquet`` give no labels,
        ``npz`` takes ``"y"`` where there is one, ``arff`` takes the last attribute.
    format : str, default=None
        One of the formats above; by default the suffix tells.
    drop : sequence of str, default=()
        Columns that are no features (``csv``, ``parquet``).
    n_features : int, default=None
        Number of columns of a ``svmlight`` file; the largest index by default.
    sparse : bool, default=None
        Whether a ``svmlight`` file gives CSR. By default it does when the matrix is
        mostly zero and large.

    Returns
    -------
    X : Bags
        Bags in the order of first appearance, with ids and feature names.
    y : ndarray of shape (n_bags,) or None
        The labels: integers or floats if all of them are, otherwise strings.

    Raises
    ------
    ValueError
        The file is damaged, or not what its format says; the message names the file
        and, in text formats, the line. Missing values, NaN and infinity are refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bagwise.io import read_bags
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "toy.csv"
    >>> _ = path.write_text("mol,active,u\na,1,0.5\na,1,2\nb,0,1\n")
    >>> X, y = read_bags(path, bag="mol", label="active")
    >>> X.n_bags, y
    (2, array([1, 0]))
    """
    file = Path(path)
    kind = _format(file, format)
    _refuse_options(file, kind, bag, label, drop, n_features, sparse)
    if kind == "csv":
        from bagwise.io.readers._csv import read_csv

        return read_csv(file, bag, label, drop)
    if kind == "parquet":
        from bagwise.io.readers._parquet import read_parquet

        return read_parquet(file, bag, label, drop)
    if kind == "npz":
        from bagwise.io.readers._npz import read_npz

        return read_npz(file, bag, label)
    if kind == "musk":
        from bagwise.io.readers._musk import read_musk

        return read_musk(file)
    if kind == "svmlight":
        from bagwise.io.readers._svmlight import read_svmlight

        return read_svmlight(file, n_features, sparse)
    from bagwise.io.readers._arff import read_arff

    return read_arff(file, bag, label)


def _format(path: Path, given: str | None) -> str:
    if given is not None:
        if given not in FORMATS:
            raise ValueError(
                f"format must be one of {', '.join(FORMATS)}, got {given!r}."
            )
        return given
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"{path}: the suffix {path.suffix!r} does not tell the format; say "
            f"format=..., one of {', '.join(FORMATS)}."
        )
    return kind


def _refuse_options(
    path: Path,
    kind: str,
    bag: str | None,
    label: str | None,
    drop: Sequence[str],
    n_features: int | None,
    sparse: bool | None,
) -> None:
    """Refuse options that a format would ignore."""
    if isinstance(drop, str):
        raise TypeError(f"drop must be a list of column names, got {drop!r}.")
    if kind in ("musk", "svmlight") and (bag is not None or label is not None):
        raise ValueError(
            f"{path}: the {kind} format says itself where bag and label are; leave "
            "bag= and label= out."
        )
    if drop and kind not in ("csv", "parquet"):
        raise ValueError(f"{path}: drop= is for csv and parquet, not for {kind}.")
    if kind != "svmlight" and (n_features is not None or sparse is not None):
        raise ValueError(f"{path}: n_features= and sparse= are for svmlight only.")
