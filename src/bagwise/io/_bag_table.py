"""Two tables: one row per instance, and one row per bag, joined by the name of the bag.

The columns of the table of bags are repeated for every instance. They may be features,
labels, groups and weights, and pass the same checks as all other columns.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import DataError, DataWarning
from bagwise.io.folder import name_of
from bagwise.io.problems import Problems, check_on_missing
from bagwise.io.roles import Roles
from bagwise.io.table import Column, Table


def with_bag_features(
    read: Callable[[Roles], Table], bag_features: Any, roles: Roles, on_missing: str
) -> Table:
    """Return the table of instances with the columns of their bags.

    Parameters
    ----------
    read : callable
        Returns the table of instances, given the roles of its columns.
    bag_features : path or data frame
        The table with one row per bag.
    roles : Roles
        Roles of columns of both tables.
    on_missing : {"error", "drop"}
        What happens to bags without a row.
    """
    check_on_missing(on_missing)
    of_bags = _open(bag_features, roles)
    others = {*of_bags.names} - {roles.bag}
    table = read(roles.without(others))
    both = [name for name in table.names if name in others]
    if both:
        raise DataError(
            f"{of_bags.source}: {', '.join(map(repr, both))} in both tables",
            "Rename one of them in one table.",
            columns=both,
        )
    rows = _rows_of_instances(table, of_bags, roles, on_missing)
    kept = np.flatnonzero(rows >= 0)
    if not kept.size:
        raise DataError(f"{of_bags.source}: has no row for any bag of {table.source}")

    def column(name: Any) -> Column:
        if name in others:
            found, places = of_bags.column(name), rows[kept]
        else:
            found, places = table.column(name), kept
        return replace(found, values=found.values[places])

    return replace(
        table,
        names=[*table.names, *(n for n in of_bags.names if n in others)],
        n_rows=len(kept),
        column=column,
        where=lambda row: table.where(int(kept[row])),
        bag_features=[str(name) for name in of_bags.names if name in others],
    )


def _open(bag_features: Any, roles: Roles) -> Table:
    """Return the table of bags; its roles are known when its columns are."""
    if not isinstance(bag_features, str | os.PathLike):
        from bagwise.io._columns import frame_table

        table = frame_table(bag_features, "bag_features")
        roles.only(table.names).check_names(table.names, table.source)
        return table
    path = Path(bag_features)
    if path.suffix.lower() in (".parquet", ".pq", ".xlsx"):
        from bagwise.io.formats import read_parquet, read_xlsx

        table = (read_xlsx if path.suffix.lower() == ".xlsx" else read_parquet)(path)
        roles.only(table.names).check_names(table.names, table.source)
        return table
    from bagwise.io.csv_files import csv_header, read_csv

    return read_csv(path, roles.only(csv_header(path)), of_bags=True)


def _rows_of_instances(
    table: Table, of_bags: Table, roles: Roles, on_missing: str
) -> Any:
    """Return the row in the table of bags for every instance, or -1."""
    problems = Problems(of_bags.source)
    known: dict[str, int] = {}
    for row, value in enumerate(of_bags.column(roles.bag).values.tolist()):
        name = name_of(value)
        if name in known or not name:
            kind = "two rows of one bag" if name else "without the name of the bag"
            problems.add(kind, f"{name!r} in {of_bags.where(row)}")
            continue
        known[name] = row
    names = [name_of(v) for v in table.column(roles.bag).values.tolist()]
    different = dict.fromkeys(names)
    for name in different:
        if name and name not in known:
            problems.add("no row for the bag", repr(name))
    problems.report(on_missing)
    unused = [name for name in known if name not in different]
    if unused:
        text = f"{of_bags.source}: {len(unused)} rows belong to bags without instances "
        text += f"and are not used, such as {unused[0]!r}"
        warnings.warn(DataWarning(text), stacklevel=6)
    # Instances without a bag id are reported later.
    return np.array([known.get(name, -1) if name else 0 for name in names])
