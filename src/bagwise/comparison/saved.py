"""Results of a comparison, read again for figures, tables and texts.

They are read from `comparison.npz` and from the store of runs. Without the features of
instances, they can be described but not continued.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.comparison.catalog import Method
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.problem import Problem
from bagwise.comparison.protocols import protocol_of
from bagwise.comparison.store import DESCRIBED, OF_COMPARISON, PARTS_FORMAT, Store
from bagwise.io.formats import load_arrays

__all__ = ["saved_parts"]

PLAIN_CLASS = "sklearn.base.BaseEstimator"


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
    # Both are otherwise found in the features.
    vars(problem)["copies"] = arrays.get("copies")
    vars(problem)["units"] = arrays.get("units")
    return problem


def _method(about: dict[str, Any]) -> Method:
    """Return an entry that names a class without making it one to be imported."""
    method = Method(**{**about, "path": PLAIN_CLASS})
    object.__setattr__(method, "path", str(about["path"]))
    return method
