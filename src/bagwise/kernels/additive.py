r"""Kernels that are sums over instances, and what each instance adds to a decision.

The set kernel and miGraph have the form :math:`K = U\,k(A, B)\,V^\top` with one weight
per instance, so that any linear combination of kernel rows is a sum over instances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bagwise._later import sparse as sp
from bagwise.bags import Bags
from bagwise.bags.segments import repeat, segment_sum
from bagwise.kernels._graph import clique_weights
from bagwise.kernels._set import instance_params, inverse_norms
from bagwise.kernels._tiles import TILE, spans, stack_of
from bagwise.kernels.basis import KernelBasis
from bagwise.kernels.instance import instance_kernel, row_blocks

Array = npt.NDArray[Any]


def _set_weights(X: Bags, params: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
    instance = instance_params(params)
    per_bag = inverse_norms(stack_of(X), instance, params["normalization"])
    return repeat(per_bag, X.offsets), instance


def _mi_graph_weights(X: Bags, params: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
    weight = clique_weights(X, params["delta"])
    total = segment_sum(weight, X.offsets)
    if params["norm"] == "code":
        total = np.sqrt(total)
    instance = {"kernel": "rbf", "gamma": params["gamma"]}
    return weight / repeat(total, X.offsets), instance


# The weight of each instance and the instance kernel, from resolved parameters.
ADDITIVE_KERNELS: dict[str, Callable[..., tuple[Array, dict[str, Any]]]] = {
    "set": _set_weights,
    "mi_graph": _mi_graph_weights,
}


def additive_features(X: Bags, basis: KernelBasis, weight: Array) -> Array:
    """Map each bag to the weighted sum of its instances in a reduced basis.

    Inner products of these rows are the bag kernel that the weights belong to, with the
    kernel of the basis in the sums and that of the instances in the weights: what lies
    outside of the basis makes a row shorter, as it should. Cost ``O(n_instances *
    rank)``, a block of instances in memory at a time.
    """
    totals = np.zeros((X.n_bags, basis.rank))
    shape = (X.n_bags, X.n_instances)
    sums = sp.csr_array((weight, np.arange(shape[1]), X.offsets), shape=shape)
    for block in row_blocks(X.n_instances, 8.0 * 4 * (basis.rank + X.n_features)):
        totals += sums[:, block] @ basis.transform(X.data[block])
    return totals


def instance_contributions(
    X: Bags, Y: Bags, coef: Array, metric: str, params: dict[str, Any]
) -> Array:
    """Split ``bag_kernel(X, Y, metric, **params) @ coef`` over the instances of `X`.

    Parameters
    ----------
    X, Y : Bags
        The bags to explain and the reference bags.
    coef : ndarray of shape (n_bags_Y, n_outputs)
        The coefficients of the reference bags.
    metric : {"set", "mi_graph"}
        The kernel.
    params : dict
        Its parameters, with the widths as numbers.

    Returns
    -------
    ndarray of shape (n_instances_X, n_outputs)
        What each instance adds; the sum over a bag is its row of the product.
    """
    left, instance = ADDITIVE_KERNELS[metric](X, params)
    right, _ = ADDITIVE_KERNELS[metric](Y, params)
    weighted = right[:, None] * repeat(coef, Y.offsets)
    if instance["kernel"] == "linear":  # one direction in input space suffices
        out = X.data @ (Y.data.T @ weighted)
        return np.asarray(left[:, None] * out)
    out = np.zeros((X.n_instances, coef.shape[1]))
    for part in spans(X.n_instances, TILE):
        rows = X.data[part]
        for other in spans(Y.n_instances, TILE):
            k = instance_kernel(rows, Y.data[other], **instance)
            out[part] += k @ weighted[other]
    return np.asarray(left[:, None] * out)
