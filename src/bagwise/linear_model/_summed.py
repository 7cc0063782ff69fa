"""The loss of linear instance scores as a sum over pieces of the data."""

from __future__ import annotations

import numpy as np

from bagwise.bags.segments import bag_matrix, repeat
from bagwise.linear_model.loss import BagLoss, relative_rounding


class SummedLoss:
    """What `BagLoss` is, for bags that are never in one place.

    Every evaluation asks each piece for its share of the loss and of the gradient. The
    pieces have the weighted mean over *all* bags in common, and the means of columns.

    Parameters
    ----------
    pieces : Chunks or Partitions
        Anything with ``sum(function, *shared)`` over pieces that have `X` (Bags), `y`
        (0.0 or 1.0 for each bag and output) and `weight`.
    centre : bool
        Whether the means of columns are subtracted.
    pooling, alpha, loss : as in `BagLoss`
    """

    n_hypotheses = 1

    def __init__(self, pieces, *, centre, **options):
        self.pieces = pieces
        self.options = options
        total, rates, size, rows, sums, squares, single = pieces.sum(_statistics)
        self.total = total
        self.n_features = len(sums)
        self.n_columns = len(rates)
        self.mean = sums / rows if centre else None
        self._rates = rates / total, size / total
        self._square = squares / rows
        self.rounding = relative_rounding(single, rows)

    @property
    def pooling(self):
        """How instance probabilities make a bag probability."""
        return self.options["pooling"]

    @property
    def loss(self):
        """Which loss."""
        return self.options["loss"]

    def rates(self):
        """Return the weighted frequency of each output and the mean size of bags."""
        return self._rates

    def mean_square(self):
        """Return the mean squared norm of the (centred) instances."""
        if self.mean is None:
            return self._square
        return self._square - float(self.mean @ self.mean)

    def of_means(self):
        """Return the convex loss of the means of bags: gmean with the log loss.

        The means are gathered: one row for each bag.
        """
        found = self.pieces.each(_bag_means)
        means, target, weight = (
            np.concatenate(part) for part in zip(*found, strict=True)
        )
        return BagLoss(
            means,
            np.arange(len(means) + 1),
            target,
            weight,
            pooling="gmean",
            loss="log",
            mean=self.mean,
        )

    def __call__(self, U, b):
        """Return the loss, its gradient in `U` and its gradient in `b`."""
        value, gradient, slope = self.pieces.sum(
            _evaluate, U, b, self.mean, self.options
        )
        return value / self.total, gradient / self.total, slope / self.total


def _targets(piece):
    return piece.y if piece.y.ndim == 2 else piece.y[:, None]


def _statistics(piece):
    """Sums of weights, targets, sizes, rows, columns, squared norms; float32 pieces."""
    X, weight = piece.X, piece.weight
    rows = repeat(weight, X.offsets)
    sums = np.asarray(X.data.T @ rows, dtype=np.float64).ravel()
    if X.is_sparse:
        norms = np.asarray(X.data.multiply(X.data).sum(axis=1)).ravel()
    else:
        norms = np.einsum("ij,ij->i", X.data, X.data)
    return (
        float(weight.sum()),
        weight @ _targets(piece),
        float(weight @ X.sizes),
        float(rows.sum()),
        sums,
        float(rows @ norms),
        int(X.dtype == np.float32),
    )


def _bag_means(piece):
    means = bag_matrix(piece.X.offsets, mean=True) @ piece.X.data
    means = means.toarray() if piece.X.is_sparse else np.asarray(means)
    return means.astype(np.float64, copy=False), _targets(piece), piece.weight


def _evaluate(piece, U, b, mean, options):
    loss = BagLoss(
        piece.X.data, piece.X.offsets, piece.y, piece.weight, mean=mean, **options
    )
    share = float(piece.weight.sum())  # the piece's own loss is a mean
    return tuple(share * part for part in loss(U, b))
