"""Parquet tables: one row per instance, read by pyarrow or polars."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bagwise._sizes import check_memory, check_unpacked
from bagwise.io._frames import frame_table
from bagwise.io.readers.common import fail
from bagwise.io.table import Table

_BATCH = 2**14


def read_parquet(path: Path) -> Table:
    """Read a Parquet file as a table; see `read_bags`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    return frame_table(load_parquet(path), str(path))


def load_parquet(path: Path) -> Any:
    """Return the table as the library that is installed gives it."""
    if find_spec("pyarrow") is not None:
        try:
            return _with_pyarrow(path)
        except _TooLarge as error:
            raise ValueError(f"{path}: {error}") from None
        except Exception as error:
            fail(path, f"not a readable Parquet file, or cut off ({error})")
    if find_spec("polars") is not None:
        import polars as pl

        try:
            n_rows = pl.scan_parquet(path).select(pl.len()).collect().item()
            n_bytes = 8 * n_rows * len(pl.read_parquet_schema(path))
            _check_size(n_bytes, path)
            return pl.read_parquet(path)
        except _TooLarge as error:
            raise ValueError(f"{path}: {error}") from None
        except Exception as error:
            fail(path, f"not a readable Parquet file, or cut off ({error})")
    raise ImportError(
        f"{path}: reading Parquet needs pyarrow or polars; install one of them with "
        'pip install "bagwise[arrow]", or save the table as CSV.'
    )


class _TooLarge(Exception):
    """What a file says it holds does not fit into memory."""


def _with_pyarrow(path: Path) -> Any:
    """Read batch by batch: values that repeat take next to nothing in the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        _check_size(_claimed(file.metadata), path)
        batches, n_bytes = [], 0
        for batch in file.iter_batches(_BATCH):
            n_bytes += batch.nbytes
            _check_size(n_bytes, path)
            batches.append(batch)
        return pa.Table.from_batches(batches, file.schema_arrow)


def _claimed(metadata: Any) -> int:
    """Return the bytes of all values, each of them at least as wide as its type."""
    widths = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
    n_bytes = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            n_bytes += column.num_values * widths.get(column.physical_type, 8)
    return n_bytes


def _check_size(n_bytes: int, path: Path) -> None:
    try:
        check_unpacked(n_bytes, path.stat().st_size)
        check_memory(2.0 * n_bytes, "the table", "Split the file.")
    except ValueError as error:
        raise _TooLarge(str(error)) from None
