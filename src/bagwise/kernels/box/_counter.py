"""Matrices of log box counts: pair by pair, or all entries from common boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from bagwise.bags import Bags
from bagwise.kernels.box.features import AnchorSampler, HitTester, seed_of
from bagwise.kernels.box.grid import BoxGrid
from bagwise.kernels.box.loops.hits import add_common_boxes, add_own_boxes, settle
from bagwise.kernels.box.loops.screen import HOW_BOXES, HOW_EXACT
from bagwise.kernels.box.sampling import (
    STOP_RULES,
    CodedBags,
    PairCounts,
    code_bags,
    count_all,
)

Array = npt.NDArray[Any]

# "auto" takes random boxes in very few dimensions, and for large bags in few.
_VERY_FEW, _FEW, _LARGE_BAGS = 3, 12, 32
_BLOCK, _MAX_BOXES = 1024, 65_536
_ANYWHERE = 0.1  # share of random boxes that need not hold a training point


class BoxCounter:
    """Fills matrices of log counts on one grid, with one precision and seed."""

    def __init__(
        self,
        grid: BoxGrid,
        epsilon: float,
        delta: float,
        stop: str,
        max_samples: int,
        random_state: Any,
        n_jobs: int | None,
    ) -> None:
        self.grid = grid
        self.stop = stop
        self.target = (float(epsilon), float(delta), float(norm.isf(delta / 2)))
        self.max_samples = max_samples
        self.seed = seed_of(random_state)
        self.n_jobs = n_jobs

    def count(self, X: Bags, Y: Bags | None, method: str) -> tuple[Array, ...]:
        """Return log counts, how, draws, errors and capped, as matrices."""
        shape = (X.n_bags, X.n_bags if Y is None else Y.n_bags)
        if len(self.grid.order_) == 0:  # one grid point, one box
            return _new_matrices(shape)
        both = X if Y is None else Bags.concatenate([_plain(X), _plain(Y)])
        coded = code_bags(self.grid, both)
        if self._prefer_boxes(method):
            out, missing = self._common_boxes(coded, shape, Y is None)
            method = "coverage"
        else:
            out, missing = _new_matrices(shape), np.ones(shape, dtype=bool)
        rows, cols = np.nonzero(np.triu(missing) if Y is None else missing)
        shift = 0 if Y is None else X.n_bags
        result = self._pairs(coded, method, rows, cols + shift)
        for matrix, values in zip(out, result, strict=True):
            matrix[rows, cols] = values
            if Y is None:
                matrix[cols, rows] = values
        return out

    def count_self(self, X: Bags, method: str) -> Array:
        """Return the diagonal of the matrix of `X`, bit by bit, without the rest."""
        if len(self.grid.order_) == 0:
            return np.zeros(X.n_bags)
        coded = code_bags(self.grid, X)
        every = np.arange(X.n_bags)
        if not self._prefer_boxes(method):
            return self._pairs(coded, method, every, every).log_counts
        out, missing = self._common_boxes(coded, (X.n_bags, 1), True)
        logs: Array = out[0][:, 0]
        rows = every[missing[:, 0]]
        logs[rows] = self._pairs(coded, "coverage", rows, rows).log_counts
        return logs

    def _prefer_boxes(self, method: str) -> bool:
        # A property of the grid alone: sub-matrices must take the same way.
        d, size = len(self.grid.order_), self.grid.mean_bag_size_
        suited = 1 < d <= _VERY_FEW or (1 < d <= _FEW and size >= _LARGE_BAGS)
        return method == "random_boxes" or (method == "auto" and suited)

    def _pairs(
        self, coded: CodedBags, method: str, left: Array, right: Array
    ) -> PairCounts:
        """Count the boxes of pairs of bags, each pair for itself."""
        return count_all(
            coded,
            left,
            right,
            method=method,
            stop=self.stop,
            target=self.target,
            max_samples=self.max_samples,
            seed=self.seed,
            n_jobs=self.n_jobs,
        )

    def _common_boxes(
        self, coded: CodedBags, shape: tuple[int, int], symmetric: bool
    ) -> tuple[tuple[Array, ...], Array]:
        """Estimate all entries from common boxes; which ones stay open is returned.

        A symmetric matrix of one column stands for the diagonal.
        """
        sampler = AnchorSampler(self.grid, self.seed, _ANYWHERE)
        tester = HitTester(coded.rows, coded.offsets, coded.top)
        totals, squares = np.zeros(shape), np.zeros(shape)
        means, errors = np.ones(shape), np.zeros(shape)
        draws = np.zeros(shape, dtype=np.int64)
        rule = STOP_RULES[self.stop]
        limit = min(_MAX_BOXES, self.max_samples)
        n, check, look, still_open = 0, 0, _BLOCK, 1
        while still_open and n < limit:
            boxes, values = sampler.draw(_BLOCK)
            hits = tester.hits(boxes.low, boxes.high)
            left = np.ascontiguousarray(hits[:, : shape[0]])
            right = left if symmetric else np.ascontiguousarray(hits[:, shape[0] :])
            if symmetric and shape[1] == 1 < shape[0]:
                add_own_boxes(left, values, totals, squares)
            else:
                add_common_boxes(left, right, values, totals, squares)
            n += _BLOCK
            if n >= look:
                check += 1
                look = 2 * n
                still_open = settle(
                    totals, squares, n, check, rule, self.target, means, errors, draws
                )
        done = draws > 0
        out = (
            sampler.log_total + np.log(means),
            np.full(shape, HOW_BOXES, dtype=np.int8),
            draws,
            errors,
            np.zeros(shape, dtype=bool),
        )
        return out, ~done


def _new_matrices(shape: tuple[int, int]) -> tuple[Array, ...]:
    """Matrices for a grid of one point: the count is 1 everywhere, exactly."""
    return (
        np.zeros(shape),
        np.full(shape, HOW_EXACT, dtype=np.int8),
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape),
        np.zeros(shape, dtype=bool),
    )


def _plain(X: Bags) -> Bags:
    """Bags without names, so that two sets of them can be joined."""
    return Bags(X.data, X.offsets)
