"""Rows of the CSV file of a re-run table: figures, settings, provenance."""

from __future__ import annotations

import ast
import csv
import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise.comparison.description import import_name
from studies.tables import Cell, Table
from studies.verdicts import Measured, cause_of

__all__ = ["Row", "csv_rows", "keep_earlier", "read_rows"]

Row = Mapping[str, Any]
FEWER = ", as fewer repeats would change the verdict"
TEXTS = ("title", "note", "explains", "quoted", "table_note")
OTHER_GRID = ", with the grid of that day"
VERSIONS = ("python", "bagwise", "numpy", "scipy", "scikit-learn", "numba")


def csv_rows(
    table: Table, cells: Sequence[Measured], command: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Return one row per cell, with everything needed to measure it again.

    `command` returns the command that runs a number of repeats.
    """
    return [
        {
            "table": table.name,
            "paper": table.paper,
            "where": table.where,
            "title": table.title,
            "row": item.cell.row,
            "column": item.cell.column,
            **_figures(item),
            **_settings(item.cell),
            **_provenance(item),
            "command": command(item.repeats),
            "note": item.cell.note,
            "explains": item.cell.explains,
            "quoted": item.cell.quoted,
            "table_note": table.notes,
        }
        for item in cells
    ]


def _figures(item: Measured) -> dict[str, Any]:
    cell = item.cell
    return {
        "published": _number(cell.published),
        "published_std": _number(cell.std),
        "measured": _number(item.mean),
        "std_error": _number(item.std_error),
        "error_of": item.error_of,
        "low": _number(item.low),
        "high": _number(item.high),
        "difference": _number(item.difference),
        "best_threshold": _number(item.best_threshold),
        "optimistic": _number(item.optimistic),
        "cause": item.cause,
        "behind": str(item.behind).lower(),
        "verdict": item.verdict,
        "reason": item.reason,
        "metric": cell.metric,
        "unit": cell.unit,
        "lower_is_better": str(cell.lower).lower(),
    }


def _settings(cell: Cell) -> dict[str, Any]:
    method = cell.method
    tuning = "none"
    if cell.tuning is not None:
        tuning = f"{cell.tuning['n_splits']}-fold on {cell.tuning['scoring']}"
    return {
        "method": "" if method is None else method.name,
        "estimator": "" if method is None else method.path,
        "params": "" if method is None else str(method.params),
        "grid": "" if method is None else str(method.grid),
        "scale": "" if method is None else method.scale,
        "dataset": cell.dataset,
        "protocol": cell.scheme.describe(cell.dataset),
        "tuning": tuning,
        "paper_repeats": cell.repeats,
        "skipped": cell.skip,
    }


def _provenance(item: Measured) -> dict[str, Any]:
    done = not math.isnan(item.finished)
    day = (
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(item.finished)) if done else ""
    )
    return {
        "repeats": item.repeats,
        "runs": item.n_folds,
        "failed": item.n_failed,
        "cpu_seconds": f"{item.cpu_seconds:.1f}",
        "cpu_seconds_per_repeat": _number(item.cpu_per_repeat),
        "grid_ends": "; ".join(item.grid_ends),
        "kept": "",
        "seed": item.seed if done else "",
        "data_hash": item.data_hash,
        "finished": day,
        **{name: item.versions.get(name, "") for name in VERSIONS},
    }


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def keep_earlier(rows: Sequence[Row], earlier: Sequence[Row]) -> list[Row]:
    """Fill cells that have not been run with earlier figures of the same measurement.

    The method, its parameters, scaling, data, protocol and the printed figure must be
    the same. A figure that is kept is marked with the day of its measurement. One of
    another grid is kept with its grid and marked, and so is one of more repeats where
    fewer would change the verdict, because fewer repeats have wider standard errors.
    A new optimistic figure is added to an earlier one of the same grid, as it belongs
    to the same folds.
    """
    same = "row column published metric unit method scale dataset".split()
    same += ["protocol", "tuning"]

    def identity(row: Row) -> tuple[str, ...]:
        # Classes keep their names when their modules move.
        name = str(row["estimator"]).rpartition(".")[2]
        return name, *(str(row.get(key, "")) for key in same)

    known = {identity(row): row for row in earlier}
    kept = []
    for row in rows:
        old = known.get(identity(row))
        not_run = row["measured"] == ""
        if old is None or old["measured"] == "" or not _is_set_alike(row, old):
            kept.append(row)
            continue
        if not_run or _is_weaker(row, old):
            texts = {key: row[key] for key in TEXTS if key in row}
            other = str(row["grid"]) != str(old["grid"])
            looked = "" if other else str(row["optimistic"])
            day = str(old.get("finished") or "")[:10] or f"bagwise {old['bagwise']}"
            since = day + FEWER * (not not_run) + OTHER_GRID * (other and not_run)
            row = {key: old.get(key, "") for key in row} | texts
            if looked:
                row |= {"optimistic": looked, "cause": _cause(row, looked)}
            row["kept"] = since
        kept.append(row)
    return kept


def _is_set_alike(row: Row, old: Row) -> bool:
    """Return whether a row has the settings of an earlier one.

    A parameter that only the earlier row names must be at today's default. One that
    only today's row names may have had another default then.
    """
    new, before = _fixed(row), _fixed(old)
    if isinstance(new, str) or isinstance(before, str):
        return new == before
    usual = _defaults(str(row["estimator"]))
    return before == {name: usual[name] for name in before if name in usual} | new


def _fixed(row: Row) -> dict[str, Any] | str:
    """Return the parameters of a row that its grid does not override."""
    params, grid = (_literal(str(row.get(key) or "{}")) for key in ("params", "grid"))
    if isinstance(params, str):
        return params
    tuned = {} if isinstance(grid, str) else grid
    return {name: value for name, value in params.items() if name not in tuned}


def _literal(text: str) -> Any:
    """Return the value of a literal, or the text itself if it is none (infinity)."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def _defaults(path: str) -> dict[str, Any]:
    """Return the defaults of a class; none if the class does not exist any more."""
    try:
        parts = inspect.signature(import_name(path)).parameters
    except (ImportError, ValueError, TypeError):
        return {}
    return {name: part.default for name, part in parts.items()}


def _is_weaker(row: Row, old: Row) -> bool:
    """Return whether fewer repeats than before would change a verdict."""
    fewer = row["measured"] != "" and int(row["repeats"]) < int(old["repeats"])
    return fewer and row["verdict"] != old["verdict"]


def _cause(row: Row, optimistic: str) -> str:
    """Return why an earlier figure was not reached, given a new optimistic one."""
    if row["verdict"] != "not reached":
        return ""
    return cause_of(
        float(row["published"]),
        float(row["measured"]),
        float(optimistic),
        float(row["std_error"]),
        lower_is_better=row["lower_is_better"] == "true",
    )


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the CSV file of a table."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
