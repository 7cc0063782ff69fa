"""Kernels on the distribution of a bag: statistics, mean embeddings, mixtures."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max, segment_mean, segment_min
from bagwise.kernels._checks import check_gram_memory, check_pair, resolve_kernel
from bagwise.kernels._set import (
    instance_params,
    inverse_norms,
    resolve_set,
    set_kernel,
)
from bagwise.kernels._tiles import stack_of, symmetrized
from bagwise.kernels.instance import instance_kernel, row_blocks

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture


def statistics_kernel(
    X: Any,
    Y: Any = None,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
) -> npt.NDArray[np.float64]:
    r"""Statistics kernel between bags: a kernel on their smallest and largest values.

    .. math::
        k(B, B') = k_I(s(B), s(B')), \qquad
        s(B) = \bigl(\min_{x \in B} x_1, \dots, \min_{x \in B} x_d,
                     \max_{x \in B} x_1, \dots, \max_{x \in B} x_d\bigr)

    where :math:`k_I` is `kernel`, on vectors of twice the width.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        The kernel on :math:`s(B)`. The polynomial one is the minimax kernel of [1]_.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Its width. A name is resolved on the vectors :math:`s(B)` of `Y` (of `X` when
        `Y` is None).
    degree, coef0 : float, default=3 and 1
        Parameters of the polynomial kernel.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_, which uses the polynomial kernel only: the default is Gaussian.

    Cost: ``O(n_instances * n_features + n_bags ** 2 * n_features)``.

    References
    ----------
    .. [1] Gärtner, T., Flach, P. A., Kowalczyk, A. and Smola, A. J., "Multi-Instance
       Kernels", International Conference on Machine Learning, 2002.

    Examples
    --------
    >>> from bagwise.kernels import statistics_kernel
    >>> X = [[[0.0], [1.0]], [[2.0]]]
    >>> statistics_kernel(X, kernel="linear")
    array([[1., 2.],
           [2., 8.]])
    """
    X, Y = check_pair(X, Y)
    if Y is None:
        return fit_statistics(
            X, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0
        )[0]
    check_gram_memory(X, Y)
    right = bag_extremes(Y)
    params = resolve_kernel(
        right, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0
    )
    K = instance_kernel(bag_extremes(X), right, **params)
    return K.astype(np.float64, copy=False)


def fit_statistics(
    X: Bags,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
    """Return the kernel matrix of training bags and the width it was made with."""
    check_gram_memory(X, None)
    vectors = bag_extremes(X)
    params = resolve_kernel(
        vectors, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0
    )
    K = instance_kernel(vectors, None, **params)
    return symmetrized(K.astype(np.float64, copy=False)), params


def bag_extremes(X: Bags) -> Any:
    """Return the smallest and the largest value of every column in every bag.

    Shape (n_bags, 2 * n_features), sparse when the instances are.
    """
    if X.is_sparse:
        return _sparse_extremes(X)
    low = segment_min(X.data, X.offsets)
    return np.concatenate([low, segment_max(X.data, X.offsets)], axis=1)


def _sparse_extremes(X: Bags) -> sp.csr_array:
    """Sort the stored values by bag and column; absent ones count as zeros."""
    width = X.n_features
    matrix = X.data
    bag = np.repeat(X.bag_index, np.diff(matrix.indptr))
    key = bag * width + matrix.indices
    order = np.argsort(key, kind="stable")
    cells, first = np.unique(key[order], return_index=True)
    shape = (X.n_bags, 2 * width)
    if cells.size == 0:
        return sp.csr_array(shape, dtype=matrix.dtype)
    offsets = np.append(first, key.size)
    values = matrix.data[order]
    row, column = np.divmod(cells, width)
    has_zero = np.diff(offsets) < X.sizes[row]
    low, high = segment_min(values, offsets), segment_max(values, offsets)
    low = np.where(has_zero, np.minimum(low, 0), low)
    high = np.where(has_zero, np.maximum(high, 0), high)
    entries = np.concatenate([low, high])
    where = (np.concatenate([row, row]), np.concatenate([column, column + width]))
    out = sp.csr_array(sp.coo_array((entries, where), shape=shape))
    out.eliminate_zeros()
    return out


Array = npt.NDArray[np.float64]


def distribution_kernel(
    X: Any,
    Y: Any = None,
    *,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 1.0,
    outer_gamma: float | str = "mean",
) -> Array:
    r"""Gaussian kernel between the mean embeddings of bags.

    .. math::
        k(B, B') = e^{-h \|\mu_B - \mu_{B'}\|^2}, \qquad
        \mu_B = \frac{1}{|B|} \sum_{x \in B} k_I(x, \cdot)

    where :math:`k_I` is the instance kernel `kernel` and :math:`h` is `outer_gamma`. A
    linear SVM on the set kernel sees bags through linear functions of
    :math:`\mu_B` only; this second level makes it universal over distributions [1]_.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    kernel, gamma, degree, coef0
        The instance kernel, as in `set_kernel`.
    outer_gamma : "mean" or float, default="mean"
        The width :math:`h`; "mean" is one over the mean of the squared distances
        between the bags of `Y` (of `X` when `Y` is None).

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_: nothing. The cost is that of `set_kernel`.

    References
    ----------
    .. [1] Szabo, Z., Sriperumbudur, B. K., Poczos, B. and Gretton, A., "Learning theory
       for distribution regression", Journal of Machine Learning Research, 2016.

    Examples
    --------
    >>> from bagwise.kernels import distribution_kernel
    >>> X = [[[0.0], [1.0]], [[3.0]]]
    >>> distribution_kernel(X, gamma=1.0, outer_gamma=1.0).round(3)
    array([[1.   , 0.189],
           [0.189, 1.   ]])
    """
    params = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
    if Y is None:
        return fit_distribution(X, **params, outer_gamma=outer_gamma)[0]
    X, Y = check_pair(X, Y)
    assert Y is not None
    if isinstance(outer_gamma, str):
        outer_gamma = fit_distribution(Y, **params, outer_gamma=outer_gamma)[1][
            "outer_gamma"
        ]
    D = _squared_distances(X, Y, _resolved(Y, params))
    D *= -_check_width(outer_gamma)
    return np.exp(D, out=D)


def fit_distribution(
    X: Any, *, outer_gamma: float | str = "mean", **params: Any
) -> tuple[Array, dict[str, Any]]:
    """Return the kernel matrix of training bags and the widths it was made with."""
    X, _ = check_pair(X)
    resolved = _resolved(X, params)
    D = _squared_distances(X, None, resolved)
    if isinstance(outer_gamma, str):
        if outer_gamma != "mean":
            raise ValueError(
                f"outer_gamma must be 'mean' or a positive number, got {outer_gamma!r}."
            )
        n = len(D)
        mean = D.sum() / max(1, n * (n - 1))
        outer_gamma = float(1.0 / mean) if mean > 0 else 1.0
    width = _check_width(outer_gamma)
    D *= -width
    given = {k: resolved[k] for k in ("kernel", "gamma", "degree", "coef0")}
    return np.exp(D, out=D), {**given, "outer_gamma": width}


def _resolved(X: Bags, params: dict[str, Any]) -> dict[str, Any]:
    return resolve_set(X, **params, normalization="average")


def _squared_distances(X: Bags, Y: Bags | None, resolved: dict[str, Any]) -> Array:
    """Squared distances of mean embeddings, never below zero."""
    K = set_kernel(X, Y, **resolved)
    rows = np.diagonal(K).copy() if Y is None else _self_products(X, resolved)
    cols = rows if Y is None else _self_products(Y, resolved)
    D = rows[:, None] + cols[None, :] - 2.0 * K
    np.maximum(D, 0.0, out=D)
    if Y is None:
        np.fill_diagonal(D, 0.0)
    return D


def _self_products(X: Bags, resolved: dict[str, Any]) -> Array:
    """Squared norms of mean embeddings."""
    scale = inverse_norms(stack_of(X), instance_params(resolved), "feature")
    norms = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return (norms / X.sizes) ** 2


def _check_width(value: Any) -> float:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"outer_gamma must be a positive number, got {value!r}.")
    return float(value)


def ppmm_kernel(
    X: Any,
    Y: Any = None,
    *,
    n_components: int = 30,
    p: float = 1.0,
    kernel: str = "linear",
    gamma: float | str = "scale",
    mixture: GaussianMixture | None = None,
    random_state: Any = 0,
) -> npt.NDArray[np.float64]:
    r"""p-posterior mixture-model kernel between bags.

    .. math::
        k(B, B') = k_I(q(B), q(B')), \qquad
        q_c(B) = \Bigl(\tfrac{1}{|B|} \sum_{x \in B} P(c \mid x)\Bigr)^p

    where :math:`P(c \mid x)` is the posterior of component :math:`c` of a Gaussian
    mixture with `n_components` components, :math:`p` is `p` and :math:`k_I` is
    `kernel`. At :math:`p = 1` a bag is the average posterior of its instances. A larger
    :math:`p` emphasizes the components that most instances belong to, a smaller one
    those that few instances belong to.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays
        The bags of the rows and of the columns; `Y` is `X` by default. Dense only.
    n_components : int, default=30
        Number of components of the mixture, which has diagonal covariances.
    p : float, default=1.0
        The power, above zero. ``BagSVC(kernel="ppmm", kernel_params={"p":
        "alignment"})`` chooses it (see Notes).
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="linear"
        The kernel on the vectors :math:`q(B)`.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Its width. A name is resolved on the vectors of `Y` (of `X` when `Y` is None).
    mixture : fitted GaussianMixture, default=None
        The mixture; by default one is fitted on the instances of `Y` (of `X` when `Y`
        is None).
    random_state : int or RandomState, default=0
        Random seed of the mixture.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_: the text of [1]_ was not available. The definition is that of the
    MIL toolbox of D. M. J. Tax, which chooses `p` from 0.3, 0.6, ..., 3 by kernel
    alignment, the cosine of the kernel matrix and of the matrix that is 1 for bags of
    the same class and -1 for others. Here `p` is a parameter, to be chosen by
    cross-validation, or by alignment in ``BagSVC``. Sparse instances are refused (their
    mixtures are not sparse): reduce the dimension first.

    Cost: that of the mixture, ``O(n_instances * n_components * n_features)`` per step,
    and ``O(n_bags ** 2 * n_components)``.

    References
    ----------
    .. [1] Wang, H.-Y., Yang, Q. and Zha, H., "Adaptive p-posterior mixture-model
       kernels for multiple instance learning", International Conference on Machine
       Learning, 2008. :doi:`10.1145/1390156.1390297`

    Examples
    --------
    >>> from bagwise.kernels import ppmm_kernel
    >>> X = [[[0.0], [0.2], [5.0]], [[5.1], [5.3]], [[0.1]]]
    >>> ppmm_kernel(X, n_components=2, p=1.0, kernel="linear").round(3)
    array([[0.556, 0.333, 0.667],
           [0.333, 1.   , 0.   ],
           [0.667, 0.   , 1.   ]])
    """
    X, Y = check_pair(X, Y)
    reference = X if Y is None else Y
    params = resolve_ppmm(
        reference,
        n_components=n_components,
        p=p,
        kernel=kernel,
        gamma=gamma,
        mixture=mixture,
        random_state=random_state,
    )
    check_gram_memory(X, Y)
    left = _posteriors(X, params["mixture"]) ** p
    right = None if Y is None else _posteriors(Y, params["mixture"]) ** p
    K = instance_kernel(left, right, kernel=kernel, gamma=params["gamma"])
    return symmetrized(K) if right is None else K


#: The powers among which kernel alignment chooses.
POWERS = np.arange(1, 11) * 0.3


def resolve_ppmm(
    X: Bags,
    *,
    n_components: int = 30,
    p: float | str = 1.0,
    kernel: str = "linear",
    gamma: float | str = "scale",
    mixture: GaussianMixture | None = None,
    random_state: Any = 0,
    labels: npt.NDArray[Any] | None = None,
) -> dict[str, Any]:
    """Return the parameters of `ppmm_kernel` with a fitted mixture and a width.

    With the labels of the bags, ``p="alignment"`` becomes a number.
    """
    aligned = isinstance(p, str) and p == "alignment"
    if aligned and labels is None:
        raise ValueError(
            "p='alignment' needs the labels of the bags: use BagSVC(kernel='ppmm',"
            " kernel_params={'p': 'alignment'}), or give p as a number."
        )
    if not aligned and not (isinstance(p, Real) and np.isfinite(p) and p > 0):
        raise ValueError(f"p must be a number above 0, got {p!r}.")
    if not isinstance(n_components, Integral) or n_components < 1:
        raise ValueError(
            f"n_components must be an integer of at least 1, got {n_components!r}."
        )
    if mixture is None:
        mixture = _fit_mixture(X, int(n_components), random_state)
    mean = _posteriors(X, mixture)

    def width_of(power: Any) -> float:
        shape = {"kernel": kernel, "degree": 3, "coef0": 1.0}
        return float(resolve_kernel(mean**power, gamma=gamma, **shape)["gamma"])

    if aligned:
        same = np.where(np.equal.outer(labels, labels), 1.0, -1.0)

        def alignment(power: float) -> float:
            width = width_of(power)
            K = instance_kernel(mean**power, None, kernel=kernel, gamma=width)
            norm = float(np.linalg.norm(K))
            return float(np.vdot(K, same)) / norm if norm > 0 else 0.0

        p = max(map(float, POWERS), key=alignment)
    width = width_of(p)
    return {
        "n_components": n_components,
        "p": p,
        "kernel": kernel,
        "gamma": width,
        "mixture": mixture,
        "random_state": random_state,
    }


def _fit_mixture(X: Bags, n_components: int, random_state: Any) -> GaussianMixture:
    _refuse_sparse(X)
    data = np.asarray(X.data, dtype=np.float64)
    floor = 1e-4 * float(data.var(axis=0).mean())  # follows the scale of the data
    from sklearn.mixture import GaussianMixture  # slow to import

    return GaussianMixture(
        n_components=min(n_components, data.shape[0]),
        covariance_type="diag",
        reg_covar=floor if floor > 0 else 1e-6,
        random_state=random_state,
        max_iter=200,
    ).fit(data)


def _posteriors(X: Bags, mixture: GaussianMixture) -> Array:
    """Return the mean posteriors of each bag."""
    _refuse_sparse(X)
    width = mixture.n_components
    out = np.empty((X.n_instances, width))
    for block in row_blocks(X.n_instances, 8.0 * 4 * (width + X.n_features)):
        out[block] = mixture.predict_proba(np.asarray(X.data[block], dtype=np.float64))
    return np.asarray(segment_mean(out, X.offsets))


def _refuse_sparse(X: Bags) -> None:
    if X.is_sparse:
        raise TypeError(
            "ppmm_kernel needs dense instances: a Gaussian mixture of sparse rows is "
            "not sparse. Reduce the dimension first, for instance with "
            "OnInstances(TruncatedSVD(100))."
        )
