"""A fingerprint of bags that does not depend on the order they come in."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bagwise.bags import Bags


def content_hash(
    X: Bags,
    targets: Sequence[npt.ArrayLike] = (),
    instance_values: npt.ArrayLike | None = None,
) -> str:
    """Return the SHA-256 of bags, labels and instance labels, whatever their order.

    Values are rounded to float32 (sources write different numbers of digits) and
    zeros are left out (a source may be dense or sparse). Each instance gives a
    digest, each bag the digest of its labels and its sorted instances, and the set
    the digest of its width and its sorted bags.

    Parameters
    ----------
    X : Bags
        The bags.
    targets : sequence of array-like of shape (n_bags,), default=()
        Label vectors, in a fixed order.
    instance_values : array-like of shape (n_instances,), default=None
        Labels of instances.
    """
    matrix = sp.csr_array(X.data).astype(np.float32)
    matrix.sort_indices()
    matrix.eliminate_zeros()
    indices, values = matrix.indices.astype("<i4"), matrix.data.astype("<f4")
    extra = _column(instance_values, X.n_instances)
    instances = []
    for i, (start, stop) in enumerate(
        zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ):
        digest = hashlib.sha256(indices[start:stop].tobytes())
        digest.update(b"|" + values[start:stop].tobytes() + b"|" + extra[i])
        instances.append(digest.digest())
    labels = [_column(t, X.n_bags) for t in targets]
    bags = []
    for b, (start, stop) in enumerate(zip(X.offsets[:-1], X.offsets[1:], strict=True)):
        digest = hashlib.sha256(b"|".join(column[b] for column in labels) + b"#")
        for instance in sorted(instances[start:stop]):
            digest.update(instance)
        bags.append(digest.digest())
    whole = hashlib.sha256(f"{X.n_bags},{X.n_instances},{X.n_features}".encode())
    for bag in sorted(bags):
        whole.update(bag)
    return whole.hexdigest()


def _column(values: Any, length: int) -> list[bytes]:
    if values is None:
        return [b""] * length
    array = np.asarray(values)
    if array.shape != (length,):
        raise ValueError(f"expected {length} values, got shape {array.shape}.")
    # Adding 0.0 turns -0.0 into 0.0.
    return [v.tobytes() for v in array.astype("<f8") + 0.0]
