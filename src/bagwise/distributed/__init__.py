"""Fit on partitions that live on a cluster, through dask.

Only sums travel: every part gives its share of a sum over bags, and the total is used
on the machine that called. A part that is lost with its worker is computed again.
"""

from bagwise.distributed._files import read_parts
from bagwise.distributed._fit import fit
from bagwise.distributed._predict import predict, score

__all__ = ["fit", "predict", "read_parts", "score"]
