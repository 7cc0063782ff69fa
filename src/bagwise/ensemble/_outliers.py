"""How far bags are from the bags that a stack was fitted to."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise.ensemble._inputs import (
    DenseRows,
    Made,
    StandardRows,
    Statistics,
    spread_out,
)
from bagwise.kernels.instance import squared_distances

# Number of training bags used as references.
_REFERENCES = 1_000
# Bags whose distances are computed at a time.
_PART = 1_000


@dataclass
class TrainingDistances:
    """The distance of a bag to the nearest training bag, and what is usual.

    Attributes
    ----------
    statistics : Statistics
        The input that describes bags: statistics of standardized instances.
    scale : ndarray of shape (n_columns,)
        Spread of each statistic over the training bags.
    references : ndarray of shape (n_references, n_columns)
        Standardized statistics of training bags.
    usual : ndarray of shape (n_references,)
        Sorted distances of these bags from the nearest training bag of another group.
    """

    statistics: Statistics
    scale: np.ndarray
    references: np.ndarray
    usual: np.ndarray

    @classmethod
    def fit(cls, made, members, X):
        """Describe the training bags, or a thousand of them.

        Parameters
        ----------
        made : Made
            Inputs of the training bags.
        members : list of Member
            The members; their statistics are shared where there are some.
        X : Bags
            The training bags.

        Returns
        -------
        TrainingDistances or None
            None where the standardized rows would have to be made of bags on disk.
        """
        shared = (m.input for m in members if isinstance(m.input, Statistics))
        statistics = next(shared, None)
        if statistics is None:
            if X.on_disk:
                return None
            statistics = Statistics(DenseRows(StandardRows()))
        with warnings.catch_warnings():
            # User-defined members may use columns that are constant in all instances.
            warnings.filterwarnings("ignore", "all columns of X are constant")
            rows = made.of(statistics)
        spread = rows.std(axis=0)
        # A change of a nearly constant column is large, but limited.
        least = 0.1 * np.sqrt(np.mean(spread**2))
        scale = np.maximum(spread, least) if least > 0 else np.ones(len(spread))
        chosen = spread_out(len(X), _REFERENCES)
        references = rows[chosen] / scale
        groups = np.arange(len(X)) if X.groups is None else np.asarray(X.groups)
        if len(np.unique(groups[chosen])) < 2:
            groups = np.arange(len(X))
        usual = _nearest(references, references, groups[chosen])
        return cls(statistics, scale, references, np.sort(usual))

    def __call__(self, X):
        """Return the distances of bags from the nearest training bag."""
        return _nearest(Made(X).of(self.statistics) / self.scale, self.references)

    def share_nearer(self, distance):
        """Return the share of training bags that are nearer to the others.

        It grows with the distance: linear between two training bags, and towards one
        beyond the last.
        """
        n = len(self.usual)
        last = max(self.usual[-1], np.finfo(float).tiny)
        share = np.interp(distance, self.usual, np.arange(1, n + 1) / (n + 1))
        below = self.usual[0] > distance
        share[below] = distance[below] / self.usual[0] / (n + 1)
        beyond = distance > last
        share[beyond] = 1.0 - last / distance[beyond] / (n + 1)
        return share


def _nearest(rows, references, groups=None):
    """Return the distances from the nearest reference, of another group if given."""
    found = np.empty(len(rows))
    for first in range(0, len(rows), _PART):
        part = slice(first, first + _PART)
        D = squared_distances(rows[part], references)
        if groups is not None:
            D[groups[part, None] == groups] = np.inf
        found[part] = np.sqrt(D.min(axis=1))
    return found


class OutlierScoresMixin:
    """Add `outlier_scores` to stacks that set `_distances` in their fit."""

    def outlier_scores(self, X):
        """Return outlier scores: how unusual each distance from the training bags is.

        A bag is described by the mean, the spread, the minimum and the maximum of every
        standardized feature and by the logarithm of its size. Its distance from the
        nearest training bag is compared with the distances of training bags from the
        nearest other one (of another group, where there are groups).

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            Between 0 and 1, higher for a larger distance: the share of training bags
            (of at most 1,000) that are nearer to the others than this bag is to them.
            One minus the score is close to a p-value: of bags from the same source as
            the training bags, about 5% have a score above 0.95. Above n / (n + 1), for
            n training bags, a bag is farther than all of them.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        if self._distances is None:
            raise ValueError(
                "this model was fitted to bags on disk with a list of members; outlier "
                "scores need the default members or bags in memory."
            )
        return self._distances.share_nearer(self._distances(X))
