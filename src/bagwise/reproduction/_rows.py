"""Rows of the CSV file of a reproduced table: figures, settings, provenance."""

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
from bagwise.comparison.fingerprint import fingerprint
from bagwise.reproduction._tables import Cell, Table
from bagwise.reproduction._verdicts import Measured, cause_of

__all__ = ["Row", "csv_rows", "keep_earlier", "read_rows"]

Row = Mapping[str, Any]
FEWER = ", as fewer repeats would change the verdict"
OTHER_GRID = ", with the grid of that time"
VERSIONS = ("python", "bagwise", "numpy", "scipy", "scikit-learn", "numba")
# Until these days the classes had no threshold, or zero by default, and cut there.
# Tables name the cut since.
CUT_AT_ZERO = dict.fromkeys(
    "MISVM MiSVM MICA MissSVM PCSVM RegSVM SMIL STMIL SBMIL KISVM".split(),
    "2026-11-16 11:59 UTC",
)
CUT_AT_ZERO["BoxKernelSVC"] = "2026-11-18 02:46 UTC"


def csv_rows(
    table: Table, cells: Sequence[Measured], command: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Return one row a cell, with everything needed to make it again.

    `command` tells how a cell is measured so many times.
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
        "low": _number(item.low),
        "high": _number(item.high),
        "difference": _number(item.difference),
        "best_cut": _number(item.best_cut),
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
    method = item.cell.method
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
        "stale": item.n_stale,
        "kept": "",
        "code": "" if method is None else fingerprint(method.spec()),
        "seed": item.seed if done else "",
        "data_hash": item.data_hash,
        "finished": day,
        **{name: item.versions.get(name, "") for name in VERSIONS},
    }


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def keep_earlier(rows: Sequence[Row], earlier: Sequence[Row]) -> list[Row]:
    """Fill cells that have not been run with earlier figures of the same measurement.

    The same: method, parameters, scaling, data and protocol have not changed since, and
    neither has the printed figure. One by other code than today's is marked with its
    day. A figure of another grid is kept with its grid and marked; so is one that fewer
    repeats than its own would judge otherwise: fewer repeats have wider standard
    errors, and reach what more do not. A cell that the store has from other code is
    stale and stays so. An optimistic figure that is new is put beside an earlier one of
    the same grid: it belongs to the same folds.
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
        untouched = row["measured"] == "" and not int(row["stale"])
        if old is None or old["measured"] == "" or not _is_set_alike(row, old):
            kept.append(row)
            continue
        if untouched or _is_weaker(row, old):
            texts = {key: row[key] for key in ("title", "note", "table_note")}
            other = str(row["grid"]) != str(old["grid"])
            looked = "" if other else str(row["optimistic"])
            since = _since(old, row["code"], other=other, fewer=not untouched)
            row = {key: old.get(key, "") for key in row} | texts
            if looked:
                row |= {"optimistic": looked, "cause": _cause(row, looked)}
            # Stale runs were those of another store.
            row |= {"kept": since, "stale": 0}
        kept.append(row)
    return kept


def _is_set_alike(row: Row, old: Row) -> bool:
    """Tell whether a row has the settings of an earlier one.

    What only the earlier one names must be today's default. What only today's names may
    have had another default then, which is why tables name it.
    """
    new, before = _fixed(row), _fixed(old)
    if isinstance(new, str) or isinstance(before, str):
        return new == before
    usual = _defaults(str(row["estimator"]))
    return before == {name: usual[name] for name in before if name in usual} | new


def _fixed(row: Row) -> dict[str, Any] | str:
    """Return the parameters of a row that its grid does not set anew.

    A class that cut at zero when the figure was made is taken to have named it.
    """
    params, grid = (_literal(str(row.get(key) or "{}")) for key in ("params", "grid"))
    if isinstance(params, str):
        return params
    until = CUT_AT_ZERO.get(str(row["estimator"]).rpartition(".")[2], "")
    if "" < str(row.get("finished") or "") < until:
        params = {"threshold": "zero"} | params
    tuned = {} if isinstance(grid, str) else grid
    return {name: value for name, value in params.items() if name not in tuned}


def _literal(text: str) -> Any:
    """Read a value; the text where it is no literal, as with infinity in it."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


def _defaults(path: str) -> dict[str, Any]:
    """Return the defaults of a class; none if it is not there any more."""
    try:
        parts = inspect.signature(import_name(path)).parameters
    except (ImportError, ValueError, TypeError):
        return {}
    return {name: part.default for name, part in parts.items()}


def _since(old: Row, code: str, *, other: bool, fewer: bool) -> str:
    """Say since when a figure stands; nothing where today's code has made it."""
    if old.get("code") and old["code"] == code and not other and not fewer:
        return ""
    day = str(old.get("finished") or "")[:10] or f"bagwise {old['bagwise']}"
    return day + FEWER * fewer + OTHER_GRID * (other and not fewer)


def _is_weaker(row: Row, old: Row) -> bool:
    """Tell whether fewer repeats than before would change a verdict."""
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
