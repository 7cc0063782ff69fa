"""Parts from files: each is read by the worker that needs it."""

from __future__ import annotations

import glob
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.io import TableWarning, read_bags


class FilePart:
    """The bags of some files, read when called."""

    named = True

    def __init__(self, paths: list[str], options: dict[str, Any]) -> None:
        self.paths = paths
        self.options = options

    def __call__(self) -> tuple[Any, ...]:
        """Return what `read_bags` gives, for all files together."""
        found = [read_bags(path, **self.options) for path in self.paths]
        if len(found) == 1:
            return found[0]
        bags, *rest = zip(*found, strict=True)
        joined = [None if part[0] is None else np.concatenate(part) for part in rest]
        return Bags.concatenate(list(bags)), *joined

    def __repr__(self) -> str:
        """Show the first file."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"FilePart({self.paths[0]}{more})"


class SlidePart:
    """Some slides of a folder, read when called.

    Parameters
    ----------
    folder : str
        The folder with a file for each slide.
    table : DataFrame
        The rows of the table of labels for these slides.
    options : dict
        Of `read_bags`.
    """

    named = True

    def __init__(self, folder: str, table: Any, options: dict[str, Any]) -> None:
        self.folder = folder
        self.table = table
        self.options = options

    def __call__(self) -> Any:
        """Read these slides; those of other parts are no fault here."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = read_bags(
                self.folder,
                labels=self.table,
                on_missing="drop",
                cache=False,
                **self.options,
            )
        if len(found[0]) < len(self.table):
            said = [str(w.message) for w in told if w.category is TableWarning]
            raise ValueError("; ".join(said) or "slides are missing.")
        return found

    def __repr__(self) -> str:
        """Show the number of slides."""
        return f"SlidePart({self.folder}, {len(self.table)} slides)"


def read_parts(path, *, labels=None, files_per_part=1, **options):
    r"""Make parts of files that hold whole bags, or of a folder of slides.

    Nothing but a table of labels is read here: each worker reads the files of its own
    parts, so that they must lie where all of them can reach them.

    Parameters
    ----------
    path : str, path, or sequence of these
        A folder (all files below it whose names do not begin with a dot or an
        underscore, such as partitioned parquet), a pattern such as
        ``"bags/*.parquet"``, or the files themselves.
    labels : DataFrame, str or path, default=None
        With a folder that holds one file of features for each bag (slides): the table,
        or the csv or parquet file, with a row for each of them. `bag` and `label` then
        name its columns, as in :func:`bagwise.read_bags`.
    files_per_part : int, default=1
        How many files, or slides, make a part; more where they are small.
    **options
        Of :func:`bagwise.read_bags`: `bag`, `label`, `features`, `weight`, ...

    Returns
    -------
    list
        The parts, in the order of the names of the files, or of the table.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bagwise.distributed import fit, read_parts
    >>> from bagwise.least_squares import SAFE
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, rows in {"a": "a,0,1.0\nb,1,3.0\n", "b": "c,0,0.5\n"}.items():
    ...     _ = (folder / f"{name}.csv").write_text("mol,y,u\n" + rows)
    >>> parts = read_parts(folder, bag="mol", label="y")
    >>> fit(SAFE(kernel="linear"), parts).classes_
    array([0, 1])
    """
    if files_per_part < 1:
        raise ValueError(f"files_per_part must be at least 1, got {files_per_part}.")
    if labels is not None:
        table = _table_of(labels)
        return [
            SlidePart(os.fspath(path), table[i : i + files_per_part], options)
            for i in range(0, len(table), files_per_part)
        ]
    if isinstance(path, (str, os.PathLike)):
        files = _files_of(os.fspath(path))
    else:
        files = [os.fspath(one) for one in path]
    return [
        FilePart(files[i : i + files_per_part], options)
        for i in range(0, len(files), files_per_part)
    ]


def _files_of(path):
    if Path(path).is_dir():
        found = [
            str(one)
            for one in Path(path).rglob("*")
            if one.is_file()
            and not any(p[0] in "._" for p in one.relative_to(path).parts)
        ]
    else:
        found = glob.glob(path)
    if not found:
        raise ValueError(f"{path}: there are no files.")
    return sorted(found)


def _table_of(labels):
    if not isinstance(labels, (str, os.PathLike)):
        return labels
    import pandas as pd

    suffix = Path(labels).suffix.lower()
    read = pd.read_parquet if suffix in (".parquet", ".pq") else pd.read_csv
    return read(labels)
