"""Parquet tables: one row per instance, read by pyarrow or polars."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.io._frames import from_frame
from bagwise.io.readers._common import fail


def read_parquet(
    path: Path, bag: str | None, label: str | None, drop: Sequence[str] = ()
) -> Any:
    """Read a Parquet table; see `read_bags`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    table = _load(path)
    import narwhals.stable.v1 as nw

    frame = nw.from_native(table, eager_only=True)
    columns = frame.columns
    shown = ", ".join(repr(name) for name in columns[:20])
    if bag is None:
        fail(path, f"say which column tells the bag: bag=..., one of {shown}")
    if bag == label:
        fail(path, f"the bag and the label column are the same, {bag!r}")
    for name in (bag, label, *drop):
        if name is not None and name not in columns:
            fail(path, f"there is no column {name!r}; the table has {shown}")
    if len(frame) == 0:
        fail(path, "the table has no row")
    for name in columns:
        if name not in drop and frame[name].is_null().any():
            row = int(np.flatnonzero(frame[name].is_null().to_numpy())[0])
            fail(path, f"column {name!r} has a missing value in row {row + 1}")
    features = [name for name in columns if name not in {bag, label, *drop}]
    try:
        result = from_frame(table, bag, label, features=features)
    except (TypeError, ValueError) as error:
        fail(path, str(error))
    X, y = (result, None) if label is None else result
    if not np.isfinite(X.data).all():
        row, column = np.argwhere(~np.isfinite(X.data))[0]
        fail(
            path,
            f"column {features[column]!r} holds NaN or infinity in bag "
            f"{X.ids[X.bag_index[row]]}",
        )
    return X, y


def _load(path: Path) -> Any:
    if find_spec("pyarrow") is not None:
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(path).read()
        except Exception as error:
            fail(path, f"not a readable Parquet file, or cut off ({error})")
    if find_spec("polars") is not None:
        import polars as pl

        try:
            return pl.read_parquet(path)
        except Exception as error:
            fail(path, f"not a readable Parquet file, or cut off ({error})")
    raise ImportError(
        f"{path}: reading Parquet needs pyarrow or polars; install one of them with "
        'pip install "bagwise[arrow]", or save the table as CSV.'
    )
