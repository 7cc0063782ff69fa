r"""What every bag contributes to a cross-validated figure.

A figure :math:`\hat\theta` of out-of-fold predictions is a mean, a ratio or a mean over
pairs. To first order it is :math:`\theta + \sum_i \psi_i`, where :math:`\psi_i` is the
*contribution* of bag :math:`i` (its influence value over the number of bags). From the
contributions follow the variance of any figure, of the difference between two methods,
and of both per group of bags [1]_, without fitting anything again.

References
----------
.. [1] LeDell, E., Petersen, M. and van der Laan, M., "Computationally efficient
   confidence intervals for cross-validated area under the ROC curve estimates",
   Electronic Journal of Statistics 9, 1583-1607, 2015. :doi:`10.1214/15-EJS1035`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

__all__ = ["FIGURES", "Contributions", "contributions"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Rows = Mapping[str, NDArray]  # type: ignore[type-arg]
NAN = float("nan")
UNBOUNDED = ("log_loss", "r2", "rmse", "mae")
PAIRS = ("auroc", "concordance")


@dataclass(frozen=True)
class Contributions:
    """A figure and what every independent unit contributes to its error.

    Parameters
    ----------
    value : float
        The figure.
    parts : ndarray of shape (n_parts,)
        Contribution of one unit in one run (one fitted model and its test bags).
    unit, run : ndarray of int of shape (n_parts,)
        Which unit and which run each part belongs to. A unit is a bag, or a group of
        bags.
    n_units, n_bags : int
        How many units and bags were tested.
    size : float
        Number of independent yes-or-no results that would be as informative: the number
        of bags for a proportion, fewer for figures that rest on the rarer class, and at
        most the pairs of bags that an area compares.
    bounded : bool
        Whether the figure has a lower and an upper bound.
    gain : float
        How far the predictions are from guesses: 0 for guesses, 1 where all is right.
        1 for figures without this information.
    slope : float
        How much the gain changes with the figure.
    fixed : bool
        Whether one model was tested, rather than models of overlapping training sets.
    metric : str
        Name of the figure.
    df : float
        Degrees of freedom of its variance.
    names : ndarray of shape (n_units,)
        Names of the units, sorted.
    """

    value: float
    parts: Array
    unit: Index
    run: Index
    n_units: int
    n_bags: int
    size: float
    bounded: bool = True
    gain: float = 1.0
    slope: float = 2.0
    fixed: bool = False
    metric: str = ""
    df: float = NAN
    names: NDArray = field(default_factory=lambda: np.empty(0))  # type: ignore[type-arg]

    @property
    def totals(self) -> Array:
        """Contribution of every unit, over all runs."""
        return np.bincount(self.unit, self.parts, self.n_units).astype(np.float64)

    @property
    def run_variance(self) -> float:
        """Variance that comes from testing units by several models; NaN with one.

        The sum over units of the variance between the contributions of their runs.
        """
        count = np.bincount(self.unit, minlength=self.n_units)
        several = count > 1
        if not several.any():
            return NAN
        spread = self.parts - (self.totals / count)[self.unit]
        squares = np.bincount(self.unit, spread**2, self.n_units)[several]
        count = count[several]
        total = float(np.sum(count**2 * squares / (count - 1)))
        return total * self.n_units / int(several.sum())

    @property
    def removed(self) -> float:
        """How much smaller the variance is than that of one repeat; 0 with one."""
        between = self.run_variance
        repeats = len(self.parts) / max(self.n_units, 1)
        return 0.0 if np.isnan(between) else between * (1.0 - 1.0 / repeats)

    @property
    def dispersion(self) -> float:
        """Variance between runs, relative to that of the mean of their bags.

        About 1 where all models are equally good, and larger where some training sets
        lead to better models than others. 0 with one run.
        """
        counted = 2.0 if self.metric in PAIRS else 1.0  # a pair counts for both bags
        totals = np.bincount(self.run, self.parts) / counted
        repeats = len(self.parts) / max(self.n_units, 1)
        single = float(np.sum(self.totals**2)) + self.removed
        if len(totals) < 2 or not single > 0.0:
            return 0.0
        return float(repeats * len(totals) * np.var(totals, ddof=1)) / single


def contributions(
    metric: str,
    rows: Rows,
    bag: Index,
    *,
    run: Index | None = None,
    repeat: Index | None = None,
    groups: NDArray | None = None,  # type: ignore[type-arg]
    fixed: bool = False,
) -> Contributions:
    """Return a figure of out-of-fold predictions with the contribution of every unit.

    Parameters
    ----------
    metric : str
        A name of `FIGURES`.
    rows : dict of str to ndarray
        One entry per test bag and run: ``truth``, and what the figure is made from,
        ``label``, ``score``, ``probability``, ``prediction`` or ``hit``.
    bag : ndarray of int of shape (n_rows,)
        Which bag a row belongs to.
    run : ndarray of int of shape (n_rows,), optional
        Which fitted model has predicted it (a fold of a repeat); one by default.
        Figures that rank bags rank those of one run.
    repeat : ndarray of int of shape (n_rows,), optional
        Which repeat a row belongs to. Where runs are too small to be ranked, as in
        leave-one-out, the bags of a repeat are ranked together.
    groups : ndarray of shape (n_rows,), optional
        Which group (patient) the bag belongs to; groups are then the units.
    fixed : bool, default=False
        Whether all rows are predictions of one model on a test set of its own.

    Returns
    -------
    Contributions
        The value is NaN where the figure is undefined.
    """
    bag = np.asarray(bag)
    n_rows = len(bag)
    run = np.zeros(n_rows, dtype=np.int64) if run is None else np.asarray(run)
    repeat = np.zeros(n_rows, dtype=np.int64) if repeat is None else np.asarray(repeat)
    unit = bag if groups is None else np.asarray(groups)
    figure, needed = FIGURES[metric]
    if any(len(rows.get(name, ())) < max(n_rows, 1) for name in needed):
        none = np.empty(0, np.int64)
        return Contributions(NAN, np.empty(0), none, none, 0, 0, 0.0)
    rows = {name: np.asarray(rows[name]) for name in needed}
    if "hit" in needed:  # bags without a key instance have no result
        kept = ~np.isnan(rows["hit"])
        rows = {"hit": rows["hit"][kept]}
        bag, unit, run, repeat = bag[kept], unit[kept], run[kept], repeat[kept]
    value, psi, surplus = _by_column(figure, rows, run, repeat)
    _, first, own = np.unique(bag, return_index=True, return_inverse=True)
    names, code = np.unique(unit, return_inverse=True)
    psi, df = _small_sample(psi, surplus, own, code, _strata(metric, rows))
    _, which = np.unique(run, return_inverse=True)
    n_runs = int(which.max(initial=0)) + 1
    size = _size(metric, rows[needed[0]][first])
    if metric == "auroc":
        size = min(size, _compared(rows["truth"], which, repeat))
    cells, cell = np.unique(code * n_runs + which, return_inverse=True)
    return Contributions(
        value,
        np.bincount(cell, psi, len(cells)).astype(np.float64),
        cells // n_runs,
        cells % n_runs,
        int(code.max(initial=-1)) + 1,
        len(first),
        size,
        metric not in UNBOUNDED,
        *_gain(metric, value, rows),
        fixed,
        metric,
        df,
        names,
    )


def _strata(metric: str, rows: Rows) -> NDArray | None:  # type: ignore[type-arg]
    """Return the class of every row, for figures that are means per class."""
    truth = rows.get("truth")
    per_class = metric in ("auroc", "balanced_accuracy")
    return truth if per_class and truth is not None and truth.ndim == 1 else None


def _small_sample(
    psi: Array,
    surplus: float,
    bag: Index,
    unit: Index,
    strata: NDArray | None,  # type: ignore[type-arg]
) -> tuple[Array, float]:
    r"""Return contributions scaled for small samples, and degrees of freedom.

    The squares of a class with :math:`m` units are multiplied by :math:`m / (m - 1)`,
    as its mean is estimated, and have :math:`m - 1` degrees of freedom. Those of the
    sum over classes are Satterthwaite's (1946). The surplus is at most a half.
    """
    n_units = int(unit.max(initial=-1)) + 1
    if n_units < 2:
        return psi, NAN
    scale = np.ones(len(psi))
    total = n_units / (n_units - 1)
    df = n_units - 1.0
    if strata is not None:
        parts, pieces = [], []
        for k in np.unique(np.asarray(strata)):
            own = strata == k
            m = max(len(np.unique(unit[own])), 2)
            scale[own] = np.sqrt(m / (m - 1.0) / total)
            part = np.bincount(bag[own], psi[own])
            parts.append(m / (m - 1.0) * float(part @ part))
            pieces.append(parts[-1] ** 2 / (m - 1.0))
        if sum(pieces) > 0.0:
            df = min(df, sum(parts) ** 2 / sum(pieces))
    if surplus > 0.0:
        part = np.bincount(bag, psi * scale)
        squares = total * float(part @ part)
        scale *= np.sqrt(max(1.0 - surplus / max(squares, surplus), 0.5))
    return psi * scale, df


def _gain(metric: str, value: float, rows: Rows) -> tuple[float, float]:
    """Return how far predictions are from guesses, and its slope.

    For labels that is Cohen's kappa; where one label is hardly ever predicted, guesses
    do not vary, and count as no guesses. For losses it is the part of the loss of a
    constant prediction that is saved.
    """
    truth = rows.get("truth")
    if metric in PAIRS:
        return abs(2.0 * value - 1.0), 2.0
    if metric == "average_precision" and rows["score"].ndim == 1:
        everything = np.zeros(len(rows["score"]), dtype=np.int64)
        area = _share_of_pairs(_pairs_of_classes, rows, everything)[0]
        return abs(2.0 * area - 1.0), 2.0
    if metric in ("accuracy", "balanced_accuracy"):
        return _kappa(rows), 2.0
    constant = 0.0
    if metric == "log_loss":
        _, count = np.unique(np.asarray(truth), return_counts=True)
        constant = float(-(count / count.sum()) @ np.log(count / count.sum()))
    elif metric == "rmse" and truth is not None:
        constant = float(np.var(truth))
    elif metric == "mae" and truth is not None:
        constant = float(np.mean(np.abs(truth - np.median(truth, axis=0))))
    if constant > 0.0:
        return max(1.0 - value / constant, 0.0), 1.0 / constant
    return (max(value, 0.0) if metric in ("r2", "spearman") else 1.0), 1.0


def _kappa(rows: Rows) -> float:
    truth, label = rows["truth"].ravel(), rows["label"].ravel()
    classes = np.unique(truth)
    known = np.array([np.mean(truth == k) for k in classes])
    given = np.array([np.mean(label == k) for k in classes])
    guessed = float(known @ given)
    kappa = (float(np.mean(truth == label)) - guessed) / max(1.0 - guessed, 1e-9)
    varied = (1.0 - given @ given) / max(1.0 - known @ known, 1e-9)
    return float(1.0 - (1.0 - min(abs(kappa), 1.0)) * min(1.0, varied))


def _size(metric: str, truth: NDArray) -> float:  # type: ignore[type-arg]
    n = float(len(truth))
    if metric in ("auroc", "average_precision", "balanced_accuracy"):
        table = truth if truth.ndim == 2 else truth[:, None] == np.unique(truth)
        counts = np.maximum(np.asarray(table).sum(axis=0), 1.0)
        if metric == "average_precision":
            return float(counts.min())
        if metric == "balanced_accuracy" and truth.ndim == 1:
            return float(len(counts) ** 2 / np.sum(1.0 / counts))
        return float(np.min(4 / (1 / counts + 1 / np.maximum(n - counts, 1.0))))
    if metric == "concordance":
        return float(max(truth["event"].sum(), 1))
    return n


def _compared(truth: NDArray, run: Index, repeat: Index) -> float:  # type: ignore[type-arg]
    """Return the number of pairs of bags of different classes that a repeat compares.

    Of several labels or classes, for the one with the fewest.
    """
    table = truth if truth.ndim == 2 else truth[:, None] == np.unique(truth)
    _, repeat = np.unique(repeat, return_inverse=True)
    fewest = np.inf
    for column in np.asarray(table, dtype=np.float64).T:
        pairs = np.bincount(run, column) * np.bincount(run, 1.0 - column)
        if np.mean(pairs > 0) < 0.5:  # bags of a repeat are ranked together
            pairs = np.bincount(repeat, column) * np.bincount(repeat, 1.0 - column)
        fewest = min(fewest, float(pairs.sum()))
    return max(fewest / (int(repeat.max(initial=0)) + 1), 1.0)


# Means ------------------------------------------------------------------------------

Mean = Callable[[Rows, Index, Index], tuple[float, Array]]
Figure = Callable[[Rows, Index, Index], tuple[float, Array, float]]


def _plain(mean: Mean) -> Figure:
    """Return a figure without surplus."""
    return lambda rows, run, repeat: (*mean(rows, run, repeat), 0.0)


def _mean(values: Array) -> tuple[float, Array]:
    value = float(values.mean()) if len(values) else NAN
    return value, (values - value) / max(len(values), 1)


def _accuracy(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
    return _mean((rows["truth"] == rows["label"]).astype(np.float64))


def _balanced(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
    hit = (rows["truth"] == rows["label"]).astype(np.float64)
    classes, code = np.unique(rows["truth"], return_inverse=True)
    count = np.bincount(code)
    recall = np.bincount(code, hit) / count
    psi = (hit - recall[code]) / (count[code] * len(classes))
    return float(recall.mean()), psi


def _log_loss(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
    p, truth = rows["probability"], rows["truth"].astype(np.int64)
    full = np.column_stack([1 - p, p]) if p.ndim == 1 else p
    chosen = full[np.arange(len(truth)), truth]
    return _mean(-np.log(np.clip(chosen, 1e-15, 1.0)))


def _squared_error(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
    return _mean((rows["prediction"] - rows["truth"]) ** 2)


def _absolute_error(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
    return _mean(np.abs(rows["prediction"] - rows["truth"]))


def _r2(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
    error, psi = _squared_error(rows, run, repeat)
    variance, own = _mean((rows["truth"] - rows["truth"].mean()) ** 2)
    return 1.0 - error / variance, -(psi - own * error / variance) / variance


def _key_success(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
    return _mean(rows["hit"])


# Figures of ranked bags: a mean over runs ---------------------------------------------


Pairs = tuple[Array, Array, float, float, float]
"""Of each bag: pairs in the right order, all pairs. Of all: the sum of squares, that of
what no bag explains, and its degrees of freedom (0 where it is not known)."""


def _of_pairs(pairs: Callable[[Rows], Pairs]) -> Figure:
    """Return the mean over runs of a share of pairs; over repeats in small runs."""

    def figure(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array, float]:
        value, psi, surplus, share = _share_of_pairs(pairs, rows, run)
        if share < 0.5:
            value, psi, surplus, _ = _share_of_pairs(pairs, rows, repeat)
        return value, psi, surplus

    return figure


def _share_of_pairs(
    pairs: Callable[[Rows], Pairs], rows: Rows, part: Index
) -> tuple[float, Array, float, float]:
    r"""Return the mean over parts, contributions, surplus, and the defined share.

    Bag :math:`i` of a part with :math:`N` pairs contributes
    :math:`\sum_j (\phi_{ij} - \theta) / N`. The mean :math:`\theta` is that of all
    parts: that of a part with few bags follows them too closely. The squares count the
    variance of a single pair twice, of which what both bags explain is removed where
    :math:`\theta` is that of the part. This surplus is returned.
    """
    members = [np.flatnonzero(part == k) for k in np.unique(part)]
    found = [pairs({name: c[at] for name, c in rows.items()}) for at in members]
    totals = np.array([one[1].sum() / 2.0 for one in found])
    kept = np.flatnonzero(totals > 0)
    psi = np.zeros(len(part))
    if not len(kept):
        return NAN, psi, 0.0, 0.0
    value = float(np.mean([found[i][0].sum() / 2.0 / totals[i] for i in kept]))
    for i in kept:
        psi[members[i]] = (found[i][0] - value * found[i][1]) / (totals[i] * len(kept))
    share = sum(found[i][2] for i in kept) / totals.sum()
    pair = share - value**2
    free = sum(found[i][4] for i in kept)
    alone = sum(found[i][3] for i in kept) / free if free else pair / 3.0
    twice = alone + (1.0 - 1.0 / len(kept)) * (pair - alone)
    surplus = twice * float(np.sum(1.0 / totals[kept])) / len(kept) ** 2
    return value, psi, surplus, len(kept) / len(members)


def _over_runs(one: Callable[[Rows], tuple[float, Array]]) -> Mean:
    """Return the mean over runs of a figure; over repeats where runs are too small."""

    def figure(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
        value, psi, share = _mean_over(one, rows, run)
        if share < 0.5:
            value, psi, _ = _mean_over(one, rows, repeat)
        return value, psi

    return figure


def _over_repeats(one: Callable[[Rows], tuple[float, Array]]) -> Mean:
    """Return the mean over repeats of a figure that ranks all bags of a repeat."""

    def figure(rows: Rows, run: Index, repeat: Index) -> tuple[float, Array]:
        return _mean_over(one, rows, repeat)[:2]

    return figure


def _mean_over(
    one: Callable[[Rows], tuple[float, Array]], rows: Rows, part: Index
) -> tuple[float, Array, float]:
    """Return the mean over parts, its contributions, and the share that is defined."""
    psi = np.zeros(len(part))
    values = []
    members = [np.flatnonzero(part == k) for k in np.unique(part)]
    for at in members:
        value, own = one({name: column[at] for name, column in rows.items()})
        if not np.isnan(value):
            values.append(value)
            psi[at] = own
    if not values:
        return NAN, psi, 0.0
    return float(np.mean(values)), psi / len(values), len(values) / len(members)


def _pairs_of_classes(rows: Rows) -> Pairs:
    positive = rows["truth"].astype(bool)
    m, n = int(positive.sum()), int((~positive).sum())
    right, count = np.zeros(m + n), np.where(positive, n, m).astype(np.float64)
    high, low = rows["score"][positive], rows["score"][~positive]
    right[positive], tied = _counts(high, low)
    right[~positive], _ = _counts(-low, -high)
    squares = float((right[positive] - tied / 4).sum())
    if min(m, n) < 2:
        return right, count, squares, 0.0, 0.0
    value = right[positive].sum() / (m * n)
    own = (right / count - value) ** 2 * count
    rest = squares - m * n * value**2 - float(own.sum())
    return right, count, squares, rest, float((m - 1) * (n - 1))


def _counts(values: Array, others: Array) -> tuple[Array, Array]:
    """Return how many others are below each value, ties as one half, and the ties."""
    others = np.sort(others)
    left = np.searchsorted(others, values, side="left")
    right = np.searchsorted(others, values, side="right")
    return (left + right) / 2.0, (right - left).astype(np.float64)


def _average_precision(rows: Rows) -> tuple[float, Array]:
    truth = rows["truth"].astype(bool)
    m = int(truth.sum())
    if not 0 < m < len(truth):
        return NAN, np.zeros(len(truth))
    order = np.argsort(-rows["score"], kind="stable")
    score, positive = rows["score"][order], truth[order].astype(np.float64)
    last = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)  # last of each tie
    above = last + 1.0
    precision = np.cumsum(positive)[last] / above
    found = np.diff(np.cumsum(positive)[last], prepend=0.0)
    value = float(found @ precision) / m
    # The derivative with respect to the weight of a bag: its own term, and the
    # precision at every threshold at or below its score.
    level = np.searchsorted(last, np.arange(len(score)))
    gain = np.cumsum((found / above)[::-1])[::-1][level]
    loss = np.cumsum((found * precision / above)[::-1])[::-1][level]
    psi = np.empty(len(truth))
    psi[order] = (positive * (precision[level] + gain - value) - loss) / m
    return value, psi


def _pairs_of_times(rows: Rows) -> Pairs:
    event, time = rows["truth"]["event"], rows["truth"]["time"]
    risk = rows["score"]
    right, count = np.zeros(len(risk)), np.zeros(len(risk))
    squares = 0.0  # a pair counts 1, 1/2 (tied) or 0
    for i in np.flatnonzero(event):
        later = np.flatnonzero((time > time[i]) | ((time == time[i]) & ~event))
        won = (risk[later] < risk[i]) + 0.5 * (risk[later] == risk[i])
        right[later] += won
        count[later] += 1.0
        right[i] += won.sum()
        count[i] += len(later)
        squares += float(won @ won)
    return right, count, squares, 0.0, 0.0


def _spearman(rows: Rows) -> tuple[float, Array]:
    n = len(rows["truth"])
    ranks = [rankdata(rows[name]) / n for name in ("truth", "prediction")]
    if n < 3 or any(np.ptp(rank) == 0 for rank in ranks):
        return NAN, np.zeros(n)
    x, y = ((rank - rank.mean()) / rank.std() for rank in ranks)
    psi = x * y
    # A bag also raises the ranks of all bags above it.
    for own, other, rank in ((x, y, ranks[0]), (y, x, ranks[1])):
        order = np.argsort(own)
        above = np.cumsum(other[order][::-1])[::-1] - other[order] / 2.0
        psi[order] += above / (n * rank.std())
    return float(np.mean(x * y)), (psi - psi.mean()) / n


def _by_column(
    figure: Figure, rows: Rows, run: Index, repeat: Index
) -> tuple[float, Array, float]:
    """Return a figure, the mean over labels or over classes (one against the rest)."""
    truth, score = rows.get("truth"), rows.get("score")
    if truth is not None and truth.ndim == 2:
        n = truth.shape[1]
        columns = [{name: part[:, k] for name, part in rows.items()} for k in range(n)]
    elif truth is not None and score is not None and score.ndim == 2:
        classes = range(score.shape[1])
        columns = [{"truth": truth == k, "score": score[:, k]} for k in classes]
    else:
        return figure(rows, run, repeat)
    found = [figure(column, run, repeat) for column in columns]
    if truth.ndim == 2:  # a label with one class has no ranking
        found = [one for one in found if not np.isnan(one[0])]
    if not found:
        return NAN, np.zeros(len(run)), 0.0
    values, psi, surplus = zip(*found, strict=True)
    return float(np.mean(values)), np.mean(psi, axis=0), float(np.mean(surplus))


_RANKED = ("truth", "score")
_VALUES = ("truth", "prediction")
FIGURES: dict[str, tuple[Figure, tuple[str, ...]]] = {
    "accuracy": (_plain(_accuracy), ("truth", "label")),
    "balanced_accuracy": (_plain(_balanced), ("truth", "label")),
    "log_loss": (_plain(_log_loss), ("truth", "probability")),
    "key_success": (_plain(_key_success), ("hit",)),
    "auroc": (_of_pairs(_pairs_of_classes), _RANKED),
    "average_precision": (_plain(_over_repeats(_average_precision)), _RANKED),
    "concordance": (_of_pairs(_pairs_of_times), _RANKED),
    "r2": (_plain(_r2), _VALUES),
    "rmse": (_plain(_squared_error), _VALUES),
    "mae": (_plain(_absolute_error), _VALUES),
    "spearman": (_plain(_over_runs(_spearman)), _VALUES),
}
"""What each figure is, and the columns it is made from."""
