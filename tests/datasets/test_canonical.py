"""The fingerprint depends on the content and on nothing else."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.bags import Bags
from bagwise.datasets import make_bags
from bagwise.datasets._fetch import content_hash

X, y, Z = make_bags(8, random_state=3, return_instance_labels=True)
KNOWN = content_hash(X, [y], Z.values)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.booleans(), st.booleans())
def test_order_storage_and_precision_do_not_matter(seed, sparse, single):
    rng = np.random.default_rng(seed)
    bags, instance_labels = [], []
    order = rng.permutation(8)
    for i in order:
        rows = rng.permutation(len(X[i]))
        bags.append(X[i][rows])
        instance_labels.extend(Z[i][rows])
    data = np.concatenate(bags)
    if single:
        data = data.astype(np.float32)
    if sparse:
        data = sp.csr_array(data)
    shuffled = Bags(data, np.cumsum([0, *map(len, bags)]))
    assert content_hash(shuffled, [y[order]], instance_labels) == KNOWN


def _change(kind):
    data, labels, instances = X.data.copy(), y.copy(), Z.values.copy()
    offsets = X.offsets.copy()
    if kind == "value":
        data[3, 2] *= 1 + 1e-6
    elif kind == "column":
        data = data[:, [1, 0, 2, 3, 4]]
    elif kind == "label":
        labels[0] = 1 - labels[0]
    elif kind == "labels swapped":
        labels = 1 - labels
    elif kind == "instance label":
        instances[0] = 7
    elif kind == "border":
        offsets[1] += 1
    elif kind == "sign":
        data = -data
    elif kind == "width":
        data = np.column_stack([data, np.zeros(len(data))])
    return content_hash(Bags(data, offsets), [labels], instances)


@pytest.mark.parametrize(
    "kind",
    [
        "value",
        "column",
        "label",
        "labels swapped",
        "instance label",
        "border",
        "sign",
        "width",
    ],
)
def test_every_change_shows(kind):
    assert _change("nothing") == KNOWN
    assert _change(kind) != KNOWN


def test_wrong_length_is_refused():
    with pytest.raises(ValueError, match="expected 8 values"):
        content_hash(X, [y[:-1]])
