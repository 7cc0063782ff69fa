r"""What SAFE solves: the settings, the training bags and the maps between them.

Everything is linear in the targets. A bag has a row of additive *columns* (an
indicator for each class, or its real values), and the targets are ``columns @ mix``:
sums over bags can be formed before it is known how many classes there are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.bags.chunks import Chunks, larger_than_chunk
from bagwise.bags.segments import repeat, segment_sum
from bagwise.kernels.instance import resolve_gamma


def instance_variance(core, degrees, count, ids_of_row, *, floor=0.0):
    """Diagonal of V: the multiplicities, divided by the degrees in the KSC core.

    Parameters
    ----------
    core : {"ksc", "kpca"}
        The unsupervised core model.
    degrees : ndarray of shape (n_instances,) or None
        Row sums of the kernel; not needed by "kpca".
    count : ndarray of shape (n_instances,)
        Multiplicity of each instance.
    ids_of_row : callable
        Gives (bag id, position in the bag) of a row, for the message.
    floor : float
        Smallest value that the true degrees can have; approximations are raised to it.
    """
    if core == "kpca":
        return count
    if floor > 0.0:
        degrees = np.maximum(degrees, floor)
    bad = np.flatnonzero(~(degrees > 0.0))
    if bad.size:
        bag, position = ids_of_row(int(bad[0]))
        raise ValueError(
            f"core='ksc' divides by the degree of every instance, and {bad.size} of "
            f"them are not positive: instance {position} of bag {bag} has degree "
            f"{degrees[bad[0]]:.3g}. Use core='kpca', or kernel='rbf', whose degrees "
            "are always positive."
        )
    return count / degrees


def row_namer(X):
    """Return the function that names a row of `X` by bag id and position."""

    def name(row):
        bag = int(np.searchsorted(X.offsets, row, side="right")) - 1
        return X.ids[bag], row - int(X.offsets[bag])

    return name


def bag_gamma(gamma, X, count):
    """Kernel width as a number, for bags of which each counts `count` times."""
    if not larger_than_chunk(X):
        return resolve_gamma(gamma, X.data, repeat(count, X.offsets))
    if gamma == "median":  # only the rows that it uses
        step = max(1, -(-X.n_instances // 1000))
        return resolve_gamma(gamma, X.take_rows(np.arange(0, X.n_instances, step)))
    if gamma != "scale":
        return resolve_gamma(gamma, np.zeros((1, X.n_features)))
    total, sums, squares = Chunks(X, weight=count).sum(_entry_sums)
    entries = total * X.n_features
    variance = squares / entries - (sums / entries) ** 2
    return 1.0 / (X.n_features * variance) if variance > 0 else 1.0


def _entry_sums(piece):
    data = piece.X.data.astype(np.float64, copy=False)
    rows = repeat(piece.weight, piece.X.offsets)
    per_row = data.sum(axis=1), np.einsum("ij,ij->i", data, data)
    return float(rows.sum()), float(rows @ per_row[0]), float(rows @ per_row[1])


def mean_squared_distance(data, count):
    """Mean squared distance of instances: twice the total variance, 1 if that is 0."""
    share = count / count.sum()
    squares = data.multiply(data) if sp.issparse(data) else np.square(data)
    mean = np.asarray(share @ data).ravel()
    total = float(np.sum(share @ squares)) - float(mean @ mean)
    return 2.0 * total if total > 0 else 1.0


AGGREGATIONS = ("sum", "mean", "sqrt")

# A linear kernel is solved over columns up to this many, if there are more rows.
_MOST_COLUMNS = 2000


def aggregation_weights(aggregation, offsets):
    """Weight of every instance in the score of its bag: 1, 1/N_k or 1/sqrt(N_k)."""
    sizes = np.diff(offsets).astype(np.float64)
    if aggregation == "sum":
        return np.ones(int(offsets[-1]))
    if aggregation == "mean":
        return repeat(1.0 / sizes, offsets)
    if aggregation == "sqrt":
        return repeat(1.0 / np.sqrt(sizes), offsets)
    raise ValueError(f"aggregation must be one of {AGGREGATIONS}, got {aggregation!r}.")


def witness_weights(witnesses, offsets):
    """One-hot weights: the score of a bag is that of its witness."""
    weight = np.zeros(int(offsets[-1]))
    weight[witnesses] = 1.0
    return weight


class GammaRule:
    """Turns `variance_weight` into the gamma of the paper, never past convexity.

    Parameters
    ----------
    relative : float
        Share of gamma_max, in [0, 1).
    absolute : float or None
        The value itself; refused where the problem would not be convex.
    cap : float
        Never exceed this value (what an earlier step of an alternation used).
    """

    def __init__(self, relative, absolute=None, cap=np.inf):
        self.relative = relative
        self.absolute = absolute
        self.cap = cap

    @property
    def needed(self):
        """Whether the instance variance plays any part."""
        return self.relative > 0.0 or self.absolute is not None

    def capped(self, cap):
        """Return the same rule with an upper bound."""
        return GammaRule(self.relative, self.absolute, cap)

    def __call__(self, gamma_max):
        """Return gamma, and gamma_max if it had to be computed."""
        if not self.needed:
            return 0.0, None
        bound = gamma_max()
        if self.absolute is None:
            gamma = self.relative * bound if np.isfinite(bound) else 0.0
            return min(gamma, self.cap), bound
        if self.absolute >= bound:
            raise ValueError(
                f"variance_weight_abs={self.absolute:.6g} is not convex: on these bags "
                f"and with this rho it must stay below gamma_max = {bound:.6g}. Beyond "
                "it the solution is a saddle point, not a minimum."
            )
        return self.absolute, bound


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of an estimator that the mathematics needs.

    `gamma` and `core` may still be names; `resolved` replaces them by what they mean
    on the training bags.
    """

    rho: float = 30.0
    variance_weight: float = 0.0
    variance_weight_abs: float | None = None
    rho_scale: str = "relative"
    core: str = "auto"
    aggregation: str = "sum"
    loss: str = "squared"
    delta: float = 1.0
    kernel: str = "rbf"
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 1.0
    n_components: int | None = None
    approximation: str = "nystroem"
    landmarks: Any = None
    max_iter: int = 500
    tol: float = 1e-10
    random_state: Any = None

    @classmethod
    def of(cls, estimator):
        """Read the parameters of an estimator and check them against each other."""
        given = estimator.get_params(deep=False)
        mine = {f.name: given[f.name] for f in fields(cls) if f.name in given}
        settings = cls(**mine)
        if settings.variance_weight_abs is not None and settings.variance_weight > 0:
            raise ValueError(
                "Give variance_weight (relative) or variance_weight_abs, not both."
            )
        rff = settings.approximation == "rff" and settings.n_components is not None
        if rff and settings.kernel != "rbf":
            raise ValueError(
                "approximation='rff' is for kernel='rbf', got kernel="
                f"{settings.kernel!r}. Use approximation='nystroem'."
            )
        return settings

    @property
    def explicit(self):
        """Whether features were asked for that replace the kernel."""
        return self.n_components is not None or self.landmarks is not None

    @property
    def iterates(self):
        """Whether one least-squares problem is not enough."""
        return self.loss == "huber" or self.aggregation == "max"

    @property
    def rule(self):
        """How gamma follows from gamma_max."""
        return GammaRule(self.variance_weight, self.variance_weight_abs)

    @property
    def kernel_params(self):
        """The kernel as keywords of `instance_kernel`; needs resolved settings."""
        return {
            "kernel": self.kernel,
            "gamma": self.gamma,
            "degree": self.degree,
            "coef0": self.coef0,
        }

    def with_kernel(self, gamma, core=None):
        """Return the settings with a known width, and `core` no longer "auto"."""
        core = self.core if core is None else core
        if core == "auto":
            core = "ksc" if self.kernel == "rbf" and not self.explicit else "kpca"
        return replace(self, gamma=gamma, core=core)

    def resolved(self, X, count):
        """Return the settings with width and core found on bags counted `count`."""
        if self.kernel == "linear":
            return self.with_kernel(1.0)
        return self.with_kernel(bag_gamma(self.gamma, X, count))

    def uses_features(self, X):
        """Whether the fit is over explicit features; else over a kernel matrix."""
        if self.explicit:
            return True
        if self.kernel != "linear":
            return False
        if X.on_disk and X.n_instances > X.n_features:  # products would read all data
            return True
        return X.n_features <= min(_MOST_COLUMNS, X.n_instances)

    def aggregation_weight(self, offsets):
        """Weights of instances in bag scores, with which a fit begins."""
        # A maximum is a one-hot mean; the mean has the same sum of weights, one.
        name = "mean" if self.aggregation == "max" else self.aggregation
        return aggregation_weights(name, offsets)

    def absolute_rho(self, unit):
        """Return the rho of the equation."""
        return self.rho / unit if self.rho_scale == "relative" else self.rho


def can_stream(estimator):
    """Whether additive moments decide the fit; used with `available_if`."""
    settings = Settings.of(estimator)
    if settings.iterates:
        raise AttributeError(
            "partial_fit needs loss='squared' and aggregation 'sum', 'mean' or 'sqrt': "
            "Huber weights and witnesses change with every new bag."
        )
    if settings.explicit or settings.kernel == "linear":
        return True
    raise AttributeError(
        "partial_fit needs explicit features: set n_components (for instance 300), or "
        f"kernel='linear'. The exact {settings.kernel} kernel cannot be streamed."
    )


class LabelTargets:
    """Targets -1 / +1: one output for two classes, else one for each class.

    Parameters
    ----------
    n_classes : int
        Number of classes.
    """

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def columns(self, codes):
        """Return the indicators of the classes; of two, code 1 is the positive one."""
        return (codes[:, None] == np.arange(self.n_classes)).astype(np.float64)

    def mix(self, totals=None):
        """Return the matrix that makes targets of columns."""
        matrix = 2.0 * np.eye(self.n_classes) - 1.0
        return matrix[:, [1]] if self.n_classes == 2 else matrix

    def shift(self, totals=None):
        """Return what is added to the intercepts after the fit: nothing."""
        return 0.0


class ValueTargets:
    """Real targets: the columns are the values and a one.

    Parameters
    ----------
    n_outputs : int
        Number of values of a bag.
    centered : bool
        Whether the weighted mean is taken out before the fit and goes into the
        intercepts: scores of instances then vary about it, and adding a constant to
        all targets adds it to all predictions. Right where the weights of a bag sum to
        one.
    """

    def __init__(self, n_outputs, centered):
        self.n_outputs = n_outputs
        self.centered = centered

    @staticmethod
    def columns(y):
        """Return the values and a last column of ones."""
        return np.column_stack([y, np.ones(len(y))])

    def mix(self, totals):
        """Return the matrix that makes targets of columns."""
        return np.vstack([np.eye(self.n_outputs), -self.shift(totals)])

    def shift(self, totals):
        """Return what is added to the intercepts after the fit: the means."""
        if not self.centered:
            return np.zeros(self.n_outputs)
        return totals[:-1] / totals[-1]


@dataclass(frozen=True, eq=False)
class Training:
    """Bags of positive weight, with everything that is known of them.

    Parameters
    ----------
    X : Bags
        The bags.
    columns : ndarray of shape (n_bags, n_columns)
        What the targets are mixed from.
    weight : ndarray of shape (n_bags,)
        Weight of each bag, times that of its class: how often the bag counts.
    """

    X: Bags
    columns: np.ndarray
    weight: np.ndarray

    @cached_property
    def rows(self):
        """How often each instance counts."""
        return repeat(self.weight, self.X.offsets).astype(np.float64)

    @property
    def totals(self):
        """Weighted sums of the columns."""
        return self.weight @ self.columns

    def __getitem__(self, bags):
        """Return some of the bags."""
        return Training(self.X[bags], self.columns[bags], self.weight[bags])


@dataclass(frozen=True)
class BagDesign:
    """Everything of one least-squares problem that is not the kernel.

    Parameters
    ----------
    offsets : ndarray of shape (n_bags + 1,)
        Rows at which bags begin.
    weight : ndarray of shape (n_instances,)
        Non-zero entries of the aggregation matrix J.
    residual : ndarray of shape (n_bags,)
        Positive weight of each bag's squared residual, rho for all in the paper.
    variance : ndarray of shape (n_instances,)
        Positive diagonal of V.
    """

    offsets: np.ndarray
    weight: np.ndarray
    residual: np.ndarray
    variance: np.ndarray

    @cached_property
    def n(self):
        """Vector J'1."""
        return segment_sum(self.weight, self.offsets)

    @cached_property
    def root_variance(self):
        """Diagonal of the square root of V."""
        return np.sqrt(self.variance)

    def to_bags(self, values):
        """Compute J' values."""
        weight = self.weight if values.ndim == 1 else self.weight[:, None]
        return segment_sum(weight * values, self.offsets)

    def to_instances(self, per_bag):
        """Compute J per_bag."""
        weight = self.weight if per_bag.ndim == 1 else self.weight[:, None]
        return weight * repeat(per_bag, self.offsets)


class LeastSquaresFit(NamedTuple):
    """One solved least-squares problem, one column for each target."""

    scores: np.ndarray  # of the training instances
    norm2: np.ndarray  # squared norms of w
    coef: np.ndarray  # dual coefficients, or weights of the features
    intercept: np.ndarray
    gamma: float
    gamma_max: float | None  # None if gamma = 0, where it is not needed
    n_iter: int


# Maximum factor by which a few very large bags increase the unit of `rho`.
_LARGE_BAGS = 10.0


def squared_size(n, weight):
    """Return the sums over bags of n_k^2 and of its logarithm, weighted; both add up.

    `n` holds the n_k, the summed aggregation weights of each bag.
    """
    square = n**2
    return np.array([weight @ square, weight @ np.log(square)])


def rho_unit(sizes, n_bags, diagonal, mean):
    """Return what a relative `rho` is divided by.

    That is a typical n_k^2 times (mean of Omega_ii - mean of Omega_ij). The constant
    part of a kernel goes into the intercept, hence the difference. The typical n_k^2 is
    the mean, but at most ten times the geometric mean: with one bag of 10,000 instances
    among bags of five, the mean alone would take all weight from the small bags.

    Parameters
    ----------
    sizes : ndarray of shape (2,)
        From `squared_size`.
    n_bags : float
        Sum of the weights of the bags.
    diagonal, mean : float
        Mean of the diagonal of the kernel, and of all its entries.
    """
    spread = diagonal - mean
    if spread <= 1e-12 * abs(diagonal):
        spread = diagonal  # all instances are equal
    square, log_square = sizes / n_bags
    unit = min(square, _LARGE_BAGS * np.exp(log_square)) * spread
    return float(unit) if unit > 0 else 1.0
