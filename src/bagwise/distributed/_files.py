"""Parts from files: each is read by the worker that needs it."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from bagwise.bags import Bags
from bagwise.io import read_bags


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
        import numpy as np

        bags, *rest = zip(*found, strict=True)
        joined = [None if part[0] is None else np.concatenate(part) for part in rest]
        return Bags.concatenate(list(bags)), *joined

    def __repr__(self) -> str:
        """Show the first file."""
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"FilePart({self.paths[0]}{more})"


def read_parts(path, *, files_per_part=1, **options):
    r"""Make parts of files that hold whole bags, such as partitioned parquet.

    Nothing is read here: each worker reads the files of its own parts, so that they
    must lie where all of them can reach them.

    Parameters
    ----------
    path : str, path, or sequence of these
        A folder (all files below it whose names do not begin with a dot or an
        underscore), a pattern such as ``"bags/*.parquet"``, or the files themselves.
    files_per_part : int, default=1
        How many files make a part; more where files are small.
    **options
        Of :func:`bagwise.read_bags`: `bag`, `label`, `features`, `weight`, ...

    Returns
    -------
    list
        The parts, in the order of the names of the files.

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
