"""Methods over several data sets: mean ranks and tests.

Ranks are averaged over data sets and compared as Demsar [1]_ recommends: Friedman's
test [2]_ in the form of Iman and Davenport, then Nemenyi's critical difference. Holm's
procedure gives the comparisons with the best method.

References
----------
.. [1] Demsar, J., "Statistical comparisons of classifiers over multiple data sets",
   Journal of Machine Learning Research 7, 1-30, 2006.
.. [2] Friedman, M., "The use of ranks to avoid the assumption of normality implicit in
   the analysis of variance", JASA 32, 675-701, 1937.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.inference import holm
from bagwise.comparison.texts import latex_table, markdown_table, require_pandas

__all__ = [
    "Leaderboard",
    "against_best",
    "critical_difference",
    "friedman",
    "mean_ranks",
]

Array = NDArray[np.float64]
ALPHA = 0.05


@dataclass(frozen=True)
class Leaderboard:
    """Methods over data sets.

    Parameters
    ----------
    metric : str
        The metric that is compared.
    methods, datasets : tuple of str
        The complete block that is ranked; methods by their mean rank.
    values : ndarray of shape (n_datasets, n_methods)
        Mean over folds.
    ranks : ndarray of shape (n_methods,)
        Mean rank, 1 is best.
    times : ndarray of shape (n_datasets, n_methods)
        Seconds to fit, without tuning.
    critical_difference : float
        Smallest significant difference of mean ranks (Nemenyi, 5%).
    p_friedman : float
        The p value of Friedman's test.
    p_holm : dict
        Adjusted p values of the comparison with the best method.
    protocols : dict
        How each data set was split.
    left_out : list of str
        Runs of the store that are not in the block, with the reason.
    """

    metric: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    values: Array
    ranks: Array
    times: Array
    critical_difference: float
    p_friedman: float
    p_holm: dict[str, float]
    protocols: dict[str, str]
    left_out: list[str] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per method, the best first.

        Returns
        -------
        list of dict
            Mean rank, mean, number of data sets on which it is best, median seconds to
            fit, p value, and whether its rank is within the critical difference.
        """
        best = self.ranks[0] if len(self.ranks) else float("nan")
        return [
            {
                "method": name,
                "mean_rank": float(self.ranks[j]),
                "mean": float(self.values[:, j].mean()),
                "wins": int(_is_best(self.values, self.metric)[:, j].sum()),
                "fit_seconds": float(np.median(self.times[:, j])),
                "p_holm": self.p_holm.get(name, float("nan")),
                "with_best": bool(self.ranks[j] - best <= self.critical_difference),
            }
            for j, name in enumerate(self.methods)
        ]

    @classmethod
    def of(
        cls, comparisons: Sequence[Comparison], *, metric: str | None = None
    ) -> Leaderboard:
        """Rank the methods of several comparisons, one for each data set.

        Parameters
        ----------
        comparisons : sequence of Comparison
            Results on different data sets. Methods that all of them have finished take
            part.
        metric : str, optional
            The metric; by default that of the comparisons.

        Returns
        -------
        Leaderboard
            Mean ranks and tests.
        """
        names = [one.problem.name for one in comparisons]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ValueError(
                "a leaderboard needs two or more comparisons on data sets of different"
                f" names, got {', '.join(names) or 'none'}"
            )
        asked = {one.metric for one in comparisons} if metric is None else {metric}
        if len(asked) > 1 or not asked <= set(METRICS):
            known = ", ".join(METRICS)
            raise ValueError(
                "the comparisons are ranked by different metrics"
                f" ({', '.join(sorted(asked))}): name one of them as metric"
                if len(asked) > 1
                else f"unknown metric {metric!r}; known: {known}"
            )
        (metric,) = asked
        found = [_figures_of(one, metric) for one in comparisons]
        kept = [m for m in found[0] if all(m in others for others in found)]
        left = sorted({m for one in found for m in one} - set(kept))
        missing = [sum(m not in one for one in found) for m in left]
        if len(kept) < 2:
            raise ValueError(
                f"fewer than two methods have finished on all {len(names)} data sets"
                f" with a defined {METRICS[metric].in_text}"
            )
        values = np.array([[one[m][0] for m in kept] for one in found])
        times = np.array([[one[m][1] for m in kept] for one in found])
        ranks = mean_ranks(values, higher=METRICS[metric].higher)
        order = np.argsort(ranks, kind="stable")
        kept = [kept[j] for j in order]
        return cls(
            metric,
            tuple(kept),
            tuple(names),
            values[:, order],
            ranks[order],
            times[:, order],
            critical_difference(len(kept), len(names)),
            friedman(values),
            against_best(kept, ranks[order], len(names)),
            {one.problem.name: one.protocol.describe() for one in comparisons},
            [
                f"{name}: not on {n} of {len(names)} data sets"
                for name, n in zip(left, missing, strict=True)
            ],
        )

    @property
    def tied(self) -> list[tuple[int, int]]:
        """First and last of each longest run of methods within the difference."""
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(self.ranks):
            within = self.ranks - rank <= self.critical_difference
            last = int(np.flatnonzero(within)[-1])
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found

    def to_frame(self) -> Any:
        """Return the methods as a pandas data frame, the best first.

        Returns
        -------
        pandas.DataFrame
            Mean rank, mean, wins, seconds and p value, and the value on every data set.
        """
        pandas = require_pandas("Leaderboard.rows")
        frame = pandas.DataFrame(self.rows()).set_index("method")
        values = pandas.DataFrame(
            self.values.T, index=frame.index, columns=list(self.datasets)
        )
        return frame.join(values, rsuffix=" (data)")

    def to_markdown(self) -> str:
        """Return the values on every data set and the mean ranks as Markdown.

        Returns
        -------
        str
            The table.
        """
        return "\n".join(markdown_table(*self._table())) + "\n"

    def to_latex(
        self, *, caption: str | None = None, label: str = "tab:leaderboard"
    ) -> str:
        r"""Return the values on every data set and the mean ranks as LaTeX.

        Parameters
        ----------
        caption : str, optional
            The caption; by default what was measured.
        label : str, default="tab:leaderboard"
            Name for references.

        Returns
        -------
        str
            The table; it needs ``\usepackage{booktabs}``.
        """
        if caption is None:
            caption = (
                f"{METRICS[self.metric].title} on {len(self.datasets)} data sets, and"
                f" mean ranks. Friedman test: p = {self.p_friedman:.3g}; Nemenyi"
                f" critical difference {self.critical_difference:.2f} at 5%; p (Holm)"
                " of the comparison with the first method."
            )
        return latex_table(*self._table(), caption=caption, label=label)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        show = METRICS[self.metric].show
        rows = []
        for j, row in enumerate(self.rows()):
            p = "" if np.isnan(row["p_holm"]) else f"{row['p_holm']:.3f}"
            own = [show(value) for value in self.values[:, j]]
            rows.append([row["method"], *own, f"{row['mean_rank']:.2f}", p])
        return ["Method", *self.datasets, "Mean rank", "p (Holm)"], rows


def _figures_of(comparison: Comparison, metric: str) -> dict[str, tuple[float, float]]:
    """Return the value and the seconds to fit of every method that has a value."""
    found = {}
    for row in comparison.ranking:
        value = row.mean if metric == comparison.metric else getattr(row, metric)
        if row.n_folds and not row.n_failed and not np.isnan(value):
            found[row.method] = float(value), float(row.fit_time)
    return found


def mean_ranks(values: Array, *, higher: bool = True) -> Array:
    """Return the mean rank of every column, ties sharing theirs.

    Examples
    --------
    >>> mean_ranks(np.array([[0.9, 0.8], [0.7, 0.7]]))
    array([1.25, 1.75])
    """
    signed = -values if higher else values
    return np.asarray(stats.rankdata(signed, axis=1).mean(axis=0))


def critical_difference(n_methods: int, n_datasets: int, alpha: float = ALPHA) -> float:
    r"""Return Nemenyi's critical difference of mean ranks.

    .. math:: q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    where :math:`k` is `n_methods`, :math:`N` is `n_datasets` and :math:`q_\alpha` is
    the quantile of the studentized range for `alpha`, divided by :math:`\sqrt 2`
    ([1]_, Section 3.2.2, see the module).

    Examples
    --------
    >>> round(critical_difference(5, 30), 2)
    1.11
    """
    q = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets)))


def friedman(values: Array) -> float:
    """Return the p value of Friedman's test, corrected by Iman and Davenport.

    NaN for fewer than two data sets. There is no correction for ties, which is
    conservative.
    """
    n, k = values.shape
    if n < 2 or k < 2:
        return float("nan")
    ranks = mean_ranks(values)
    chi2 = 12.0 * n / (k * (k + 1)) * (np.sum(ranks**2) - k * (k + 1) ** 2 / 4.0)
    rest = n * (k - 1) - chi2
    if rest <= 1e-12:  # every set gives the same order
        return 0.0
    return float(stats.f.sf((n - 1) * chi2 / rest, k - 1, (k - 1) * (n - 1)))


def against_best(names: Sequence[str], ranks: Array, n: int) -> dict[str, float]:
    """Return Holm-adjusted p values of z tests of mean ranks against the first."""
    k = len(names)
    z = (ranks[1:] - ranks[0]) / np.sqrt(k * (k + 1) / (6.0 * n))
    p_values = 2.0 * stats.norm.sf(np.abs(z))
    return holm(dict(zip(names[1:], map(float, p_values), strict=True)))


def _is_best(values: Array, metric: str) -> NDArray[np.bool_]:
    top = values.max(1) if METRICS[metric].higher else values.min(1)
    return np.asarray(values == top[:, None])
