"""Results of a comparison, read again for figures, tables and texts.

They are read from `comparison.npz` and from the store of runs. Without the features of
instances, they can be described but not continued.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bagwise.bags import Bags
from bagwise.comparison.catalog import Method
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.problem import Problem
from bagwise.comparison.protocols import protocol_of
from bagwise.comparison.store import DESCRIBED, OF_COMPARISON, PARTS_FORMAT, Store

__all__ = ["saved_parts"]

PLAIN_CLASS = "sklearn.base.BaseEstimator"


def saved_parts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the parts of a comparison that was written into a folder.

    Parameters
    ----------
    path : path
        The folder of the results, or its file `comparison.npz`.

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
    try:
        with np.load(file, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        about = json.loads(str(arrays.pop("about")))
        if about.get("format") != PARTS_FORMAT:
            raise damaged
        problem = _problem(about, arrays)
        parts: dict[str, Any] = {name: about[name] for name in OF_COMPARISON}
        parts["protocol"] = protocol_of(about["protocol"])
        parts["methods"] = [_method(one) for one in about["methods"]]
        if about["metric"] not in METRICS:
            raise damaged
        store = file.parent / str(about["store"])
    except (
        EOFError,
        KeyError,
        OSError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        raise damaged from error
    if not store.is_file():
        raise FileNotFoundError(f"{store}, the store of the runs of {file}, is missing")
    with Store(store) as db:
        rows = db.rows(about["keys"])
        stored = {row["key"]: db.arrays(row["key"]) for row in rows}
    return {**parts, "problem": problem, "rows": rows, "arrays": stored}


def _problem(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Problem:
    """Return the data without features: they are a sparse matrix without entries."""
    X = Bags(
        sparse.csr_matrix(tuple(map(int, about["shape"])), dtype=np.float64),
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
