"""The epsilon-graph inside each bag, and the kernels MIGraph and miGraph on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.bags.segments import repeat, segment_sum
from bagwise.kernels._checks import (
    check_gram_memory,
    check_option,
    check_pair,
    positive_gamma,
)
from bagwise.kernels._set import pair_sums
from bagwise.kernels._tiles import (
    StackedRows,
    bag_groups,
    scale_both,
    self_sums,
    stack_of,
    symmetrized,
    weighted_sums,
)
from bagwise.kernels.instance import instance_kernel, row_blocks, squared_distances

Array = npt.NDArray[Any]

# Bags of up to this many rows in total share one matrix product.
_GROUP_ROWS = 256

# In a bag of two instances, the only distance equals the mean distance, and rounding
# would decide whether it is below the mean. Equal means not below.
_BELOW = 1.0 - 1e-9


def check_delta(delta: float | str) -> None:
    """Refuse a radius that is neither "mean" nor a number of at least zero."""
    if isinstance(delta, str):
        if delta != "mean":
            raise ValueError(f"delta must be 'mean' or a number, got {delta!r}.")
    elif not delta >= 0:
        raise ValueError(f"delta must not be negative, got {delta!r}.")


def clique_weights(X: Bags, delta: float | str = "mean") -> Array:
    """Return one over the number of neighbors of each instance, itself included.

    Cost ``O(sum of squared bag sizes * n_features)``.
    """
    check_delta(delta)
    count = np.empty(X.n_instances)
    for bags in bag_groups(X.offsets, _GROUP_ROWS):
        part = slice(int(X.offsets[bags.start]), int(X.offsets[bags.stop]))
        if bags.stop - bags.start == 1:
            count[part] = _count_large(X.data[part], delta)
        else:
            offsets = X.offsets[bags.start : bags.stop + 1] - part.start
            count[part] = _count_group(X.data[part], offsets, delta)
    return 1.0 / count


def bag_radius(rows: Any, delta: float | str) -> float:
    """Return the radius of one bag: its mean distance between two instances."""
    if not isinstance(delta, str):
        return float(delta)
    n = rows.shape[0]
    total = sum(float(D.sum()) for _, D in distance_blocks(rows))
    return float(total / max(1, n * (n - 1)))


def distance_blocks(rows: Any) -> Iterator[tuple[slice, Array]]:
    """Give distances inside one bag, a block of rows against all at a time."""
    n = rows.shape[0]
    blocks = list(row_blocks(n, 8.0 * 3 * n))
    for block in blocks:
        other = None if len(blocks) == 1 else rows
        D = np.sqrt(squared_distances(rows[block], other))
        # A row is not its own neighbor; only B = None gives exact zeros there.
        D[np.arange(block.stop - block.start), np.arange(block.start, block.stop)] = 0.0
        yield block, D


def close(D: Array, block: slice, radius: Any) -> Array:
    """Mark the edges of a block of distances: near, and not the row itself."""
    near = D < radius * _BELOW
    near[np.arange(near.shape[0]), np.arange(block.start, block.stop)] = False
    return np.asarray(near)


def _count_large(rows: Any, delta: float | str) -> Array:
    if rows.shape[0] == 1:
        return np.ones(1)
    radius = bag_radius(rows, delta)
    count = np.ones(rows.shape[0])
    for block, D in distance_blocks(rows):
        count[block] += close(D, block, radius).sum(axis=1)
    return count


def _count_group(rows: Any, offsets: Array, delta: float | str) -> Array:
    """Count neighbors in several bags with one matrix of distances."""
    sizes = np.diff(offsets)
    bag = np.repeat(np.arange(sizes.shape[0]), sizes)
    same = bag[:, None] == bag[None, :]
    D = np.sqrt(squared_distances(rows))
    D = (D + D.T) / 2
    if isinstance(delta, str):
        total = segment_sum(np.where(same, D, 0.0).sum(axis=1), offsets)
        radius = repeat(total / np.maximum(1, sizes * (sizes - 1)), offsets)[:, None]
    else:
        radius = np.full((rows.shape[0], 1), float(delta))
    near = close(D, slice(0, rows.shape[0]), radius) & same
    return np.asarray(1.0 + near.sum(axis=1))


# Relative size of the terms of the edge kernel that are omitted.
_EDGE_TOL = 1e-10
_EDGES_AT_ONCE = 20_000


def graph_kernel(
    X: Any,
    Y: Any = None,
    *,
    gamma: float | str = "median",
    gamma_edge: float = 1.0,
    delta: float | str = "mean",
    mean_parts: bool = False,
) -> npt.NDArray[np.float64]:
    r"""Kernel of MIGraph between bags.

    .. math::
        g(B, B') = \sum_{a \in B, b \in B'} e^{-\gamma |a - b|^2}
                 + \sum_{e \in E, f \in E'} e^{-\gamma_e |e - f|^2}, \qquad
        k(B, B') = \frac{g(B, B')}{\sqrt{g(B, B)\, g(B', B')}}

    where :math:`\gamma` is `gamma` and :math:`\gamma_e` is `gamma_edge`. Two instances
    :math:`u, v` of a bag are joined by an edge when their distance is below the radius
    `delta`, with affinity :math:`w_{uv} = e^{-|u - v|^2 / \delta^2}`; the edge has the
    feature :math:`(\deg_u, p_{uv}, \deg_v, p_{vu})`,
    :math:`p_{uv} = w_{uv} / \sum_t w_{ut}`, degrees divided by the size of the bag,
    and is entered in both orientations.

    Parameters
    ----------
    X, Y : Bags or sequence of 2-D arrays or CSR matrices
        The bags of the rows and of the columns; `Y` is `X` by default.
    gamma : {"scale", "auto", "median"} or float, default="median"
        Width of the node kernel. A name is resolved on `Y` (on `X` when `Y` is None).
    gamma_edge : float, default=1.0
        Width of the edge kernel, on features between 0 and 1.
    delta : "mean" or float, default="mean"
        The radius; "mean" is the mean distance between two instances of the bag.
    mean_parts : bool, default=False
        Whether both sums are divided by their number of terms before they are added.
        In the plain sum, the edges of large bags outweigh the nodes.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix with ones on its diagonal; positive semi-definite when `Y` is
        None.

    Notes
    -----
    Differs from [1]_, which leaves the affinity, the orientation of edges and the scale
    of the degrees open: the choices are those above. `mean_parts` is not in [1]_. A
    distance that equals the radius up to rounding is not an edge, see
    `mi_graph_kernel`.

    The Gaussian kernel of the edges factors over their four numbers, each between 0 and
    1, where a handful of functions spans it to ten digits. Every bag therefore becomes
    one vector, and the sum over pairs of edges an inner product: the cost is linear in
    the number of edges instead of quadratic. In all ``O(n_instances ** 2 *
    n_features)`` for the nodes, and ``O(sum of squared bag sizes)`` for the edges with
    a constant that grows with `gamma_edge` (about 800 at 1, 3,000 at 4).

    References
    ----------
    .. [1] Zhou, Z.-H., Sun, Y.-Y. and Li, Y.-F., "Multi-Instance Learning by Treating
       Instances As Non-I.I.D. Samples", International Conference on Machine Learning,
       2009. :doi:`10.1145/1553374.1553534`

    Examples
    --------
    >>> from bagwise.kernels import graph_kernel
    >>> X = [[[0.0], [0.1], [5.0]], [[5.0]]]
    >>> graph_kernel(X, gamma=10.0).round(3)
    array([[1.   , 0.337],
           [0.337, 1.   ]])
    """
    X, Y = check_pair(X, Y)
    reference = X if Y is None else Y
    params = resolve_graph(
        reference,
        gamma=gamma,
        gamma_edge=gamma_edge,
        delta=delta,
        mean_parts=mean_parts,
    )
    check_gram_memory(X, Y)
    basis = _EdgeBasis(gamma_edge)

    def nodes(A: Any, B: Any) -> Array:
        return instance_kernel(A, B, kernel="rbf", gamma=params["gamma"])

    rows = stack_of(X, 1.0 / np.repeat(X.sizes, X.sizes) if mean_parts else None)
    left = _edge_vectors(X, basis, delta, mean_parts)
    if Y is None:
        K = weighted_sums(rows, None, nodes) + symmetrized(left @ left.T)
        scale = right_scale = 1.0 / np.sqrt(np.diagonal(K))
    else:
        cols = stack_of(Y, 1.0 / np.repeat(Y.sizes, Y.sizes) if mean_parts else None)
        right = _edge_vectors(Y, basis, delta, mean_parts)
        K = weighted_sums(rows, cols, nodes) + left @ right.T
        scale = 1.0 / np.sqrt(self_sums(rows, nodes) + (left**2).sum(axis=1))
        right_scale = 1.0 / np.sqrt(self_sums(cols, nodes) + (right**2).sum(axis=1))
    return scale_both(K, scale, right_scale)


def resolve_graph(
    X: Bags,
    *,
    gamma: float | str = "median",
    gamma_edge: float = 1.0,
    delta: float | str = "mean",
    mean_parts: bool = False,
) -> dict[str, Any]:
    """Return the parameters of `graph_kernel` with the width as a number."""
    check_delta(delta)
    if not (np.isfinite(gamma_edge) and gamma_edge > 0):
        raise ValueError(f"gamma_edge must be a positive number, got {gamma_edge!r}.")
    return {
        "gamma": positive_gamma(gamma, X.data),
        "gamma_edge": gamma_edge,
        "delta": delta,
        "mean_parts": mean_parts,
    }


class _EdgeBasis:
    """Functions on the unit square whose products span the edge kernel.

    On [0, 1] the kernel exp(-gamma (s - t)^2) is, to rounding, a short sum of products
    of functions of s and of t: those of its eigenvalues on Chebyshev nodes that are not
    negligible. The kernel of (degree, p) is the product of two of them, and only pairs
    of functions whose joint size is not negligible are kept.
    """

    def __init__(self, gamma: float) -> None:
        n_nodes = 40 + int(8 * np.sqrt(gamma))
        angle = np.pi * (np.arange(n_nodes) + 0.5) / n_nodes
        self.gamma = gamma
        self.nodes = (1.0 - np.cos(angle)) / 2
        values, vectors = scipy.linalg.eigh(self._kernel(self.nodes))
        kept = values > _EDGE_TOL * values[-1]
        size = values[kept] / values[-1]
        self.projection = vectors[:, kept] / np.sqrt(values[kept])
        self.first, self.second = np.nonzero(size[:, None] * size > _EDGE_TOL)

    @property
    def n_pairs(self) -> int:
        """Number of functions on the unit square."""
        return int(self.first.shape[0])

    def line(self, t: Array) -> Array:
        """Evaluate the functions on [0, 1]."""
        return np.asarray(self._kernel(t) @ self.projection)

    def square(self, degree: Array, p: Array) -> Array:
        """Join functions of the degree and of p to functions of both."""
        return np.asarray(degree[:, self.first] * p[:, self.second])

    def _kernel(self, t: Array) -> Array:
        return np.asarray(np.exp(-self.gamma * (t[:, None] - self.nodes) ** 2))


def _edge_vectors(
    X: Bags, basis: _EdgeBasis, delta: float | str, mean_parts: bool
) -> Array:
    """Sum the functions of all edges of each bag, or average them."""
    width = basis.n_pairs**2
    check_memory(
        8.0 * X.n_bags * width,
        f"The edges of {X.n_bags} bags",
        "Lower gamma_edge, or use mi_graph_kernel.",
    )
    out = np.zeros((X.n_bags, width))
    for i in range(X.n_bags):
        if X.sizes[i] < 3 and isinstance(delta, str):
            continue  # no distance is below the mean
        out[i] = _edges_of(X[i], basis, delta, mean_parts).ravel()
    return out


def _edges_of(
    rows: Any, basis: _EdgeBasis, delta: float | str, mean_parts: bool
) -> Array:
    n = rows.shape[0]
    radius = bag_radius(rows, delta)
    degree, strength = np.zeros(n), np.zeros(n)
    total = np.zeros((basis.n_pairs, basis.n_pairs))
    for block, D in distance_blocks(rows):
        near = close(D, block, radius)
        degree[block] = near.sum(axis=1)
        strength[block] = np.where(near, _affinity(D, radius), 0.0).sum(axis=1)
    by_degree = basis.line(degree / n)
    n_edges = 0
    for block, D in distance_blocks(rows):
        # u < v only: the other orientation is the transpose of the sum.
        u, v = np.nonzero(np.triu(close(D, block, radius), k=1 + block.start))
        w = _affinity(D[u, v], radius)
        u = u + block.start
        n_edges += u.size
        for s in range(0, u.size, _EDGES_AT_ONCE):
            part = slice(s, s + _EDGES_AT_ONCE)
            a, b = u[part], v[part]
            here = basis.square(by_degree[a], basis.line(w[part] / strength[a]))
            there = basis.square(by_degree[b], basis.line(w[part] / strength[b]))
            total += here.T @ there
    if n_edges == 0:
        return total
    total = total + total.T
    return total / (2 * n_edges) if mean_parts else total


def _affinity(D: Array, radius: float) -> Array:
    return np.asarray(np.exp(-((D / radius) ** 2))) if radius > 0 else np.ones_like(D)


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
    ``norm="code"``. Instances with many neighbors share the weight of one.

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
        The formula of [1]_, or that of the authors' program.

    Returns
    -------
    ndarray of shape (n_bags_X, n_bags_Y)
        The kernel matrix; positive semi-definite when `Y` is None.

    Notes
    -----
    Differs from [1]_: a distance that equals the radius up to rounding (1e-9) is not
    below it. In a bag of two the only distance is the mean distance itself, so its
    instances are never neighbors there, whatever the rounding.

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


def _inverse_total(stack: StackedRows, norm: str) -> npt.NDArray[np.float64]:
    total = segment_sum(stack.weight, stack.offsets)
    return 1.0 / (total if norm == "paper" else np.sqrt(total))
