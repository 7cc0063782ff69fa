"""The miGraph kernel: a set kernel in which crowded instances weigh less."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise.bags import Bags
from bagwise.bags.segments import segment_sum
from bagwise.kernels._checks import (
    check_gram_memory,
    check_option,
    check_pair,
    positive_gamma,
)
from bagwise.kernels._neighborhoods import check_delta, clique_weights
from bagwise.kernels._set import pair_sums
from bagwise.kernels._tiles import Stack, scale_both, stack_of


def mi_graph_kernel(
    X: Any,
    Y: Any = None,
    *,
    gamma: float | str = "median",
    delta: float | str = "mean",
    norm: str = "paper",
) -> npt.NDArray[np.float64]:
    r"""Kernel of miGraph between bags.

    .. math::
        k(B, B') = \frac{\sum_{a \in B} \sum_{b \in B'} w_a w_b\,
                         e^{-\gamma |a - b|^2}}{N_B N_{B'}}, \qquad
        w_a = \frac{1}{|\{u \in B : |a - u| < \delta_B\} \cup \{a\}|}

    where :math:`\gamma` is `gamma`, :math:`\delta_B` is `delta` and :math:`N_B` is
    :math:`\sum_{a \in B} w_a` for ``norm="paper"`` and its square root for
    ``norm="code"``. Instances in a crowd share the weight of one.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    gamma : {"scale", "auto", "median"} or float, default="median"
        Width of the instance kernel. A name is resolved on `Y` (on `X` when `Y` is
        None).
    delta : "mean" or float, default="mean"
        The radius; "mean" is the mean distance between two instances of the bag. At 0
        and at infinity all weights of a bag are equal, and ``norm="paper"`` is the
        averaged set kernel.
    norm : {"paper", "code"}, default="paper"
        The formula of [1]_, or what the authors' program is known to compute.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_: a distance that equals the radius up to rounding (1e-9) is not
    below it. In a bag of two the only distance is the mean distance itself, so its
    instances are never neighbours there, whatever the rounding.

    Cost: that of `set_kernel`, and ``O(sum of squared bag sizes * n_features)`` for
    the weights.

    References
    ----------
    .. [1] Zhou, Z.-H., Sun, Y.-Y. and Li, Y.-F., "Multi-Instance Learning by Treating
       Instances As Non-I.I.D. Samples", International Conference on Machine Learning,
       2009. :doi:`10.1145/1553374.1553534`

    Examples
    --------
    >>> from bagwise.kernels import mi_graph_kernel
    >>> X = [[[0.0], [0.1], [5.0]], [[5.0]]]
    >>> mi_graph_kernel(X, gamma=10.0).round(3)
    array([[0.488, 0.5  ],
           [0.5  , 1.   ]])
    """
    X, Y = check_pair(X, Y)
    reference = X if Y is None else Y
    width = resolve_mi_graph(reference, gamma=gamma, delta=delta, norm=norm)["gamma"]
    check_gram_memory(X, Y)
    params = {"kernel": "rbf", "gamma": width}
    rows = stack_of(X, clique_weights(X, delta))
    cols = None if Y is None else stack_of(Y, clique_weights(Y, delta))
    K = pair_sums(rows, cols, params)
    left = _inverse_total(rows, norm)
    return scale_both(K, left, left if cols is None else _inverse_total(cols, norm))


def resolve_mi_graph(
    X: Bags,
    *,
    gamma: float | str = "median",
    delta: float | str = "mean",
    norm: str = "paper",
) -> dict[str, Any]:
    """Return the parameters of `mi_graph_kernel` with the width as a number."""
    check_option("norm", norm, ("paper", "code"))
    check_delta(delta)
    return {"gamma": positive_gamma(gamma, X.data), "delta": delta, "norm": norm}


def _inverse_total(stack: Stack, norm: str) -> npt.NDArray[np.float64]:
    total = segment_sum(stack.weight, stack.offsets)
    return 1.0 / (total if norm == "paper" else np.sqrt(total))
