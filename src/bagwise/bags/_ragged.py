"""One value, or one row of values, for each instance of each bag."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bagwise.bags.segmented import Offsets, Segmented, check_offsets, read_only


class Ragged(Segmented):
    """Values of instances, cut into bags; what the instance methods return.

    It indexes as `Bags` do: an int gives the values of one bag, a slice, an index
    array or a mask gives a `Ragged`.

    Parameters
    ----------
    values : array-like of shape (n_instances,) or (n_instances, n_columns)
        The values of all instances, stacked bag after bag.
    offsets : array-like of shape (n_bags + 1,)
        Row at which each bag begins, and the number of instances at the end.

    Examples
    --------
    >>> from bagwise import Ragged
    >>> scores = Ragged([0.1, 0.9, 0.4], [0, 2, 3])
    >>> scores[0]
    array([0.1, 0.9])
    >>> scores
    Ragged(n_bags=2, n_instances=3, sizes 1/1.5/2 (min/median/max))
    """

    def __init__(self, values: npt.ArrayLike, offsets: npt.ArrayLike) -> None:
        stacked = np.asarray(values)
        if stacked.ndim not in (1, 2):
            raise ValueError(f"values must have 1 or 2 dimensions, got {stacked.ndim}.")
        self._stacked = read_only(stacked)
        self._offsets = check_offsets(offsets, stacked.shape[0])

    @classmethod
    def from_list(cls, bags: list[npt.ArrayLike]) -> Self:
        """Stack one array of values per bag.

        Parameters
        ----------
        bags : list of array-like
            The values of each bag.

        Returns
        -------
        Ragged
            All of them.
        """
        arrays = [np.asarray(b) for b in bags]
        sizes = [0, *(a.shape[0] for a in arrays)]
        return cls(np.concatenate(arrays), np.cumsum(sizes))

    @property
    def values(self) -> npt.NDArray[Any]:
        """The stacked values (read-only)."""
        return self._stacked

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self._stacked.dtype

    def _repr_html_(self) -> str:
        """Return the values of the first bags and a histogram as HTML."""
        from bagwise.bags.notebook import ragged_html

        return str(ragged_html(self))

    def to_list(self) -> list[npt.NDArray[Any]]:
        """Return the bags as a list of arrays (views)."""
        return list(self)

    def _rebuild(self, stacked: Any, offsets: Offsets, bags: Any, rows: Any) -> Self:
        out = type(self).__new__(type(self))
        out._stacked = read_only(stacked)
        out._offsets = read_only(offsets)
        return out

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        """Refuse: which of the two readings is wanted must be said."""
        raise TypeError(
            "A Ragged holds bags of different sizes and is no rectangular array. Use "
            ".values for the stacked values or .to_list() for one array per bag."
        )

    def __repr__(self) -> str:
        """Show the sizes."""
        return (
            f"Ragged(n_bags={self.n_bags}, n_instances={self.n_instances}, "
            f"{self._size_summary()})"
        )
