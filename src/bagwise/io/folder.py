"""A folder with one file of features per bag, and a table with the labels."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.exceptions import (
    DataError,
    DataWarning,
    UnknownColumnError,
)
from bagwise.io._row_cache import Stacked, problem_of, stacked_rows
from bagwise.io._slides import SUFFIXES, SlideFile, files_kept_open, look_at
from bagwise.io.files import label_values
from bagwise.io.problems import Problems, check_on_missing
from bagwise.io.roles import Roles, join_targets, which_excluded
from bagwise.io.table import Table, is_missing

_SHEETS = (".xls", ".ods")
_EXCLUDED = -2
_NO_LABEL = "no label for the file of"
# If some files are invalid, the rows of others are checked up to this many bytes.
_CHECKED_BYTES = 2 * 10**9


def read_folder(
    folder: Path,
    roles: Roles,
    *,
    labels: Any = None,
    dataset: str | None = None,
    pool: str | None = None,
    on_missing: str = "error",
    cache: str | os.PathLike[str] | None | bool = None,
    others: bool = True,
) -> Any:
    """Read a folder of features; see `read_bags`.

    Without `others`, files that the table does not name are ignored without a warning.
    """
    check_on_missing(on_missing)
    problems = Problems(str(folder))
    paths = _files(folder, problems)
    table = None
    if labels is not None:
        table, pool = label_table(labels, roles, pool)
    if table is None and (roles.targets or roles.group or roles.weight or pool):
        raise DataError(
            f"{folder}: labels and groups are in a separate table with one row per "
            "slide",
            "Give it with {0}.",
            ("labels", ...),
        )
    rows = match_rows(paths, table, roles, pool, problems)
    if not others:
        problems.kinds.pop(_NO_LABEL, None)
    with files_kept_open():
        files = _look(rows, paths, dataset, problems)
        if problems.kinds and on_missing == "error":
            _check_rows(files, roles.missing, problems)
            problems.report(on_missing)
        files = _in_order(files, table, rows, pool)
        if not files:
            problems.report(on_missing)
            raise DataError(f"{folder}: no slide is left")
        stacked = _stacked(files, cache, roles.missing, folder)
    for name, problem in stacked.wrong.items():
        problems.add("invalid", f"{name!r} {problem}")
    problems.report(on_missing)
    files = [f for f in files if f.name not in stacked.wrong]
    if not files:
        raise DataError(f"{folder}: no slide is left")
    without = [repr(f.name) for f in files if f.coords is None]
    if 0 < len(without) < len(files):
        lacking = Problems(str(folder), {"no coordinates in the file of": without})
        text = f"{folder}: coordinates are ignored: {lacking.describe()}"
        warnings.warn(DataWarning(text), stacklevel=3)
    return _assemble(stacked, files, table, rows, roles, pool)


def _stacked(files: list[SlideFile], cache: Any, missing: str, folder: Path) -> Stacked:
    try:
        return stacked_rows(files, cache, missing)
    except ValueError as error:  # they do not fit into memory or on the disk
        raise DataError(f"{folder}: {error}") from None


def _files(folder: Path, problems: Problems) -> dict[str, Path]:
    """Return the files by the names of their slides."""
    found: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()):
        suffix = entry.suffix.lower()
        if suffix not in SUFFIXES or entry.name.startswith("."):
            continue
        name = entry.name[: -len(suffix)]
        try:
            name.encode()
        except UnicodeEncodeError:
            problems.add("the name of the file is not UTF-8", ascii(entry.name))
            continue
        if name in found:
            problems.add("two files of one slide", f"{found[name].name}, {entry.name}")
            continue
        found[name] = entry
    if not found:
        problems.report("error")
        problem = f"{folder}: there is no file of features in it"
        if any(entry.name.endswith((".tsv", ".tsv.gz")) for entry in folder.iterdir()):
            remedy = "If the .tsv files are immune repertoires (AIRR), set {0}."
            raise DataError(problem, remedy, ("format", "airr"))
        raise DataError(f"{problem} ({', '.join(SUFFIXES)})")
    return found


def label_table(
    labels: Any, roles: Roles, pool: str | None, more: tuple[str, ...] = ()
) -> tuple[Table, str | None]:
    """Open the table of labels, one row per slide; find the column to pool by.

    Of a CSV file, only the columns with a role are read, and `more`.
    """
    if isinstance(labels, str | os.PathLike):
        path = Path(labels)
        if path.suffix.lower() in _SHEETS:
            raise DataError(
                f"{path}: xlsx is the only spreadsheet format that is read",
                "Save the sheet as xlsx or csv and give that with {0}.",
                ("labels", ...),
            )
        if path.suffix.lower() in (".parquet", ".pq"):
            from bagwise.io.formats import read_parquet

            table = read_parquet(path)
        elif path.suffix.lower() == ".xlsx":
            from bagwise.io.formats import read_xlsx

            table = read_xlsx(path)
        else:
            from bagwise.io.csv_files import read_csv

            table = read_csv(path, roles, more=(*_spellings(pool), *more))
    else:
        from bagwise.io._columns import frame_table

        table = frame_table(labels, "labels")
    roles.check_names(table.names, table.source)
    found = [name for name in _spellings(pool) if name in table.names]
    if pool is not None and not found:
        raise UnknownColumnError(
            f"{table.source}: there is no column {pool!r} to pool by; the table has "
            + ", ".join(map(repr, list(table.names)[:20])),
            columns=[pool],
        )
    return table, found[0] if found else None


def _spellings(pool: str | None) -> tuple[str, ...]:
    """Return the possible names: "patient" also finds "patient_id"."""
    return () if pool is None else (pool, f"{pool}_id")


def match_rows(
    paths: dict[str, Path],
    table: Table | None,
    roles: Roles,
    pool: str | None,
    problems: Problems,
    what: tuple[str, str] = ("slide", "file"),
) -> dict[str, int]:
    """Return the row of the table for every slide that has one, in its order.

    `what` says what the names are of, for messages.
    """
    if table is None:
        return {name: i for i, name in enumerate(paths)}
    names = [_slide_name(v, paths) for v in table.column(roles.bag).values.tolist()]
    unlabeled = np.zeros(table.n_rows, dtype=bool)
    for target in roles.targets.values():  # a time without an event is no label
        values = table.column(target).values
        unlabeled |= np.array([is_missing(v) for v in values.tolist()], dtype=bool)
    excluded = np.zeros(table.n_rows, dtype=bool)
    if roles.exclude_label and roles.label is not None:
        values = table.column(roles.label).values
        excluded = which_excluded(values, roles.exclude_label, table.source)
    rows: dict[str, int] = {}
    for row, name in enumerate(names):
        if name in rows:
            place = f"{name!r} in {table.where(row)}"
            problems.add(f"two rows of one {what[0]}", place)
        elif excluded[row]:
            rows[name] = _EXCLUDED
        elif unlabeled[row]:
            rows[name] = -1
        elif name not in paths:
            problems.add(f"no {what[1]} for the label of", repr(name))
        else:
            rows[name] = row
    for name in paths:
        if rows.get(name, -1) == -1:
            problems.add(f"no label for the {what[1]} of", repr(name))
    rows = {name: row for name, row in rows.items() if row >= 0}
    # Slides of unknown patients must not be merged into one patient.
    for column in dict.fromkeys((roles.group, pool, roles.weight)):
        if column is None:
            continue
        values = table.column(column).values
        for name in [n for n, row in rows.items() if is_missing(values[row])]:
            problems.add(f"no {column} for the {what[0]}", repr(name))
            del rows[name]
    return rows


def _slide_name(value: Any, paths: dict[str, Path]) -> str:
    """Find the slide of a cell, which holds its name or the name of a file of it."""
    name = name_of(value)
    if name not in paths and "." in name:
        # "a.svs" in the table is the slide of "a.h5" in the folder.
        front = name.rsplit(".", 1)[0]
        return front if front in paths else name
    return name


def name_of(value: Any) -> str:
    """Return a cell as a name; missing cells turn whole numbers into floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if is_missing(value) else str(value).strip()


def _look(
    rows: dict[str, int],
    paths: dict[str, Path],
    dataset: str | None,
    problems: Problems,
) -> list[SlideFile]:
    """Read the sizes of all files, and report those that cannot be used."""
    found = []
    for name in rows:
        try:
            file = look_at(paths[name], name, dataset)
        except ImportError:
            raise
        # Libraries report truncated files with errors of many kinds.
        except Exception as error:
            problems.add("cannot be read", f"{name!r} ({str(error)[:300]})")
            continue
        if file.n_rows == 0:
            problems.add("without rows", repr(name))
            continue
        found.append(file)
    found = _of_usual_width(found, "width", [f.n_features for f in found], problems)
    # Files without coordinates do not make those of other files invalid.
    placed = [f for f in found if f.coords is not None]
    kept = _of_usual_width(
        placed, "number of coordinates", [f.n_coords for f in placed], problems
    )
    odd = {f.name for f in placed} - {f.name for f in kept}
    return [f for f in found if f.name not in odd]


def _of_usual_width(
    files: list[SlideFile], what: str, widths: list[int], problems: Problems
) -> list[SlideFile]:
    """Keep the files of the most frequent width, and report the others."""
    if len(set(widths)) < 2:
        return files
    values, counts = np.unique(widths, return_counts=True)
    usual = int(values[counts.argmax()])
    for file, width in zip(files, widths, strict=True):
        if width != usual:
            problems.add(
                f"another {what} than the usual {usual}", f"{file.name!r} has {width}"
            )
    return [f for f, width in zip(files, widths, strict=True) if width == usual]


def _check_rows(files: list[SlideFile], missing: str, problems: Problems) -> None:
    """Report problems of rows as well, so that all can be corrected at once.

    If that would take long, only report that it was not done.
    """
    if sum(f.n_rows * f.n_features * f.dtype.itemsize for f in files) > _CHECKED_BYTES:
        problems.add("not yet checked for NaN", f"the rows of {len(files)} slides")
        return
    for file in files:
        problem = problem_of(file, missing)
        if problem:
            problems.add("invalid", f"{file.name!r} {problem}")


def _in_order(
    files: list[SlideFile], table: Table | None, rows: dict[str, int], pool: str | None
) -> list[SlideFile]:
    """Put slides that are pooled next to each other, in order of first appearance."""
    if pool is None or table is None:
        return files
    values = table.column(pool).values
    owners = [name_of(values[rows[f.name]]) for f in files]
    place = {owner: i for i, owner in reversed(list(enumerate(owners)))}
    order = sorted(range(len(files)), key=lambda i: (place[owners[i]], i))
    return [files[i] for i in order]


def _assemble(
    stacked: Stacked,
    files: list[SlideFile],
    table: Table | None,
    rows: dict[str, int],
    roles: Roles,
    pool: str | None,
) -> Any:
    sizes = np.array([f.n_rows for f in files])
    names = np.array([f.name for f in files], dtype=object)
    more: dict[str, Any] = {}
    if stacked.coords is not None:
        more["coords"] = stacked.coords
    instance_ids = stacked.names
    first, ids = np.arange(len(files)), names
    if table is not None and pool is not None:
        owners = table.column(pool).values[[rows[n] for n in names]]
        kept: dict[str, int] = {}
        for i, owner in enumerate(owners.tolist()):
            kept.setdefault(name_of(owner), i)
        first = np.array(list(kept.values()))
        ids = np.array(list(kept), dtype=object)
        if instance_ids is None:
            instance_ids = np.repeat(names, sizes)
        sizes = np.add.reduceat(sizes, first)
    if instance_ids is not None:
        more["instance_ids"] = instance_ids
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    of_bags = None
    if table is not None:
        order = [rows[n] for n in names]
        of_bags = bag_annotations(table, order, roles, first, names, ids)
        if of_bags.groups is not None:
            more["groups"] = of_bags.groups
    X = Bags(stacked.rows, offsets, ids=ids, **more)
    if of_bags is None:
        return X, None
    return (X, of_bags.y) if roles.weight is None else (X, *of_bags[:2])


class Annotations(NamedTuple):
    """Labels, weights and groups of bags; None if they were not asked for."""

    y: npt.NDArray[Any] | None
    weight: npt.NDArray[Any] | None
    groups: npt.NDArray[Any] | None


def bag_annotations(
    table: Table,
    rows: list[int],
    roles: Roles,
    first: npt.NDArray[Any],
    names: npt.NDArray[Any],
    ids: npt.NDArray[Any],
) -> Annotations:
    """Return what a table says of bags, one or several rows of which make a bag.

    `rows` are those of the slides `names`; a bag begins at each position in `first`.
    """
    found: dict[str, Any] = {"group": None, "weight": None}
    wanted = {**roles.targets, "group": roles.group, "weight": roles.weight}
    for part, column in wanted.items():
        if column is not None:
            values = table.column(column).values[rows]
            _refuse_mixed(values, first, names, ids, part, table)
            found[part] = values[first]
    labels = {p: as_labels(found[p], table.from_text) for p in roles.targets}
    if found["weight"] is not None:
        found["weight"] = np.asarray(found["weight"], dtype=np.float64)
    y = join_targets(labels, table.source)
    return Annotations(y, found["weight"], found["group"])


def _refuse_mixed(
    values: npt.NDArray[Any],
    first: npt.NDArray[Any],
    names: npt.NDArray[Any],
    ids: npt.NDArray[Any],
    part: str,
    table: Table,
) -> None:
    """Refuse pooled slides that differ in what a bag has one of."""
    bounds = np.append(first, len(values))
    for i, (low, high) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        different = [j for j in range(low, high) if values[j] != values[low]]
        if different:
            j = different[0]
            raise DataError(
                f"{table.source}: the slides of {ids[i]!r} have different values of "
                f"the {part}: {names[low]!r} has {values[low]}, {names[j]!r} has "
                f"{values[j]}; a bag has one",
                bag=ids[i],
            )


def as_labels(values: npt.NDArray[Any], from_text: bool) -> npt.NDArray[Any]:
    """Infer the type of labels, after the rows without one were removed."""
    if values.dtype.kind != "O" or not all(isinstance(v, str) for v in values):
        return values
    found = label_values(values.tolist()) if from_text else values
    return found.astype(str) if found.dtype == object else found
