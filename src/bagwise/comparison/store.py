"""Results in one SQLite file, safe to kill and to share.

One row a run. The file is in write-ahead mode: every row is on disk as soon as its
run ends, a killed process loses at most the runs it was busy with, and several
processes may work on one file. A *claim* marks a run as being worked on, so that two
runners share the work instead of doing it twice; claims of dead runners expire.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bagwise.comparison.description import Run
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.fingerprint import fingerprint
from bagwise.comparison.keys import run_identity
from bagwise.comparison.one_run import Outcome

__all__ = ["Store", "StoreError"]

SCHEMA_VERSION = 3
CLAIM_SECONDS = 60.0
_METRIC_COLUMNS = tuple(METRICS)
_TIME_COLUMNS = ("fit_time", "tune_time", "predict_time")
COLUMNS = (
    "key",
    "identity",
    "code",
    "status",
    "method",
    "dataset",
    "repeat",
    "fold",
    "seed",
    *_METRIC_COLUMNS,
    *_TIME_COLUMNS,
    "peak_memory",
    "params",
    "grid_ends",
    "error",
    "traceback",
    "notes",
    "versions",
    "data_hash",
    "description",
    "finished",
    "host",
)
_REAL = {*_METRIC_COLUMNS, *_TIME_COLUMNS, "finished"}
_INTEGER = {"repeat", "fold", "seed", "peak_memory"}
_JSON = {"params", "grid_ends", "notes", "versions", "description"}
T = TypeVar("T")


class StoreError(RuntimeError):
    """The store cannot be used; everything finished before is still in it."""


class Store:
    """A file of results.

    Parameters
    ----------
    path : path
        The SQLite file; made when absent.
    timeout : float, default=30.0
        Seconds to wait for a file that another process is writing to.

    Examples
    --------
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "runs.sqlite")
    >>> with Store(path) as store:
    ...     len(store)
    0
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self.path = Path(path)
        self.owner = f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.timeout = timeout
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self.path,
                timeout=timeout,
                isolation_level=None,
                check_same_thread=False,
            )
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the store {self.path}: {error}") from error
        self._guard(self._prepare)

    def _prepare(self) -> None:
        db = self._db
        (version,) = db.execute("PRAGMA user_version").fetchone()
        self._refuse_foreign()
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        if version not in (0, SCHEMA_VERSION):
            raise StoreError(
                f"the store {self.path} has format {version}, this library reads"
                f" {SCHEMA_VERSION}; choose another file"
            )
        if version == SCHEMA_VERSION:
            self._add_metrics()
            return
        kinds = {name: "REAL" for name in _REAL} | {
            name: "INTEGER" for name in _INTEGER
        }
        columns = ", ".join(f"{name} {kinds.get(name, 'TEXT')}" for name in COLUMNS[1:])
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            f"CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, {columns},"
            " arrays BLOB)"
        )
        db.execute(
            "CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT,"
            " host TEXT, pid INTEGER, beat REAL)"
        )
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        db.execute("COMMIT")

    def _add_metrics(self) -> None:
        """Add columns of metrics that are younger than the store."""
        known = {row[1] for row in self._db.execute("PRAGMA table_info(runs)")}
        for name in _METRIC_COLUMNS:
            if name not in known:
                # Two processes may do so at the same time.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._db.execute(f"ALTER TABLE runs ADD COLUMN {name} REAL")

    def _refuse_foreign(self) -> None:
        """Refuse a file of another program before anything is written to it."""
        found = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {str(name) for (name,) in found}
        if tables <= {"runs", "claims"}:
            return
        shown = ", ".join(sorted(tables)[:5])
        raise StoreError(
            f"{self.path} is an SQLite file of another program (it has the tables"
            f" {shown}); choose another file"
        )

    def _guard(self, action: Callable[[], T]) -> T:
        """Do `action`; turn what SQLite says into one clear line."""
        try:
            return action()
        except sqlite3.Error as error:
            if self._db.in_transaction:
                try:
                    self._db.execute("ROLLBACK")
                except sqlite3.Error:
                    pass
            raise StoreError(self._explain(error)) from error

    def _explain(self, error: sqlite3.Error) -> str:
        text = str(error)
        kept = "; what was finished before is kept, run the same command to continue"
        if "full" in text or "disk I/O" in text:
            return f"no space left to write the store {self.path} ({text}){kept}"
        if "locked" in text or "busy" in text:
            return (
                f"the store {self.path} was locked by another program for"
                f" {self.timeout:g} s{kept}"
            )
        if "readonly" in text:
            return f"the store {self.path} is read-only{kept}"
        if "not a database" in text or "malformed" in text:
            return f"{self.path} is not a store of bagwise, or is damaged ({text})"
        return f"cannot use the store {self.path}: {text}"

    # Results -------------------------------------------------------------------

    def put(self, key: str, run: Run, outcome: Outcome) -> bool:
        """Write the result of a run and drop its claim.

        A finished run is never overwritten; a failed one is, by a later attempt.

        Parameters
        ----------
        key, run, outcome : str, Run, Outcome
            The run, and what came of it.

        Returns
        -------
        bool
            Whether the row was written.
        """
        row = _row(key, run, outcome)
        names = ", ".join((*COLUMNS, "arrays"))
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        sets = ", ".join(f"{name}=excluded.{name}" for name in (*COLUMNS[1:], "arrays"))

        def write() -> bool:
            self._db.execute("BEGIN IMMEDIATE")
            cursor = self._db.execute(
                f"INSERT INTO runs ({names}) VALUES ({marks}) ON CONFLICT(key) DO"
                f" UPDATE SET {sets} WHERE runs.status != 'ok'",
                row,
            )
            self._db.execute("DELETE FROM claims WHERE key = ?", (key,))
            self._db.execute("COMMIT")
            return cursor.rowcount > 0

        return self._guard(write)

    def status(self) -> dict[str, str]:
        """Return key -> "ok" or "failed" for every run in the store."""
        query = "SELECT key, status FROM runs"
        return dict(self._guard(lambda: self._db.execute(query).fetchall()))

    def rows(self, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of runs, without arrays.

        Parameters
        ----------
        keys : iterable of str, optional
            Those of these keys, in that order; all by default.

        Returns
        -------
        list of dict
            One row a run.
        """
        names = ", ".join(COLUMNS)
        query = f"SELECT {names} FROM runs"
        if keys is None:
            found = self._guard(
                lambda: self._db.execute(f"{query} ORDER BY rowid").fetchall()
            )
            return [_unpack(row) for row in found]
        keys = list(keys)
        by_key = {}
        for start in range(0, len(keys), 900):  # SQLite's limit of variables
            part = keys[start : start + 900]
            marks = ", ".join("?" * len(part))
            sql = f"{query} WHERE key IN ({marks})"
            for row in self._guard(lambda: self._db.execute(sql, part).fetchall()):  # noqa: B023
                by_key[row[0]] = row
        return [_unpack(by_key[key]) for key in keys if key in by_key]

    def arrays(self, key: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of one run.

        Parameters
        ----------
        key : str
            The run.

        Returns
        -------
        dict of ndarray
            Empty when there are none.
        """
        query = "SELECT arrays FROM runs WHERE key = ?"
        row = self._guard(lambda: self._db.execute(query, (key,)).fetchone())
        if row is None or row[0] is None:
            return {}
        with np.load(io.BytesIO(row[0]), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def __len__(self) -> int:
        """Return the number of rows."""
        query = "SELECT COUNT(*) FROM runs"
        return int(self._guard(lambda: self._db.execute(query).fetchone())[0])

    # Claims --------------------------------------------------------------------

    def claim(self, key: str, *, retry_failed: bool = False) -> str:
        """Try to mark a run as being worked on by this runner.

        Parameters
        ----------
        key : str
            The run.
        retry_failed : bool, default=False
            Whether a failed run may be claimed again.

        Returns
        -------
        str
            "mine"; "taken" when another live runner has it; "done" when its result is
            there, which another runner may have written since one last looked.
        """
        now = time.time()

        def take() -> str:
            self._db.execute("BEGIN IMMEDIATE")
            found = self._db.execute(
                "SELECT status FROM runs WHERE key = ?", (key,)
            ).fetchone()
            if found and not (retry_failed and found[0] == "failed"):
                self._db.execute("COMMIT")
                return "done"
            row = self._db.execute(
                "SELECT owner, host, pid, beat FROM claims WHERE key = ?", (key,)
            ).fetchone()
            free = row is None or row[0] == self.owner or _stale(row[1:], now)
            if free:
                self._db.execute(
                    "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                    (key, self.owner, platform.node(), os.getpid(), now),
                )
            self._db.execute("COMMIT")
            return "mine" if free else "taken"

        return self._guard(take)

    def beat(self) -> None:
        """Say that this runner is alive."""
        sql = "UPDATE claims SET beat = ? WHERE owner = ?"
        self._guard(lambda: self._db.execute(sql, (time.time(), self.owner)))

    def release(self, keys: Sequence[str] | None = None) -> None:
        """Give up claims of this runner.

        Parameters
        ----------
        keys : sequence of str, optional
            Which ones; all of them by default.
        """
        sql = "DELETE FROM claims WHERE owner = ?"
        if keys is None:
            self._guard(lambda: self._db.execute(sql, (self.owner,)))
            return
        for key in keys:
            values = (self.owner, key)
            self._guard(lambda: self._db.execute(f"{sql} AND key = ?", values))  # noqa: B023

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Store:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()


def _stale(claim: tuple[str, int, float], now: float) -> bool:
    """Tell whether the runner behind a claim is gone."""
    host, pid, beat = claim
    if host == platform.node() and os.name == "posix":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
    return now - beat > CLAIM_SECONDS


def _row(key: str, run: Run, outcome: Outcome) -> tuple[Any, ...]:
    times = outcome.times
    values: dict[str, Any] = {
        "key": key,
        "identity": run_identity(run),
        "code": fingerprint(run.estimator),
        "status": outcome.status,
        "method": run.method,
        "dataset": run.data.name,
        "repeat": run.repeat,
        "fold": run.fold,
        "seed": run.seed,
        **{name: outcome.metrics.get(name) for name in _METRIC_COLUMNS},
        "fit_time": times.get("fit"),
        "tune_time": times.get("tune"),
        "predict_time": times.get("predict"),
        "peak_memory": outcome.peak_memory,
        "params": outcome.params,
        "grid_ends": outcome.grid_ends,
        "error": outcome.error,
        "traceback": outcome.traceback,
        "notes": outcome.notes,
        "versions": outcome.versions,
        "data_hash": run.data.hash,
        "description": run.to_dict(),
        "finished": time.time(),
        "host": platform.node(),
    }
    for name in _JSON:
        values[name] = json.dumps(values[name])
    blob = None
    if outcome.arrays:
        buffer = io.BytesIO()
        np.savez(buffer, **outcome.arrays)  # type: ignore[arg-type]
        blob = buffer.getvalue()
    return (*(values[name] for name in COLUMNS), blob)


def _unpack(row: Sequence[Any]) -> dict[str, Any]:
    values = dict(zip(COLUMNS, row, strict=True))
    for name in _JSON:
        values[name] = json.loads(values[name])
    return values
