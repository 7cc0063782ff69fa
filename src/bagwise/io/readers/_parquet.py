"""Parquet tables: one row per instance, read by pyarrow or polars."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bagwise.io._frames import frame_table
from bagwise.io.readers.common import fail
from bagwise.io.table import Table


def read_parquet(path: Path) -> Table:
    """Read a Parquet file as a table; see `read_bags`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    return frame_table(load_parquet(path), str(path))


def load_parquet(path: Path) -> Any:
    """Return the table as the library that is installed gives it."""
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
