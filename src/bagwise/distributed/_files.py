"""Parts from files; every part is read by the worker that needs it."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.io import read_bags
from bagwise.io.folder import as_labels, label_table, name_of, read_folder
from bagwise.io.roles import Roles
from bagwise.io.table import is_missing


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
    table : dict
        The columns of the table of labels, for these slides.
    roles : Roles
        Which column plays which part.
    options : dict
        `dataset` and `pool`, as in `read_bags`.
    """

    named = True

    def __init__(
        self, folder: str, table: dict[str, Any], roles: Roles, options: dict[str, Any]
    ) -> None:
        self.folder = folder
        self.table = table
        self.roles = roles
        self.options = options

    def __call__(self) -> Any:
        """Read these slides; files of other parts are ignored."""
        import pandas as pd

        return read_folder(
            Path(self.folder),
            self.roles,
            labels=pd.DataFrame(self.table).infer_objects(),
            cache=False,
            others=False,
            **self.options,
        )

    def __repr__(self) -> str:
        """Show the number of slides."""
        n_slides = len(self.table[self.roles.bag])
        return f"SlidePart({self.folder}, {n_slides} slides)"


def read_parts(path, *, labels=None, files_per_part=1, **options):
    r"""Make parts of files that hold whole bags, or of a folder of slides.

    Only the table of labels is read here. Each worker reads the files of its own
    parts, so all workers need access to the files.

    Parameters
    ----------
    path : str, path, or sequence of these
        A folder (all files below it whose names do not begin with a dot or an
        underscore, such as partitioned parquet), a pattern such as
        ``"bags/*.parquet"``, or the files themselves.
    labels : DataFrame, str or path, default=None
        With a folder that holds one file of features for each bag (slides): the table,
        or the csv or parquet file, with one row per slide. `bag` and `label` then
        name its columns, as in :func:`bagwise.read_bags`.
    files_per_part : int, default=1
        Number of files, or slides, per part; use more when they are small. Slides
        that `pool` joins stay in one part.
    **options
        Of :func:`bagwise.read_bags`: `bag`, `label`, `features`, `weight`, ... With
        `labels`: `bag`, `label`, `group`, `weight`, `missing`, `dataset` and `pool`.

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
    if options.get("pos_label") is not None:
        raise ValueError(
            "read_parts takes no pos_label, as a part does not know the labels of the "
            "others. Pass pos_label to the estimator."
        )
    if labels is not None:
        return _slide_parts(os.fspath(path), labels, files_per_part, options)
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
        raise ValueError(
            f"{path}: no files found. Name a folder, a pattern or the files."
        )
    return sorted(found)


def _slide_parts(folder, labels, slides_per_part, options):
    """Split the table of labels, which is read as `read_bags` reads it, into parts."""
    folder_options = {name: options.pop(name, None) for name in ("dataset", "pool")}
    unknown = set(options) - {"bag", "label", "group", "weight", "missing"}
    if unknown:
        raise TypeError(
            "parts of a folder of slides take bag, label, group, weight, missing, "
            f"dataset and pool, not {', '.join(sorted(unknown))}."
        )
    roles = Roles.of(**options)
    table, pool = label_table(labels, roles, folder_options["pool"])
    folder_options["pool"] = pool
    columns = {}
    for name in dict.fromkeys((*roles.used(), pool)):
        if name is not None:
            columns[name] = table.column(name).values.astype(object)
    if roles.label is not None:
        # Whether labels are numbers or words is decided for all parts together.
        there = np.array([not is_missing(v) for v in columns[roles.label]])
        known = as_labels(columns[roles.label][there], table.from_text)
        columns[roles.label][there] = known.tolist()
    groups = _split_rows(
        None if pool is None else columns[pool], table, slides_per_part
    )
    return [
        SlidePart(
            folder, {n: v[rows] for n, v in columns.items()}, roles, folder_options
        )
        for rows in groups
    ]


def _split_rows(owners, table, slides_per_part):
    """Return the rows of each part; slides that are pooled share a part."""
    together: dict[Any, list[int]] = {}
    for row in range(table.n_rows):
        owner = row if owners is None else name_of(owners[row])
        together.setdefault(owner, []).append(row)
    parts, current = [], []
    for rows in together.values():
        current = current + rows
        if len(current) >= slides_per_part:
            parts.append(current)
            current = []
    return [*parts, current] if current else parts
