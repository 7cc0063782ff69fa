"""Bags with times until an event, from files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bagwise.base import survival_target
from bagwise.io._errors import TableError
from bagwise.io.readers import read_bags


def read_survival(
    path: str | os.PathLike[str],
    *,
    time: str,
    event: str,
    drop: Sequence[str] = (),
    **options: Any,
) -> tuple[Any, ...]:
    r"""Read bags, and for each whether an event was seen and when.

    Parameters
    ----------
    path : str or path
        The file, or the folder.
    time : str
        The column of times: until the event, or until the bag was last looked at.
    event : str
        The column that is true, or 1, where the event was seen.
    drop : sequence of str, default=()
        Columns that play no part at all.
    **options
        Those of :func:`bagwise.io.read_bags`, apart from `label`.

    Returns
    -------
    X : Bags
        The bags.
    y : structured array of shape (n_bags,)
        The fields `event` and `time`.
    sample_weight : ndarray of shape (n_bags,)
        The weights. Only when `weight` is given.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bagwise.io import read_survival
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "toy.csv"
    >>> _ = path.write_text("id,days,died,u\na,12,1,0.5\na,12,1,2\nb,30,0,1\n")
    >>> X, y = read_survival(path, bag="id", time="days", event="died")
    >>> y["event"]
    array([ True, False])
    """
    if time == event:
        raise TableError(f"time and event are the same column, {time!r}")
    # Labels stand in a table of their own, or in arrays that are no features.
    apart = Path(path).is_dir() or Path(path).suffix == ".npz"
    found = []
    for label, other in ((time, event), (event, time)):
        left_out = list(drop) if apart else [*drop, other]
        found.append(read_bags(path, label=label, drop=left_out, **options))
    (X, times, *weights), (_, events, *_) = found
    try:
        return X, survival_target(events, times), *weights
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
