"""Published tables: the printed figures, and how they are re-run.

One TOML file per table in ``studies/papers``. Rows are methods of the paper, and
columns are data sets; a cell is the printed figure and the settings of the re-run.
Settings that a row or a cell does not give are those of the table, or of the method's
entry in the catalog.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bagwise.comparison import Method
from bagwise.comparison.choose import find_method
from bagwise.comparison.description import Spec
from bagwise.datasets import available
from studies.paper_sets import SCALED, is_simulated
from studies.schemes import Scheme, parse_scheme

__all__ = ["Cell", "Table", "list_tables", "load_table", "parse_table"]

PAPERS = Path(__file__).parent / "papers"
METRICS = ("accuracy", "auroc", "key_success", "ari", "seconds")
UNITS = {"fraction": 1.0, "percent": 100.0, "seconds": 1.0}
_TABLE_KEYS = {
    "name",
    "paper",
    "where",
    "title",
    "metric",
    "unit",
    "error",
    "repeats",
    "protocol",
    "inner_splits",
    "scoring",
    "notes",
    "columns",
    "rows",
}
_COLUMN_KEYS = {
    "label",
    "dataset",
    "metric",
    "unit",
    "protocol",
    "repeats",
    "redraw",
    "note",
    "not_comparable",
}
_HOW_KEYS = {
    "method",
    "name",
    "estimator",
    "then",
    "params",
    "grid",
    "scale",
    "reduce",
    "note",
    "not_comparable",
    "skip",
    "scaled_on_all_bags",
    "explains",
    "quoted",
}
_ROW_KEYS = {"label", "values", "std", "cells", *_HOW_KEYS}


@dataclass(frozen=True)
class Cell:
    """One figure of a table, and how it is re-run.

    Parameters
    ----------
    row, column : str
        Labels, as printed.
    published, std : float
        The printed figure and its spread in the unit of the table; NaN where there is
        none.
    dataset : str
        Name for `as_problem`; empty if the data are not available.
    method : Method or None
        An entry of the catalog with the paper's parameters.
    metric, unit : str
        What is measured, and the unit of both figures.
    lower : bool
        Whether smaller is better.
    error : bool
        Whether the figure is one minus the metric.
    scheme : Scheme
        Splits, and the runs of one repeat: folds, random halves or draws of the data.
    repeats : int
        Repeats of the paper.
    tuning : dict or None
        Inner cross-validation.
    note : str
        Likely reason of a difference, or another remark.
    not_comparable : str
        Why the two figures cannot be compared; empty if they can.
    skip : str
        Why the cell is not run; empty if it is.
    explains : str
        The row of which this one is a variant, and what differs, as "row: reason".
        Where the row is not reached and the variant reaches its figure, the reason is
        given on the page.
    quoted : str
        The paper from which the printed figure seems to be quoted; empty if from none.
    """

    row: str
    column: str
    published: float
    std: float
    dataset: str
    method: Method | None
    metric: str
    unit: str
    lower: bool
    error: bool
    scheme: Scheme
    repeats: int
    tuning: dict[str, Any] | None
    note: str = ""
    not_comparable: str = ""
    skip: str = ""
    explains: str = ""
    quoted: str = ""

    @property
    def scoring(self) -> str:
        """What an optimistic choice would maximize; empty where nothing is tuned."""
        names = {"accuracy": "accuracy", "auroc": "roc_auc"}
        return "" if self.tuning is None else names.get(self.metric, "")

    @property
    def runnable(self) -> bool:
        """Whether the cell can be measured."""
        return bool(self.dataset) and self.method is not None and not self.skip


@dataclass(frozen=True)
class Table:
    """A published table, cell by cell."""

    name: str
    paper: str
    where: str
    title: str
    notes: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...] = field(repr=False)

    def cell(self, row: str, column: str) -> Cell:
        """Return the cell of two labels."""
        for cell in self.cells:
            if cell.row == row and cell.column == column:
                return cell
        raise KeyError(f"{row} / {column}")


def list_tables() -> list[str]:
    """Return the names of the tables that can be reproduced.

    Examples
    --------
    >>> "safe-table3" in list_tables()
    True
    """
    return sorted(path.stem for path in PAPERS.glob("*.toml"))


def load_table(name: str) -> Table:
    """Read a table by its name.

    Parameters
    ----------
    name : str
        One that `list_tables` gives.

    Returns
    -------
    Table
        Cell by cell.
    """
    known = list_tables()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(
            f"unknown table {name!r}; {hint} see `python -m studies reproduce --list`"
        )
    text = (PAPERS / f"{name}.toml").read_text(encoding="utf-8")
    table = parse_table(tomllib.loads(text))
    if table.name != name:
        raise ValueError(f"{name}.toml contains the table {table.name!r}")
    return table


def parse_table(values: Mapping[str, Any]) -> Table:
    """Check the content of a file and return the table it describes.

    Raises
    ------
    ValueError
        An entry is missing, unknown or of the wrong size.
    """
    name = str(values.get("name", "?"))
    _only(values, _TABLE_KEYS, name)
    for key in ("name", "paper", "where", "title", "metric", "unit", "protocol"):
        if key not in values:
            raise ValueError(f"{name}: {key} is missing")
    columns, rows = values.get("columns", []), values.get("rows", [])
    if not columns or not rows:
        raise ValueError(f"{name}: a table needs columns and rows")
    for column in columns:
        _only(column, _COLUMN_KEYS, f"{name}, column {column.get('label', '?')}")
    cells = []
    for row in rows:
        where = f"{name}, row {row.get('label', '?')}"
        _only(row, _ROW_KEYS, where)
        printed = _figures(row, "values", len(columns), where)
        spread = _figures(row, "std", len(columns), where)
        special = row.get("cells", {})
        labels = [column["label"] for column in columns]
        for label, own in special.items():
            if label not in labels:
                raise ValueError(f"{where}: no column is called {label!r}")
            _only(own, _HOW_KEYS, f"{where}, {label}")
        for column, value, std in zip(columns, printed, spread, strict=True):
            own = special.get(column["label"], {})
            cells.append(_cell(values, column, row, own, value, std))
    return Table(
        name,
        values["paper"],
        values["where"],
        values["title"],
        values.get("notes", ""),
        _unique([row["label"] for row in rows], name),
        _unique([column["label"] for column in columns], name),
        tuple(cells),
    )


def _cell(
    table: Mapping[str, Any],
    column: Mapping[str, Any],
    row: Mapping[str, Any],
    own: Mapping[str, Any],
    published: float,
    std: float,
) -> Cell:
    where = f"{table['name']}, {row['label']} / {column['label']}"
    how = {**row, **own}
    metric = column.get("metric", table["metric"])
    unit = column.get("unit", table["unit"])
    if metric not in METRICS:
        raise ValueError(f"{where}: unknown metric {metric!r}")
    if unit not in UNITS:
        raise ValueError(f"{where}: unknown unit {unit!r}")
    _check_range(published, metric, unit, where)
    error = bool(table.get("error", False)) and metric != "seconds"
    repeats = int(column.get("repeats", table.get("repeats", 1)))
    split = column.get("protocol", table["protocol"])
    method = _method(how, where)
    tuning = None
    if method is not None and method.grid:
        scoring = table.get("scoring", "roc_auc" if metric == "auroc" else "accuracy")
        tuning = {"n_splits": table.get("inner_splits", 3), "scoring": scoring}
    reasons = [column.get("not_comparable", ""), how.get("not_comparable", "")]
    if math.isnan(published):
        reasons.append("no figure is printed")
    notes = [column.get("note", ""), how.get("note", "")]
    dataset = column.get("dataset", "")
    if how.get("scaled_on_all_bags", False):
        dataset += SCALED
    return Cell(
        row["label"],
        column["label"],
        published,
        std,
        dataset,
        method,
        metric,
        unit,
        error or metric == "seconds",
        error,
        parse_scheme(split, where, redraw=bool(column.get("redraw", False))),
        repeats,
        tuning,
        " ".join(note for note in notes if note),
        "; ".join(reason for reason in reasons if reason),
        how.get("skip", ""),
        how.get("explains", ""),
        how.get("quoted", ""),
    )


def _method(how: Mapping[str, Any], where: str) -> Method | None:
    """Return the method of a cell: an entry of the catalog with the file's changes."""
    if "method" not in how and "estimator" not in how:
        return None
    if "method" in how:
        try:
            base = find_method(how["method"])
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    else:
        estimator = how["estimator"]
        params = dict(estimator.get("params", {}))
        base = Method(how["name"], estimator["class"], params)
    grid = how.get("grid", "default")
    return reduced(
        Method(
            how.get("name", base.name),
            base.path,
            {**base.params, **how.get("params", {})},
            base.grid_of(grid) if isinstance(grid, str) else dict(grid),
            then=how.get("then", base.then),
            scale=how.get("scale", base.scale),
            kind=base.kind,
        ),
        how.get("reduce"),
    )


def reduced(method: Method, size: int | None) -> Method:
    """Put a truncated SVD of the instances before a method that needs dense data."""
    if size is None:
        return method
    svd = {
        "class": "sklearn.decomposition.TruncatedSVD",
        "params": {"n_components": int(size)},
    }
    reduce: Spec = {
        "class": "bagwise.compose.OnInstances",
        "params": {"transformer": svd},
    }
    steps = [["reduce", reduce], ["model", method.spec()]]
    return Method(
        method.name,
        "sklearn.pipeline.Pipeline",
        {"steps": steps},
        {f"model__{key}": value for key, value in method.grid.items()},
        scale=method.scale,
        kind=method.kind,
    )


def _check_range(value: float, metric: str, unit: str, where: str) -> None:
    if math.isnan(value):
        return
    top = math.inf if metric == "seconds" else UNITS[unit]
    low = -UNITS[unit] if metric == "ari" else 0.0
    if not low <= value <= top:
        raise ValueError(f"{where}: {value:g} is outside {low:g} to {top:g}")


def _figures(row: Mapping[str, Any], key: str, n: int, where: str) -> list[float]:
    found = [float(value) for value in row.get(key, [math.nan] * n)]
    if len(found) != n:
        raise ValueError(f"{where}: {len(found)} {key} for {n} columns")
    return found


def _unique(labels: list[str], where: str) -> tuple[str, ...]:
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{where}: {label!r} occurs twice")
    return tuple(labels)


def _only(values: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"{where}: unknown {', '.join(unknown)}")


def known_dataset(name: str) -> bool:
    """Return whether a data set of a table is known by name."""
    name = name.removesuffix(SCALED)
    return name == "digits" or is_simulated(name) or name in available()
