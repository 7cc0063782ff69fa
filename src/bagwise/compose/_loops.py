"""Compiled loops over the nodes of trees."""

from bagwise._jit import njit


@njit(
    nogil=True,
    shapes={
        "rows": "n d",
        "roots": "t in m",
        "feature": "m",
        "threshold": "m",
        "left": "m",
        "right": "m",
        "value": "m k",
        "out": "n k",
    },
)
def sum_of_trees(rows, roots, feature, threshold, left, right, value, out):
    """Add the values of the leaves that rows reach, tree by tree, to `out`."""
    for i in range(rows.shape[0]):
        for root in roots:
            node = root
            while left[node] >= 0:
                if rows[i, feature[node]] <= threshold[node]:
                    node = left[node]
                else:
                    node = right[node]
            for k in range(out.shape[1]):
                out[i, k] += value[node, k]
