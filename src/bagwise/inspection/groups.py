"""Features by name and in groups, for whatever is asked of features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags

__all__ = ["feature_groups", "feature_name"]


def feature_name(X: Bags, column: int) -> str:
    """Return the name of a column, or ``x`` and its number."""
    names = X.feature_names
    return f"x{column}" if names is None else str(names[column])


def feature_groups(
    X: Bags, groups: Mapping[str, Any] | None
) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Return the names and the columns of what is asked for together.

    Parameters
    ----------
    X : Bags
        The bags.
    groups : dict of str to list, or None
        Columns (numbers or names) of each group; None for each feature on its own.
    """
    if groups is None:
        columns = [np.array([j]) for j in range(X.n_features)]
        return [feature_name(X, j) for j in range(X.n_features)], columns
    if not isinstance(groups, Mapping) or not groups:
        raise TypeError("groups must be a dict with the columns of each group.")
    known = {} if X.feature_names is None else _places(X.feature_names)
    found = []
    for name, members in groups.items():
        listed = [members] if isinstance(members, str | int) else list(members)
        columns = []
        for one in listed:
            place = known.get(one) if isinstance(one, str) else int(one)
            if place is None or not 0 <= place < X.n_features:
                raise ValueError(
                    f"group {name!r} names the feature {one!r}, which X does not have."
                )
            columns.append(place)
        if not columns:
            raise ValueError(f"group {name!r} is empty.")
        found.append(np.array(columns, dtype=np.int64))
    together = np.concatenate(found)
    if len(np.unique(together)) < len(together):
        twice = together[np.flatnonzero(np.bincount(together)[together] > 1)[0]]
        raise ValueError(f"feature {feature_name(X, int(twice))} is in groups twice.")
    return list(groups), found


def _places(names: Any) -> dict[str, int]:
    return {str(name): j for j, name in enumerate(names)}
