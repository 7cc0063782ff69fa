"""Real data sets that are large enough to be subsampled.

Bags become vectors once, by the mean and the maximum of their instances and the leading
singular vectors of the whole set. A data set is a subsample without replacement, and
the other bags are the new ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import StandardScaler

from bagwise.datasets import fetch

N_COLUMNS = 8
REAL = {"corel2000": 120, "trec": 60, "newsgroups": 60, "protein": 30}
"""Data sets and the largest subsample: the other bags must tell the truth."""

_PARTS = {
    "corel2000": ("corel2000",),
    "trec": ("trec1", "trec2"),
    "newsgroups": tuple(
        f"newsgroups_{name}"
        for name in (
            *("alt.atheism", "comp.graphics", "misc.forsale", "rec.autos"),
            *("sci.crypt", "sci.med", "talk.politics.guns"),
        )
    ),
    "protein": ("protein",),
}


@cache
def population(name: str) -> tuple[Any, Any]:
    """Return a vector and a label for each bag of a set."""
    vectors, labels = [], []
    for part in _PARTS[name]:
        bags, y = fetch(part, return_X_y=True, download_if_missing=False)
        each = [_vector(bag) for bag in bags]
        stacked = sp.vstack(each) if sp.issparse(each[0]) else np.vstack(each)
        vectors.append(TruncatedSVD(N_COLUMNS, random_state=0).fit_transform(stacked))
        _, code = np.unique(y, return_inverse=True)
        labels.append(code >= (code.max() + 1) // 2)  # half of the classes are positive
    X = np.vstack([StandardScaler().fit_transform(own) for own in vectors])
    return X, np.concatenate(labels).astype(np.int64)


def _vector(bag: Any) -> Any:
    if sp.issparse(bag):
        return sp.csr_matrix(bag.mean(axis=0))
    return np.concatenate([bag.mean(axis=0), bag.max(axis=0)])[None]


def subsample(name: str, n: int, rng: Any) -> tuple[Any, Any, Any, Any]:
    """Return vectors and labels of a sample of bags, and those of all others."""
    X, y = population(name)
    order = rng.permutation(len(y))
    taken, rest = order[:n], order[n:]
    return X[taken], y[taken], X[rest], y[rest]
