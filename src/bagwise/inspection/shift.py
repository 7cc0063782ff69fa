r"""Test whether new bags are from the distribution of the training bags.

A bag is described by the mean and the standard deviation of every column and by the
logarithm of its size. Two samples of bags are compared by the squared maximum mean
discrepancy (MMD, [1]_)

.. math:: \frac{1}{n^2} \sum_{i, i'} k(B_i, B_{i'}) + \frac{1}{m^2} \sum_{j, j'}
   k(B'_j, B'_{j'}) - \frac{2}{nm} \sum_{i, j} k(B_i, B'_j)

with the RBF kernel :math:`k` of these descriptions (`set_kernel` with one instance per
bag, the width from the median distance), and by the largest difference of a mean of a
description in units of its standard deviation. The first finds changes in many columns,
the second a change in one. Both have a permutation p value, and the smaller of both is
compared with its own permutation distribution, so that the false alarm rate is that of
one test. Groups of bags (patients) are permuted as a whole.

References
----------
.. [1] Gretton, A., Borgwardt, K. M., Rasch, M. J., Schölkopf, B. and Smola, A., "A
   kernel two-sample test", JMLR 13, 723-773, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bagwise.bags import Bags, as_bags
from bagwise.bags.segments import bag_matrix
from bagwise.inspection.scores import bags_for, last_step
from bagwise.io.record import ModelRecord, plain, require_record
from bagwise.kernels import set_kernel

__all__ = ["Shift", "check_shift", "describe_bags", "outlier_scores", "reference_of"]

Array = NDArray[np.float64]
CHUNK_ROWS = 65_536
MOST_BAGS = 1_000
MOST_STORED = 1_000_000  # numbers that describe bags in a model file
MOST_COLUMNS, SKETCH = 2_048, 512  # wider data are described by random sums of columns
N_PERMUTATIONS = 999
ALPHA = 0.05
N_SHOWN = 10


@dataclass(frozen=True)
class Shift:
    """How new bags differ from the training bags of a model.

    Attributes
    ----------
    p : float
        Of the hypothesis that both are from one distribution; NaN where the columns do
        not allow a test.
    p_kernel, p_column : float
        Of the kernel test, and of the largest difference of a column, alone.
    alpha : float
        Level at which `shifted` is decided.
    missing, new : list of str
        Columns of the training data that the new ones lack, and the reverse.
    drift : list of dict
        One entry per column, the largest difference first: `column`; `difference` (of
        the means of bags, new minus training, in standard deviations of these means);
        `spread` (the same for the standard deviation inside bags); `p` (adjusted for
        the number of columns); `outside` (the share of new instances outside of the
        range of the training instances).
    sizes : dict
        Quartiles and range of the bag sizes, "training" and "new".
    n_training, n_new : int
        Independent units (bags, or groups of bags) that were compared.
    notes : list of str
        What limits the test.
    """

    p: float
    p_kernel: float
    p_column: float
    alpha: float = ALPHA
    missing: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, list[float]] = field(default_factory=dict)
    n_training: int = 0
    n_new: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def shifted(self) -> bool:
        """Whether columns differ, or the test finds a difference at level `alpha`."""
        return bool(self.missing or self.new or self.p <= self.alpha)

    def summary(self) -> str:
        """Return the result in a few sentences."""
        text = []
        for names, what in ((self.missing, "lack"), (self.new, "have the new")):
            if names:
                more = f" and {len(names) - 6} more" if len(names) > 6 else ""
                shown = ", ".join(names[:6])
                word = "column" if len(names) == 1 else "columns"
                text.append(f"The new bags {what} {word} {shown}{more}.")
        if np.isnan(self.p):
            return " ".join([*text, *self.notes])
        units = f"{self.n_new} new against {self.n_training} training units"
        if self.p <= self.alpha:
            text.append(f"The new bags differ from the training bags (p = {self.p:.3f}")
            text[-1] += f", {units})."
            first = [row for row in self.drift if row["p"] <= self.alpha][:3]
            if first:
                names = ", ".join(
                    f"{row['column']} ({row['difference']:+.1f} SD)" for row in first
                )
                text.append(f"The largest differences are in {names}.")
        else:
            text.append(
                "No difference between the new bags and the training bags was found"
                f" (p = {self.p:.3f}, {units})."
            )
        return " ".join([*text, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, None for what is undefined."""
        return plain({**vars(self), "shifted": self.shifted, "text": self.summary()})


# Descriptions of bags -----------------------------------------------------------------


def describe_bags(X: Bags, chosen: NDArray[np.int64]) -> tuple[Array, Array, Array]:
    """Return descriptions of some bags, and the range of every column over all bags.

    Parameters
    ----------
    X : Bags
        The bags; on disk they are read in chunks. Missing values are left out.
    chosen : ndarray of int
        Sorted positions of the bags to describe.

    Returns
    -------
    summaries : ndarray of shape (n_chosen, 2 * n_columns + 1)
        Means, standard deviations and the logarithm of the size. Above 2,048 columns,
        512 sums of columns with random signs stand for the columns.
    low, high : ndarray of shape (n_features,)
        The range; NaN where all values are missing.
    """
    d = X.n_features
    sketch = _sketch(d)
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    parts, start = [], 0
    for chunk in X.iter_chunks(CHUNK_ROWS):
        least, most = _range(chunk)
        low, high = np.fmin(low, least), np.fmax(high, most)
        first, last = np.searchsorted(chosen, [start, start + len(chunk)])
        if last > first:
            parts.append(_moments(chunk[chosen[first:last] - start], sketch))
        start += len(chunk)
    width = sketch.shape[1] if sketch is not None else d
    rows = np.concatenate(parts) if parts else np.empty((0, 2 * width + 1))
    empty = low > high
    return rows, np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def _sketch(d: int) -> Array | None:
    """Return a table that sums columns with random signs, the same for equal widths."""
    if d <= MOST_COLUMNS:
        return None
    rng = np.random.default_rng(d)
    table = np.zeros((d, SKETCH))
    table[np.arange(d), rng.integers(SKETCH, size=d)] = rng.choice([-1.0, 1.0], d)
    return table


def _range(X: Bags) -> tuple[Array, Array]:
    if X.is_sparse:
        return tuple(
            np.asarray(getattr(X.data, name)(axis=0).todense()).ravel()
            for name in ("min", "max")
        )  # type: ignore[return-value]
    data = np.asarray(X.data)
    return (
        np.fmin.reduce(data, axis=0).astype(np.float64),
        np.fmax.reduce(data, axis=0).astype(np.float64),
    )


def _moments(X: Bags, sketch: Array | None) -> Array:
    data = X.data
    if sketch is not None:
        data = data @ sketch
    elif X.is_sparse:
        data = data.toarray()
    data = np.asarray(data, dtype=np.float64)
    average = bag_matrix(X.offsets, mean=True)
    gaps = ~np.isfinite(data)
    share = 1.0 - average @ gaps.astype(np.float64) if gaps.any() else np.ones((1, 1))
    filled = np.where(gaps, 0.0, data)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (average @ filled) / share
        centered = np.where(gaps, 0.0, filled - np.repeat(mean, X.sizes, axis=0))
        spread = np.sqrt((average @ centered**2) / share)
    return np.column_stack([mean, spread, np.log(X.sizes)])


def reference_of(X: Bags, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return the statistics of training bags that a model file keeps.

    Parameters
    ----------
    X : Bags
        The training bags; of many, a random sample is described.
    seed : int, default=0
        Of the sample.
    """
    width = 2 * min(X.n_features, MOST_COLUMNS) + 1
    n = min(len(X), MOST_BAGS, max(MOST_STORED // width, 20))
    chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[:n])
    summaries, low, high = describe_bags(X, chosen)
    found: dict[str, NDArray[Any]] = {
        "summaries": summaries,
        "sizes": X.sizes[chosen].astype(np.int64),
        "low": low,
        "high": high,
    }
    if X.groups is not None:
        found["group"] = _codes(X.groups[chosen])
    return found


def _codes(groups: Any) -> NDArray[np.int64]:
    return np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]


# The test -----------------------------------------------------------------------------


def check_shift(
    model: Any, X: Any, *, alpha: float = ALPHA, random_state: int = 0
) -> Shift:
    """Compare new bags with the training bags of a model.

    Parameters
    ----------
    model : estimator, ModelRecord or Bags
        A fitted model with a training record (from `compare` or `fit`), the record, or
        reference bags. If reference bags have groups, those of the new bags are needed
        as well: without them one bag per group is compared.
    X : Bags or list of 2-D arrays
        The new bags; labels are not needed.
    alpha : float, default=0.05
        Level of the test, which is the rate of false alarms.
    random_state : int, default=0
        Random seed of the permutations, and of the sample if there are more than 1,000
        new bags.

    Returns
    -------
    Shift
        Columns, sizes, the p value, and the columns by their difference.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.inspection import check_shift
    >>> X, _ = make_bags(60, random_state=0)
    >>> check_shift(X[:30], X[30:]).shifted
    False
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}.")
    X = as_bags(X)
    names: list[str] | None
    if isinstance(model, Bags):
        reference = reference_of(model)
        names = None if model.feature_names is None else _text(model.feature_names)
        d = model.n_features
    else:
        record = model
        if not isinstance(model, ModelRecord):
            record = require_record(model, "the shift check", "reference")
        reference, names = record.reference, record.about.get("features")
        d = len(reference["low"])
    return _check(reference, names, d, X, alpha, np.random.default_rng(random_state))


def _text(names: Any) -> list[str]:
    return [str(name) for name in names]


def _check(
    reference: dict[str, NDArray[Any]],
    names: list[str] | None,
    d: int,
    X: Bags,
    alpha: float,
    rng: np.random.Generator,
) -> Shift:
    own = None if X.feature_names is None else _text(X.feature_names)
    shown = own or names or [f"column {j}" for j in range(max(d, X.n_features))]
    missing: list[str] = []
    new: list[str] = []
    if names is not None and own is not None:
        missing = [name for name in names if name not in own]
        new = [name for name in own if name not in names]
        pairs = [(names.index(n), j) for j, n in enumerate(own) if n in {*names}]
    else:
        both = min(d, X.n_features)
        missing, new = shown[both:d], shown[both : X.n_features]
        pairs = [] if missing or new else [(j, j) for j in range(both)]
    sizes = {
        "training": np.quantile(reference["sizes"], [0, 0.25, 0.5, 0.75, 1]).tolist(),
        "new": np.quantile(X.sizes, [0, 0.25, 0.5, 0.75, 1]).tolist(),
    }
    wide = max(d, X.n_features) > MOST_COLUMNS
    about: dict[str, Any] = {"missing": missing, "new": new, "sizes": sizes}
    if not pairs or (wide and (missing or new)):
        note = "The columns differ, and the distributions were not compared."
        return Shift(np.nan, np.nan, np.nan, alpha, notes=[note], **about)
    chosen = np.sort(rng.permutation(len(X))[:MOST_BAGS])
    rows, _, _ = describe_bags(X, chosen)
    theirs, mine = (np.array(part) for part in zip(*pairs, strict=True))
    first = _columns(reference["summaries"], theirs, d, wide)
    second = _columns(rows, mine, X.n_features, wide)
    groups = None if X.groups is None else _codes(X.groups[chosen])
    units, notes = _units(first, reference.get("group"), second, groups, rng)
    n_training, n_new = len(units[0]), len(units[1])
    about |= {"n_training": n_training, "n_new": n_new, "notes": notes}
    if min(n_training, n_new) < 2:
        notes.append("At least 2 new units are needed to compare distributions.")
        return Shift(np.nan, np.nan, np.nan, alpha, **about)
    p, p_kernel, p_column, z, adjusted = _test(*units, rng)
    if wide:
        notes.append(f"More than {MOST_COLUMNS} columns: no test of single columns.")
    else:
        outside = _outside(X, reference, theirs, mine)
        about["drift"] = _ranked([shown[j] for j in mine], z, adjusted, outside)
    return Shift(p, p_kernel, p_column, alpha, **about)


def _columns(rows: Array, kept: NDArray[np.int64], d: int, wide: bool) -> Array:
    if wide:
        return rows
    return np.column_stack([rows[:, kept], rows[:, d + kept], rows[:, -1]])


def _units(
    first: Array, groups: Any, second: Array, new_groups: Any, rng: np.random.Generator
) -> tuple[tuple[Array, Array, Any, Any], list[str]]:
    """Return the rows of both samples, with weights that average rows to units."""
    notes = []
    if groups is None and new_groups is not None:
        notes.append(
            "The training bags have no groups: one bag per group of the new bags is"
            " compared."
        )
        kept = _one_each(new_groups, rng)
        second, new_groups = second[kept], None
    elif groups is not None and new_groups is None:
        notes.append(
            "The training bags have groups and the new bags have none: one bag per"
            " training group is compared, and new bags count as independent."
        )
        kept = _one_each(groups, rng)
        first, groups = first[kept], None
    return (
        _average(first, groups),
        _average(second, new_groups),
        first,
        second,
    ), notes


def _one_each(groups: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(len(groups))
    return np.sort(order[np.unique(groups[order], return_index=True)[1]])


def _average(rows: Array, groups: Any) -> Array:
    """Return the weight of every row in every unit."""
    if groups is None:
        return np.eye(len(rows))
    codes = _codes(groups)
    weights = np.zeros((codes.max() + 1, len(rows)))
    weights[codes, np.arange(len(rows))] = 1.0
    return weights / weights.sum(axis=1, keepdims=True)


def _test(
    A: Array, B: Array, first: Array, second: Array, rng: np.random.Generator
) -> tuple[float, float, float, Array, Array]:
    """Return the p values, the differences of columns and their adjusted p values."""
    rows = np.concatenate([first, second])
    with np.errstate(invalid="ignore"):
        known = np.isfinite(rows)
        count = np.maximum(known.sum(axis=0), 1)
        middle = np.where(known, rows, 0.0).sum(axis=0) / count
    rows = np.where(known, rows, middle) - middle
    scale = np.abs(rows).max(axis=0)
    rows /= np.where(scale > 0, scale, 1.0)  # avoids overflow of squares
    spread = rows.std(axis=0)
    rows /= np.where(spread > 1e-12, spread, 1.0)
    n, m = len(A), len(B)
    weights = np.zeros((n + m, len(rows)))
    weights[:n, : len(first)], weights[n:, len(first) :] = A, B
    one_each = Bags(rows, np.arange(len(rows) + 1))
    K = weights @ set_kernel(one_each, gamma="median") @ weights.T
    Z = weights @ rows
    spread = Z.std(axis=0)
    Z /= np.where(spread > 1e-12, spread, 1.0)
    signs = np.concatenate([np.full(n, -1.0 / n), np.full(m, 1.0 / m)])
    W = np.array([signs, *(rng.permutation(signs) for _ in range(N_PERMUTATIONS))])
    kernel = np.einsum("bi,bi->b", W @ K, W)
    differences = W @ Z
    largest = np.abs(differences).max(axis=1)
    both = np.minimum(_tail(kernel), _tail(largest))
    p = float(np.mean(both <= both[0] + 1e-12))
    least = 1e-9 * max(float(largest.max()), 1.0)
    adjusted = (largest[:, None] >= np.abs(differences[0]) - least).mean(axis=0)
    own = (float(_tail(kernel)[0]), float(_tail(largest)[0]))
    return p, *own, differences[0], adjusted


def _tail(values: Array) -> Array:
    """Return for each permutation the share of permutations that are as large."""
    least = 1e-9 * max(float(np.abs(values).max()), 1e-300)
    order = np.sort(values)
    return 1.0 - np.searchsorted(order, values - least, side="left") / len(values)


def _outside(
    X: Bags, reference: dict[str, NDArray[Any]], theirs: Any, mine: Any
) -> Array:
    """Return the share of new instances outside of the training range, by column."""
    low, high = reference["low"][theirs], reference["high"][theirs]
    count = np.zeros(len(mine))
    for chunk in X.iter_chunks(CHUNK_ROWS):
        data = chunk.data.toarray() if chunk.is_sparse else np.asarray(chunk.data)
        data = data[:, mine]
        count += ((data < low) | (data > high)).sum(axis=0)
    return count / X.n_instances


def _ranked(
    names: list[str], z: Array, p: Array, outside: Array
) -> list[dict[str, Any]]:
    k = len(names)
    rows = [
        {
            "column": name,
            "difference": float(z[j]),
            "spread": float(z[k + j]),
            "p": float(min(p[j], p[k + j])),
            "outside": float(outside[j]),
        }
        for j, name in enumerate(names)
    ]
    size = {"difference": float(z[-1]), "spread": 0.0, "p": float(p[-1])}
    rows.append({"column": "number of instances", **size, "outside": 0.0})
    return sorted(
        rows, key=lambda row: -max(abs(row["difference"]), abs(row["spread"]))
    )


# Single bags --------------------------------------------------------------------------


def outlier_scores(model: Any, X: Any) -> Array:
    """Return how unusual each bag is for the training bags, between 0 and 1.

    The method `outlier_scores` of the model where there is one (`BagClassifier`), and
    otherwise the same comparison of the descriptions in the training record: the share
    of training bags whose distance from the nearest other one (of another group) is
    smaller than that of this bag from the nearest training bag.

    Parameters
    ----------
    model : estimator
        A fitted model.
    X : Bags or list of 2-D arrays
        The bags.

    Returns
    -------
    ndarray of shape (n_bags,)
        About 5% of bags from the training distribution have a score above 0.95.
    """
    X = bags_for(model, X)
    last, rows = last_step(model, X)
    if hasattr(last, "outlier_scores"):
        return np.asarray(last.outlier_scores(rows))
    reference = require_record(model, "an outlier score", "reference").reference
    if X.n_features != len(reference["low"]):
        raise ValueError(
            f"the bags have {X.n_features} features, and the model was fitted with"
            f" {len(reference['low'])}"
        )
    known = reference["summaries"]
    spread = np.nanstd(known, axis=0)
    middle = np.nanmean(known, axis=0)
    scale = np.where(spread > 1e-12, spread, 1.0)
    new, _, _ = describe_bags(X, np.arange(len(X)))
    known, new = (np.nan_to_num((part - middle) / scale) for part in (known, new))
    groups = reference.get("group", np.arange(len(known)))
    between = cdist(known, known)
    between[groups[:, None] == groups] = np.inf
    usual = np.sort(between.min(axis=1))
    usual = usual[np.isfinite(usual)]
    nearest = np.concatenate(
        [
            cdist(part, known).min(axis=1)
            for part in np.array_split(new, len(new) // 500 + 1)
        ]
    )
    return np.searchsorted(usual, nearest, side="left") / (len(usual) + 1)
