r"""The loss of linear instance scores under a pooling, and its minimization.

One evaluation costs two products with the instance matrix, whatever the pooling. The
same object serves multi-instance logistic regression and MIDR.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from bagwise.bags.segments import bag_matrix, repeat
from bagwise.linear_model._loops import apply_loss
from bagwise.linear_model.pooling import PoolBuffers, pool_flat

#: Names of the losses between a bag's probability and its label.
LOSSES = ("squared", "log")

# Number of rows whose products are summed in float32 before they enter a float64 sum.
_BLOCK = 65_536


def relative_rounding(single, n_instances):
    """Relative decrease of the objective that is rounding.

    In float32 scores carry errors of 1e-7, which average out over instances.
    """
    if not single:
        return 64 * float(np.finfo(np.float64).eps)
    return max(1e-9, float(np.finfo(np.float32).eps) / np.sqrt(n_instances))


def precise(X, mean):
    """Return the bags, in double precision where single would lose what they are about.

    Rows far from zero for their spread: products with them are large, and alike.
    """
    if X.dtype != np.float32 or _distance(X.data, mean) <= 100.0:
        return X
    return X.with_data(X.data.astype(np.float64))


def _distance(data, mean):
    """Return how far dense rows are from zero, in spreads of the first rows."""
    if mean is None or sp.issparse(data):
        return 0.0
    spread = np.ptp(data[:1000], axis=0)
    varies = spread > 0
    return float(np.max(np.abs(mean[varies]) / spread[varies], initial=0.0))


class BagLoss:
    r"""Weighted mean loss of bags under linear instance scores.

    .. math::
        L(U, b) = \frac{1}{\sum_i \omega_i} \sum_i \omega_i \sum_k
            \ell\bigl(P_{ik}, y_{ik}\bigr), \qquad
        P_{ik} = \mathrm{pool}_{j, h}\ \sigma\bigl((x_{ij} - \bar x)' u_{kh}
            + b_{kh}\bigr)

    where :math:`k` runs over outputs, :math:`h` over the hypotheses of one output,
    and :math:`u_{kh}` is column ``k * n_hypotheses + h`` of :math:`U`. The mean
    :math:`\bar x` is folded into the intercept, so a sparse matrix stays sparse.

    Parameters
    ----------
    data : ndarray or CSR of shape (n_instances, n_features)
        Stacked instances; float32 data are multiplied in float32.
    offsets : ndarray of shape (n_bags + 1,)
        Where bags begin.
    target : ndarray of shape (n_bags,) or (n_bags, n_outputs)
        Labels 0.0 or 1.0.
    weight : ndarray of shape (n_bags,), default=None
        Weight :math:`\omega` of each bag.
    pooling, alpha, loss : as in `pool`, and one of `LOSSES`
    n_hypotheses : int, default=1
        Directions that share one output.
    mean : ndarray of shape (n_features,), default=None
        Subtracted from every instance, without forming the difference.
    """

    def __init__(
        self,
        data,
        offsets,
        target,
        weight=None,
        *,
        pooling="softmax",
        alpha=3.5,
        loss="squared",
        n_hypotheses=1,
        mean=None,
    ):
        self.data = data
        self.offsets = offsets
        self.target = target if target.ndim == 2 else target[:, None]
        n_bags = offsets.shape[0] - 1
        weight = np.ones(n_bags) if weight is None else weight
        self.weight = (weight / weight.sum())[:, None]
        self.pooling = pooling
        self.alpha = alpha
        self.loss = loss
        self.n_hypotheses = n_hypotheses
        self.mean = mean
        self._transposed = data.T
        # Prepared once for all evaluations: the columns and labels of each output, and
        # buffers for its scores and pooled values.
        self._outputs = [
            (slice(k * n_hypotheses, (k + 1) * n_hypotheses), labels)
            for k, labels in enumerate(np.array(self.target.T, np.float64, order="C"))
        ]
        self._shares = np.ascontiguousarray(self.weight[:, 0])
        self._bounds = offsets * n_hypotheses
        self._scores = np.empty((data.shape[0], n_hypotheses))
        self._buffers = PoolBuffers(data.shape[0] * n_hypotheses, n_bags)

    @property
    def n_columns(self):
        """Number of directions: outputs times hypotheses."""
        return self.target.shape[1] * self.n_hypotheses

    @property
    def n_features(self):
        """Number of columns of the data."""
        return self.data.shape[1]

    @property
    def rounding(self):
        """Relative decrease of the loss that is rounding."""
        own = relative_rounding(self.data.dtype == np.float32, self.data.shape[0])
        # Scores of rows far from zero are differences of large numbers.
        far = _distance(self.data, self.mean)
        return max(own, 16 * float(np.finfo(np.float64).eps) * far)

    def rates(self):
        """Return the weighted frequency of each output and the mean size of bags."""
        rate = (self.weight * self.target).sum(axis=0)
        return rate, float(self.weight[:, 0] @ np.diff(self.offsets))

    def mean_square(self):
        """Return the mean squared norm of the (centered) instances."""
        data = self.data
        if isinstance(data, np.ndarray):
            norms = np.einsum("ij,ij->i", data, data)
        else:
            norms = np.asarray(data.multiply(data).sum(axis=1)).ravel()
        rows = repeat(self.weight[:, 0], self.offsets)
        total = float(np.average(norms, weights=rows))
        return total if self.mean is None else total - float(self.mean @ self.mean)

    def of_means(self):
        """Return the convex loss of the means of bags: gmean with the log loss."""
        return BagLoss(
            bag_matrix(self.offsets, mean=True) @ self.data,
            np.arange(len(self.offsets)),
            self.target,
            self.weight[:, 0],
            pooling="gmean",
            loss="log",
            mean=self.mean,
        )

    def on(self, data):
        """Return the same loss on other features of the same instances."""
        return BagLoss(
            data,
            self.offsets,
            self.target,
            self.weight[:, 0],
            pooling=self.pooling,
            alpha=self.alpha,
            loss=self.loss,
            n_hypotheses=self.n_hypotheses,
        )

    def _pool(self, part, shift):
        """Pool one output, into buffers that the next one overwrites.

        Hypotheses are pooled as if each were an instance of its own.
        """
        z = self._scores
        np.add(part, shift, out=z)
        flat = z.reshape(-1)
        return pool_flat(flat, self._bounds, self.pooling, self.alpha, self._buffers)

    def __call__(self, U, b):
        """Return the loss, its gradient in `U` and its gradient in `b`."""
        product, shift = _product(self.data, U), _shift(U, b, self.mean)
        log = self.loss == "log"
        value, total = 0.0, np.empty(U.shape[1])
        for columns, labels in self._outputs:
            part = product[:, columns]
            prob, complement, slope = self._pool(part, shift[columns])
            value += apply_loss(
                prob, complement, labels, self._shares, log, slope, self._bounds
            )
            slope = slope.reshape(part.shape)  # contains dL/dz here
            slope.sum(axis=0, out=total[columns])
            part[:] = slope  # overwrites the scores, in the type of the data
        gradient = self._back_project(product)
        if self.mean is not None:
            gradient -= self.mean[:, None] * total
        return value, gradient, total

    def _back_project(self, residual):
        """Return ``data.T @ residual`` in float64."""
        if residual.shape[1] == 1:  # a matrix-vector product is faster
            residual = residual[:, 0]
        if residual.dtype == np.float64 or len(residual) <= _BLOCK:
            gradient = self._transposed @ residual
        else:
            gradient = 0.0
            for start in range(0, len(residual), _BLOCK):
                rows = slice(start, start + _BLOCK)
                part = self.data[rows].T @ residual[rows]
                gradient = gradient + part.astype(np.float64)
        gradient = gradient.astype(np.float64, copy=False)
        return gradient.reshape(self.data.shape[1], -1)


def linear_scores(data, U, b, mean=None):
    """Scores ``(data - mean) @ U + b`` in float64, without forming the difference."""
    return np.add(_product(data, U), _shift(U, b, mean), dtype=np.float64)


def _product(data, U):
    """Return ``data @ U`` in the type of the data."""
    coef = U.astype(data.dtype, copy=False)
    if U.shape[1] == 1:  # a matrix-vector product is faster
        return (data @ coef[:, 0])[:, None]
    return data @ coef


def _shift(U, b, mean):
    return b if mean is None else b - mean @ U


def column_means(X, weight):
    """Mean of every column of `Bags`, instances counting with their bag's weight."""
    if np.ptp(weight) == 0.0:
        mean = X.data.mean(axis=0, dtype=np.float64)
        return np.asarray(mean).ravel()
    share = repeat(weight, X.offsets)
    share /= share.sum()
    return np.asarray(X.data.T @ share, dtype=np.float64).ravel()


class LinearFit(NamedTuple):
    """Result of `fit_linear`; `stop` is "converged", "max_iter" or "stalled"."""

    coef: np.ndarray
    intercept: np.ndarray
    objective: float
    path: list
    n_iter: int
    stop: str


def fit_linear(
    loss,
    coef,
    intercept,
    *,
    ridge,
    fit_intercept=True,
    max_iter=500,
    tol=1e-5,
    ftol=None,
):
    r"""Minimize ``loss(U, b) + ridge / 2 * |U|^2`` by L-BFGS from one start.

    Parameters
    ----------
    loss : BagLoss or SummedLoss
        The loss.
    coef : ndarray of shape (n_features, n_columns)
        Start.
    intercept : ndarray of shape (n_columns,)
        Start; kept as it is without `fit_intercept`.
    ridge : float
        Strength of the penalty on `U`; `b` is not penalized.
    fit_intercept : bool, default=True
        Whether `b` is free.
    max_iter : int, default=500
        Largest number of iterations.
    tol : float, default=1e-5
        Stop when no entry of the gradient is larger.
    ftol : float, default=None
        Stop when an iteration lowers the objective by less, relatively. By default
        what rounding allows; objectives with kinks, whose gradient never vanishes,
        need a larger value.

    Returns
    -------
    LinearFit
    """
    if ftol is None:
        ftol = loss.rounding
    shape = coef.shape
    fixed = np.array(intercept, dtype=np.float64)

    def split(theta):
        U = theta[: coef.size].reshape(shape)
        return U, (theta[coef.size :] if fit_intercept else fixed)

    def objective(theta):
        U, b = split(theta)
        value, gradient, slope = loss(U, b)
        value += 0.5 * ridge * np.vdot(U, U)
        gradient = (gradient + ridge * U).ravel()
        return value, np.concatenate([gradient, slope]) if fit_intercept else gradient

    theta = np.concatenate([np.ravel(coef), fixed]) if fit_intercept else np.ravel(coef)
    path = [objective(theta)[0]]
    n_iter = 0
    while True:
        result = minimize(
            objective,
            theta,
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: path.append(
                float(intermediate_result.fun)
            ),
            options={
                "maxiter": max(max_iter - n_iter, 1),
                "maxfun": 20 * max_iter + 100,
                "gtol": tol,
                "ftol": ftol,
            },
        )
        theta = result.x
        n_iter += int(result.nit)
        # After a failed line search (kinks of the maximum, rounding in float32), L-BFGS
        # is restarted with an empty memory as long as that makes progress.
        if result.status != 2 or result.nit == 0 or n_iter >= max_iter:
            break
    stop = {0: "converged", 1: "max_iter"}.get(int(result.status), "stalled")
    if stop == "stalled":
        # Check convergence up to rounding. The curvature is at most about the mean
        # square of the instances, so a step along the negative gradient g gains at
        # least g'g / 2L. No line search detects a gain below the rounding error of the
        # objective.
        g, curvature = result.jac, 1.0 + ridge + loss.mean_square()
        gain = 0.5 * float(g @ g) / curvature
        if np.abs(g).max() <= 100 * tol or gain <= loss.rounding * abs(result.fun):
            stop = "converged"
    U, b = split(theta)
    return LinearFit(U, b, float(result.fun), path, n_iter, stop)


class SummedLoss:
    """What `BagLoss` is, for bags that are never in one place.

    Every evaluation asks each piece for its share of the loss and of the gradient. The
    pieces have the weighted mean over *all* bags in common, and the means of columns.

    Parameters
    ----------
    pieces : Chunks or Partitions
        Anything with ``sum(function, *shared)`` over pieces that have `X` (Bags), `y`
        (0.0 or 1.0 for each bag and output) and `weight`.
    center : bool
        Whether the means of columns are subtracted.
    pooling, alpha, loss : as in `BagLoss`
    """

    n_hypotheses = 1

    def __init__(self, pieces, *, center, **options):
        self.pieces = pieces
        self.options = options
        total, rates, size, rows, sums, squares, single = pieces.sum(_statistics)
        self.total = total
        self.n_features = len(sums)
        self.n_columns = len(rates)
        self.mean = sums / rows if center else None
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
        """Return the mean squared norm of the (centered) instances."""
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
    share = float(piece.weight.sum())  # the loss of a piece is a mean
    return tuple(share * part for part in loss(U, b))
