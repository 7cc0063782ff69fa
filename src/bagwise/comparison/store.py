"""Results in one SQLite file, safe to kill and to share.

One row per run. The file is in write-ahead mode: a row is on disk as soon as its run
ends, a killed process loses only the runs that it was busy with, and several processes
may write to one file. A row is a JSON object; it is stored with its hash and that of
its arrays, which are checked whenever they are read.

With it goes a file, `comparison.npz`, of labels, groups, ids and coordinates, of how
bags were split and what methods are called. It holds no features, so that it is small.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.comparison.catalog import Method
from bagwise.comparison.description import Run
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.problem import Problem
from bagwise.comparison.protocols import protocol_of
from bagwise.comparison.run_one import Outcome
from bagwise.io.formats import load_arrays
from bagwise.io.record import plain

__all__ = [
    "COLUMNS",
    "DESCRIBED",
    "Store",
    "StoreError",
    "saved_parts",
    "write_described",
]

FORMAT = 4
EARLIER = 3  # one column per value, and claims of the processes that shared a file
# Fields of a row, in the order of tables.
COLUMNS = (
    "key",
    "status",
    "method",
    "dataset",
    "repeat",
    "fold",
    "random_state",
    *METRICS,
    "fit_time",
    "tune_time",
    "predict_time",
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
DESCRIBED, PARTS_FORMAT = "comparison.npz", 1
# Fields that describe a method in tables and texts. Its class is not imported.
OF_METHOD = ("name", "path", "paper", "scale", "kind", "task", "baseline", "note")
OF_COMPARISON = (
    "metric",
    "metric_reason",
    "grid",
    "tuning",
    "random_state",
    "calibrate",
    "impute",
    "conformal",
    "margin",
    "provenance",
)
PLAIN_CLASS = "bagwise.compose.SimpleMI"
JSON = ("params", "grid_ends", "notes", "versions", "description")
T = TypeVar("T")


class StoreError(RuntimeError):
    """The store cannot be used; everything finished before is still in it."""


class Store:
    """A file of results.

    Parameters
    ----------
    path : path
        The SQLite file; created if it does not exist.
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
        if version not in (0, EARLIER, FORMAT):
            raise StoreError(
                f"the store {self.path} has format {version}, this version of bagwise"
                f" reads {EARLIER} and {FORMAT}; choose another file"
            )
        if version == FORMAT:
            return
        db.execute("BEGIN IMMEDIATE")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == EARLIER:  # not yet converted by another process
            db.execute("ALTER TABLE runs RENAME TO earlier")
        db.execute(
            "CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, status TEXT,"
            " row BLOB, row_hash TEXT, arrays BLOB, arrays_hash TEXT)"
        )
        if version == EARLIER:
            self._convert()
        db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute("COMMIT")

    def _convert(self) -> None:
        """Write the rows of the earlier format as rows of this one."""
        found = self._db.execute("SELECT * FROM earlier")
        names = ["random_state" if c[0] == "seed" else c[0] for c in found.description]
        for line in found:
            values = dict(zip(names, line, strict=True))
            blob = values.pop("arrays") or b""
            key, status = str(values["key"]), values["status"]
            row = {name: values.get(name) for name in COLUMNS}
            try:
                row |= {name: json.loads(row[name] or "null") for name in JSON}
            except (TypeError, ValueError) as error:
                self._db.execute("ROLLBACK")
                raise StoreError(
                    f"row {key} of the store {self.path} is damaged ({error}). Nothing"
                    " was changed; choose another file"
                ) from error
            text = json.dumps(row).encode()
            new = (key, status, text, _hash(key, text), blob, _hash(key, blob))
            self._db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", new)
        self._db.execute("DROP TABLE earlier")
        self._db.execute("DROP TABLE IF EXISTS claims")

    def _refuse_foreign(self) -> None:
        """Refuse a file of another program before anything is written to it."""
        found = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {str(name) for (name,) in found}
        if tables <= {"runs", "claims"}:  # "claims" is from the earlier format
            return
        shown = ", ".join(sorted(tables)[:5])
        raise StoreError(
            f"{self.path} is an SQLite file of another program (it has the tables"
            f" {shown}); choose another file"
        )

    def _guard(self, action: Callable[[], T]) -> T:
        """Do `action`, and raise `StoreError` for what SQLite raises."""
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

    def _select(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        return self._guard(lambda: self._db.execute(query, tuple(values)).fetchall())

    def put(self, key: str, run: Run, outcome: Outcome) -> dict[str, Any]:
        """Write the result of a run.

        A finished run is never overwritten; a failed one is, by a later attempt.

        Parameters
        ----------
        key, run, outcome : str, Run, Outcome
            The run, and its outcome.

        Returns
        -------
        dict
            The row.
        """
        text = json.dumps({"key": key, **_row(run, outcome)}).encode()
        blob = _pack(outcome.arrays)
        values = (text, _hash(key, text), blob, _hash(key, blob))
        self._select(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO UPDATE SET"
            " status=excluded.status, row=excluded.row, row_hash=excluded.row_hash,"
            " arrays=excluded.arrays, arrays_hash=excluded.arrays_hash"
            " WHERE runs.status != 'ok'",
            (key, outcome.status, *values),
        )
        return dict(json.loads(text))

    def status(self, key: str | None = None) -> dict[str, str]:
        """Return "ok" or "failed" for one run, or for all, by key.

        Parameters
        ----------
        key : str, optional
            The run; empty if the store does not have it.
        """
        query = "SELECT key, status FROM runs"
        if key is None:
            return dict(self._select(query))
        return dict(self._select(f"{query} WHERE key = ?", [key]))

    def rows(self, keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of runs, without arrays.

        Parameters
        ----------
        keys : iterable of str, optional
            The rows of these keys, in this order; all by default.

        Returns
        -------
        list of dict
            One row per run.
        """
        if keys is None:
            found = self._select("SELECT key FROM runs ORDER BY rowid")
            keys = [key for (key,) in found]
        keys = list(keys)
        by_key = {}
        for start in range(0, len(keys), 900):  # SQLite's limit on variables
            part = keys[start : start + 900]
            marks = ", ".join("?" * len(part))
            query = f"SELECT key, row, row_hash FROM runs WHERE key IN ({marks})"
            for row in self._select(query, part):
                by_key[row[0]] = json.loads(self._checked(*row))
        return [by_key[key] for key in keys if key in by_key]

    def arrays(self, key: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of one run.

        Parameters
        ----------
        key : str
            The run.

        Returns
        -------
        dict of ndarray
            Empty if there are none.
        """
        query = "SELECT key, arrays, arrays_hash FROM runs WHERE key = ?"
        found = self._select(query, [key])
        blob = self._checked(*found[0]) if found else b""
        if not blob:
            return {}
        with np.load(io.BytesIO(blob), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def _checked(self, key: str, content: Any, expected: Any) -> bytes:
        if not isinstance(content, bytes) or _hash(key, content) != expected:
            raise StoreError(
                f"row {key} of the store {self.path} is damaged: its content does not"
                " match its hash. Use another file, or delete this one to carry out all"
                " runs again"
            )
        return content

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._select("SELECT COUNT(*) FROM runs")[0][0])

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


def _hash(key: str, content: bytes) -> str:
    return hashlib.sha256(key.encode() + content).hexdigest()


def _pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    if not arrays:
        return b""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _row(run: Run, outcome: Outcome) -> dict[str, Any]:
    times = outcome.times
    return {
        "status": outcome.status,
        "method": run.method,
        "dataset": run.data.name,
        "repeat": run.repeat,
        "fold": run.fold,
        "random_state": run.random_state,
        **{name: outcome.metrics.get(name) for name in METRICS},
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


# What the rows do not say -------------------------------------------------------------


def write_described(comparison: Any, folder: Path, store: Path) -> Path:
    """Write what a comparison is opened from, besides its store.

    Parameters
    ----------
    comparison : Comparison
        The results.
    folder : path
        Where the file is written.
    store : path
        The store of its runs.
    """
    problem = comparison.problem
    X, y = problem.X, np.asarray(problem.y)
    about = {name: getattr(comparison, name) for name in OF_COMPARISON}
    about |= {
        "format": PARTS_FORMAT,
        "store": os.path.relpath(store, folder),
        "keys": [row["key"] for row in comparison.rows],
        "protocol": comparison.protocol.to_dict(),
        "methods": [
            {name: getattr(method, name) for name in OF_METHOD}
            for method in comparison.methods
        ],
        "name": problem.name,
        "task": problem.task,
        "positive": problem.positive,
        "label_names": None if problem.label_names is None else [*problem.label_names],
        "shape": [X.n_instances, X.n_features],
        "weighted": problem.sample_weight is not None,
    }
    arrays = {
        "y": y.astype(str) if y.dtype == object else y,
        "offsets": X.offsets,
        "ids": np.asarray(X.ids).astype(str),
        "groups": None if X.groups is None else np.asarray(X.groups).astype(str),
        "copies": problem.copies,
        "units": problem.units,
        "coords": X.coords,
        "instance_labels": problem.instance_labels,
    }
    known = {name: _plain_array(a) for name, a in arrays.items() if a is not None}
    path = folder / DESCRIBED
    scratch = path.with_name(path.name + ".part")
    with scratch.open("wb") as file:
        text: Any = {"about": np.array(json.dumps(plain(about)))}
        np.savez_compressed(file, **text, **known)  # type: ignore[arg-type]
    scratch.replace(path)
    return path


def _plain_array(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return array.astype(str) if array.dtype == object else array


def saved_parts(
    path: str | os.PathLike[str], store: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Return the parts of a comparison that was written into a folder.

    Parameters
    ----------
    path : path
        The folder of the results, or its file `comparison.npz`.
    store : path, optional
        The store of its runs. The file may only name one in its own folder.

    Returns
    -------
    dict
        Arguments of `Comparison`.
    """
    file = Path(path)
    file = file / DESCRIBED if file.is_dir() else file
    if not file.is_file():
        raise FileNotFoundError(
            f"{path} has no {DESCRIBED}: give the folder that `bagwise compare` (or"
            " compare(out=...)) has written"
        )
    damaged = ValueError(f"{file} is not a {DESCRIBED} of bagwise, or is damaged")
    arrays = load_arrays(file)
    try:
        about = json.loads(str(arrays.pop("about")))
        if about.get("format") != PARTS_FORMAT:
            raise damaged
        problem = _problem(about, arrays)
        parts: dict[str, Any] = {name: about[name] for name in OF_COMPARISON}
        parts["protocol"] = protocol_of(about["protocol"])
        parts["methods"] = [_method(one) for one in about["methods"]]
        if about["metric"] not in METRICS:
            raise damaged
        name = str(about["store"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged from error
    if store is None and Path(name).name != name:
        raise ValueError(
            f"the runs of {file} are in a store outside of its folder: name it (in"
            " Python store=..., on the command line --store)"
        )
    store = file.parent / name if store is None else Path(store)
    if not store.is_file():
        raise FileNotFoundError(f"{store}, the store of the runs of {file}, is missing")
    with Store(store) as db:
        rows = db.rows(about["keys"])
        stored = {row["key"]: db.arrays(row["key"]) for row in rows}
    return {**parts, "problem": problem, "rows": rows, "arrays": stored}


def _problem(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Problem:
    """Return the data without features: they are a sparse matrix without entries."""
    n_rows, n_columns = map(int, about["shape"])
    check_memory(8.0 * n_rows, f"{n_rows} instances", "Open results of fewer.")
    X = Bags(
        sparse.csr_matrix((n_rows, n_columns), dtype=np.float64),
        arrays["offsets"],
        ids=arrays["ids"],
        groups=arrays.get("groups"),
        coords=arrays.get("coords"),
    )
    y, positive = arrays["y"], about["positive"]
    problem = Problem(
        about["name"],
        X,
        y,
        instance_labels=arrays.get("instance_labels"),
        pos_label=None if positive is None else np.unique(y)[positive],
        task=about["task"],
        label_names=about["label_names"],
    )
    # Otherwise both are computed from the features.
    vars(problem)["copies"] = arrays.get("copies")
    vars(problem)["units"] = arrays.get("units")
    return problem


def _method(about: dict[str, Any]) -> Method:
    """Return an entry that names a class without making it one to be imported."""
    method = Method(**{**about, "path": PLAIN_CLASS})
    object.__setattr__(method, "path", str(about["path"]))
    return method
