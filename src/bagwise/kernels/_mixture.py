"""The p-posterior mixture-model kernel: bags by the components they visit."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.mixture import GaussianMixture

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean
from bagwise.kernels._checks import check_gram_memory, check_pair, resolve_kernel
from bagwise.kernels._tiles import symmetrized
from bagwise.kernels.instance import instance_kernel, row_blocks

Array = npt.NDArray[Any]


def ppmm_kernel(
    X: Any,
    Y: Any = None,
    *,
    n_components: int = 10,
    p: float = 2.0,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    mixture: GaussianMixture | None = None,
    random_state: Any = 0,
) -> npt.NDArray[np.float64]:
    r"""p-posterior mixture-model kernel between bags.

    .. math::
        k(B, B') = k_I(q(B), q(B')), \qquad
        q_c(B) = \Bigl(\tfrac{1}{|B|} \sum_{x \in B} P(c \mid x)^p\Bigr)^{1/p}

    where :math:`P(c \mid x)` is the posterior of component :math:`c` of a Gaussian
    mixture with `n_components` components, :math:`p` is `p` and :math:`k_I` is
    `kernel`. At :math:`p = 1` a bag is the average posterior of its instances; a large
    :math:`p` lets the instance decide that fits a component best.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays
        The bags of the rows and of the columns; `Y` is `X` by default. Dense only.
    n_components : int, default=10
        Number of components of the mixture, which has diagonal covariances.
    p : float, default=2.0
        The power, at least 1.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        The kernel on the vectors :math:`q(B)`.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Its width. A name is resolved on the vectors of `Y` (of `X` when `Y` is None).
    mixture : fitted GaussianMixture, default=None
        The mixture; by default one is fitted on the instances of `Y` (of `X` when `Y`
        is None).
    random_state : int or RandomState, default=0
        Starts the mixture.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_: the definition is given from memory of the literature, the
    original text could not be compared. `p` is a parameter to be chosen by
    cross-validation. Sparse instances are refused (their mixtures are not sparse):
    reduce the dimension first.

    Cost: that of the mixture, ``O(n_instances * n_components * n_features)`` a step,
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
    left = _posteriors(X, params["mixture"], p)
    right = None if Y is None else _posteriors(Y, params["mixture"], p)
    K = instance_kernel(left, right, kernel=kernel, gamma=params["gamma"])
    return symmetrized(K) if right is None else K


def resolve_ppmm(
    X: Bags,
    *,
    n_components: int = 10,
    p: float = 2.0,
    kernel: str = "rbf",
    gamma: float | str = "scale",
    mixture: GaussianMixture | None = None,
    random_state: Any = 0,
) -> dict[str, Any]:
    """Return the parameters of `ppmm_kernel` with mixture and width settled."""
    if not (np.isfinite(p) and p >= 1):
        raise ValueError(f"p must be a number of at least 1, got {p!r}.")
    if not isinstance(n_components, Integral) or n_components < 1:
        raise ValueError(
            f"n_components must be an integer of at least 1, got {n_components!r}."
        )
    if mixture is None:
        mixture = _fit_mixture(X, int(n_components), random_state)
    width = resolve_kernel(
        _posteriors(X, mixture, p), kernel=kernel, gamma=gamma, degree=3, coef0=1.0
    )["gamma"]
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
    return GaussianMixture(
        n_components=min(n_components, data.shape[0]),
        covariance_type="diag",
        reg_covar=floor if floor > 0 else 1e-6,
        random_state=random_state,
        max_iter=200,
    ).fit(data)


def _posteriors(X: Bags, mixture: GaussianMixture, p: float) -> Array:
    """Return the power means of the posteriors of each bag."""
    _refuse_sparse(X)
    width = mixture.n_components
    out = np.empty((X.n_instances, width))
    for block in row_blocks(X.n_instances, 8.0 * 4 * (width + X.n_features)):
        out[block] = mixture.predict_proba(np.asarray(X.data[block], dtype=np.float64))
    return segment_mean(out**p, X.offsets) ** (1.0 / p)


def _refuse_sparse(X: Bags) -> None:
    if X.is_sparse:
        raise TypeError(
            "ppmm_kernel needs dense instances: a Gaussian mixture of sparse rows is "
            "not sparse. Reduce the dimension first, for instance with "
            "OnInstances(TruncatedSVD(100))."
        )
