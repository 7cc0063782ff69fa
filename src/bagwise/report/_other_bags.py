"""The bags a page has no room to show in full: any of them can still be looked up."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.report._view import View

__all__ = ["other_bags", "packed"]

MAX_RESULTS = 240_000  # pairs of a bag and a method
MAX_SHOWN = 24_000  # instances
MAX_PER_BAG = 24
UNTESTED = 2

Results = Mapping[str, Mapping[int, Mapping[str, Any]]]
Tables = Mapping[str, NDArray[Any]]


def packed(values: Any) -> dict[str, str]:
    """Return numbers as bytes: whole ones in as few as they need, others in four.

    Parameters
    ----------
    values : array-like
        Whole numbers of at least zero, or real numbers, which may be NaN.

    Returns
    -------
    dict
        "type" (u1, u2, u4 or f4, little-endian) and "bytes" in base64.
    """
    array = np.asarray(values)
    kind = "f4"
    if array.dtype.kind in "biu":
        most = int(array.max()) if array.size else 0
        kind = "u1" if most < 2**8 else "u2" if most < 2**16 else "u4"
    data = array.astype(f"<{kind}").tobytes()
    return {"type": kind, "bytes": base64.b64encode(data).decode("ascii")}


def other_bags(
    view: View,
    shown: Sequence[int],
    answers: Sequence[Any],
    results: Results,
    tables: Tables,
    heat: Tables,
) -> dict[str, Any] | None:
    """Return the bags that are not among those shown in full.

    Each has its name, its answer, what every method says about it, and the instances
    that the best scoring method puts on top: as many as there is room for. Pictures
    and features are those of the bags shown in full alone.

    Parameters
    ----------
    view : View
        The comparison.
    shown : sequence of int
        Bags that are shown in full.
    answers : sequence
        The true answer of every bag: a number, a text or a list.
    results : dict
        By method and bag, what was predicted.
    tables, heat : dict of ndarray of shape (n_instances,)
        Scores and their percentiles, by method.

    Returns
    -------
    dict or None
        Packed columns, None where every bag is shown in full.
    """
    X = view.problem.X
    left = np.setdiff1d(np.arange(X.n_bags), np.asarray(shown, dtype=np.int64))
    most = MAX_RESULTS // max(1, len(results))
    if len(left) > most:
        left = left[np.unique(np.linspace(0, len(left) - 1, most).astype(int))]
    if not len(left):
        return None
    rows, counts = _top_rows(X, left, next(iter(tables.values()), None))
    labels = view.problem.instance_labels
    plain_ids = np.array_equal(X.ids, np.arange(X.n_bags))
    starts = np.repeat(X.offsets[left], counts)
    return {
        "bags": packed(left),
        "ids": None if plain_ids else [str(X.ids[i])[:200] for i in left],
        "is": _column([answers[i] for i in left]),
        "sizes": packed(X.sizes[left]),
        "counts": packed(counts),
        "positions": packed(rows - starts),
        "results": {name: _results(found, left) for name, found in results.items()},
        "scores": {name: packed(table[rows]) for name, table in tables.items()},
        "heat": {
            name: packed(np.round(np.nan_to_num(h[rows])).astype(np.int64))
            for name, h in heat.items()
        },
        "names": None
        if X.instance_ids is None
        else [str(name)[:60] for name in X.instance_ids[rows]],
        "truth": None if labels is None else packed(labels[rows].astype(bool)),
    }


def _top_rows(X: Any, bags: NDArray[Any], lead: Any) -> tuple[Any, Any]:
    """Return the rows of the highest instances of each bag, and how many it has."""
    sizes = X.sizes[bags]
    room = 0
    if lead is not None:  # without scores there is no top
        known = np.array([not np.isnan(lead[X.offsets[i]]) for i in bags])
        sizes = np.where(known, sizes, 0)
        for each in range(1, MAX_PER_BAG + 1):
            if np.minimum(sizes, each).sum() > MAX_SHOWN:
                break
            room = each
    counts = np.minimum(sizes, room)
    parts = [np.empty(0, dtype=np.int64)]
    for i, count in zip(bags, counts, strict=True):
        if count:
            inside = np.arange(X.offsets[i], X.offsets[i + 1])
            parts.append(inside[np.argsort(-lead[inside], kind="stable")[:count]])
    return np.concatenate(parts), counts


def _results(found: Mapping[int, Any], bags: NDArray[Any]) -> dict[str, Any]:
    """Return answers, scores, and whether they are right (2: never tested)."""
    known = next(iter(found.values()), {"k": 0})
    nothing = {"s": None, "k": type(known["k"])(), "ok": UNTESTED}
    rows = [found.get(int(i), nothing) for i in bags]
    scores = [np.nan if row["s"] is None else row["s"] for row in rows]
    return {
        "k": _column([row["k"] for row in rows]),
        "s": None if np.isnan(scores).all() else packed(scores),
        "ok": packed([int(row["ok"]) for row in rows]),
    }


def _column(values: list[Any]) -> Any:
    """Pack numbers; lists and texts stay as they are."""
    plain = all(isinstance(value, int | float) for value in values)
    return packed(values) if plain else values
