"""Columns that are not numbers: texts as codes, dates as seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp

Array = npt.NDArray[Any]
KINDS = ("category", "text", "date")


@dataclass(frozen=True, eq=False)
class Coding:
    """What the numbers of a column stand for.

    Parameters
    ----------
    kind : {"category", "text", "date"}
        Categories and texts are codes, dates are seconds since 1970 (UTC).
    values : ndarray of str, default=None
        The text that each code stands for; the empty text is a missing one. None for
        dates.
    """

    kind: str
    values: Array | None = None

    def __repr__(self) -> str:
        """Show the kind and the number of values."""
        n = "" if self.values is None else f", {len(self.values)} values"
        return f"Coding({self.kind!r}{n})"

    @classmethod
    def of(cls, texts: Any, kind: str = "category") -> tuple[Coding, Array]:
        """Return the coding of texts, and their codes."""
        values, codes = np.unique(np.asarray(texts, dtype=object), return_inverse=True)
        return cls(kind, values), codes.astype(np.float64)

    def decode(self, numbers: Array) -> Array:
        """Return the texts, or the dates, that numbers stand for."""
        if self.values is not None:
            return self.values[np.asarray(numbers, dtype=np.int64)]
        seconds = np.asarray(numbers, dtype=np.float64)
        found = np.full(len(seconds), np.datetime64("NaT"), dtype="datetime64[us]")
        known = np.isfinite(seconds)
        found[known] = np.round(1e6 * seconds[known]).astype("datetime64[us]")
        return found


Codings = Mapping[int, Coding]


def check_codings(codings: Mapping[int, Coding] | None, data: Any) -> dict[int, Coding]:
    """Return codings whose texts exist for every code of the data."""
    found = dict(codings or {})
    if found and (sp.issparse(data) or not isinstance(data, np.ndarray)):
        raise ValueError("columns that are not numbers need dense data in memory.")
    for j, coding in found.items():
        if not 0 <= j < data.shape[1]:
            raise ValueError(f"there is no column {j} that could be a {coding.kind}.")
        if coding.kind not in KINDS or (coding.kind == "date") != (
            coding.values is None
        ):
            raise ValueError(f"column {j} has no valid coding: {coding.kind!r}.")
        if coding.values is None:
            continue
        codes = data[:, j]
        fine = (codes >= 0) & (codes < len(coding.values)) & (codes == np.floor(codes))
        if not fine.all():
            row = int(np.flatnonzero(~fine)[0])
            raise ValueError(
                f"column {j} holds {codes[row]} in row {row}, which is not a code of "
                f"the {len(coding.values)} values of its coding."
            )
    return found


def plain_codings(codings: Codings) -> list[list[Any]]:
    """Return codings as lists of plain values; the inverse of `codings_of`."""
    return [
        [j, coding.kind, None if coding.values is None else coding.values.tolist()]
        for j, coding in sorted(codings.items())
    ]


def codings_of(plain: Sequence[Any]) -> dict[int, Coding]:
    """Return codings that were written as plain values."""
    return {
        j: Coding(kind, None if values is None else np.array(values, dtype=object))
        for j, kind, values in plain
    }


def joined_codings(parts: Sequence[Any]) -> tuple[list[Array], dict[int, Coding]]:
    """Return the data of several `Bags`, with the codes of one coding."""
    data, found = [part.data for part in parts], {}
    for j in sorted({j for part in parts for j in part.codings}):
        kinds = {p.codings[j].kind if j in p.codings else "number" for p in parts}
        if len(kinds) > 1:
            name = parts[0].feature_names
            shown = f"column {j}" if name is None else f"column {name[j]!r}"
            raise ValueError(
                f"{shown} holds {' and '.join(sorted(kinds))} values in different "
                "parts."
            )
        coding = parts[0].codings[j]
        if coding.values is not None:
            texts = np.concatenate([p.codings[j].decode(p.data[:, j]) for p in parts])
            coding, codes = Coding.of(texts, coding.kind)
            ends = np.cumsum([p.n_instances for p in parts])[:-1]
            data = [np.array(rows, dtype=np.float64) for rows in data]
            for rows, own in zip(data, np.split(codes, ends), strict=True):
                rows[:, j] = own
        found[j] = coding
    return data, found


def texts_of(bags: Sequence[Any]) -> list[str] | None:
    """Return the texts of a list of bags of texts; None for bags of numbers."""
    first = bags[0] if len(bags) else None
    if isinstance(first, str) or not _is_texts(first):
        return None
    for i, bag in enumerate(bags):
        if isinstance(bag, str) or not _is_texts(bag):
            raise TypeError(
                f"bag {i} is not a list of texts, but bag 0 is: {str(bag)[:30]!r}. A "
                "bag of texts is a list of strings, and must not be empty."
            )
    return [str(text) for bag in bags for text in bag]


def _is_texts(bag: Any) -> bool:
    if isinstance(bag, np.ndarray):
        if bag.ndim != 1 or not len(bag):
            return False
        bag = bag.tolist()
    return (
        isinstance(bag, list | tuple)
        and len(bag) > 0
        and all(isinstance(text, str) for text in bag)
    )
